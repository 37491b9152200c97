//! `sab transfer`

use super::eval::Trained;
use super::{as_json, print, print_json, readable};
use crate::error::{LabError, Result};
use crate::experiment::TaskSettings;
use crate::run_dir::{atomic, cores};
use crate::tasks::{Figures, Split};
use crate::train::evaluate;
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Instant;

/// Judge the model of a run at lengths it was not trained on (the paper's Table 5)
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  sab transfer runs/copy --lengths 100,200,300,400,2000,5000,20000")]
pub struct TransferArguments {
    /// The run directory
    run: PathBuf,

    /// Lengths, separated by commas
    #[arg(long, value_delimiter = ',', required = true, value_name = "T,T,...")]
    lengths: Vec<usize>,

    /// Sequences at each length; by default fewer of longer ones
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    sequences: Option<u32>,

    /// Where data sets are, if not where they were
    #[arg(long, value_name = "DIR", env = "SAB_DATA_DIR")]
    data_dir: Option<PathBuf>,

    /// Threads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Attention takes the square of the length: about as many steps at each length, but some sequences at the longest.
fn usual_sequences(length: usize) -> usize {
    (500_000 / length.max(1)).clamp(10, 500)
}

pub(super) fn run(arguments: &TransferArguments) -> Result<()> {
    let trained = Trained::open(&arguments.run, arguments.data_dir.as_ref())?;
    let threads = arguments.threads.map_or_else(cores, usize::from);
    let mut results: Vec<Value> = Vec::new();
    for &length in &arguments.lengths {
        let sequences = arguments.sequences.map_or_else(|| usual_sequences(length), |count| count as usize);
        let began = Instant::now();
        let figures = at_length(&trained, length, sequences, threads)?;
        let seconds = began.elapsed().as_secs_f64();
        if !arguments.json {
            print(&format!("T {length:>7}  {}  ({sequences} sequences, {seconds:.1} s)\n", readable(&figures)));
        }
        results.push(
            json!({ "length": length, "sequences": sequences, "figures": as_json(&figures), "seconds": seconds }),
        );
    }
    let path = trained.run.file("transfer.json");
    let result = json!({ "run": arguments.run, "trained_at": trained.experiment.task.length(), "lengths": results });
    atomic::write_json(&path, &result)?;
    match arguments.json {
        true => print_json(&result),
        false => {
            print(&format!("written to {}\n", path.display()));
            Ok(())
        }
    }
}

fn at_length(trained: &Trained, length: usize, sequences: usize, threads: usize) -> Result<Figures> {
    let mut settings = trained.experiment.task.clone().with_length(length).ok_or_else(|| {
        LabError::Config(format!("`{}` has sequences of one length only", trained.experiment.task.name()))
    })?;
    if let TaskSettings::Copy { test, .. } | TaskSettings::Adding { test, .. } = &mut settings {
        *test = sequences;
    }
    let minimum = if matches!(settings, TaskSettings::Adding { .. }) { 2 } else { 1 };
    if !(minimum..=10_000_000).contains(&length) {
        return Err(LabError::Config(format!("`--lengths` has {length}: lengths are from {minimum} to 10000000")));
    }
    let task = crate::tasks::open(&settings, &trained.experiment.data_dir)?;
    // One sequence a batch, so that the limit counts sequences; evaluation runs several at once where they are short.
    let rows = trained.experiment.train.batch.min(sequences);
    let most = sequences.div_ceil(rows) as u64;
    evaluate(&trained.model, &*task, Split::Test, rows, Some(most), threads, &trained.device)
}
