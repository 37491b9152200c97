//! [`TaskKind`]: everything a task declares before its data is read.

use super::{TASK_NAMES, Task, TaskFacts, TaskSettings};
use crate::error::{LabError, Result};
use crate::settings::{TrainSettings, within};
use crate::suggest::did_you_mean;
use attentive::SabLstmConfig;
use std::path::{Path, PathBuf};

/// The longest sequence: more is a typing mistake.
const LONGEST: usize = 1_000_000_000;

/// Keys that several tasks have and that commands set.
#[derive(Debug, Default)]
pub struct CommonKeys<'a> {
    /// The length of a sequence: `--length`, `sab transfer`.
    pub length: Option<&'a mut usize>,
    /// The user's own file: `--file`.
    pub file: Option<&'a mut PathBuf>,
    /// The number of test sequences, if they are generated: fewer are judged at great lengths.
    pub test: Option<&'a mut usize>,
}

/// A kind of task: the type holds the task's keys, and its `Default` their defaults.
pub trait TaskKind {
    /// The goal of the task, in one line for `sab train --help`.
    fn help(&self) -> &'static str;

    /// The recurrent model that suits the task: the paper's, where that is affordable.
    fn model(&self) -> SabLstmConfig;

    /// The training that suits the task.
    fn train(&self) -> TrainSettings;

    /// Refuses values that the keys cannot have.
    fn validate(&self) -> Result<()> {
        Ok(())
    }

    /// Those of the common keys that the task has.
    fn common_keys(&mut self) -> CommonKeys<'_> {
        CommonKeys::default()
    }

    /// Opens the task, reading its data from `data_dir` if it has some.
    fn open(&self, data_dir: &Path) -> Result<Box<dyn Task>>;

    /// Opens another file, to judge a trained model on all of it; `facts` were saved with the model. `None` if
    /// the task does not learn from a table or a text.
    fn judge_file(&self, _facts: &TaskFacts, _file: &Path) -> Option<Result<Box<dyn Task>>> {
        None
    }

    /// Adds facts that an older `config.json` lacks and these settings know.
    fn complete(&self, _facts: &mut TaskFacts) {}
}

/// Checks `task.length`.
pub(super) fn check_length(length: usize, shortest: usize) -> Result<()> {
    within("task.length", length, shortest..=LONGEST, "")
}

impl TaskSettings {
    /// The defaults of the task of a name.
    pub fn of_name(name: &str) -> Result<Self> {
        Self::all().into_iter().find(|task| task.name() == name).ok_or_else(|| {
            LabError::Config(format!("there is no task `{name}`; {}", did_you_mean(name, TASK_NAMES, "tasks")))
        })
    }

    /// The length of a sequence, for tasks that have one.
    pub fn length(&self) -> Option<usize> {
        self.clone().kind_mut().common_keys().length.copied()
    }

    /// The user's own file, for tasks that learn from one.
    pub fn file(&self) -> Option<PathBuf> {
        self.clone().kind_mut().common_keys().file.cloned()
    }

    /// The same task with the whole path of its file, as seen from the current folder. Links stay as they are.
    pub fn with_whole_path(mut self) -> Result<Self> {
        if let Some(file) = self.kind_mut().common_keys().file
            && !file.as_os_str().is_empty()
        {
            *file = std::path::absolute(&*file).map_err(|why| LabError::file("find", file, &why))?;
        }
        Ok(self)
    }

    /// The same task at another length, or why that cannot be.
    pub fn with_length(mut self, new: usize) -> Result<Self> {
        let Some(length) = self.kind_mut().common_keys().length else {
            return Err(LabError::Config(format!(
                "`{}` takes its lengths from the data, so the length cannot be changed",
                self.name()
            )));
        };
        *length = new;
        self.kind().validate()?;
        Ok(self)
    }

    /// The same task with this many test sequences, if it generates them.
    pub fn with_test_sequences(mut self, count: usize) -> Self {
        if let Some(test) = self.kind_mut().common_keys().test {
            *test = count;
        }
        self
    }
}

/// Opens a task, reading its data from `data_dir` if it has some.
pub fn open(settings: &TaskSettings, data_dir: &Path) -> Result<Box<dyn Task>> {
    if settings.file().is_some_and(|file| file.as_os_str().is_empty()) {
        let why = "`task.file` is empty: name the file to learn from with --file FILE or in the configuration";
        return Err(LabError::Config(why.into()));
    }
    settings.kind().open(data_dir)
}

/// Opens a task that judges a trained model on a file that it did not learn from: on all sequences of a table, read and
/// scaled by `facts`, which were saved with the model, or on all of a text in the model's symbols. `settings` are those
/// of the run. Tasks that do not learn from a table or a text return an error.
pub fn open_file(settings: &TaskSettings, facts: &TaskFacts, file: &Path) -> Result<Box<dyn Task>> {
    settings.kind().judge_file(facts, file).unwrap_or_else(|| {
        Err(LabError::Config(format!(
            "the model learned `{}`: only a model of a table or a text can be evaluated on another file",
            settings.name()
        )))
    })
}
