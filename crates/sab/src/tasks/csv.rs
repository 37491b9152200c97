//! `csv`: labelled sequences from a table of the user's.

use super::order::EpochOrder;
use super::{
    Answers, Asked, Batch, CommonKeys, Input, InputKind, Metrics, OutputKind, Split, Tally, Task, TaskFacts, TaskKind,
};
use crate::data::{self, AnswerKind, AnswerOn, Standardization, Table, TableLayout, TableSplit, load_table};
use crate::error::{LabError, Result};
use crate::settings::TrainSettings;
use attentive::SabLstmConfig;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The roles of the columns of a table. An empty name stands for the usual position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Csv {
    /// The file.
    pub file: PathBuf,
    /// The column that says which sequence a line belongs to; the first by default.
    pub sequence: String,
    /// The column that orders the lines of a sequence; the second by default.
    pub step: String,
    /// The column with the answers; the last by default.
    pub label: String,
    /// The columns that the network sees; all others by default.
    pub features: Vec<String>,
    /// Classes or numbers. `None`, `"guess"` in a file: classes, unless they are numbers that look like measurements.
    #[serde(with = "guess")]
    pub answers: Option<AnswerKind>,
    /// Which steps have an answer.
    pub on: AnswerOn,
    /// The seed that splits the sequences into training, validation and test.
    pub split_seed: u64,
}

/// `"class"`, `"value"` or `"guess"`.
mod guess {
    use crate::data::AnswerKind;
    use attentive::number_or;
    use serde::{Deserializer, Serializer};

    #[allow(clippy::trivially_copy_pass_by_ref, clippy::ref_option, reason = "serde passes references")]
    pub(super) fn serialize<S: Serializer>(kind: &Option<AnswerKind>, to: S) -> Result<S::Ok, S::Error> {
        number_or::write(kind.as_ref(), "guess", to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<AnswerKind>, D::Error> {
        number_or::read("\"class\", \"value\"", "guess", from)
    }
}

impl Default for Csv {
    fn default() -> Self {
        let [sequence, step, label] = [const { String::new() }; 3];
        let (answers, on) = (None, AnswerOn::Last);
        Self { file: PathBuf::new(), sequence, step, label, features: Vec::new(), answers, on, split_seed: 1 }
    }
}

fn named(name: &str) -> Option<String> {
    (!name.is_empty()).then(|| name.to_string())
}

impl Csv {
    fn layout(&self) -> TableLayout {
        TableLayout {
            sequence: named(&self.sequence),
            step: named(&self.step),
            label: named(&self.label),
            features: self.features.clone(),
            kind: self.answers,
            on: self.on,
            classes: Vec::new(),
        }
    }
}

impl TaskKind for Csv {
    fn help(&self) -> &'static str {
        "classify your own sequences, or predict numbers: --file TABLE.csv"
    }

    fn model(&self) -> SabLstmConfig {
        SabLstmConfig::new(0, 64).with_k_trunc(10).with_k_top(5).with_k_att(2)
    }

    fn train(&self) -> TrainSettings {
        let (validate_every, patience) = (100, Some(10));
        TrainSettings { updates: 2_000, batch: 32, validate_every, patience, ..TrainSettings::default() }
    }

    fn common_keys(&mut self) -> CommonKeys<'_> {
        CommonKeys { file: Some(&mut self.file), ..CommonKeys::default() }
    }

    fn open(&self, _data_dir: &Path) -> Result<Box<dyn Task>> {
        Ok(Box::new(LabelledSequences::new(load_table(&self.file, &self.layout())?, self.split_seed)?))
    }

    fn judge_file(&self, facts: &TaskFacts, file: &Path) -> Option<Result<Box<dyn Task>>> {
        let mut facts = facts.clone();
        self.complete(&mut facts);
        Some(LabelledSequences::of_model(file, &facts).map(|task| Box::new(task) as Box<dyn Task>))
    }

    fn complete(&self, facts: &mut TaskFacts) {
        facts.sequence = facts.sequence.take().or_else(|| named(&self.sequence));
        facts.step = facts.step.take().or_else(|| named(&self.step));
        facts.label = facts.label.take().or_else(|| named(&self.label));
        facts.on = facts.on.or(Some(self.on));
    }
}

/// Sequences of different lengths, padded to the longest of a batch. Features are scaled by the training sequences'
/// means and deviations, and so are answers that are numbers; metrics are in the table's own units.
#[derive(Debug)]
struct LabelledSequences {
    table: Table,
    split: TableSplit,
    features: Standardization,
    values: Option<Standardization>,
    order: EpochOrder,
}

impl LabelledSequences {
    fn new(table: Table, split_seed: u64) -> Result<Self> {
        let split = TableSplit::new(table.sequences.len(), split_seed)?;
        let features = Standardization::of_features(&table, &split.train)?;
        let values = match table.kind {
            AnswerKind::Class => None,
            AnswerKind::Value => Some(Standardization::of_values(&table, &split.train)?),
        };
        Ok(Self::scaled(table, split, features, values))
    }

    /// A new table to judge a model on, all of it: read and scaled by the facts saved with the model.
    fn of_model(file: &Path, facts: &TaskFacts) -> Result<Self> {
        let table = load_table(file, &facts.layout())?;
        let width = table.feature_names.len();
        let values = facts.answer_standardization.clone().filter(|_| table.kind == AnswerKind::Value);
        match &facts.standardization {
            Some(features)
                if features.mean().len() == width && (values.is_some() || table.kind == AnswerKind::Class) =>
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

    /// Steps of the longest of some sequences.
    fn longest_of(&self, items: &[usize]) -> usize {
        items.iter().map(|item| self.table.sequences[*item].steps).max().unwrap_or(0)
    }

    fn batch(&self, items: &[usize]) -> Batch {
        self.stretch(items, 0..self.longest_of(items))
    }

    /// Some steps of sequences.
    fn stretch(&self, items: &[usize], steps: Range<usize>) -> Batch {
        let sequences: Vec<_> = items.iter().map(|item| &self.table.sequences[*item]).collect();
        let width = self.table.feature_names.len();
        let lengths: Vec<usize> = sequences.iter().map(|sequence| sequence.steps).collect();
        // A sequence that ends before the last of the steps has fewer of them, or none.
        let of_row = |length: usize| steps.start.min(length)..steps.end.min(length);
        let features: Vec<&[f32]> = (sequences.iter().zip(&lengths))
            .map(|(sequence, length)| &sequence.features[of_row(*length).start * width..of_row(*length).end * width])
            .collect();
        let (mut classes, mut numbers) = (Vec::new(), Vec::new());
        for (sequence, length) in sequences.iter().zip(&lengths) {
            let (answered, padding) = match self.table.on {
                AnswerOn::Last => (0..usize::from(steps.contains(&(length - 1))), 0),
                AnswerOn::Each => (of_row(*length), steps.len() - of_row(*length).len()),
            };
            match &sequence.answers {
                data::Answers::Classes(right) => {
                    classes.extend(right[answered].iter().map(|class| *class as i32));
                    classes.extend(std::iter::repeat_n(0, padding));
                }
                data::Answers::Values(right) => {
                    numbers.extend(&right[answered]);
                    numbers.extend(std::iter::repeat_n(0.0, padding));
                }
            }
        }
        let answers = match self.table.kind {
            AnswerKind::Class => Answers::Classes(classes),
            AnswerKind::Value => Answers::Values(numbers),
        };
        let whole = steps == (0..lengths.iter().copied().max().unwrap_or(0));
        let asked = match self.table.on {
            AnswerOn::Last => Asked::At(lengths.iter().map(|length| length - 1).collect()),
            AnswerOn::Each => Asked::Until(lengths),
        };
        let asked = if whole { asked } else { asked.stretch(&steps) };
        let input = Input::padded(&features, width, steps.len());
        Batch { rows: sequences.len(), steps: steps.len(), input, asked, answers }
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
            AnswerKind::Class => OutputKind::Classes(self.table.class_names.len()),
            AnswerKind::Value => OutputKind::Value,
        }
    }

    fn training_batch(&self, seed: u64, update: u64, rows: usize) -> Batch {
        let train = &self.split.train;
        let places = self.order.batch(seed, update, train.len(), rows);
        self.batch(&places.into_iter().map(|place| train[place]).collect::<Vec<_>>())
    }

    fn training_steps(&self) -> usize {
        self.split.train.iter().map(|item| self.table.sequences[*item].steps).max().unwrap_or(0)
    }

    fn updates_an_epoch(&self, rows: usize) -> Option<u64> {
        Some(EpochOrder::batches(self.split.train.len(), rows))
    }

    fn held_out(&self, split: Split) -> usize {
        self.part(split).len()
    }

    fn held_out_sequences(&self, split: Split, sequences: Range<usize>) -> Batch {
        self.batch(&self.part(split)[sequences])
    }

    fn held_out_steps(&self, split: Split, sequences: Range<usize>) -> usize {
        self.longest_of(&self.part(split)[sequences])
    }

    fn held_out_stretch(&self, split: Split, sequences: Range<usize>, steps: Range<usize>) -> Batch {
        self.stretch(&self.part(split)[sequences], steps)
    }

    fn longest(&self, split: Split) -> usize {
        self.longest_of(self.part(split))
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
            AnswerKind::Class => format!("the class `{answer}` ({})", self.table.class_names.join(", ")),
            AnswerKind::Value => format!("the number `{answer}`"),
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
