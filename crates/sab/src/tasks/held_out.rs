//! [`HeldOut`]: the validation and test sequences of a task that makes its own.

use super::Split;
use super::order::{batches_of, range_of};
use crate::error::Result;
use crate::rng::{Draws, Purpose};
use crate::settings::at_least_one;
use std::ops::Range;

/// Held-out sequences are the same for every seed of training, so that runs compare.
const SEED: u64 = 0;

/// How many sequences are held out by a task that makes its own: sequence 7 of a split is the same in any batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldOut {
    /// Sequences that validate.
    pub validation: usize,
    /// Sequences that test.
    pub test: usize,
}

impl HeldOut {
    /// Refuses splits without a sequence, for [`TaskKind::validate`](super::TaskKind::validate).
    pub fn validate(&self) -> Result<()> {
        at_least_one("task.validation", self.validation, "sequence")?;
        at_least_one("task.test", self.test, "sequence")
    }

    fn of(&self, split: Split) -> usize {
        match split {
            Split::Validation => self.validation,
            Split::Test => self.test,
        }
    }

    /// Batches of a split, for [`Task::held_out_count`](super::Task::held_out_count).
    pub fn batches(&self, split: Split, rows: usize) -> u64 {
        batches_of(self.of(split), rows)
    }

    /// The sequences of batch `number`, for [`Task::held_out_batch`](super::Task::held_out_batch); the last batch may
    /// be short.
    pub fn batch(&self, split: Split, number: u64, rows: usize) -> Range<usize> {
        range_of(self.of(split), rows, number)
    }

    /// The numbers that one held-out sequence is drawn from. Training draws from
    /// [`Purpose::Training`](crate::rng::Purpose::Training) and never meets them.
    pub fn draws(split: Split, sequence: usize) -> Draws {
        let purpose = match split {
            Split::Validation => Purpose::Validation,
            Split::Test => Purpose::Test,
        };
        Draws::new(purpose, SEED, sequence as u64)
    }
}
