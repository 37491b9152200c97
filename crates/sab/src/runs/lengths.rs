//! Judging a trained model at lengths it was not trained on (the paper's Table 5).

use super::Trained;
use crate::device::DeviceName;
use crate::error::{LabError, Result};
use crate::experiment::TaskSettings;
use crate::run_dir::{TRANSFER, atomic, cores, files};
use crate::tasks::{Split, as_json};
use crate::train::{Judgement, MEMORIES, evaluate};
use attentive::SabError;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Why a model has no metrics at a length.
pub const OVERFLOWED: &str = "the states of the model overflow";

/// How a trained model is judged.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct JudgeOptions {
    /// The folder of the data sets, if it has moved since training
    #[arg(long, value_name = "DIR", env = "SAB_DATA_DIR")]
    pub data_dir: Option<PathBuf>,

    /// Number of threads; the result does not depend on it [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,

    /// The device to run the model on
    #[arg(long, value_enum, value_name = "DEVICE", default_value = "cpu")]
    pub device: DeviceName,
}

impl JudgeOptions {
    pub(crate) fn threads(&self) -> usize {
        self.threads.map_or_else(cores, usize::from)
    }
}

/// A model at one length.
#[derive(Clone, Debug, PartialEq)]
pub struct AtLength {
    /// The length.
    pub length: usize,
    /// The metrics of the model there; `None` if its states overflowed.
    pub judgement: Option<Judgement>,
    /// How long it took.
    pub seconds: f64,
}

/// Attention takes the square of the length: about as many steps at each length, but some sequences at the longest.
fn usual_sequences(length: usize) -> usize {
    (200_000 / length.max(1)).clamp(10, 500)
}

/// Judges the model of the run directory `run` at some lengths, adds the results to its `transfer.json` and returns the
/// content of that file. Earlier results of the same model stay. There are `sequences` at each length; by default,
/// fewer of longer ones.
///
/// Calls `found` with each length as soon as it is judged and saved; an error that it returns ends the work.
///
/// ```no_run
/// use sab::runs::{JudgeOptions, judge_lengths};
/// use std::path::Path;
///
/// judge_lengths(Path::new("runs/mine"), &[100, 5000], None, &JudgeOptions::default(), &mut |at| {
///     println!("{}: {:?}", at.length, at.judgement);
///     Ok(())
/// })?;
/// # Ok::<(), sab::LabError>(())
/// ```
pub fn judge_lengths(
    run: &Path, lengths: &[usize], sequences: Option<usize>, options: &JudgeOptions,
    found: &mut dyn FnMut(&AtLength) -> Result<()>,
) -> Result<Value> {
    let trained = Trained::open(run, options.data_dir.as_deref(), options.device)?;
    // All lengths are checked before the first is judged, which may take long.
    let at_length = |length: &usize| Ok((*length, trained.experiment.task.clone().with_length(*length)?));
    let lengths: Vec<(usize, TaskSettings)> = lengths.iter().map(at_length).collect::<Result<_>>()?;
    let (path, rows) = (trained.run.file(TRANSFER), trained.experiment.train.batch);
    let mut results = earlier(&path, trained.update)?;
    let document = |results: &BTreeMap<usize, Value>| {
        let (trained_at, lengths) = (trained.experiment.task.length(), results.values().collect::<Vec<_>>());
        json!({ "run": run, "trained_at": trained_at, "update": trained.update, "lengths": lengths })
    };
    for (length, settings) in lengths {
        let sequences = sequences.unwrap_or_else(|| usual_sequences(length));
        let (began, rows) = (Instant::now(), rows.min(sequences));
        let task = trained.task_as(&settings.with_test_sequences(sequences))?;
        let most = Some(sequences.div_ceil(rows) as u64);
        let judged = evaluate(&trained.model, &*task, Split::Test, rows, most, options.threads(), &trained.device);
        let judgement = match judged {
            // States that grow from step to step overflow at some length. That is a result.
            Err(LabError::Model(SabError::NonFinite { .. })) => None,
            judged => Some(judged?),
        };
        let at = AtLength { length, judgement, seconds: began.elapsed().as_secs_f64() };
        results.insert(length, entry(&at));
        // After each length, so that nothing that took long is lost.
        atomic::write_json(&path, &document(&results))?;
        found(&at)?;
    }
    Ok(document(&results))
}

fn entry(at: &AtLength) -> Value {
    let Some(Judgement { metrics, sequences, memories }) = &at.judgement else {
        return json!({ "length": at.length, "failure": OVERFLOWED, "metrics": {}, "seconds": at.seconds });
    };
    let mut metrics = as_json(metrics);
    metrics.extend(memories.map(|memories| (MEMORIES.into(), json!(memories))));
    json!({ "length": at.length, "sequences": sequences, "metrics": metrics, "seconds": at.seconds })
}

/// The results of an earlier call for the same model.
fn earlier(path: &Path, update: Option<u64>) -> Result<BTreeMap<usize, Value>> {
    let read = files::read_json(path)
        .map_err(|why| LabError::Run(format!("{why}; remove this file to evaluate the model again")))?;
    let document = read.filter(|document| update.is_some() && document["update"].as_u64() == update);
    let results = document.as_ref().and_then(|document| document["lengths"].as_array()).cloned().unwrap_or_default();
    Ok(results.into_iter().filter_map(|result| Some((result["length"].as_u64()? as usize, result))).collect())
}
