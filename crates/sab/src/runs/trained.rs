//! [`Trained`]: a run with its model, for everything after training.

use super::changes::{self, Changes};
use super::reopen;
use crate::device::DeviceName;
use crate::error::{LabError, Result};
use crate::experiment::{Experiment, TaskSettings};
use crate::models::Model;
use crate::run_dir::{ModelConfig, RunDir, load_model};
use crate::tasks::{Split, Task};
use crate::train::{Evaluation, Judgement, Limits, Watch};
use burn::tensor::Device;
use std::path::Path;

/// Data that a model is judged on.
#[derive(Clone, Copy, Debug)]
pub enum Held<'a> {
    /// A split of the run's own data.
    Split(Split),
    /// Another table or text.
    File(&'a Path),
}

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

    /// The model with some keys changed that leave its parameters as they are, such as `model.store`, and those of the
    /// changes that change something. Any other key is an error.
    pub fn changed(&self, changes: &Changes) -> Result<(Model, Changes)> {
        let saved = Experiment { model: self.config.model.clone(), ..self.experiment.clone() };
        let (settings, effective) = changes::changed(&saved, changes)?;
        if effective.is_empty() {
            return Ok((self.model.clone(), effective));
        }
        let model = Model::new(&settings, self.config.input, self.config.output, 0, &self.device)?;
        Ok((model.with_parameters(&self.model.snapshot()?).map_err(LabError::Run)?, effective))
    }

    /// Judges `model`, which is that of the run or a [changed](Self::changed) one, on held-out data: a split of the
    /// run's own, on as many batches as the experiment says, or all of a file. `watch` follows and may end it.
    pub fn judge(&self, model: &Model, held: &Held, threads: usize, watch: &mut Watch) -> Result<Judgement> {
        let settings = &self.experiment.train;
        let (task, split, most_batches) = match held {
            Held::Split(Split::Test) => (self.task()?, Split::Test, settings.test_batches),
            Held::Split(Split::Validation) => (self.task()?, Split::Validation, settings.validation_batches),
            Held::File(file) => {
                let task = crate::tasks::open_file(&self.experiment.task, &self.config.facts, file)?;
                (task, Split::Test, None)
            }
        };
        let (task, rows, device) = (&*task, settings.batch, &self.device);
        Evaluation { model, task, rows, most_batches, limits: Limits::default(), threads, device }.run(split, watch)
    }
}
