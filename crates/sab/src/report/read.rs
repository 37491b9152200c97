//! Reads runs for the report, also while they are still training.

use super::RunView;
use crate::error::{LabError, Result};
use crate::experiment::Experiment;
use crate::reproduce::Record;
use crate::run_dir::{ENVIRONMENT, RunDir, SUMMARY, attention_trace, files, metrics};
use serde_json::Value;
use std::path::Path;

impl RunView {
    /// Reads a run directory. Only `config.toml` must exist: the other files appear during training.
    pub fn of_run(path: &Path) -> Result<Self> {
        let run = RunDir::open(path)?;
        Ok(Self {
            name: name_of(path),
            group: String::new(),
            config: as_json(&run.experiment()?)?,
            environment: files::read_json(&run.file(ENVIRONMENT))?.unwrap_or_default(),
            summary: files::read_json(&run.file(SUMMARY))?.unwrap_or_default(),
            failure: None,
            curve: files::read_lines(&run.file(metrics::FILE))?,
            attention: files::read_lines(&run.file(attention_trace::FILE))?,
        })
    }

    /// Converts a record. `attention` has the lines of its run's `attention.jsonl`, if any.
    pub fn of_record(record: &Record, group: &str, attention: Vec<Value>) -> Result<Self> {
        Ok(Self {
            name: format!("{} seed {}", record.experiment, record.config.train.seed),
            group: group.to_string(),
            config: as_json(&record.config)?,
            environment: record.environment.clone(),
            summary: record.summary.clone().unwrap_or_default(),
            failure: record.failure.clone(),
            curve: record.curve.clone(),
            attention,
        })
    }
}

fn as_json(experiment: &Experiment) -> Result<Value> {
    serde_json::to_value(experiment).map_err(|why| LabError::Run(format!("cannot show a configuration: {why}")))
}

/// The folder's name, also for `.` and for a path with a slash at its end. `sab reproduce` calls the folder of a run
/// `seedN`: the name of the experiment's folder is put before it.
fn name_of(path: &Path) -> String {
    let absolute = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let own = name(&absolute).unwrap_or_else(|| path.display().to_string());
    let seed = own.strip_prefix("seed").filter(|seed| seed.parse::<u64>().is_ok());
    match seed.zip(absolute.parent().and_then(name)) {
        Some((seed, experiment)) => format!("{experiment} seed {seed}"),
        None => own,
    }
}
