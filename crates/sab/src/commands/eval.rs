//! `sab eval`

use super::{as_json, print, print_json, readable};
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
#[command(after_help = "Example:\n  sab eval runs/copy --split validation --json")]
pub struct EvalArguments {
    /// The run directory
    run: PathBuf,

    /// Which data
    #[arg(long, value_enum, default_value = "test")]
    split: Which,

    #[command(flatten)]
    how: How,
}

/// How a trained model is judged.
#[derive(Args, Debug)]
pub(super) struct How {
    /// Where data sets are, if not where they were
    #[arg(long, value_name = "DIR", env = "SAB_DATA_DIR")]
    pub(super) data_dir: Option<PathBuf>,

    /// Threads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) threads: Option<u16>,

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
    let trained = Trained::open(&arguments.run, arguments.how.data_dir.as_deref())?;
    let task = trained.task()?;
    let settings = &trained.experiment.train;
    let (split, name, most) = match arguments.split {
        Which::Test => (Split::Test, "test", settings.test_batches),
        Which::Validation => (Split::Validation, "validation", settings.validation_batches),
    };
    let judged =
        evaluate(&trained.model, &*task, split, settings.batch, most.get(), arguments.how.threads(), &trained.device)?;
    if arguments.how.json {
        return print_json(&json!({ "run": arguments.run, "split": name, "sequences": judged.sequences,
            "figures": as_json(&judged.figures) }));
    }
    print(&format!("{name}: {} ({} sequences)\n", readable(&judged.figures), judged.sequences))
}
