//! Tasks: the sources of sequences and the judges of answers.
//!
//! Each task has a file: its keys with their defaults and limits, the model and the training that suit it, and its
//! batches. A new task is such a file, its `mod` line, and a line in the registry below.

mod batch;
mod characters;
mod facts;
mod held_out;
mod images;
mod kind;
mod order;
mod registry;
mod row_tallies;
mod tally;

pub mod adding;
pub mod cifar10;
pub mod copy;
pub mod csv;
pub mod pmnist;
pub mod ptb;
pub mod stream;
pub mod text;
pub mod text8;

pub use batch::{Answers, Asked, Batch, Input};
pub use facts::TaskFacts;
pub use held_out::HeldOut;
pub use kind::{CommonKeys, TaskKind, open, open_file};
pub use order::EpochOrder;
pub use row_tallies::RowTallies;
pub use tally::{Metrics, Sums, Tally, metric};
pub(crate) use tally::{as_json, largest};

use crate::error::Result;
use serde::{Deserialize, Serialize};
use std::ops::Range;

registry::registry! {
    copy::Copy,
    adding::Adding,
    stream::Stream,
    ptb::Ptb,
    text8::Text8,
    text::Text,
    pmnist::Pmnist,
    cifar10::Cifar10,
    csv::Csv,
}

/// Data that never trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Selects the best model and ends training early.
    Validation,
    /// Judges the selected model, once.
    Test,
}

/// The kind of a step of a sequence.
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

/// The kind of output of the network.
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

/// A source of sequences and a judge of answers.
pub trait Task: Send + Sync {
    /// The kind of a step.
    fn input(&self) -> InputKind;

    /// The kind of answer.
    fn output(&self) -> OutputKind;

    /// The batch of one update: a function of the seed and the number of the update. With `train.update_every`, several
    /// updates share a batch, and `update` is the number of the batch.
    fn training_batch(&self, seed: u64, update: u64, rows: usize) -> Batch;

    /// Steps of the longest training batch.
    fn training_steps(&self) -> usize {
        self.training_batch(0, 0, 1).steps
    }

    /// The rows whose sequences begin with a training batch; the others continue those of the batch before. By default
    /// all begin. Where some continue, the task is a stream, and its model's state is carried from batch to batch.
    fn begins(&self, _seed: u64, _batch: u64, rows: usize) -> Vec<usize> {
        (0..rows).collect()
    }

    /// Refuses a number of rows for which there is not enough training data.
    fn check_rows(&self, _rows: usize) -> Result<()> {
        Ok(())
    }

    /// Updates that make one pass over the training data; none if every batch is new.
    fn updates_an_epoch(&self, _rows: usize) -> Option<u64> {
        None
    }

    /// Sequences of a split.
    fn held_out(&self, split: Split) -> usize;

    /// Some sequences of a split as a batch. A sequence is the same in any batch.
    fn held_out_sequences(&self, split: Split, sequences: Range<usize>) -> Batch;

    /// Steps of the longest of some sequences of a split.
    fn held_out_steps(&self, split: Split, sequences: Range<usize>) -> usize {
        self.held_out_sequences(split, sequences).steps
    }

    /// Some steps of some sequences, counted from 0: [`Batch::stretch`] of their batch. Long sequences are evaluated
    /// stretch by stretch. A task whose sequences can be long makes a stretch without the rest of them, as
    /// [`copy`] does; this default makes the whole batch and cuts it.
    fn held_out_stretch(&self, split: Split, sequences: Range<usize>, steps: Range<usize>) -> Batch {
        self.held_out_sequences(split, sequences).stretch(steps)
    }

    /// Batches of a split.
    fn held_out_count(&self, split: Split, rows: usize) -> u64 {
        self.held_out(split).div_ceil(rows.max(1)) as u64
    }

    /// One batch of a split; the last one may be short.
    fn held_out_batch(&self, split: Split, number: u64, rows: usize) -> Batch {
        let count = self.held_out(split);
        let from = (number as usize).saturating_mul(rows).min(count);
        self.held_out_sequences(split, from..from.saturating_add(rows).min(count))
    }

    /// Steps of the longest sequence of a split.
    fn longest(&self, split: Split) -> usize {
        self.held_out_steps(split, 0..1)
    }

    /// How many of the first steps of a held-out sequence are shown with what they were reminded of.
    fn shown_steps(&self) -> usize {
        usize::MAX
    }

    /// The number of last steps that are graded separately.
    fn graded_steps(&self) -> usize {
        0
    }

    /// The metrics of the task. The first one selects the best model: smaller is better.
    fn metrics(&self, tally: &Tally) -> Metrics;

    /// The size of the data, in one sentence.
    fn describe(&self) -> Option<String> {
        None
    }

    /// The facts that are saved with the run.
    fn facts(&self) -> TaskFacts {
        TaskFacts::default()
    }
}
