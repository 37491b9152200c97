//! [`HeldOut`]: the validation and test sequences of a task that generates its own.

use super::Split;
use crate::error::Result;
use crate::rng::{Draws, Purpose};
use crate::settings::at_least_one;

/// The numbers of held-out sequences of a task that generates them. Sequence 7 of a split is the same in any batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldOut {
    /// Sequences that validate.
    pub validation: usize,
    /// Sequences that test.
    pub test: usize,
}

impl HeldOut {
    /// Held-out sequences are the same for every seed of training, so that runs compare.
    pub(super) const SEED: u64 = 0;

    /// The purpose of the random numbers of a split.
    pub(super) fn purpose(split: Split) -> Purpose {
        match split {
            Split::Validation => Purpose::Validation,
            Split::Test => Purpose::Test,
        }
    }

    /// Refuses splits without a sequence, for [`TaskKind::validate`](super::TaskKind::validate).
    pub fn validate(&self) -> Result<()> {
        at_least_one("task.validation", self.validation, "sequence")?;
        at_least_one("task.test", self.test, "sequence")
    }

    /// Sequences of a split, for [`Task::held_out`](super::Task::held_out).
    pub fn of(&self, split: Split) -> usize {
        match split {
            Split::Validation => self.validation,
            Split::Test => self.test,
        }
    }

    /// The numbers that one held-out sequence is drawn from. Training draws from
    /// [`Purpose::Training`](crate::rng::Purpose::Training) and never meets them.
    pub fn draws(split: Split, sequence: usize) -> Draws {
        Draws::new(Self::purpose(split), Self::SEED, sequence as u64)
    }
}
