//! [`Pace`]: an estimate of how long runs will take.

use super::record::Record;
use crate::error::Result;
use crate::experiment::Experiment;
use crate::tasks::{Split, Task};
use crate::train::budget;
use std::collections::HashMap;

/// Open tasks, so that rows that share data read it once.
#[derive(Default)]
pub struct OpenTasks(HashMap<String, Box<dyn Task>>);

impl OpenTasks {
    /// The task of an experiment, with its data.
    pub fn of(&mut self, experiment: &Experiment) -> Result<&dyn Task> {
        let key = format!("{:?}", experiment.task);
        if !self.0.contains_key(&key) {
            self.0.insert(key.clone(), crate::tasks::open(&experiment.task, &experiment.data_dir)?);
        }
        Ok(&*self.0[&key])
    }
}

/// The speed of this machine, measured by runs that are done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    work: f64,
    seconds: f64,
}

impl Pace {
    /// The approximate work left after `made` updates, in multiplications.
    pub fn work(experiment: &Experiment, task: &dyn Task, made: u64) -> Result<f64> {
        let updates = budget(experiment, task)?.saturating_sub(made) as f64;
        let steps = task.longest(Split::Validation) as f64;
        Ok(updates * experiment.train.batch as f64 * experiment.model.work(steps))
    }

    /// Adds a run that has ended.
    pub fn add(&mut self, work: f64, record: &Record) {
        if let Some((_, seconds)) = record.effort() {
            self.work += work;
            self.seconds += seconds;
        }
    }

    /// The estimated seconds for some work; none before the first run has ended.
    pub fn seconds(&self, work: f64) -> Option<f64> {
        (self.work > 0.0).then(|| work * self.seconds / self.work)
    }
}
