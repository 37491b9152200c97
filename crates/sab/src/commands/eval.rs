//! `sab eval`

use super::{as_json, print, print_json, readable};
use crate::error::Result;
use crate::experiment::Experiment;
use crate::models::Model;
use crate::run_dir::{RunDir, cores, load_model};
use crate::tasks::{Split, Task};
use crate::train::evaluate;
use burn::tensor::Device;
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

/// A run with its model and its task, for what is done after training.
pub(super) struct Trained {
    pub(super) run: RunDir,
    pub(super) experiment: Experiment,
    pub(super) model: Model,
    /// The update that the model is of, if it was saved here.
    pub(super) update: Option<u64>,
    pub(super) device: Device,
}

impl Trained {
    pub(super) fn open(path: &std::path::Path, data_dir: Option<&PathBuf>) -> Result<Self> {
        let run = RunDir::open(path)?;
        let mut experiment = run.experiment()?;
        if let Some(data_dir) = data_dir {
            experiment.data_dir.clone_from(data_dir);
        }
        let device = Device::flex();
        let (_, model, update) = load_model(path, &device)?;
        Ok(Self { run, experiment, model, update, device })
    }

    pub(super) fn task(&self) -> Result<Box<dyn Task>> {
        crate::tasks::open(&self.experiment.task, &self.experiment.data_dir)
    }
}

pub(super) fn run(arguments: &EvalArguments) -> Result<()> {
    let trained = Trained::open(&arguments.run, arguments.how.data_dir.as_ref())?;
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
