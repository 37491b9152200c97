//! [`TableSplit`]: the sequences to learn from and those to judge by.

use crate::data::error::{DataError, Result};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

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
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let mut rng = ChaCha8Rng::from_seed(key);
        let mut train: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            train.swap(last, below(&mut rng, last as u64 + 1) as usize);
        }
        let tenth = ((count + 5) / 10).max(1);
        let test = train.split_off(count - tenth);
        let validation = train.split_off(count - 2 * tenth);
        Ok(Self { train, validation, test })
    }
}

/// A number below `limit`, all equally likely. Written out here because a library's way of drawing may change.
fn below(rng: &mut ChaCha8Rng, limit: u64) -> u64 {
    // Numbers past the last whole multiple of the limit would favour the small ones.
    let usable = u64::MAX - u64::MAX % limit;
    loop {
        let number = rng.next_u64();
        if number < usable {
            return number % limit;
        }
    }
}
