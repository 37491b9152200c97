//! Random numbers that are a function of a seed and a place, so that any batch can be drawn again.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// What numbers are drawn for: different purposes never share numbers.
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
    /// What a language model writes.
    Sampling = 7,
    /// How the training images of a batch are shown.
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

    /// Puts items into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Draws, Purpose};

    #[test]
    fn numbers_depend_on_purpose_seed_and_number_and_on_nothing_else() {
        let draw = |purpose, seed, number| {
            let mut draws = Draws::new(purpose, seed, number);
            [(); 8].map(|()| draws.below(1 << 40))
        };
        let first = draw(Purpose::Training, 1, 1);
        assert_eq!(first, draw(Purpose::Training, 1, 1));
        for other in [draw(Purpose::Test, 1, 1), draw(Purpose::Training, 2, 1), draw(Purpose::Training, 1, 2)] {
            assert_ne!(first, other);
        }
    }

    #[test]
    fn numbers_are_the_same_on_every_machine() {
        let mut draws = Draws::new(Purpose::Training, 1, 2);
        let drawn = [(); 6].map(|()| draws.below(1000));
        assert_eq!(drawn, [37, 765, 263, 560, 263, 905]);
    }

    #[test]
    fn bounded_numbers_and_fractions_stay_in_range_and_reach_everything() {
        let mut draws = Draws::new(Purpose::Epoch, 3, 0);
        let mut seen = [0; 7];
        for _ in 0..7000 {
            seen[draws.below(7)] += 1;
        }
        assert!(seen.iter().all(|count| (800..1200).contains(count)), "{seen:?}");
        let mean =
            (0..10_000).map(|_| draws.fraction()).inspect(|x| assert!((0.0..1.0).contains(x))).sum::<f32>() / 1e4;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
    }

    #[test]
    fn shuffling_keeps_every_item() {
        let mut items: Vec<usize> = (0..100).collect();
        Draws::new(Purpose::Epoch, 3, 1).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
