//! [`Missing`]: the runs that are not done, and an estimate of how long they take.

use super::record::Record;
use super::wanted::Wanted;
use crate::error::Result;
use crate::experiment::Experiment;
use crate::tasks::{Split, Task};
use crate::train::budget;
use std::collections::HashMap;

/// Runs that are not done, and the speed of this machine as measured by those that are.
#[derive(Default)]
pub struct Missing<'a> {
    /// Each with the work in it and the work left of it.
    pub runs: Vec<(&'a Wanted, f64, f64)>,
    work_done: f64,
    seconds: f64,
}

impl<'a> Missing<'a> {
    /// The runs without a record, after a check of their data and metrics.
    pub fn of(wanted: &'a [Wanted], found: &[Option<Record>]) -> Result<Self> {
        let (mut missing, mut tasks) = (Self::default(), OpenTasks::default());
        for (wanted, _) in wanted.iter().zip(found).filter(|(_, record)| record.is_none()) {
            let task = tasks.of(&wanted.experiment)?;
            wanted.check_metrics(task)?;
            let work = |made| work(&wanted.experiment, task, made);
            missing.runs.push((wanted, work(0)?, work(wanted.made()?)?));
        }
        if missing.runs.is_empty() {
            return Ok(missing);
        }
        for (wanted, record) in wanted.iter().zip(found) {
            // A run that is done needs no data any more; without data it does not count for the speed.
            if let (Some(record), Ok(task)) = (record, tasks.of(&wanted.experiment)) {
                missing.add(work(&wanted.experiment, task, 0)?, record);
            }
        }
        Ok(missing)
    }

    /// Adds a run that has ended to the measured speed.
    pub fn add(&mut self, work: f64, record: &Record) {
        if let Some((_, seconds)) = record.effort() {
            self.work_done += work;
            self.seconds += seconds;
        }
    }

    /// Estimated seconds that the runs from `place` on take; none before the first run has ended.
    pub fn seconds_left(&self, place: usize) -> Option<f64> {
        let left: f64 = self.runs[place..].iter().map(|(_, _, left)| left).sum();
        (self.work_done > 0.0).then(|| left * self.seconds / self.work_done)
    }
}

/// The approximate work left after `made` updates, in multiplications.
fn work(experiment: &Experiment, task: &dyn Task, made: u64) -> Result<f64> {
    let updates = budget(experiment, task)?.saturating_sub(made) as f64;
    let steps = task.longest(Split::Validation) as f64;
    Ok(updates * experiment.train.batch as f64 * experiment.model.work(steps))
}

/// Open tasks, so that rows that share data read it once.
#[derive(Default)]
struct OpenTasks(HashMap<String, Box<dyn Task>>);

impl OpenTasks {
    /// The task of an experiment, with its data.
    fn of(&mut self, experiment: &Experiment) -> Result<&dyn Task> {
        let key = format!("{:?}", experiment.task);
        if !self.0.contains_key(&key) {
            self.0.insert(key.clone(), crate::tasks::open(&experiment.task, &experiment.data_dir)?);
        }
        Ok(&*self.0[&key])
    }
}
