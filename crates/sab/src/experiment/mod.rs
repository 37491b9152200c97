//! [`Experiment`]: everything that determines a run, with defaults for each task, read from TOML and overridden key by
//! key.

pub use crate::settings::{ModelSettings, Schedule, TrainSettings, TransformerSettings, parse_change, parse_value};
pub use crate::suggest::nearest;
pub use crate::tasks::{TASK_NAMES, TaskSettings};
/// A value of a configuration, as overrides take it.
pub use toml::Value;

use crate::error::{LabError, Result};
use crate::settings::{keys, wrong};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use toml::Table;

/// A task, a model and its training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// The folder of the data sets.
    pub data_dir: PathBuf,
    /// The task to learn.
    pub task: TaskSettings,
    /// The model that learns it.
    pub model: ModelSettings,
    /// The training.
    pub train: TrainSettings,
}

impl Experiment {
    /// The defaults of a task, changed by `overrides`: pairs of a dotted key and a value.
    ///
    /// ```
    /// use sab::experiment::{Experiment, Value, parse_value};
    ///
    /// let changes = [("task.length".to_string(), Value::Integer(30)), ("model.k_top".into(), parse_value("all"))];
    /// assert_eq!(Experiment::of_task("copy", &changes)?.task.length(), Some(30));
    /// # Ok::<(), sab::LabError>(())
    /// ```
    pub fn of_task(name: &str, overrides: &[(String, Value)]) -> Result<Self> {
        Self::resolve(task_table(name), overrides, "the command line")
    }

    /// The defaults of a task, changed by a TOML file and then by `overrides`.
    pub fn of_file(path: &Path, overrides: &[(String, Value)]) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|why| LabError::file("read", path, &why))?;
        Self::of_text(&text, &path.display().to_string(), overrides)
    }

    /// The defaults of a task, changed by a text in TOML and then by `overrides`.
    pub fn of_text(text: &str, origin: &str, overrides: &[(String, Value)]) -> Result<Self> {
        let table: Table = text.parse().map_err(|why| LabError::Config(format!("{origin} is not TOML: {why}")))?;
        Self::resolve(table, overrides, origin)
    }

    fn resolve(mut given: Table, overrides: &[(String, Value)], origin: &str) -> Result<Self> {
        for (key, value) in overrides {
            keys::set(&mut given, key, value.clone())?;
        }
        let word = |section: &str, key: &str| match given.get(section).and_then(|table| table.get(key)) {
            None => Ok(None),
            Some(Value::String(word)) => Ok(Some(word.clone())),
            Some(other) => {
                Err(LabError::Config(format!("`{section}.{key}` is {other} in {origin}: expected a word in quotes")))
            }
        };
        let Some(task) = word("task", "name")? else {
            let names = TASK_NAMES.join(", ");
            return Err(LabError::Config(format!("{origin} has no `task.name`: expected one of {names}")));
        };
        let known = Self::defaults(TaskSettings::of_name(&task)?, word("model", "kind")?.as_deref())?;
        let defaults = Table::try_from(&known).map_err(|why| LabError::Config(why.to_string()))?;
        let mut table = defaults.clone();
        keys::merge(&mut table, given.clone(), origin)?;
        let experiment: Experiment =
            table.try_into().map_err(|why: toml::de::Error| explain(&why, &defaults, &given, origin))?;
        experiment.validate()?;
        Ok(experiment)
    }

    /// The defaults of a task with a kind of model.
    fn defaults(task: TaskSettings, model_kind: Option<&str>) -> Result<Self> {
        let kind = task.kind();
        let model = ModelSettings::of_kind(model_kind, kind.model())?;
        Ok(Self { data_dir: "data".into(), train: kind.train(), task, model })
    }

    /// The experiment as TOML, every key with its value.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self).map_err(|why| LabError::Config(why.to_string()))
    }

    /// The keys that differ between two experiments and affect the result: `key is A, not B`.
    pub fn differences(&self, other: &Self) -> Result<Vec<String>> {
        // The place of the data, the number of threads and the frequency of writing change no metric.
        const NO_MATTER: [&str; 6] = [
            "data_dir",
            "train.threads",
            "train.log_every",
            "train.checkpoint_every",
            "train.keep",
            "train.attention_every",
        ];
        let flat = |experiment: &Self| -> Result<Vec<(String, Value)>> {
            // A run has the whole path of its file, an experiment what was typed.
            let experiment = Self { task: experiment.task.clone().with_whole_path()?, ..experiment.clone() };
            let table = Table::try_from(&experiment).map_err(|why| LabError::Config(why.to_string()))?;
            Ok(keys::flatten(&table))
        };
        let (ours, theirs) = (flat(self)?, flat(other)?);
        let value = |table: &[(String, Value)], key: &str| {
            table.iter().find(|(name, _)| name == key).map_or("not set".to_string(), |(_, value)| value.to_string())
        };
        let mut all: Vec<&String> = ours.iter().chain(&theirs).map(|(key, _)| key).collect();
        all.sort();
        all.dedup();
        let difference = |key: &&String| {
            let (ours, theirs) = (value(&ours, key), value(&theirs, key));
            (ours != theirs && !NO_MATTER.contains(&key.as_str())).then(|| format!("`{key}` is {ours}, not {theirs}"))
        };
        Ok(all.iter().filter_map(difference).collect())
    }

    fn validate(&self) -> Result<()> {
        self.task.kind().validate()?;
        self.train.validate()?;
        self.model.validate()
    }

    /// A name for the run directory: the task, the settings of the model that stand out, the seed.
    pub fn short_name(&self) -> String {
        let length = self.task.length().map_or(String::new(), |length| format!("-{length}"));
        format!("{}{length}-{}-seed{}", self.task.name(), self.model.short_name(), self.train.seed)
    }
}

fn task_table(name: &str) -> Table {
    let task = Table::from_iter([("name".to_string(), Value::String(name.to_string()))]);
    Table::from_iter([("task".to_string(), Value::Table(task))])
}

/// Finds the value that does not fit. Serde only names the section, so each value is tried alone.
fn explain(why: &toml::de::Error, defaults: &Table, given: &Table, origin: &str) -> LabError {
    let alone = |(key, value): (String, Value)| {
        let mut table = defaults.clone();
        keys::set(&mut table, &key, value.clone()).ok()?;
        let why = table.try_into::<Experiment>().err()?;
        Some(wrong(&key, value, &in_words(why.message())))
    };
    let found = keys::flatten(given).into_iter().find_map(alone);
    found.unwrap_or_else(|| LabError::Config(format!("{origin}: {}", why.message())))
}

/// Serde's message about a value of the wrong kind, for people who do not write Rust.
fn in_words(message: &str) -> String {
    let message = message.trim_end();
    let Some((_, kind)) = message.rsplit_once("expected ") else { return message.to_string() };
    let kind = match kind {
        "usize" | "u64" => "a whole number, 0 or more",
        "f64" => "a number",
        "a boolean" => "true or false",
        "a string" => "a word in quotes",
        kind => kind,
    };
    format!("expected {kind}")
}
