//! Tables of labelled sequences: one row per step, in a CSV file with a header.

mod layout;
mod read;
mod split;
mod standardize;

pub use layout::TableLayout;
pub use read::{load_questions, load_table, parse_questions, parse_table};
pub use split::TableSplit;
pub use standardize::Standardization;

use serde::{Deserialize, Serialize};

/// The kind of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AnswerKind {
    /// One of several names.
    Class,
    /// A number.
    Value,
}

/// The steps that have an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AnswerOn {
    /// The last step of a sequence only.
    #[default]
    Last,
    /// Each step.
    Each,
}

/// The answers of a sequence: one for each step, or a single one, as [`Table::on`] says.
#[derive(Clone, Debug, PartialEq)]
pub enum Answers {
    /// Places in [`Table::class_names`].
    Classes(Vec<usize>),
    /// Numbers, all finite.
    Values(Vec<f32>),
}

impl Answers {
    /// How many answers there are.
    pub fn len(&self) -> usize {
        match self {
            Answers::Classes(classes) => classes.len(),
            Answers::Values(values) => values.len(),
        }
    }

    /// Whether there are no answers; never the case in a loaded table.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One sequence of a table, its steps in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequence {
    /// The sequence, as in the sequence column.
    pub id: String,
    /// How many steps there are, at least one.
    pub steps: usize,
    /// The features, `[steps, width]`, all finite; the width is the number of [`Table::feature_names`].
    pub features: Vec<f32>,
    /// The answers.
    pub answers: Answers,
}

/// A table of labelled sequences.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The names of the feature columns, in the order of [`Sequence::features`].
    pub feature_names: Vec<String>,
    /// The name of the column that says which sequence a row belongs to.
    pub sequence_name: String,
    /// The name of the column that orders the rows of a sequence.
    pub step_name: String,
    /// The name of the label column.
    pub label_name: String,
    /// The kind of the answers.
    pub kind: AnswerKind,
    /// The steps that have one.
    pub on: AnswerOn,
    /// The names of the classes: whole numbers by size, other names by code points. Empty if the answers are numbers.
    pub class_names: Vec<String>,
    /// The sequences in the order of their first rows.
    pub sequences: Vec<Sequence>,
    /// The SHA-256 of the file.
    pub sha256: String,
}

/// One sequence without answers, its steps in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The sequence, as in the sequence column.
    pub id: String,
    /// The steps, as in the step column, at least one.
    pub steps: Vec<String>,
    /// The features, `[steps, width]`, all finite; the width is the number of [`Questions::feature_names`].
    pub features: Vec<f32>,
}

/// A table of sequences whose answers are unknown or ignored.
#[derive(Clone, Debug, PartialEq)]
pub struct Questions {
    /// The name of the column that says which sequence a row belongs to.
    pub sequence_name: String,
    /// The name of the column that orders the rows of a sequence.
    pub step_name: String,
    /// The names of the feature columns, in the order of [`Question::features`].
    pub feature_names: Vec<String>,
    /// The sequences in the order of their first rows.
    pub sequences: Vec<Question>,
}
