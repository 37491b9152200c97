//! Random numbers that are a function of a seed and a place, so that any batch can be drawn again.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The purpose of random numbers: different purposes never share numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The parts of a table.
    Split = 0,
    /// The weights of a model.
    Weights = 1,
    /// A batch of training.
    Training = 2,
    /// A sequence that validates.
    Validation = 3,
    /// A sequence that tests.
    Test = 4,
    /// The order of the training data in an epoch.
    Epoch = 5,
    /// The order of pixels.
    Permutation = 6,
    /// The text that a language model writes.
    Sampling = 7,
    /// The views of the training images of a batch.
    Views = 8,
}

/// The numbers of one purpose, seed and place. ChaCha is specified, so they are the same on every machine.
pub struct Draws(ChaCha8Rng);

impl Draws {
    /// The numbers for `number` (a batch, an epoch, a sequence) under `seed`.
    pub fn new(purpose: Purpose, seed: u64, number: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&number.to_le_bytes());
        key[16] = purpose as u8;
        Self(ChaCha8Rng::from_seed(key))
    }

    /// A whole number below `bound`, which is at least 1; all are equally likely.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = bound.max(1) as u64;
        // Numbers past the last full multiple would favour the small ones.
        let last = u64::MAX - u64::MAX % bound;
        loop {
            let drawn = self.0.next_u64();
            if drawn < last {
                return (drawn % bound) as usize;
            }
        }
    }

    /// A fraction in `0.0..1.0`.
    pub fn fraction(&mut self) -> f32 {
        (self.0.next_u32() >> 8) as f32 / (1 << 24) as f32
    }

    /// How many words of 32 bits have been drawn: a fraction takes one.
    pub fn position(&self) -> u128 {
        self.0.get_word_pos()
    }

    /// Goes to a position, so that numbers far along can be drawn without those before them.
    pub fn go_to(&mut self, position: u128) {
        self.0.set_word_pos(position);
    }

    /// Puts items into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}
