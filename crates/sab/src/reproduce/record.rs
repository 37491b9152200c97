//! [`Record`]: what is kept of a run after its run directory is gone.

use super::table::Column;
use crate::error::{LabError, Result};
use crate::experiment::Experiment;
use crate::run_dir::{ENVIRONMENT, RunDir, SUMMARY, TRANSFER, atomic, files, metrics};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::Path;

/// Lines of training that are kept; validations are kept all.
const TRAINING_LINES: usize = 40;

/// What is kept of them.
const TRAINING_KEYS: [&str; 6] = ["kind", "update", "seconds", "loss", "gradient_norm", "learning_rate"];

/// A run in brief: what it was, on which machine, how it learned, what it reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The file of the experiment below `experiments/`, without its ending.
    pub experiment: String,
    /// The command that makes such a run.
    pub command: String,
    /// The resolved configuration.
    pub config: Experiment,
    /// Versions and machine.
    pub environment: Value,
    /// The result; a run that failed has none.
    pub summary: Option<Value>,
    /// Why it failed.
    pub failure: Option<String>,
    /// Judged at other lengths, if it was.
    pub transfer: Option<Value>,
    /// Lines of `metrics.jsonl`: all validations, and some of the training.
    pub curve: Vec<Value>,
}

impl Record {
    /// Of a run directory whose run has ended, well or with a failure; none if it goes on.
    pub fn of_run(run: &RunDir, experiment: &str, file: &str, failure: Option<String>) -> Result<Option<Self>> {
        let summary = files::read_json(&run.file(SUMMARY))?;
        if summary.is_none() && failure.is_none() {
            return Ok(None);
        }
        let mut config = run.experiment()?;
        // Where the data lay says nothing about the result.
        config.data_dir = "data".into();
        let mut environment = files::read_json(&run.file(ENVIRONMENT))?.unwrap_or_default();
        if let Some(environment) = environment.as_object_mut() {
            environment.remove("command");
        }
        Ok(Some(Self {
            experiment: experiment.to_string(),
            command: format!("sab train {file} --seed {}", config.train.seed),
            environment,
            summary,
            failure,
            transfer: files::read_json(&run.file(TRANSFER))?.map(without_path),
            curve: thinned(files::read_lines(&run.file(metrics::FILE))?),
            config,
        }))
    }

    /// The record in a file, if there is one.
    pub fn load(path: &Path) -> Result<Option<Self>> {
        let Some(mut value) = files::read_json(path)? else { return Ok(None) };
        let wrong = |why: String| {
            LabError::Run(format!("{} is not a record of a run: {why}; remove it, and it is made anew", path.display()))
        };
        if !value["config"].is_object() {
            return Err(wrong("it has no settings".into()));
        }
        // Keys that the program has learned since have their defaults.
        let config =
            serde_json::from_value::<toml::Table>(value["config"].take()).map_err(|why| wrong(why.to_string()))?;
        let config = toml::to_string(&config).map_err(|why| wrong(why.to_string()))?;
        let config = Experiment::of_text(&config, &path.display().to_string(), &[])?;
        value["config"] = serde_json::to_value(config).map_err(|why| wrong(why.to_string()))?;
        serde_json::from_value(value).map(Some).map_err(|why| wrong(why.to_string()))
    }

    /// Writes it to a file.
    pub fn save(&self, path: &Path) -> Result<()> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|why| LabError::file("create", folder, &why))?;
        }
        atomic::write_json(path, self)
    }

    /// The metrics of the test, at another length than that of the training if one is given.
    pub fn metrics_at(&self, length: Option<usize>) -> Option<&Value> {
        let Some(length) = length else { return self.summary.as_ref()?.get("test") };
        let of_length = |found: &&Value| found["length"].as_u64() == Some(length as u64);
        self.transfer.as_ref()?["lengths"]
            .as_array()?
            .iter()
            .find(of_length)
            .and_then(|at| at.get("metrics").or_else(|| at.get("figures")))
    }

    /// Those of some lengths at which it has not been judged. A run that failed cannot be.
    pub fn lengths_left(&self, lengths: &[usize]) -> Vec<usize> {
        let left = |length: &&usize| self.summary.is_some() && self.metrics_at(Some(**length)).is_none();
        lengths.iter().filter(left).copied().collect()
    }

    /// What stands in a column.
    pub fn metric(&self, column: &Column) -> Option<f64> {
        let metrics = match column.validation {
            true => self.summary.as_ref()?.get("validation")?,
            false => self.metrics_at(column.length)?,
        };
        Some(metrics.get(&column.metric.name)?.as_f64()? * column.metric.factor)
    }

    /// That a run which has ended well has the metric of a column. Lengths may be judged later.
    pub(super) fn check(&self, column: &Column, path: &Path) -> Result<()> {
        if self.summary.is_none() || column.length.is_some() || self.metric(column).is_some() {
            return Ok(());
        }
        let known: Vec<&String> =
            self.metrics_at(None).and_then(Value::as_object).into_iter().flat_map(|metrics| metrics.keys()).collect();
        Err(LabError::Run(format!(
            "the table reports `{}`, but {} has no such number (it has {known:?}): correct the table, or remove the record",
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

fn without_path(mut transfer: Value) -> Value {
    if let Some(transfer) = transfer.as_object_mut() {
        transfer.remove("run");
    }
    transfer
}

/// All validations, and every so many lines of training in brief.
fn thinned(mut lines: Vec<Value>) -> Vec<Value> {
    let is_training = |line: &Value| line["kind"] == "train";
    let every = lines.iter().filter(|line| is_training(line)).count().div_ceil(TRAINING_LINES).max(1);
    let mut seen = 0;
    lines.retain_mut(|line| {
        let training = is_training(line);
        seen += usize::from(training);
        if let Some(line) = line.as_object_mut() {
            line.retain(|key, _| key != "time" && (!training || TRAINING_KEYS.contains(&key.as_str())));
        }
        !training || seen % every == 0
    });
    lines
}
