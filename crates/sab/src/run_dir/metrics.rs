//! `metrics.jsonl`, and TensorBoard's event file made from it.

use super::environment::now;
use super::files;
use crate::error::{LabError, Result};
use crate::tensorboard::EventWriter;
use serde_json::{Map, Value};
use std::fs;
use std::path::{Path, PathBuf};

/// The file's name.
pub const FILE: &str = "metrics.jsonl";

/// The kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Training since the line before.
    Train,
    /// A validation.
    Validation,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Validation => "validation",
        }
    }
}

/// Writes the metrics of a run.
pub struct MetricsFile {
    directory: PathBuf,
    file: files::Lines,
    events: EventWriter,
}

impl MetricsFile {
    /// Continues after `update`: lines of later updates and of validations after the last one that the checkpoint
    /// knows, which a killed run may have left, are dropped, and the event file is rebuilt from those that stay.
    pub fn resume(directory: &Path, update: u64, last_validation: Option<u64>) -> Result<Self> {
        // A kill between a validation and the next checkpoint leaves a line that is written again.
        let made_again = |line: &Value, at: u64| {
            line["kind"] == Kind::Validation.name() && last_validation.is_none_or(|last| at > last)
        };
        let (lines, file) = files::resume_lines(directory.join(FILE), update, |line, at| !made_again(line, at))?;
        remove_event_files(directory)?;
        let began = lines.first().and_then(|line| line["time"].as_f64()).unwrap_or_else(now);
        let mut events = EventWriter::create(directory, began).map_err(|why| wrong_events(directory, &why))?;
        let added = lines.iter().try_for_each(|line| add_scalars(&mut events, line));
        added.map_err(|why| wrong_events(directory, &why))?;
        Ok(Self { directory: directory.to_path_buf(), file, events })
    }

    /// Adds a line.
    pub fn add(&mut self, kind: Kind, update: u64, seconds: f64, values: &[(&str, f64)]) -> Result<()> {
        let mut line = Map::new();
        line.insert("kind".into(), kind.name().into());
        line.insert("update".into(), update.into());
        line.extend(values.iter().map(|(name, value)| ((*name).to_string(), (*value).into())));
        line.insert("seconds".into(), seconds.into());
        line.insert("time".into(), now().into());
        let line = Value::Object(line);
        self.file.add(&line)?;
        let added = add_scalars(&mut self.events, &line).and_then(|()| self.events.flush());
        added.map_err(|why| wrong_events(&self.directory, &why))
    }
}

fn wrong_events(directory: &Path, why: &std::io::Error) -> LabError {
    LabError::file("write TensorBoard events in", directory, why)
}

fn remove_event_files(directory: &Path) -> Result<()> {
    for path in files::entries(directory)? {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with("events.out.tfevents") {
            fs::remove_file(&path).map_err(|why| LabError::file("remove", &path, &why))?;
        }
    }
    Ok(())
}

/// The numbers of a line as scalars named after its kind.
fn add_scalars(events: &mut EventWriter, line: &Value) -> std::io::Result<()> {
    let (Some(update), Some(time)) = (line["update"].as_u64(), line["time"].as_f64()) else { return Ok(()) };
    let kind = line["kind"].as_str().unwrap_or("train");
    for (name, value) in line.as_object().into_iter().flatten() {
        if let (Some(value), false) = (value.as_f64(), ["update", "seconds", "time"].contains(&name.as_str())) {
            events.scalar(&format!("{kind}/{name}"), update, time, value)?;
        }
    }
    Ok(())
}
