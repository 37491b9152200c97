//! `sab eval`

use super::{as_json, print, print_json, readable};
use crate::display::{Meter, Style};
use crate::error::{LabError, Result};
use crate::runs::{Held, JudgeOptions, Trained, changes};
use crate::tasks::Split;
use crate::train::Stop;
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

    /// Change a key of the trained model that leaves its parameters as they are; repeat for more keys
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    #[command(flatten)]
    options: JudgeOptions,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  sab eval runs/copy --split validation --json
  sab eval runs/copy --set model.store=novelty
  sab eval runs/batches --file march.csv";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Which {
    Test,
    Validation,
}

pub(super) fn run(arguments: &EvalArguments) -> Result<()> {
    let EvalArguments { run, split, file, set, options, json } = arguments;
    let trained = Trained::open(run, options.data_dir.as_deref(), options.device)?;
    let (model, set) = trained.changed(&changes::parsed(set)?)?;
    let (what, name, held) = match (file, split) {
        (Some(file), _) => ("file", file.display().to_string(), Held::File(file)),
        (None, Which::Test) => ("split", "test".into(), Held::Split(Split::Test)),
        (None, Which::Validation) => ("split", "validation".into(), Held::Split(Split::Validation)),
    };
    let stop = Stop::on_signals_during("stopping")?;
    let mut meter = Meter::new(Style::Auto, &name);
    let judged = trained.judge(&model, &held, options.threads(), &mut |share| {
        meter.show(share);
        match stop.asked() {
            Some(signal) => Err(LabError::Stopped { signal, left: "the evaluation has not ended".into() }),
            None => Ok(()),
        }
    });
    drop(meter);
    let judged = judged?;
    if *json {
        let mut found = json!({ "run": run, what: name, "sequences": judged.sequences,
            "metrics": as_json(&judged.metrics) });
        if !set.is_empty() {
            found["set"] = json!(set);
        }
        return print_json(&found);
    }
    let with = if set.is_empty() { String::new() } else { format!(" with {}", changes::in_words(&set)) };
    print(&format!("{name}{with}: {} ({} sequences)\n", readable(&judged.metrics), judged.sequences))
}
