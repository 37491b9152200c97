//! Judging a trained model at lengths it was not trained on (the paper's Table 5).

use super::changes::{self, Changes};
use super::{Trained, transfer_file::TransferFile};
use crate::device::DeviceName;
use crate::error::{LabError, Result};
use crate::experiment::TaskSettings;
use crate::run_dir::{TRANSFER, cores, forget_peak_memory, peak_memory};
use crate::tasks::Split;
use crate::train::{Evaluation, Judgement, Limits};
use attentive::SabError;
use serde::Deserialize;
use serde_json::Value;
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

/// A length at which a model is judged. In a table, a number or all of it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "AtForm")]
pub struct At {
    /// The length.
    pub length: usize,
    /// How many sequences; `None` takes fewer of longer ones.
    pub sequences: Option<usize>,
    /// Keys of the model that are different here.
    pub set: Changes,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "expected a length or { length = T, sequences = N, set = { \"model.KEY\" = VALUE } }"
)]
enum AtForm {
    Length(usize),
    Whole {
        length: usize,
        sequences: Option<usize>,
        #[serde(default)]
        set: Changes,
    },
}

impl From<AtForm> for At {
    fn from(form: AtForm) -> Self {
        match form {
            AtForm::Length(length) => length.into(),
            AtForm::Whole { length, sequences, set } => Self { length, sequences, set },
        }
    }
}

impl From<usize> for At {
    fn from(length: usize) -> Self {
        Self { length, ..Self::default() }
    }
}

/// `T=5000`, and what is different there.
impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "T={}", self.length)?;
        if self.set.is_empty() { Ok(()) } else { write!(f, " with {}", changes::in_words(&self.set)) }
    }
}

impl At {
    /// Attention takes the square of the length: about as many steps at each length, but some sequences at the longest.
    fn sequences(&self) -> usize {
        self.sequences.unwrap_or_else(|| (200_000 / self.length.max(1)).clamp(10, 500))
    }
}

/// A model at one length.
#[derive(Clone, Debug, PartialEq)]
pub struct AtLength {
    /// The length, and what was changed in the model.
    pub at: At,
    /// The metrics of the model there; `None` if its states overflowed.
    pub judgement: Option<Judgement>,
    /// How long it took.
    pub seconds: f64,
    /// On how many threads.
    pub threads: usize,
    /// The most memory that the process held meanwhile, in bytes, where the system tells.
    pub peak_memory: Option<u64>,
}

/// A report on the work of [`judge_lengths`].
#[derive(Clone, Copy, Debug)]
pub enum Judging<'a> {
    /// The share of a length that is done, in `0.0..=1.0`.
    Share(&'a At, f64),
    /// A length is judged and saved.
    Done(&'a AtLength),
}

/// Judges the model of the run directory `run` at some lengths, adds the results to its `transfer.json` and returns the
/// content of that file. Earlier results of the same model stay.
///
/// Calls `follow` several times a second, and with each length as soon as it is judged and saved. An error that it
/// returns ends the work; what is saved stays.
///
/// ```no_run
/// use sab::runs::{JudgeOptions, Judging, judge_lengths};
/// use std::path::Path;
///
/// judge_lengths(Path::new("runs/mine"), &[100.into(), 5000.into()], &JudgeOptions::default(), &mut |report| {
///     if let Judging::Done(done) = report {
///         println!("{}: {:?}", done.at, done.judgement);
///     }
///     Ok(())
/// })?;
/// # Ok::<(), sab::LabError>(())
/// ```
pub fn judge_lengths(
    run: &Path, lengths: &[At], options: &JudgeOptions, follow: &mut dyn FnMut(Judging) -> Result<()>,
) -> Result<Value> {
    let trained = Trained::open(run, options.data_dir.as_deref(), options.device)?;
    // All lengths are checked before the first is judged, which may take long.
    let checked = |at: &At| {
        let (model, set) = trained.changed(&at.set)?;
        let settings = trained.experiment.task.clone().with_length(at.length)?;
        Ok((At { set, ..at.clone() }, settings, model))
    };
    let lengths: Vec<(At, TaskSettings, _)> = lengths.iter().map(checked).collect::<Result<_>>()?;
    let path = trained.run.file(TRANSFER);
    let mut file = TransferFile::open(&path, &trained)?;
    for (at, settings, model) in lengths {
        let sequences = at.sequences();
        let (began, rows, threads) = (Instant::now(), trained.experiment.train.batch.min(sequences), options.threads());
        forget_peak_memory();
        let task = trained.task_as(&settings.with_test_sequences(sequences))?;
        let evaluation = Evaluation {
            model: &model,
            task: &*task,
            rows,
            most_batches: Some(sequences.div_ceil(rows) as u64),
            limits: Limits::default(),
            threads,
            device: &trained.device,
        };
        let judgement = match evaluation.run(Split::Test, &mut |share| follow(Judging::Share(&at, share))) {
            // States that grow from step to step overflow at some length. That is a result.
            Err(LabError::Model(SabError::NonFinite { .. })) => None,
            judged => Some(judged?),
        };
        let seconds = began.elapsed().as_secs_f64();
        let done = AtLength { at, judgement, seconds, threads, peak_memory: peak_memory() };
        file.add(&done);
        // After each length, so that nothing that took long is lost.
        file.save(&path)?;
        follow(Judging::Done(&done))?;
    }
    Ok(file.document())
}
