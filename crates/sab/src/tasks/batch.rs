//! [`Batch`]: sequences and questions about them, as plain numbers on the host.

use crate::data::DataError;
use std::ops::Range;

/// The input of the network.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// `[rows, steps]`, each below the number of symbols.
    Tokens(Vec<i32>),
    /// `[rows, steps, width]`
    Dense {
        /// Numbers per step.
        width: usize,
        /// All numbers.
        values: Vec<f32>,
    },
}

impl Input {
    /// Sequences `[steps, width]` of several lengths, each padded with zeros to `steps`.
    pub fn padded(sequences: &[&[f32]], width: usize, steps: usize) -> Self {
        let mut values = vec![0.0; sequences.len() * steps * width];
        for (row, sequence) in values.chunks_exact_mut((steps * width).max(1)).zip(sequences) {
            row.iter_mut().zip(*sequence).for_each(|(place, value)| *place = *value);
        }
        Self::Dense { width, values }
    }
}

/// The steps that must be answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// Every step from this one on (counted from 0): `[rows, steps - from]` answers.
    From(usize),
    /// Every step, in two groups: the mean loss of those from `first` on counts once, that of those before it `weight`
    /// times. `[rows, steps]` answers.
    TwoGroups {
        /// The first step of the second group.
        first: usize,
        /// How much the first group counts.
        weight: f32,
    },
    /// One step of each row: `[rows]` answers. The steps after it are padding.
    At(Vec<usize>),
    /// Single steps of some rows, as pairs of row and step: `[pairs]` answers. A stretch of [`At`](Self::At) is one such
    /// batch, because its other rows are asked before or after it.
    Only(Vec<(usize, usize)>),
    /// The first steps of each row, this many: `[rows, steps]` answers, of which those past a row's length do not
    /// count.
    Until(Vec<usize>),
}

impl Asked {
    /// The questions about some steps of whole sequences of `rows` rows.
    pub(super) fn stretch(&self, steps: &Range<usize>) -> Self {
        let within = |step: usize| step.clamp(steps.start, steps.end) - steps.start;
        let only = |asked: &mut dyn Iterator<Item = (usize, usize)>| {
            let inside = asked.filter(|(_, step)| steps.contains(step));
            Self::Only(inside.map(|(row, step)| (row, step - steps.start)).collect())
        };
        match self {
            Self::From(from) => Self::From(within(*from)),
            Self::TwoGroups { first, weight } => Self::TwoGroups { first: within(*first), weight: *weight },
            Self::At(asked) => only(&mut asked.iter().copied().enumerate()),
            Self::Until(lengths) => Self::Until(lengths.iter().map(|length| within(*length)).collect()),
            Self::Only(asked) => only(&mut asked.iter().copied()),
        }
    }

    /// For each answer of a batch its row and its step.
    pub(crate) fn places(&self, rows: usize, steps: usize) -> Vec<(usize, usize)> {
        let all = |from: usize| (0..rows).flat_map(move |row| (from..steps).map(move |step| (row, step)));
        match self {
            Self::From(from) => all(*from).collect(),
            Self::TwoGroups { .. } | Self::Until(_) => all(0).collect(),
            Self::At(asked) => asked.iter().copied().enumerate().collect(),
            Self::Only(asked) => asked.clone(),
        }
    }
}

/// The right answers, as many as [`Asked`] says.
#[derive(Clone, Debug, PartialEq)]
pub enum Answers {
    /// Classes.
    Classes(Vec<i32>),
    /// Numbers.
    Values(Vec<f32>),
    /// Unknown: the batch can be answered but not judged. It has no loss and no tally.
    Unknown,
}

/// Sequences of one length, shorter ones padded with zeros at the end. Padding changes no result: the network is
/// causal, and nothing is asked about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Sequences.
    pub rows: usize,
    /// Steps of the longest.
    pub steps: usize,
    /// The input of the network.
    pub input: Input,
    /// The steps that must be answered.
    pub asked: Asked,
    /// The right answers.
    pub answers: Answers,
}

impl Batch {
    /// The error for a batch that lacks the right answers.
    pub(crate) fn unanswered(&self) -> DataError {
        let (rows, steps, count) = (self.rows, self.steps, self.answer_count());
        DataError::Invalid(format!(
            "a batch of {rows} sequences of {steps} steps lacks the {count} right answers that it asks for: it can be \
             answered, not evaluated"
        ))
    }

    /// Answers in the batch, padding included.
    pub fn answer_count(&self) -> usize {
        match &self.asked {
            Asked::From(from) => self.rows * self.steps.saturating_sub(*from),
            Asked::At(_) => self.rows,
            Asked::Only(places) => places.len(),
            Asked::Until(_) | Asked::TwoGroups { .. } => self.rows * self.steps,
        }
    }

    /// Whether no answer counts: such a batch has no loss.
    pub fn asks_nothing(&self) -> bool {
        self.answer_count() == 0 || self.counted().is_some_and(|counted| !counted.contains(&true))
    }

    /// Some of its steps, and what is asked about them. Steps past the end are left out. The mean loss of a stretch is
    /// over its own answers.
    pub fn stretch(&self, steps: Range<usize>) -> Self {
        let end = steps.end.min(self.steps);
        let steps = steps.start.min(end)..end;
        let places: Vec<bool> =
            self.asked.places(self.rows, self.steps).iter().map(|(_, step)| steps.contains(step)).collect();
        let answers = match &self.answers {
            Answers::Classes(right) => Answers::Classes(chosen(right, &places)),
            Answers::Values(right) => Answers::Values(chosen(right, &places)),
            Answers::Unknown => Answers::Unknown,
        };
        let input = match &self.input {
            Input::Tokens(tokens) => Input::Tokens(columns(tokens, self.steps, 1, &steps)),
            Input::Dense { width, values } => {
                Input::Dense { width: *width, values: columns(values, self.steps, *width, &steps) }
            }
        };
        Self { rows: self.rows, steps: steps.len(), input, asked: self.asked.stretch(&steps), answers }
    }

    /// For each answer whether it counts, where some do not.
    pub fn counted(&self) -> Option<Vec<bool>> {
        match &self.asked {
            Asked::Until(lengths) if lengths.iter().any(|length| *length < self.steps) => {
                Some(lengths.iter().flat_map(|length| (0..self.steps).map(move |step| step < *length)).collect())
            }
            _ => None,
        }
    }

    /// The weight of each answer in the loss, where they differ.
    pub fn weights(&self) -> Option<Vec<f32>> {
        if let Asked::TwoGroups { first, weight } = self.asked {
            let (before, after) = ((self.rows * first) as f32, (self.rows * (self.steps - first)) as f32);
            let a_row = (0..self.steps).map(|step| if step < first { weight / before } else { 1.0 / after });
            return Some((0..self.rows).flat_map(|_| a_row.clone()).collect());
        }
        let counted = self.counted()?;
        let count = counted.iter().filter(|counts| **counts).count().max(1);
        Some(counted.iter().map(|counts| f32::from(*counts) / count as f32).collect())
    }
}

/// Those values whose place is marked.
fn chosen<T: Copy>(values: &[T], marked: &[bool]) -> Vec<T> {
    values.iter().zip(marked).filter(|(_, marked)| **marked).map(|(value, _)| *value).collect()
}

/// Some steps of `[rows, all, width]`.
fn columns<T: Copy>(values: &[T], all: usize, width: usize, steps: &Range<usize>) -> Vec<T> {
    let rows = values.chunks_exact((all * width).max(1));
    rows.flat_map(|row| &row[steps.start * width..steps.end * width]).copied().collect()
}
