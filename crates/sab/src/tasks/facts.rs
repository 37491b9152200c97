//! [`TaskFacts`]: the facts about the data that are saved with a model.

use crate::data::{Alphabet, AnswerKind, AnswerOn, Standardization, TableLayout};
use serde::{Deserialize, Serialize};

/// The facts that a trained model needs about its data, saved with the run.
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
    /// A remark for readers of the metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl TaskFacts {
    /// The layout for reading another table for the model. Unknown columns are guessed as in any table.
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

    /// Whether these facts, saved when a run began, still describe the data. Facts that an older version did not save
    /// are not compared.
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
