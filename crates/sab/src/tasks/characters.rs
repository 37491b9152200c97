//! Language models on characters: Penn Treebank, text8, any text.

use super::order::EpochOrder;
use super::{
    Answers, Asked, Batch, CommonKeys, Input, InputKind, Metrics, OutputKind, Split, Tally, Task, TaskFacts, TaskKind,
    kind,
};
use crate::data::{self, DataError, TextSplit, load_text_as};
use crate::error::{LabError, Result};
use crate::rng::{Draws, Purpose};
use crate::settings::TrainSettings;
use attentive::{Initialization, SabLstmConfig};
use std::ops::Range;
use std::path::Path;

/// A text is held out in this many streams, or in fewer if it is short.
const HELD_OUT_STREAMS: usize = 8;

/// Sequences of `length` characters from a text; the answer to each character is the next one. Sequences do not
/// overlap and each begins with a fresh state, in training and when held out; the start of the first one is drawn for
/// each pass.
///
/// As a stream, each row reads a part of its own from one end to the other, `length` characters per batch, and then
/// begins anew; the start of each pass is drawn. Held out, a text is a few long sequences.
#[derive(Debug)]
struct Characters {
    text: TextSplit,
    length: usize,
    stream: bool,
    order: EpochOrder,
}

impl Characters {
    fn open(text: TextSplit, length: usize, stream: bool) -> Result<Box<dyn Task>> {
        let parts = [("training", &text.train), ("validation", &text.validation), ("test", &text.test)];
        for (name, part) in parts {
            if part.len() < length + 1 {
                let have = part.len();
                return Err(LabError::Config(format!(
                    "`task.length` is {length}, but the {name} part of the text has {have} characters: it needs one \
                     more than a sequence; use a shorter --length or a longer text"
                )));
            }
        }
        Ok(Box::new(Self { text, length, stream, order: EpochOrder::default() }))
    }

    /// A whole text to judge a model on, in the model's symbols. A remainder at its end that is shorter than a sequence
    /// does not count.
    fn of_model(path: &Path, facts: &TaskFacts, length: usize, stream: bool) -> Result<Box<dyn Task>> {
        let Some(alphabet) = &facts.alphabet else {
            return Err(LabError::Run(
                "the model's config.json has no symbols: it can be evaluated only on its own text".into(),
            ));
        };
        let all = load_text_as(path, alphabet)?;
        if all.len() < length + 1 {
            let problem = format!("has {} characters, and a sequence of this model takes {}", all.len(), length + 1);
            return Err(DataError::bad(path, problem, "give a longer text").into());
        }
        let (validation, test) = (Vec::new(), Vec::new());
        let text = TextSplit { alphabet: alphabet.clone(), train: all, validation, test, note: None, sha256: None };
        Ok(Box::new(Self { text, length, stream, order: EpochOrder::default() }))
    }

    /// Characters `[rows, steps + 1]`: all but the last of a row are read, all but the first asked.
    fn batch<'a>(&self, steps: usize, sequences: impl Iterator<Item = &'a [u16]>) -> Batch {
        let (mut tokens, mut answers, mut rows) = (Vec::new(), Vec::new(), 0);
        for sequence in sequences {
            tokens.extend(sequence[..steps].iter().map(|symbol| i32::from(*symbol)));
            answers.extend(sequence[1..].iter().map(|symbol| i32::from(*symbol)));
            rows += 1;
        }
        Batch { rows, steps, input: Input::Tokens(tokens), asked: Asked::From(0), answers: Answers::Classes(answers) }
    }

    /// A part of the text; all of it if it was not cut into parts.
    fn part(&self, split: Split) -> &[u16] {
        let part = match split {
            Split::Validation => &self.text.validation,
            Split::Test => &self.text.test,
        };
        if part.is_empty() { &self.text.train } else { part }
    }

    /// Sequences that fit into a part from its start.
    fn sequences(&self, part: &[u16]) -> usize {
        (part.len() - 1) / self.length
    }

    /// The part of the training text that one row of a stream reads.
    fn part_of_row(&self, row: usize, rows: usize) -> &[u16] {
        let (train, rows) = (&self.text.train, rows.max(1));
        let edge = |row: usize| (row as u128 * train.len() as u128 / rows as u128) as usize;
        &train[edge(row)..edge(row + 1)]
    }

    /// How often a row of a stream has read its part before a batch, and the batches since.
    fn pass(&self, batch: u64, row: usize, rows: usize) -> (u64, u64) {
        let batches = self.sequences(self.part_of_row(row, rows)).max(1) as u64;
        (batch / batches, batch % batches)
    }

    /// What one row of a stream reads in a batch.
    fn read(&self, seed: u64, batch: u64, row: usize, rows: usize) -> &[u16] {
        let part = self.part_of_row(row, rows);
        let (pass, place) = self.pass(batch, row, rows);
        let room = part.len() - 1 - self.sequences(part) * self.length;
        // Nothing else of a stream is drawn for the purpose of training.
        let shift = Draws::new(Purpose::Training, seed, pass.wrapping_mul(rows as u64) + row as u64).below(room + 1);
        &part[shift + place as usize * self.length..][..self.length + 1]
    }

    /// The streams of a held-out part and their steps. A remainder that is shorter than their number is left out.
    fn streams(&self, part: &[u16]) -> (usize, usize) {
        let streams = HELD_OUT_STREAMS.min(self.sequences(part)).max(1);
        (streams, (part.len() - 1) / streams)
    }
}

/// A task whose sequences are characters of one text: everything in which texts differ.
pub(super) trait Text {
    fn help(&self) -> &'static str;

    fn load(&self, data_dir: &Path) -> data::Result<TextSplit>;

    fn length(&self) -> usize;

    fn stream(&self) -> bool;

    fn common_keys(&mut self) -> CommonKeys<'_>;

    /// Changes the training that suits most texts.
    fn adjust(&self, usual: TrainSettings) -> TrainSettings {
        usual
    }
}

impl<T: Text> TaskKind for T {
    fn help(&self) -> &'static str {
        Text::help(self)
    }

    fn model(&self) -> SabLstmConfig {
        let initialization = Initialization { input_gain: 32.0, ..Initialization::default() };
        // The paper's text models have 1000 units. `k_top` is below the number of memories of a sequence: a model that
        // never has to choose in training cannot choose on longer texts.
        let sizes = SabLstmConfig::new(0, 256).with_k_trunc(10).with_k_top(5).with_k_att(10);
        sizes.with_initialization(initialization)
    }

    fn train(&self) -> TrainSettings {
        let (learning_rate, validation_batches) = (1e-2, Some(100));
        let usual = TrainSettings { learning_rate, validation_batches, ..TrainSettings::default() };
        self.adjust(TrainSettings { updates: 10_000, batch: 32, ..usual })
    }

    fn validate(&self) -> Result<()> {
        kind::check_length(self.length(), 1)
    }

    fn common_keys(&mut self) -> CommonKeys<'_> {
        Text::common_keys(self)
    }

    fn open(&self, data_dir: &Path) -> Result<Box<dyn Task>> {
        Characters::open(self.load(data_dir)?, self.length(), self.stream())
    }

    fn judge_file(&self, facts: &TaskFacts, file: &Path) -> Option<Result<Box<dyn Task>>> {
        Some(Characters::of_model(file, facts, self.length(), self.stream()))
    }
}

impl Task for Characters {
    fn input(&self) -> InputKind {
        InputKind::Tokens(self.text.alphabet.len())
    }

    fn output(&self) -> OutputKind {
        OutputKind::Classes(self.text.alphabet.len())
    }

    fn training_batch(&self, seed: u64, update: u64, rows: usize) -> Batch {
        if self.stream {
            return self.batch(self.length, (0..rows).map(|row| self.read(seed, update, row, rows)));
        }
        // One sequence is given up, so that the first one may begin anywhere within its length.
        let part = &self.text.train;
        let count = (self.sequences(part) - 1).max(1);
        let epoch = update / EpochOrder::batches(count, rows);
        let room = (part.len() - 1 - count * self.length).min(self.length - 1);
        // Nothing else of this task is drawn for the purpose of training.
        let shift = Draws::new(Purpose::Training, seed, epoch).below(room + 1);
        let items = self.order.batch(seed, update, count, rows);
        let sequence = |item| &part[shift + item * self.length..][..self.length + 1];
        self.batch(self.length, items.into_iter().map(sequence))
    }

    fn training_steps(&self) -> usize {
        self.length
    }

    fn begins(&self, _seed: u64, batch: u64, rows: usize) -> Vec<usize> {
        (0..rows).filter(|row| !self.stream || self.pass(batch, *row, rows).1 == 0).collect()
    }

    fn check_rows(&self, rows: usize) -> Result<()> {
        let (characters, needed) = (self.text.train.len() / rows.max(1), self.length + 1);
        if !self.stream || characters >= needed {
            return Ok(());
        }
        Err(LabError::Config(format!(
            "`train.batch` is {rows}, so each stream has {characters} characters of the training text, but it needs \
             {needed}, one more than `task.length`: use a smaller --batch, a shorter --length or a longer text"
        )))
    }

    fn updates_an_epoch(&self, rows: usize) -> Option<u64> {
        if self.stream {
            return Some(self.sequences(self.part_of_row(0, rows)).max(1) as u64);
        }
        Some(EpochOrder::batches((self.sequences(&self.text.train) - 1).max(1), rows))
    }

    fn held_out(&self, split: Split) -> usize {
        let part = self.part(split);
        if self.stream { self.streams(part).0 } else { self.sequences(part) }
    }

    fn held_out_sequences(&self, split: Split, sequences: Range<usize>) -> Batch {
        let steps = self.held_out_steps(split, sequences.clone());
        self.held_out_stretch(split, sequences, 0..steps)
    }

    fn held_out_steps(&self, split: Split, _sequences: Range<usize>) -> usize {
        if self.stream { self.streams(self.part(split)).1 } else { self.length }
    }

    fn held_out_stretch(&self, split: Split, sequences: Range<usize>, steps: Range<usize>) -> Batch {
        let part = self.part(split);
        let length = self.held_out_steps(split, sequences.clone());
        let stretch = |item| &part[item * length + steps.start..][..steps.len() + 1];
        self.batch(steps.len(), sequences.map(stretch))
    }

    fn shown_steps(&self) -> usize {
        if self.stream { self.length } else { usize::MAX }
    }

    fn metrics(&self, tally: &Tally) -> Metrics {
        vec![("bpc", tally.all.ce() / std::f64::consts::LN_2), ("accuracy", tally.all.accuracy())]
    }

    fn describe(&self) -> Option<String> {
        let [train, validation, test] = [&self.text.train, &self.text.validation, &self.text.test].map(Vec::len);
        let symbols = self.text.alphabet.len();
        Some(format!("{train} characters train, {validation} validate, {test} test; {symbols} different ones"))
    }

    fn facts(&self) -> TaskFacts {
        let TextSplit { alphabet, note, sha256, .. } = &self.text;
        let alphabet = Some(alphabet.clone());
        TaskFacts { alphabet, note: note.clone(), sha256: sha256.clone(), ..TaskFacts::default() }
    }
}
