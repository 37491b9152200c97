//! [`TableLayout`]: the roles of the columns of a table.

use super::{AnswerKind, AnswerOn};
use serde::{Deserialize, Serialize};

/// The names of the columns and the kind of the answer. Missing names are guessed: among the columns without a role,
/// the first is the sequence, the next the step, the last the label, and the others are features.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TableLayout {
    /// The column that says which sequence a row belongs to.
    pub sequence: Option<String>,
    /// The column that orders the rows of a sequence.
    pub step: Option<String>,
    /// The column with the answer.
    pub label: Option<String>,
    /// The columns with the input, in the order in which the model sees them.
    pub features: Vec<String>,
    /// The kind of the answer. If unknown: labels are values if all are numbers and one has a fraction or more than
    /// 20 differ; otherwise they are classes.
    pub kind: Option<AnswerKind>,
    /// Which steps have an answer.
    pub on: AnswerOn,
    /// The classes, if they are known beforehand: any other is an error then. Otherwise those that occur.
    pub classes: Vec<String>,
}

/// A [`TableLayout`] as positions in the rows of one table.
pub(super) struct Columns {
    pub sequence: usize,
    pub step: usize,
    /// None if answers are not read.
    pub label: Option<usize>,
    pub features: Vec<usize>,
}

impl TableLayout {
    /// Finds the columns in a header; the error says what is wrong with the header or the layout. Without `labelled`
    /// there need not be a column of answers; one that has its name is none of the others.
    pub(super) fn columns(&self, header: &[String], labelled: bool) -> Result<Columns, String> {
        for (i, name) in header.iter().enumerate() {
            if header.iter().take(i).any(|earlier| earlier == name) {
                return Err(format!("has two columns `{name}`"));
            }
        }
        let place = |name: &String| {
            let known = || header.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
            header.iter().position(|n| n == name).ok_or_else(|| format!("has no column `{name}`; it has {}", known()))
        };
        let named = |name: &Option<String>| name.as_ref().map(place).transpose();
        let (sequence, step) = (named(&self.sequence)?, named(&self.step)?);
        let label = if labelled { named(&self.label)? } else { named(&self.label).unwrap_or(None) };
        let features = self.features.iter().map(place).collect::<Result<Vec<_>, _>>()?;
        let uses = [("task.sequence", sequence), ("task.step", step), ("task.label", label)].into_iter();
        let mut taken: Vec<(usize, &str)> = uses.filter_map(|(key, column)| Some((column?, key))).collect();
        taken.extend(features.iter().map(|column| (*column, "task.features")));
        taken.sort_by_key(|(column, _)| *column);
        if let Some([(column, one), (_, other)]) = taken.array_windows().find(|[one, other]| one.0 == other.0) {
            let column = &header[*column];
            return Err(format!("has a column `{column}`, which cannot be used twice (`{one}`, `{other}`)"));
        }
        let mut free = (0..header.len()).filter(|i| taken.iter().all(|(column, _)| column != i));
        let lacks = |what: &str| {
            format!(
                "has too few columns ({}): none is left for the {what}. A table has a column for the sequence, one \
                 for the step, at least one feature and a label, separated by commas",
                header.len()
            )
        };
        let sequence = sequence.or_else(|| free.next()).ok_or_else(|| lacks("sequence"))?;
        let step = step.or_else(|| free.next()).ok_or_else(|| lacks("step"))?;
        let label = match labelled {
            true => Some(label.or_else(|| free.next_back()).ok_or_else(|| lacks("label"))?),
            false => None,
        };
        let features = if features.is_empty() { free.collect() } else { features };
        if features.is_empty() {
            return Err(lacks("features"));
        }
        Ok(Columns { sequence, step, label, features })
    }
}
