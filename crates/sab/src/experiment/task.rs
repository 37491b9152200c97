//! [`TaskSettings`]: what is learned.

use super::values::Auto;
use super::wrong;
use crate::data::AnswerOn;
use crate::error::{LabError, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The names of the tasks.
pub const TASK_NAMES: [&str; 8] = ["copy", "adding", "ptb", "text8", "text", "pmnist", "cifar10", "csv"];

/// The longest sequence: more is a slip of the keyboard.
const LONGEST: usize = 10_000_000;

/// How far images are moved at most: half of CIFAR-10's width.
const LONGEST_SHIFT: usize = 16;

/// What is learned. The key `name` says which of the tasks it is; each has keys of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "lowercase")]
pub enum TaskSettings {
    /// Ten digits, a wait, and the digits again.
    Copy {
        /// The paper's T; a sequence has 20 steps more.
        length: usize,
        /// How much the mean loss on the blanks counts beside that on the digits. 0 asks for the digits alone: the network
        /// then learns nothing about waiting. `"auto"` counts every step the same, as the paper does.
        blank_weight: Auto<f64>,
        /// Sequences that validate.
        validation: usize,
        /// Sequences that test.
        test: usize,
    },
    /// The sum of two marked numbers.
    Adding {
        /// The paper's T, the steps of a sequence.
        length: usize,
        /// Sequences that validate.
        validation: usize,
        /// Sequences that test.
        test: usize,
    },
    /// Characters of the Penn Treebank.
    Ptb {
        /// Characters a sequence.
        length: usize,
    },
    /// Characters of text8.
    Text8 {
        /// Characters a sequence.
        length: usize,
    },
    /// Characters of any UTF-8 file.
    Text {
        /// The file.
        file: PathBuf,
        /// Characters a sequence.
        length: usize,
    },
    /// MNIST pixel by pixel in a shuffled order.
    Pmnist {
        /// The order of the pixels is drawn from this.
        permutation_seed: u64,
        /// Training images kept for validation.
        validation: usize,
    },
    /// CIFAR-10 pixel by pixel.
    Cifar10 {
        /// Training images kept for validation.
        validation: usize,
        /// Every second training image, by lot, is shown mirrored, left for right.
        mirror: bool,
        /// Training images are moved by up to so many pixels, by lot, up or down and left or right.
        shift: usize,
    },
    /// Labelled sequences from a table.
    Csv(CsvSettings),
}

/// What a column of answers holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AnswerKind {
    /// Classes, unless they are numbers that look like measurements.
    Guess,
    /// Classes.
    Class,
    /// Numbers.
    Value,
}

/// Labelled sequences from a table: which column is what. An empty name takes the usual place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CsvSettings {
    /// The file.
    pub file: PathBuf,
    /// The column that says which sequence a line belongs to; the first.
    pub sequence: String,
    /// The column that orders the lines of a sequence; the second.
    pub step: String,
    /// The column with the answers; the last.
    pub label: String,
    /// The columns that the network sees; all others.
    pub features: Vec<String>,
    /// Classes or numbers.
    pub answers: AnswerKind,
    /// The last step of a sequence or each.
    pub on: AnswerOn,
    /// Training, validation and test sequences are drawn from this.
    pub split_seed: u64,
}

impl TaskSettings {
    /// The name of the task.
    pub fn name(&self) -> &'static str {
        let place = match self {
            Self::Copy { .. } => 0,
            Self::Adding { .. } => 1,
            Self::Ptb { .. } => 2,
            Self::Text8 { .. } => 3,
            Self::Text { .. } => 4,
            Self::Pmnist { .. } => 5,
            Self::Cifar10 { .. } => 6,
            Self::Csv(_) => 7,
        };
        TASK_NAMES[place]
    }

    /// The length, for tasks that have one.
    pub fn length(&self) -> Option<usize> {
        match self {
            Self::Copy { length, .. }
            | Self::Adding { length, .. }
            | Self::Ptb { length }
            | Self::Text8 { length }
            | Self::Text { length, .. } => Some(*length),
            Self::Pmnist { .. } | Self::Cifar10 { .. } | Self::Csv(_) => None,
        }
    }

    /// The file of one's own that is learned from, for tasks that have one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Text { file, .. } | Self::Csv(CsvSettings { file, .. }) => Some(file),
            _ => None,
        }
    }

    /// The same task with the whole path of its file, as seen from the current folder. Links stay as they are.
    pub fn with_whole_path(mut self) -> Result<Self> {
        if let Self::Text { file, .. } | Self::Csv(CsvSettings { file, .. }) = &mut self
            && !file.as_os_str().is_empty()
        {
            *file = std::path::absolute(&*file).map_err(|why| LabError::file("find", file, &why))?;
        }
        Ok(self)
    }

    /// The same task at another length, or why that cannot be.
    pub fn with_length(mut self, new: usize) -> Result<Self> {
        match &mut self {
            Self::Copy { length, .. }
            | Self::Adding { length, .. }
            | Self::Ptb { length }
            | Self::Text8 { length }
            | Self::Text { length, .. } => *length = new,
            Self::Pmnist { .. } | Self::Cifar10 { .. } | Self::Csv(_) => {
                return Err(LabError::Config(format!("`{}` takes its lengths from the data", self.name())));
            }
        }
        self.validate()?;
        Ok(self)
    }

    pub(super) fn validate(&self) -> Result<()> {
        let least = match self {
            Self::Adding { .. } => 2,
            _ => 1,
        };
        if let Some(length) = self.length()
            && !(least..=LONGEST).contains(&length)
        {
            return Err(wrong("task.length", length, &format!("from {least} to {LONGEST}")));
        }
        if let Self::Copy { blank_weight, .. } = self
            && blank_weight.get().is_some_and(|weight| !(0.0..=1e6).contains(&weight))
        {
            return Err(wrong(
                "task.blank_weight",
                blank_weight.get().unwrap_or(0.0),
                "from 0 to 1000000, or \"auto\"",
            ));
        }
        match self {
            Self::Copy { validation, test, .. } | Self::Adding { validation, test, .. } => {
                for (key, count) in [("task.validation", *validation), ("task.test", *test)] {
                    if count == 0 {
                        return Err(wrong(key, count, "at least one sequence"));
                    }
                }
            }
            Self::Pmnist { validation, .. } | Self::Cifar10 { validation, .. } if *validation == 0 => {
                return Err(wrong("task.validation", validation, "at least one image"));
            }
            Self::Cifar10 { shift, .. } if *shift > LONGEST_SHIFT => {
                return Err(wrong("task.shift", shift, &format!("from 0 to {LONGEST_SHIFT} pixels")));
            }
            _ => {}
        }
        Ok(())
    }
}
