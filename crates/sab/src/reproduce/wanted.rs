//! [`Wanted`]: a run that a table needs, and its record if it is done.

use super::record::Record;
use super::results::same;
use crate::error::{LabError, Result};
use crate::experiment::Experiment;
use crate::run_dir::RunDir;
use crate::runs::At;
use crate::tasks::{Tally, Task};
use crate::train::{MEMORIES, PEAK_MIB, SECONDS, checkpoint};
use std::path::PathBuf;

/// A run that a table needs.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The name of the experiment.
    pub name: String,
    /// The experiment with its seed.
    pub experiment: Experiment,
    /// The metrics that its row reports.
    pub(super) metrics: Vec<String>,
    /// The other lengths at which its tables judge it.
    pub(super) lengths: Vec<At>,
    pub(super) record: PathBuf,
    pub(super) run: PathBuf,
}

impl Wanted {
    /// The updates that an interrupted run has made.
    pub(super) fn made(&self) -> Result<u64> {
        if !self.run.exists() {
            return Ok(0);
        }
        Ok(checkpoint::list(&RunDir::open(&self.run)?)?.into_iter().map(|(update, _)| update).max().unwrap_or(0))
    }

    /// Checks that the task has the metrics that the row reports.
    pub(super) fn check_metrics(&self, task: &dyn Task) -> Result<()> {
        let mut known: Vec<&str> = task.metrics(&Tally::default()).into_iter().map(|(name, _)| name).collect();
        if !self.lengths.is_empty() {
            known.extend([MEMORIES, SECONDS, PEAK_MIB]);
        }
        match self.metrics.iter().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => Err(LabError::Config(format!(
                "the table of {} reports `{name}`, but its task has {}",
                self.name,
                known.join(", ")
            ))),
        }
    }

    /// The record of the run, if it is done: the saved one, or one made from the run directory.
    pub(super) fn found(&self) -> Result<Option<Record>> {
        if let Some(record) = Record::load(&self.record)? {
            same(&self.experiment, &record.config, &self.record)?;
            return Ok(Some(record));
        }
        if !self.run.exists() {
            return Ok(None);
        }
        let run = RunDir::open(&self.run)?;
        same(&self.experiment, &run.experiment()?, run.path())?;
        Record::of_run(&run, &self.name, None)
    }

    /// [`found`](Self::found), which saves a new record.
    pub(super) fn done(&self) -> Result<Option<Record>> {
        let record = self.found()?;
        match &record {
            Some(record) if !self.record.exists() => record.save(&self.record)?,
            _ => (),
        }
        Ok(record)
    }

    /// Saves the record of the run directory, if the run has ended.
    pub(super) fn keep(&self, failure: Option<String>) -> Result<Option<Record>> {
        let record = Record::of_run(&RunDir::open(&self.run)?, &self.name, failure)?;
        record.iter().try_for_each(|record| record.save(&self.record))?;
        Ok(record)
    }
}
