//! [`Trained`]: a run with its model, for everything after training.

use super::reopen;
use crate::device::DeviceName;
use crate::error::Result;
use crate::experiment::{Experiment, TaskSettings};
use crate::models::Model;
use crate::run_dir::{ModelConfig, RunDir, load_model};
use crate::tasks::{Split, Task};
use crate::train::{Judgement, evaluate};
use burn::tensor::Device;
use std::path::Path;

/// A run with its best model so far.
#[derive(Debug)]
pub struct Trained {
    /// Its directory.
    pub run: RunDir,
    /// Its experiment.
    pub experiment: Experiment,
    /// The model, without gradient.
    pub model: Model,
    /// The description of the model and the facts of its data.
    pub config: ModelConfig,
    /// The update at which the model was saved, if it was saved here.
    pub update: Option<u64>,
    /// The device that holds the model.
    pub device: Device,
}

impl Trained {
    /// Reads the run at `path` for any device, whatever device it was trained on. `data_dir` names the place of data
    /// sets, if it has changed.
    pub fn open(path: &Path, data_dir: Option<&Path>, device: DeviceName) -> Result<Self> {
        let run = RunDir::open(path)?;
        let mut experiment = run.experiment()?;
        if let Some(data_dir) = data_dir {
            experiment.data_dir = data_dir.to_path_buf();
        }
        let device = device.open()?;
        let (config, model, update) = load_model(path, &device)?;
        Ok(Self { run, experiment, model, config, update, device })
    }

    /// The task of the run, with its data. A table or text that has changed since is an error, because the split into
    /// training and test data is no longer known.
    pub fn task(&self) -> Result<Box<dyn Task>> {
        self.task_as(&self.experiment.task)
    }

    /// The task with other settings, such as another length.
    pub fn task_as(&self, settings: &TaskSettings) -> Result<Box<dyn Task>> {
        reopen(&self.run, settings, &self.experiment.data_dir, &self.config.facts)
    }

    /// Judges the model on a split of its task, on as many batches as the experiment says.
    pub fn judge(&self, split: Split, threads: usize) -> Result<Judgement> {
        let settings = &self.experiment.train;
        let most = match split {
            Split::Test => settings.test_batches,
            Split::Validation => settings.validation_batches,
        };
        evaluate(&self.model, &*self.task()?, split, settings.batch, most, threads, &self.device)
    }

    /// Judges the model on all of another table or text.
    pub fn judge_file(&self, file: &Path, threads: usize) -> Result<Judgement> {
        let task = crate::tasks::open_file(&self.experiment.task, &self.config.facts, file)?;
        evaluate(&self.model, &*task, Split::Test, self.experiment.train.batch, None, threads, &self.device)
    }
}
