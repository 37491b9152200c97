//! `sab eval`

use super::{as_json, print, print_json, readable};
use crate::error::Result;
use crate::runs::{JudgeOptions, Trained};
use crate::tasks::Split;
use clap::{Args, ValueEnum};
use serde_json::json;
use std::path::PathBuf;

/// Evaluate the best model of a run on data it was not trained on
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct EvalArguments {
    /// The run directory
    run: PathBuf,

    /// The split of the run's own data
    #[arg(long, value_enum, default_value = "test")]
    split: Which,

    /// Evaluate the model on all of another labelled table or another text instead
    #[arg(long, value_name = "FILE", conflicts_with = "split")]
    file: Option<PathBuf>,

    #[command(flatten)]
    options: JudgeOptions,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  sab eval runs/copy --split validation --json
  sab eval runs/batches --file march.csv";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Which {
    Test,
    Validation,
}

pub(super) fn run(arguments: &EvalArguments) -> Result<()> {
    let EvalArguments { run, split, file, options, json } = arguments;
    let trained = Trained::open(run, options.data_dir.as_deref(), options.device)?;
    let threads = options.threads();
    let (what, name, judged) = match (file, split) {
        (Some(file), _) => ("file", file.display().to_string(), trained.judge_file(file, threads)?),
        (None, Which::Test) => ("split", "test".into(), trained.judge(Split::Test, threads)?),
        (None, Which::Validation) => ("split", "validation".into(), trained.judge(Split::Validation, threads)?),
    };
    match json {
        true => print_json(&json!({ "run": run, what: name, "sequences": judged.sequences,
            "metrics": as_json(&judged.metrics) })),
        false => print(&format!("{name}: {} ({} sequences)\n", readable(&judged.metrics), judged.sequences)),
    }
}
