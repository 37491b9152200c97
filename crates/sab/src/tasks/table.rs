//! Labelled sequences from a table of the user's.

use super::order::{EpochOrder, batches_of, range_of};
use super::{Answers, Asked, Batch, Input, InputKind, Metrics, OutputKind, Split, Tally, Task, TaskFacts};
use crate::data::{self, AnswerOn, Standardization, Table, TableLayout, TableSplit, load_table};
use crate::error::{LabError, Result};
use crate::experiment::{AnswerKind, CsvSettings};
use std::path::Path;

/// Sequences of different lengths, padded to the longest of a batch. Features are scaled by the training sequences'
/// means and deviations, and so are answers that are numbers; metrics are in the table's own units.
#[derive(Debug)]
pub(super) struct LabelledSequences {
    table: Table,
    split: TableSplit,
    features: Standardization,
    values: Option<Standardization>,
    order: EpochOrder,
}

impl LabelledSequences {
    pub(super) fn open(settings: &CsvSettings) -> Result<Self> {
        let named = |name: &String| (!name.is_empty()).then(|| name.clone());
        let layout = TableLayout {
            sequence: named(&settings.sequence),
            step: named(&settings.step),
            label: named(&settings.label),
            features: settings.features.clone(),
            kind: match settings.answers {
                AnswerKind::Guess => None,
                AnswerKind::Class => Some(data::AnswerKind::Class),
                AnswerKind::Value => Some(data::AnswerKind::Value),
            },
            on: settings.on,
            classes: Vec::new(),
        };
        Self::new(load_table(&settings.file, &layout)?, settings.split_seed)
    }

    fn new(table: Table, split_seed: u64) -> Result<Self> {
        let split = TableSplit::new(table.sequences.len(), split_seed)?;
        let features = Standardization::of_features(&table, &split.train)?;
        let values = match table.kind {
            data::AnswerKind::Class => None,
            data::AnswerKind::Value => Some(Standardization::of_values(&table, &split.train)?),
        };
        Ok(Self::scaled(table, split, features, values))
    }

    /// Another table than the one that a model learned from, for judging the model on all of it: read and scaled by what is
    /// kept with the model.
    pub(super) fn of_model(file: &Path, facts: &TaskFacts) -> Result<Self> {
        let table = load_table(file, &facts.layout())?;
        let width = table.feature_names.len();
        let values = facts.answer_standardization.clone().filter(|_| table.kind == data::AnswerKind::Value);
        match &facts.standardization {
            Some(features)
                if features.mean().len() == width && (values.is_some() || table.kind == data::AnswerKind::Class) =>
            {
                let all: Vec<usize> = (0..table.sequences.len()).collect();
                let split = TableSplit { train: all.clone(), validation: all.clone(), test: all };
                Ok(Self::scaled(table, split, features.clone(), values))
            }
            _ => Err(LabError::Run(format!(
                "the model's config.json has no scales for {width} features and the answers"
            ))),
        }
    }

    fn scaled(mut table: Table, split: TableSplit, features: Standardization, values: Option<Standardization>) -> Self {
        for sequence in &mut table.sequences {
            features.apply(&mut sequence.features);
            if let (data::Answers::Values(answers), Some(scale)) = (&mut sequence.answers, &values) {
                scale.apply(answers);
            }
        }
        Self { table, split, features, values, order: EpochOrder::default() }
    }

    fn batch(&self, items: &[usize]) -> Batch {
        let sequences: Vec<_> = items.iter().map(|item| &self.table.sequences[*item]).collect();
        let width = self.table.feature_names.len();
        let lengths: Vec<usize> = sequences.iter().map(|sequence| sequence.steps).collect();
        let steps = lengths.iter().copied().max().unwrap_or(0);
        let features: Vec<&[f32]> = sequences.iter().map(|sequence| sequence.features.as_slice()).collect();
        let (mut classes, mut numbers) = (Vec::new(), Vec::new());
        for (sequence, length) in sequences.iter().zip(&lengths) {
            let padding = if self.table.on == AnswerOn::Each { steps - length } else { 0 };
            match &sequence.answers {
                data::Answers::Classes(right) => {
                    classes.extend(right.iter().map(|class| *class as i32));
                    classes.extend(std::iter::repeat_n(0, padding));
                }
                data::Answers::Values(right) => {
                    numbers.extend(right);
                    numbers.extend(std::iter::repeat_n(0.0, padding));
                }
            }
        }
        let answers = match self.table.kind {
            data::AnswerKind::Class => Answers::Classes(classes),
            data::AnswerKind::Value => Answers::Values(numbers),
        };
        let asked = match self.table.on {
            AnswerOn::Last => Asked::At(lengths.iter().map(|length| length - 1).collect()),
            AnswerOn::Each => Asked::Until(lengths),
        };
        Batch { rows: sequences.len(), steps, input: Input::padded(&features, width, steps), asked, answers }
    }

    fn part(&self, split: Split) -> &[usize] {
        match split {
            Split::Validation => &self.split.validation,
            Split::Test => &self.split.test,
        }
    }
}

impl Task for LabelledSequences {
    fn input(&self) -> InputKind {
        InputKind::Dense(self.table.feature_names.len())
    }

    fn output(&self) -> OutputKind {
        match self.table.kind {
            data::AnswerKind::Class => OutputKind::Classes(self.table.class_names.len()),
            data::AnswerKind::Value => OutputKind::Value,
        }
    }

    fn training_batch(&self, seed: u64, update: u64, rows: usize) -> Batch {
        let train = &self.split.train;
        let places = self.order.batch(seed, update, train.len(), rows);
        self.batch(&places.into_iter().map(|place| train[place]).collect::<Vec<_>>())
    }

    fn updates_an_epoch(&self, rows: usize) -> Option<u64> {
        Some(EpochOrder::batches(self.split.train.len(), rows))
    }

    fn held_out_count(&self, split: Split, rows: usize) -> u64 {
        batches_of(self.part(split).len(), rows)
    }

    fn held_out_batch(&self, split: Split, number: u64, rows: usize) -> Batch {
        let part = self.part(split);
        self.batch(&part[range_of(part.len(), rows, number)])
    }

    fn longest(&self, split: Split) -> usize {
        self.part(split).iter().map(|item| self.table.sequences[*item].steps).max().unwrap_or(0)
    }

    fn metrics(&self, tally: &Tally) -> Metrics {
        match &self.values {
            None => vec![("ce", tally.all.ce()), ("accuracy", tally.all.accuracy())],
            Some(scale) => {
                let unit = scale.deviation().first().map_or(1.0, |deviation| f64::from(*deviation));
                vec![("mse", tally.all.mse() * unit * unit), ("mae", tally.all.mae() * unit)]
            }
        }
    }

    fn describe(&self) -> Option<String> {
        let (names, answer) = (self.table.feature_names.join(", "), &self.table.label_name);
        let what = match self.table.kind {
            data::AnswerKind::Class => format!("the class `{answer}` ({})", self.table.class_names.join(", ")),
            data::AnswerKind::Value => format!("the number `{answer}`"),
        };
        let on = match self.table.on {
            AnswerOn::Last => "of each sequence",
            AnswerOn::Each => "of each step",
        };
        let [train, validation, test] = [&self.split.train, &self.split.validation, &self.split.test].map(Vec::len);
        Some(format!(
            "{what} {on} is learned from {names}; {train} sequences train, {validation} validate, {test} test"
        ))
    }

    fn facts(&self) -> TaskFacts {
        TaskFacts {
            features: Some(self.table.feature_names.clone()),
            sequence: Some(self.table.sequence_name.clone()),
            step: Some(self.table.step_name.clone()),
            label: Some(self.table.label_name.clone()),
            on: Some(self.table.on),
            classes: (!self.table.class_names.is_empty()).then(|| self.table.class_names.clone()),
            standardization: Some(self.features.clone()),
            answer_standardization: self.values.clone(),
            sha256: Some(self.table.sha256.clone()),
            ..TaskFacts::default()
        }
    }
}
