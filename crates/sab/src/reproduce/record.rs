//! [`Record`]: the summary of a run that outlives its run directory.

use super::record_file;
use super::table::Column;
use crate::error::{LabError, Result};
use crate::experiment::Experiment;
use crate::run_dir::{ENVIRONMENT, RunDir, SUMMARY, TRANSFER, files, metrics};
use crate::runs::{At, changes, entry_of};
use serde_json::Value;
use std::path::Path;

/// The summary of a run: settings, machine, learning curve and final metrics.
///
/// A record holds the full settings, so [`Record::experiment_of`] can run it again.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The name of the experiment, which is also the folder of the record below `records/`.
    pub experiment: String,
    /// The resolved configuration.
    pub config: Experiment,
    /// Versions and machine.
    pub environment: Value,
    /// Final metrics, updates and time; a run that failed has none.
    pub summary: Option<Value>,
    /// Why training failed.
    pub failure: Option<String>,
    /// The metrics at other lengths, if the model was judged there.
    pub transfer: Option<Value>,
    /// All validations and a few points of training, as lines of `metrics.jsonl`.
    pub curve: Vec<Value>,
}

impl Record {
    /// Makes the record of a run that has ended, well or with a failure. Returns none while the run is training.
    pub fn of_run(run: &RunDir, experiment: &str, failure: Option<String>) -> Result<Option<Self>> {
        let summary = files::read_json(&run.file(SUMMARY))?;
        if summary.is_none() && failure.is_none() {
            return Ok(None);
        }
        let mut record = Self {
            experiment: experiment.to_string(),
            config: run.experiment()?,
            environment: files::read_json(&run.file(ENVIRONMENT))?.unwrap_or_default(),
            summary,
            failure,
            transfer: files::read_json(&run.file(TRANSFER))?,
            curve: files::read_lines(&run.file(metrics::FILE))?,
        };
        record_file::tidy(&mut record);
        Ok(Some(record))
    }

    /// Reads a record, also one that an earlier version wrote. Returns none if there is no such file.
    pub fn load(path: &Path) -> Result<Option<Self>> {
        let Some(value) = files::read_json(path)? else { return Ok(None) };
        let name = path.display();
        record_file::parse(value, &name.to_string()).map(Some).map_err(|why| {
            LabError::Run(format!(
                "{name} is not a record of a run: {why}; remove it, and `sab reproduce` writes it again"
            ))
        })
    }

    /// Writes the record. The same record gives the same bytes.
    pub fn save(&self, path: &Path) -> Result<()> {
        files::write_below(path, record_file::text(self)?.as_bytes())
    }

    /// The experiment of the record at `path`, changed by `overrides`: what `sab train RECORD.json` runs.
    pub fn experiment_of(path: &Path, overrides: &[(String, toml::Value)]) -> Result<Experiment> {
        match Self::load(path)? {
            Some(record) => Experiment::of_text(&record.config.to_toml()?, &path.display().to_string(), overrides),
            None => Err(LabError::Run(format!("{} does not exist", path.display()))),
        }
    }

    /// The metrics on the test set: at another length if it is given, otherwise at the training length.
    pub fn metrics_at(&self, at: Option<&At>) -> Option<&Value> {
        let Some(at) = at else { return self.summary.as_ref()?.get("test") };
        self.at_length(at)?.get("metrics")
    }

    fn at_length(&self, at: &At) -> Option<&Value> {
        // A change to the value that the model has anyway is none.
        let (_, set) = changes::changed(&self.config, &at.set).ok()?;
        entry_of(self.transfer.as_ref()?, &set, at.length)
    }

    /// Why the run, or the judgement at another length, failed.
    pub(super) fn failure_at(&self, at: Option<&At>) -> Option<String> {
        let at_length = || Some(self.at_length(at?)?.get("failure")?.as_str()?.to_string());
        self.failure.clone().or_else(at_length)
    }

    /// The lengths, out of `lengths`, at which the model has not been judged. A run that failed has no model.
    pub fn lengths_left(&self, lengths: &[At]) -> Vec<At> {
        let left = |at: &&At| self.summary.is_some() && self.metrics_at(Some(at)).is_none();
        lengths.iter().filter(left).cloned().collect()
    }

    /// The value of a column.
    pub fn metric(&self, column: &Column) -> Option<f64> {
        let name = &column.metric.name;
        let metrics = match column.validation {
            true => self.summary.as_ref()?.get("validation")?,
            false => self.metrics_at(column.at)?,
        };
        // Time and memory at a length stand beside its metrics.
        let beside = || column.at.and_then(|at| self.at_length(at)?.get(name));
        Some(metrics.get(name).or_else(beside)?.as_f64()? * column.metric.factor)
    }

    /// Checks that a run which ended well has the metric of a column. Lengths may be judged later.
    pub(super) fn check(&self, column: &Column, path: &Path) -> Result<()> {
        if self.summary.is_none() || column.at.is_some() || self.metric(column).is_some() {
            return Ok(());
        }
        let known: Vec<&String> =
            self.metrics_at(None).and_then(Value::as_object).into_iter().flat_map(|metrics| metrics.keys()).collect();
        Err(LabError::Run(format!(
            "the table reports `{}`, but {} does not hold this metric (it holds {known:?}): correct the table, or \
             remove the record",
            column.metric.name,
            path.display()
        )))
    }

    /// Updates made and seconds taken.
    pub fn effort(&self) -> Option<(f64, f64)> {
        let summary = self.summary.as_ref()?;
        Some((summary["updates"].as_f64()?, summary["wall_seconds"].as_f64()?))
    }
}
