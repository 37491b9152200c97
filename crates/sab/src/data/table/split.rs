//! [`TableSplit`]: the sequences to learn from and those to judge by.

use crate::data::error::{DataError, Result};
use crate::rng::{Draws, Purpose};

/// The places of the sequences of each part. About 80 % are for training and 10 % each for validation and the test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSplit {
    /// The part to learn from.
    pub train: Vec<usize>,
    /// The part that guides choices.
    pub validation: Vec<usize>,
    /// The part that judges the result.
    pub test: Vec<usize>,
}

impl TableSplit {
    /// Deals `count` sequences out at random; the same seed gives the same parts on every machine. No part is empty,
    /// so fewer than three sequences are an error.
    pub fn new(count: usize, seed: u64) -> Result<Self> {
        if count < 3 {
            let text =
                format!("a table of {count} sequences cannot be split into train, validation and test: give 3 or more");
            return Err(DataError::Invalid(text));
        }
        let mut train: Vec<usize> = (0..count).collect();
        Draws::new(Purpose::Split, seed, 0).shuffle(&mut train);
        let tenth = ((count + 5) / 10).max(1);
        let test = train.split_off(count - tenth);
        let validation = train.split_off(count - 2 * tenth);
        Ok(Self { train, validation, test })
    }
}
