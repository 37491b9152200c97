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

/// Values of a configuration that are a number or one word, for the `with` attribute of serde: a missing number is the
/// word.
#[cfg(feature = "serde")]
pub mod number_or {
    use super::{KTop, KTrunc, TruncPhase};
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Read<T> {
        Number(T),
        Word(String),
    }

    /// Writes the number, or the word.
    pub fn write<T: Serialize, S: Serializer>(number: Option<&T>, word: &str, to: S) -> Result<S::Ok, S::Error> {
        match number {
            Some(number) => number.serialize(to),
            None => to.serialize_str(word),
        }
    }

    /// Reads a number or the word; the error says that `what` or the word is expected.
    pub fn read<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        what: &str, word: &str, from: D,
    ) -> Result<Option<T>, D::Error> {
        match Read::deserialize(from) {
            Ok(Read::Number(number)) => Ok(Some(number)),
            Ok(Read::Word(text)) if text == word => Ok(None),
            Ok(Read::Word(text)) => {
                Err(Error::custom(format!("invalid word \"{text}\", expected {what} or \"{word}\"")))
            }
            Err(_) => Err(Error::custom(format!("expected {what} or \"{word}\""))),
        }
    }

    macro_rules! words {
        ($($(#[$doc:meta])* $module:ident: $what:literal or $word:literal;)+) => {$(
            $(#[$doc])*
            pub mod $module {
                use serde::{Deserialize, Deserializer, Serialize, Serializer};

                /// Writes the number, or the word.
                pub fn serialize<T: Serialize, S: Serializer>(number: &Option<T>, to: S) -> Result<S::Ok, S::Error> {
                    super::write(number.as_ref(), $word, to)
                }

                struct OrWord<T>(Option<T>);

                impl<'de, T: Deserialize<'de>> Deserialize<'de> for OrWord<T> {
                    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                        super::read($what, $word, from).map(Self)
                    }
                }

                /// Reads a number or the word; older JSON files have `null` for the word.
                pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
                    from: D,
                ) -> Result<Option<T>, D::Error> {
                    Ok(Option::<OrWord<T>>::deserialize(from)?.and_then(|value| value.0))
                }
            }
        )+};
    }

    words! {
        /// A number or `"none"`: there is no limit.
        none: "a number" or "none";
        /// A number or `"auto"`: the program chooses.
        auto: "a number" or "auto";
    }

    macro_rules! options {
        ($($type:ident: $number:ident or $word:literal => $other:ident;)+) => {$(
            impl Serialize for $type {
                fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                    match self {
                        $type::$number(number) => write(Some(number), $word, to),
                        $type::$other => write(None::<&usize>, $word, to),
                    }
                }
            }

            impl<'de> Deserialize<'de> for $type {
                fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                    Ok(read("a whole number", $word, from)?.map_or($type::$other, $type::$number))
                }
            }
        )+};
    }

    options! {
        KTop: Count or "all" => All;
        KTrunc: Every or "none" => None;
        TruncPhase: Fixed or "random" => Random;
    }
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

/// Whether the backward pass computes states again instead of reading them from a tape (R20). It changes time and
/// memory, and never a bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "lowercase"))]
pub enum Replay {
    /// If the whole tape would take more than [`LARGE_TAPE`] bytes.
    #[default]
    Auto,
    /// The tape holds every step.
    Never,
    /// The tape holds a cell state every few steps, and backward computes again what it visits.
    Always,
}

/// How the best memories are found (R19). It changes time, and never a bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "lowercase"))]
pub enum Retrieval {
    /// By an index where it pays.
    #[default]
    Auto,
    /// By scoring every memory.
    Exhaustive,
}

/// The bytes from which on a tape is replayed by default.
pub const LARGE_TAPE: usize = 512 << 20;
