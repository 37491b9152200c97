//! The options of the paper's algorithm (R4, R9, R10, R12), each an enum.

/// How many memories a step may be reminded of: the paper's `k_top` (R4, R6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KTop {
    /// At most this many; 0 gives a plain recurrent network.
    Count(usize),
    /// All of them: full self-attention by softmax.
    All,
}

impl From<usize> for KTop {
    fn from(count: usize) -> Self {
        KTop::Count(count)
    }
}

/// How far the sequential gradient runs: the paper's `k_trunc` (R9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KTrunc {
    /// Truncation points are this many steps apart.
    Every(usize),
    /// Nothing is cut: full backpropagation through time.
    None,
}

impl From<usize> for KTrunc {
    fn from(steps: usize) -> Self {
        KTrunc::Every(steps)
    }
}

impl From<Option<usize>> for KTrunc {
    fn from(steps: Option<usize>) -> Self {
        steps.map_or(KTrunc::None, KTrunc::Every)
    }
}

/// The position of the grid of truncation points: steps with `(t + phase) % k_trunc == 0` are the last of their segment
/// (R9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TruncPhase {
    /// The same grid for every batch.
    Fixed(usize),
    /// A new grid for every batch, so that no step of a task is always cut off from the next one.
    Random,
}

impl From<usize> for TruncPhase {
    fn from(phase: usize) -> Self {
        TruncPhase::Fixed(phase)
    }
}

impl TruncPhase {
    /// The phase of one batch (R9): a fixed one, or one drawn from (seed, batch).
    pub fn draw(self, k_trunc: KTrunc, seed: u64, batch: u64) -> usize {
        match (self, k_trunc) {
            (TruncPhase::Fixed(phase), _) => phase,
            (TruncPhase::Random, KTrunc::Every(k)) if k > 0 => (mix(mix(seed) ^ batch) % k as u64) as usize,
            (TruncPhase::Random, _) => 0,
        }
    }
}

/// SplitMix64's finaliser: neighbouring batches get unrelated phases.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The destination of the scores' gradient (R10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "lowercase"))]
pub enum ScoreGradient {
    /// Only to the scorer's parameters: memories and the query are constants inside the scorer.
    Weights,
    /// To the states too, including through the threshold: the exact derivative of Algorithm 1.
    Full,
}

/// How often gradient may leave a step through its attention (R12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "lowercase"))]
pub enum Hops {
    /// As often as the web of reminders allows.
    All,
    /// Once: gradient that arrived through a memory stays on the sequential path.
    One,
}

/// Reads and writes options whose value is a number or a word.
#[cfg(feature = "serde")]
mod number_or_word {
    use super::{KTop, KTrunc, TruncPhase};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum NumberOrWord {
        Number(usize),
        Word(String),
    }

    macro_rules! number_or_word {
        ($type:ident, $number:ident, $word:literal => $other:ident) => {
            impl Serialize for $type {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    match self {
                        $type::$number(number) => NumberOrWord::Number(*number),
                        $type::$other => NumberOrWord::Word($word.into()),
                    }
                    .serialize(serializer)
                }
            }
            impl<'de> Deserialize<'de> for $type {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    let expected = concat!("a whole number or \"", $word, "\"");
                    match NumberOrWord::deserialize(deserializer) {
                        Ok(NumberOrWord::Number(number)) => Ok($type::$number(number)),
                        Ok(NumberOrWord::Word(word)) if word == $word => Ok($type::$other),
                        Ok(NumberOrWord::Word(word)) => {
                            Err(serde::de::Error::invalid_value(serde::de::Unexpected::Str(&word), &expected))
                        }
                        Err(_) => Err(serde::de::Error::custom(format!("expected {expected}"))),
                    }
                }
            }
        };
    }
    number_or_word!(KTop, Count, "all" => All);
    number_or_word!(KTrunc, Every, "none" => None);
    number_or_word!(TruncPhase, Fixed, "random" => Random);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r9_random_phases_depend_on_seed_and_batch_alone_and_cover_the_grid() {
        let draw = |seed, batch| TruncPhase::Random.draw(KTrunc::Every(5), seed, batch);
        let phases = |seed| (0..200).map(|batch| draw(seed, batch)).collect::<Vec<_>>();
        assert_eq!(phases(1), phases(1));
        assert_ne!(phases(1), phases(2));
        for phase in 0..5 {
            let times = phases(1).iter().filter(|p| **p == phase).count();
            assert!((20..=60).contains(&times), "phase {phase} drawn {times} times of 200");
        }
        assert_eq!(TruncPhase::Fixed(3).draw(KTrunc::Every(5), 1, 7), 3);
    }
}
