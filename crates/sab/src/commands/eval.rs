//! `sab eval`

use super::{as_json, print, print_json, readable};
use crate::device::DeviceName;
use crate::error::Result;
use crate::run_dir::cores;
use crate::runs::{LengthOptions, Trained};
use crate::tasks::Split;
use clap::{Args, ValueEnum};
use serde_json::json;
use std::path::PathBuf;

/// Judge the best model of a run on data it was not trained on
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct EvalArguments {
    /// The run directory
    run: PathBuf,

    /// The part of the run's own data
    #[arg(long, value_enum, default_value = "test")]
    split: Which,

    /// Judge the model on all of another labelled table or another text instead
    #[arg(long, value_name = "FILE", conflicts_with = "split")]
    file: Option<PathBuf>,

    #[command(flatten)]
    how: How,
}

const EXAMPLES: &str = "\
Examples:
  sab eval runs/copy --split validation --json
  sab eval runs/batches --file march.csv";

/// How a trained model is judged.
#[derive(Args, Debug)]
pub(super) struct How {
    /// Where data sets are, if not where they were
    #[arg(long, value_name = "DIR", env = "SAB_DATA_DIR")]
    pub(super) data_dir: Option<PathBuf>,

    /// Threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) threads: Option<u16>,

    /// Where to run the model
    #[arg(long, value_enum, value_name = "DEVICE", default_value = "cpu")]
    pub(super) device: DeviceName,

    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl How {
    /// The same for judging at other lengths.
    pub(super) fn at_lengths(&self, sequences: Option<usize>) -> LengthOptions {
        let Self { data_dir, threads, device, .. } = self;
        LengthOptions { sequences, data_dir: data_dir.clone(), threads: threads.map(usize::from), device: *device }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Which {
    Test,
    Validation,
}

pub(super) fn run(arguments: &EvalArguments) -> Result<()> {
    let EvalArguments { run, split, file, how } = arguments;
    let trained = Trained::open(run, how.data_dir.as_deref(), how.device)?;
    let threads = how.threads.map_or_else(cores, usize::from);
    let (what, name, judged) = match (file, split) {
        (Some(file), _) => ("file", file.display().to_string(), trained.judge_file(file, threads)?),
        (None, Which::Test) => ("split", "test".into(), trained.judge(Split::Test, threads)?),
        (None, Which::Validation) => ("split", "validation".into(), trained.judge(Split::Validation, threads)?),
    };
    match how.json {
        true => print_json(&json!({ "run": run, what: name, "sequences": judged.sequences,
            "metrics": as_json(&judged.metrics) })),
        false => print(&format!("{name}: {} ({} sequences)\n", readable(&judged.metrics), judged.sequences)),
    }
}
