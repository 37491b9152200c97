//! [`SabLstmConfig`]: every choice the model family offers, with its default and its limits.

use crate::error::{Result, SabError};
use burn::config::Config;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How many memories a step may be reminded of, the paper's `k_top` (R4, R6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KTop {
    /// At most this many; 0 is a plain LSTM.
    Count(usize),
    /// Every one: full self-attention by softmax.
    All,
}

impl From<usize> for KTop {
    fn from(count: usize) -> Self {
        KTop::Count(count)
    }
}

/// How far the sequential gradient runs, the paper's `k_trunc` (R9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KTrunc {
    /// Truncation points lie this many steps apart.
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

/// Where the grid of truncation points lies: steps with `(t + phase) % k_trunc == 0` are the last of their segment (R9).
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

/// What the gradient of the scores reaches (R10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScoreGradient {
    /// W1, W2 and W3 only: memories and the query are constants inside the scorer.
    Weights,
    /// The states too, through the threshold as well: the exact derivative of Algorithm 1.
    Full,
}

/// How often gradient may leave a step through its attention (R12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hops {
    /// As often as the web of reminders allows.
    All,
    /// Once: gradient that arrived through a memory stays on the sequential path.
    One,
}

/// The largest sizes: a gigabyte of weights has another cause.
const MOST_INPUT: usize = 1 << 24;
const MOST_HIDDEN: usize = 1 << 16;
/// The largest `k_att`: step numbers must not overflow.
pub(crate) const MOST_K_ATT: usize = u32::MAX as usize;

/// A number, or a word that stands for the absence of one.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum NumberOrWord {
    Number(usize),
    Word(String),
}

/// Reads and writes an enum as a number or as one word.
macro_rules! number_or_word {
    ($type:ident, $number:ident, $word:literal => $other:ident) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
                match self {
                    $type::$number(number) => NumberOrWord::Number(*number),
                    $type::$other => NumberOrWord::Word($word.into()),
                }
                .serialize(serializer)
            }
        }
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
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

/// How the parameters start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Initialization {
    /// All weights are uniform in `±bound`; `None` takes `1 / sqrt(hidden)`.
    pub bound: Option<f64>,
    /// The input weights are multiplied by this: the square root of `hidden` makes one token as strong as all hidden units
    /// together.
    pub input_gain: f64,
    /// W1 and W2 are multiplied by this.
    pub attention_gain: f64,
    /// W3 is multiplied by this.
    pub score_gain: f64,
    /// Added to the bias of the forget gate.
    pub forget_bias: f64,
}

impl Default for Initialization {
    fn default() -> Self {
        Self { bound: None, input_gain: 1.0, attention_gain: 1.0, score_gain: 1.0, forget_bias: 0.0 }
    }
}

/// Configuration of a [`SabLstm`](crate::SabLstm), made like those of Burn's own layers.
///
/// ```
/// use attentive::{Hops, KTop, SabLstmConfig};
/// let config = SabLstmConfig::new(10, 128).with_k_top(KTop::All).with_k_trunc(None).with_hops(Hops::One);
/// assert!(config.validate().is_ok());
/// assert!(config.with_k_att(0).validate().unwrap_err().to_string().contains("`k_att` is 0"));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SabLstmConfig {
    /// Size of a dense input, or number of different tokens.
    pub input: usize,
    /// Size of the hidden state.
    pub hidden: usize,
    /// How many memories a step may be reminded of (R4, R6).
    #[serde(default = "defaults::k_top")]
    pub k_top: KTop,
    /// Every `k_att`-th hidden state is stored (R2).
    #[serde(default = "defaults::k_att")]
    pub k_att: usize,
    /// How many steps the sequential gradient runs (R9).
    #[serde(default = "defaults::k_trunc")]
    pub k_trunc: KTrunc,
    /// Where the truncation points lie (R9).
    #[serde(default = "defaults::trunc_phase")]
    pub trunc_phase: TruncPhase,
    /// Whether gradient enters a memory and the steps before it (R11).
    #[serde(default = "defaults::mental_updates")]
    pub mental_updates: bool,
    /// What the gradient of the scores reaches (R10).
    #[serde(default = "defaults::score_gradient")]
    pub score_gradient: ScoreGradient,
    /// How often gradient may skip (R12).
    #[serde(default = "defaults::hops")]
    pub hops: Hops,
    /// How the parameters start.
    #[serde(default)]
    pub initialization: Initialization,
}

mod defaults {
    use super::{Hops, KTop, KTrunc, ScoreGradient, TruncPhase};

    pub(super) fn k_top() -> KTop {
        KTop::Count(5)
    }
    pub(super) fn k_att() -> usize {
        1
    }
    pub(super) fn k_trunc() -> KTrunc {
        KTrunc::Every(5)
    }
    pub(super) fn trunc_phase() -> TruncPhase {
        TruncPhase::Random
    }
    pub(super) fn mental_updates() -> bool {
        true
    }
    pub(super) fn score_gradient() -> ScoreGradient {
        ScoreGradient::Weights
    }
    pub(super) fn hops() -> Hops {
        Hops::All
    }
}

impl Config for SabLstmConfig {}

impl SabLstmConfig {
    /// SAB with `k_top` 5, `k_att` 1, `k_trunc` 5 and a random phase; change the rest with the `with_` methods.
    pub fn new(input: usize, hidden: usize) -> Self {
        Self {
            input,
            hidden,
            k_top: defaults::k_top(),
            k_att: defaults::k_att(),
            k_trunc: defaults::k_trunc(),
            trunc_phase: defaults::trunc_phase(),
            mental_updates: defaults::mental_updates(),
            score_gradient: defaults::score_gradient(),
            hops: defaults::hops(),
            initialization: Initialization::default(),
        }
    }

    /// How many memories a step may be reminded of: a number (0 is a plain LSTM) or [`KTop::All`].
    pub fn with_k_top(mut self, k_top: impl Into<KTop>) -> Self {
        self.k_top = k_top.into();
        self
    }

    /// Store every `k_att`-th hidden state.
    pub fn with_k_att(mut self, k_att: usize) -> Self {
        self.k_att = k_att;
        self
    }

    /// Cut the sequential gradient every `k_trunc` steps: a number, or `None` for full BPTT.
    pub fn with_k_trunc(mut self, k_trunc: impl Into<KTrunc>) -> Self {
        self.k_trunc = k_trunc.into();
        self
    }

    /// Where the truncation points lie: a number or [`TruncPhase::Random`].
    pub fn with_trunc_phase(mut self, trunc_phase: impl Into<TruncPhase>) -> Self {
        self.trunc_phase = trunc_phase.into();
        self
    }

    /// Whether gradient enters memories.
    pub fn with_mental_updates(mut self, mental_updates: bool) -> Self {
        self.mental_updates = mental_updates;
        self
    }

    /// What the gradient of the scores reaches.
    pub fn with_score_gradient(mut self, score_gradient: ScoreGradient) -> Self {
        self.score_gradient = score_gradient;
        self
    }

    /// How often gradient may skip.
    pub fn with_hops(mut self, hops: Hops) -> Self {
        self.hops = hops;
        self
    }

    /// How the parameters start.
    pub fn with_initialization(mut self, initialization: Initialization) -> Self {
        self.initialization = initialization;
        self
    }

    /// Whether a layer of these sizes can exist.
    pub(crate) fn sizes_are_possible(&self) -> bool {
        (1..=MOST_INPUT).contains(&self.input) && (1..=MOST_HIDDEN).contains(&self.hidden)
    }

    /// Checks every field; the error names the first that is wrong and what would be right.
    pub fn validate(&self) -> Result<()> {
        let at_least_one = |field, value: usize, hint: &str| match value {
            0 => Err(SabError::Config { field, value: "0".into(), hint: hint.into() }),
            _ => Ok(()),
        };
        at_least_one("input", self.input, "the size of a dense input or the number of tokens, at least 1")?;
        at_least_one("hidden", self.hidden, "the number of hidden units, at least 1")?;
        at_least_one("k_att", self.k_att, "every k_att-th step is stored, so it is at least 1")?;
        let at_most = |field, value: usize, most: usize| match value > most {
            true => Err(SabError::Config { field, value: value.to_string(), hint: format!("at most {most}") }),
            false => Ok(()),
        };
        at_most("input", self.input, MOST_INPUT)?;
        at_most("hidden", self.hidden, MOST_HIDDEN)?;
        at_most("k_att", self.k_att, MOST_K_ATT)?;
        if let KTrunc::Every(steps) = self.k_trunc {
            at_least_one("k_trunc", steps, "at least 1 step, or none for full backpropagation through time")?;
        }
        let start = &self.initialization;
        let numbers = [
            ("initialization.bound", start.bound.unwrap_or(1.0), true),
            ("initialization.input_gain", start.input_gain, true),
            ("initialization.attention_gain", start.attention_gain, true),
            ("initialization.score_gain", start.score_gain, true),
            ("initialization.forget_bias", start.forget_bias, false),
        ];
        for (field, value, must_not_be_negative) in numbers {
            if !value.is_finite() || (must_not_be_negative && value < 0.0) {
                let hint = if must_not_be_negative { "a finite number, at least 0" } else { "a finite number" };
                return Err(SabError::Config { field, value: value.to_string(), hint: hint.into() });
            }
        }
        // Weights are drawn in single precision.
        let bound = start.bound.unwrap_or(1.0);
        let drawn = [
            ("initialization.bound", bound, 1.0),
            ("initialization.input_gain", start.input_gain, bound),
            ("initialization.attention_gain", start.attention_gain, bound),
            ("initialization.score_gain", start.score_gain, bound),
        ];
        if let Some((field, value, _)) = drawn.into_iter().find(|(_, value, by)| value * by > f64::from(f32::MAX)) {
            let hint = "bound and gains must stay finite in single precision".to_string();
            return Err(SabError::Config { field, value: value.to_string(), hint });
        }
        Ok(())
    }
}
