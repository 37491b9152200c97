//! `sab transfer`

use super::eval::How;
use super::{as_json, print, print_json, readable};
use crate::error::{LabError, Result};
use crate::experiment::TaskSettings;
use crate::run_dir::{TRANSFER, atomic, files};
use crate::runs::Trained;
use crate::tasks::Split;
use crate::train::{Judgement, MEMORIES, evaluate};
use clap::Args;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Judge the model of a run at lengths it was not trained on (the paper's Table 5)
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  sab transfer runs/copy --lengths 100,200,300,400,2000,5000,20000")]
pub struct TransferArguments {
    /// The run directory
    run: PathBuf,

    /// Lengths, separated by commas
    #[arg(long, value_delimiter = ',', required = true, value_name = "T,T,...", value_parser = parse_length)]
    lengths: Vec<usize>,

    /// Sequences at each length; by default fewer of longer ones
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    sequences: Option<u32>,

    #[command(flatten)]
    how: How,
}

fn parse_length(text: &str) -> std::result::Result<usize, String> {
    text.trim().parse().map_err(|_| "a length is a whole number above 0".into())
}

/// Attention takes the square of the length: about as many steps at each length, but some sequences at the longest.
fn usual_sequences(length: usize) -> usize {
    (200_000 / length.max(1)).clamp(10, 500)
}

pub(super) fn run(arguments: &TransferArguments) -> Result<()> {
    let TransferArguments { run, lengths, sequences, how } = arguments;
    let shown = |line: &str| if how.json { Ok(()) } else { print(line) };
    let document = measure(run, lengths, *sequences, how, &shown)?;
    match how.json {
        true => print_json(&document),
        false => print(&format!("written to {}\n", run.join(TRANSFER).display())),
    }
}

/// Judges a model at some lengths and writes what is found beside it, after what was found before.
pub(super) fn measure(
    run: &Path, lengths: &[usize], sequences: Option<u32>, how: &How, shown: &dyn Fn(&str) -> Result<()>,
) -> Result<Value> {
    let trained = Trained::open_on(how.device, run, how.data_dir.as_deref())?;
    // All lengths are looked at before the first is judged, which may take long.
    let at_length = |length: &usize| Ok((*length, trained.experiment.task.clone().with_length(*length)?));
    let lengths: Vec<(usize, TaskSettings)> = lengths.iter().map(at_length).collect::<Result<_>>()?;
    let path = trained.run.file(TRANSFER);
    let mut results = earlier(&path, trained.update)?;
    for (length, settings) in lengths {
        let sequences = sequences.map_or_else(|| usual_sequences(length), |count| count as usize);
        let began = Instant::now();
        let Judgement { metrics, sequences, memories } = judge(&trained, settings, sequences, how.threads())?;
        let seconds = began.elapsed().as_secs_f64();
        let stored = memories.map_or_else(String::new, |memories| format!("{memories:.1} memories each, "));
        shown(&format!("T {length:>7}  {}  ({sequences} sequences, {stored}{seconds:.1} s)\n", readable(&metrics)))?;
        let mut metrics = as_json(&metrics);
        if let Some(memories) = memories {
            metrics.insert(MEMORIES.into(), json!(memories));
        }
        results.insert(
            length,
            json!({ "length": length, "sequences": sequences, "metrics": metrics, "seconds": seconds }),
        );
        // After each length: what took long is not lost.
        atomic::write_json(&path, &document(run, &trained, &results))?;
    }
    Ok(document(run, &trained, &results))
}

fn document(run: &Path, trained: &Trained, results: &BTreeMap<usize, Value>) -> Value {
    let trained_at = trained.experiment.task.length();
    let lengths: Vec<&Value> = results.values().collect();
    json!({ "run": run, "trained_at": trained_at, "update": trained.update, "lengths": lengths })
}

/// What an earlier call has found out about the same model.
fn earlier(path: &Path, update: Option<u64>) -> Result<BTreeMap<usize, Value>> {
    let read =
        files::read_json(path).map_err(|why| LabError::Run(format!("{why}; without this file it is made anew")))?;
    let document = read.filter(|document| update.is_some() && document["update"].as_u64() == update);
    let results = document.as_ref().and_then(|document| document["lengths"].as_array()).cloned().unwrap_or_default();
    Ok(results.into_iter().filter_map(|result| Some((result["length"].as_u64()? as usize, result))).collect())
}

fn judge(trained: &Trained, settings: TaskSettings, sequences: usize, threads: usize) -> Result<Judgement> {
    let task = trained.task_as(&settings.with_test_sequences(sequences))?;
    let rows = trained.experiment.train.batch.min(sequences);
    let most = sequences.div_ceil(rows) as u64;
    evaluate(&trained.model, &*task, Split::Test, rows, Some(most), threads, &trained.device)
}
