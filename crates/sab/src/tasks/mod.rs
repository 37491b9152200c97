//! Tasks: where sequences come from and how answers are judged.

mod batch;
mod characters;
mod generated;
mod held_out;
mod images;
mod order;
mod table;
mod tally;

pub use batch::{Answers, Asked, Batch, Input};
pub use held_out::HeldOut;
pub use order::{EpochOrder, batches_of, range_of};
pub use tally::{Metrics, Sums, Tally, metric};
pub(crate) use tally::{as_json, largest};

use crate::data::{Alphabet, AnswerKind, AnswerOn, Standardization, TableLayout};
use crate::error::{LabError, Result};
use crate::experiment::TaskSettings;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Data that never trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Chooses the best model and ends training early.
    Validation,
    /// Judges the chosen model, once.
    Test,
}

/// What a step of a sequence is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InputKind {
    /// One of this many symbols.
    Tokens(usize),
    /// This many numbers.
    Dense(usize),
}

impl InputKind {
    /// Symbols or numbers.
    pub fn size(&self) -> usize {
        match self {
            Self::Tokens(size) | Self::Dense(size) => *size,
        }
    }
}

/// What the network puts out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputKind {
    /// A score for each of this many classes; cross-entropy is the loss.
    Classes(usize),
    /// One number; the squared error is the loss.
    Value,
}

impl OutputKind {
    /// Outputs of the network.
    pub fn size(&self) -> usize {
        match self {
            Self::Classes(classes) => *classes,
            Self::Value => 1,
        }
    }
}

/// What a trained model needs to know of its data, saved with the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskFacts {
    /// The order in which pixels are seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permutation: Option<Vec<u16>>,
    /// The symbols of a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alphabet: Option<Alphabet>,
    /// The columns that the network sees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<Vec<String>>,
    /// The column that says which sequence a row of a table belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<String>,
    /// The column that orders the rows of a sequence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The column with the answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Which steps of a table's sequences have an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<AnswerOn>,
    /// The names of the classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub classes: Option<Vec<String>>,
    /// How features are scaled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standardization: Option<Standardization>,
    /// How numbers that are answers are scaled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_standardization: Option<Standardization>,
    /// The SHA-256 of the user's own file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// What a reader of the metrics must know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl TaskFacts {
    /// How another table is read for a model that learned from one. What is not known is guessed as for any table.
    pub fn layout(&self) -> TableLayout {
        TableLayout {
            sequence: self.sequence.clone(),
            step: self.step.clone(),
            label: self.label.clone(),
            features: self.features.clone().unwrap_or_default(),
            kind: Some(if self.classes.is_some() { AnswerKind::Class } else { AnswerKind::Value }),
            on: self.on.unwrap_or_default(),
            classes: self.classes.clone().unwrap_or_default(),
        }
    }

    /// Adds what an older `config.json` does not say and the settings of its run do.
    pub(crate) fn complete(&mut self, settings: &TaskSettings) {
        let TaskSettings::Csv(settings) = settings else { return };
        let named = |name: &String| (!name.is_empty()).then(|| name.clone());
        self.sequence = self.sequence.take().or_else(|| named(&settings.sequence));
        self.step = self.step.take().or_else(|| named(&settings.step));
        self.label = self.label.take().or_else(|| named(&settings.label));
        self.on = self.on.or(Some(settings.on));
    }

    /// Whether these facts, kept when a run began, are those of the data now. What an older version did not keep is not
    /// compared.
    pub(crate) fn fit(&self, now: &Self) -> bool {
        let mut now = now.clone();
        fn forget<T>(kept: &Option<T>, now: &mut Option<T>) {
            if kept.is_none() {
                *now = None;
            }
        }
        forget(&self.sequence, &mut now.sequence);
        forget(&self.step, &mut now.step);
        forget(&self.label, &mut now.label);
        forget(&self.on, &mut now.on);
        forget(&self.sha256, &mut now.sha256);
        *self == now
    }
}

/// Where sequences come from and how answers are judged.
pub trait Task: Send + Sync {
    /// What a step is.
    fn input(&self) -> InputKind;

    /// What is asked for.
    fn output(&self) -> OutputKind;

    /// The batch of one update: a function of the seed and the number of the update.
    fn training_batch(&self, seed: u64, update: u64, rows: usize) -> Batch;

    /// Updates that make one pass over the training data, where there is such a thing.
    fn updates_an_epoch(&self, rows: usize) -> Option<u64>;

    /// Batches of a split.
    fn held_out_count(&self, split: Split, rows: usize) -> u64;

    /// One of them.
    fn held_out_batch(&self, split: Split, number: u64, rows: usize) -> Batch;

    /// Steps of the longest sequence of a split.
    fn longest(&self, split: Split) -> usize {
        self.held_out_batch(split, 0, 1).steps
    }

    /// How many of the last steps are graded apart.
    fn graded_steps(&self) -> usize {
        0
    }

    /// The metrics of the task. The first is what chooses the best model; it is better smaller.
    fn metrics(&self, tally: &Tally) -> Metrics;

    /// What was found in the data, in one sentence.
    fn describe(&self) -> Option<String> {
        None
    }

    /// What is saved with the run.
    fn facts(&self) -> TaskFacts {
        TaskFacts::default()
    }
}

/// Makes a task, reading its data from `data_dir` where it has some.
pub fn open(settings: &TaskSettings, data_dir: &Path) -> Result<Box<dyn Task>> {
    if settings.file().is_some_and(|file| file.as_os_str().is_empty()) {
        let why = "`task.file` is empty: give the file to learn from with --file FILE or in the configuration";
        return Err(LabError::Config(why.into()));
    }
    Ok(match settings {
        TaskSettings::Copy { length, blank_weight, validation, test } => {
            let held_out = HeldOut { validation: *validation, test: *test };
            Box::new(generated::Copy { length: *length, blank_weight: *blank_weight, held_out })
        }
        TaskSettings::Adding { length, validation, test } => {
            let held_out = HeldOut { validation: *validation, test: *test };
            Box::new(generated::Adding { length: *length, held_out })
        }
        TaskSettings::Ptb { length } => {
            Box::new(characters::Characters::new(crate::data::load_ptb(data_dir)?, *length)?)
        }
        TaskSettings::Text8 { length } => {
            Box::new(characters::Characters::new(crate::data::load_text8(data_dir)?, *length)?)
        }
        TaskSettings::Text { file, length } => {
            Box::new(characters::Characters::new(crate::data::load_text(file)?, *length)?)
        }
        TaskSettings::Pmnist { permutation_seed, validation } => {
            let images = crate::data::load_mnist(data_dir)?;
            Box::new(images::PixelByPixel::new(images, Some(*permutation_seed), *validation, images::Views::default())?)
        }
        TaskSettings::Cifar10 { validation, mirror, shift } => {
            let views = images::Views { mirror: *mirror, shift: *shift };
            Box::new(images::PixelByPixel::new(crate::data::load_cifar10(data_dir)?, None, *validation, views)?)
        }
        TaskSettings::Csv(settings) => Box::new(table::LabelledSequences::open(settings)?),
    })
}

/// A task that judges a trained model on another file than it learned from: on all sequences of a table, read and scaled by
/// `facts`, which are kept with the model, or on all of a text in the model's symbols. `settings` are those of the run. An
/// error for tasks that do not learn from a table or text.
pub fn open_file(settings: &TaskSettings, facts: &TaskFacts, file: &Path) -> Result<Box<dyn Task>> {
    match (settings, settings.length(), &facts.alphabet) {
        (TaskSettings::Csv(_), ..) => {
            let mut facts = facts.clone();
            facts.complete(settings);
            Ok(Box::new(table::LabelledSequences::of_model(file, &facts)?))
        }
        (_, Some(length), Some(alphabet)) => Ok(Box::new(characters::Characters::whole(file, alphabet, length)?)),
        _ => Err(LabError::Config(format!(
            "the model learned `{}`: only a model of a table or a text can be judged on another file",
            settings.name()
        ))),
    }
}
