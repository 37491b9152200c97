//! `sab eval`

use super::{as_json, print, print_json, readable};
use crate::device::DeviceName;
use crate::error::Result;
use crate::run_dir::cores;
use crate::runs::Trained;
use crate::tasks::Split;
use crate::train::evaluate;
use clap::{Args, ValueEnum};
use serde_json::json;
use std::path::PathBuf;

/// Judge the best model of a run on data it was not trained on
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct EvalArguments {
    /// The run directory
    run: PathBuf,

    /// Which data
    #[arg(long, value_enum, default_value = "test")]
    split: Which,

    /// Judge it on all of another labelled table or another text, in place of a part of its own
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

    /// Threads
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
    pub(super) fn threads(&self) -> usize {
        self.threads.map_or_else(cores, usize::from)
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Which {
    Test,
    Validation,
}

pub(super) fn run(arguments: &EvalArguments) -> Result<()> {
    let trained = Trained::open_on(arguments.how.device, &arguments.run, arguments.how.data_dir.as_deref())?;
    let settings = &trained.experiment.train;
    let (split, name, most) = match (&arguments.file, arguments.split) {
        (Some(file), _) => (Split::Test, file.display().to_string(), None),
        (None, Which::Test) => (Split::Test, "test".into(), settings.test_batches),
        (None, Which::Validation) => (Split::Validation, "validation".into(), settings.validation_batches),
    };
    let task = arguments.file.as_deref().map_or_else(|| trained.task(), |file| trained.task_of_file(file))?;
    let judged =
        evaluate(&trained.model, &*task, split, settings.batch, most, arguments.how.threads(), &trained.device)?;
    if arguments.how.json {
        let what = if arguments.file.is_some() { "file" } else { "split" };
        return print_json(&json!({ "run": arguments.run, what: name, "sequences": judged.sequences,
            "metrics": as_json(&judged.metrics) }));
    }
    print(&format!("{name}: {} ({} sequences)\n", readable(&judged.metrics), judged.sequences))
}
