//! Models, losses and lengths.

use attentive::{Initialization, KTop, SabLstmConfig, ScoreGradient};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Symbols of the input.
pub const SYMBOLS: usize = 10;
/// Classes of the answers.
pub const CLASSES: usize = 9;

/// A fresh plain LSTM forgets half of its cell at every step. After enough steps its gradient is exactly zero in
/// single precision, and steps with a zero gradient cost nothing (R13). Full backpropagation would then look cheaper
/// than it is for a network that has learned to remember. With open forget gates the gradient lives on.
const OPEN_FORGET_GATES: f64 = 10.0;
/// Weights near zero keep the cell from filling up until its `tanh` is flat, which would end the gradient too.
const SMALL_WEIGHTS: f64 = 1e-4;

/// A model of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// SAB with `k_trunc` 5, `k_top` 5 and `k_att` 1.
    Sab,
    /// The same, with every tenth state stored.
    SabSparse,
    /// A plain LSTM with full backpropagation through time.
    Lstm,
    /// Full self-attention, without truncation and with the exact gradient.
    SelfAttention,
}

impl Subject {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Sab, Self::SabSparse, Self::Lstm, Self::SelfAttention];

    /// The name that people read.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sab => "SAB",
            Self::SabSparse => "SAB, k_att 10",
            Self::Lstm => "LSTM, full BPTT",
            Self::SelfAttention => "full self-attention",
        }
    }

    /// The layer.
    pub fn config(self, hidden: usize) -> SabLstmConfig {
        // The same truncation points in every round.
        let config = SabLstmConfig::new(SYMBOLS, hidden).with_trunc_phase(0);
        match self {
            Self::Sab => config.with_k_trunc(5).with_k_top(5).with_k_att(1),
            Self::SabSparse => config.with_k_trunc(5).with_k_top(5).with_k_att(10),
            Self::Lstm => {
                let (forget_bias, bound) = (OPEN_FORGET_GATES, Some(SMALL_WEIGHTS));
                let start = Initialization { forget_bias, bound, ..Initialization::default() };
                config.with_k_trunc(None).with_k_top(0).with_initialization(start)
            }
            Self::SelfAttention => {
                config.with_k_trunc(None).with_k_top(KTop::All).with_score_gradient(ScoreGradient::Full)
            }
        }
    }
}

/// Which steps have a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LossOn {
    /// Every step.
    All,
    /// The last step alone.
    Last,
}

impl LossOn {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::All, Self::Last];

    /// The words that people read.
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "every step",
            Self::Last => "last step",
        }
    }
}

/// One point: a model, a loss and a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Case {
    /// The model.
    pub model: Subject,
    /// The steps that have a loss.
    pub loss: LossOn,
    /// Steps of a sequence, the paper's T.
    pub length: usize,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let the = if self.loss == LossOn::Last { "the " } else { "" };
        write!(f, "{}, loss on {the}{}, T {}", self.model.name(), self.loss.name(), self.length)
    }
}

/// The settings that all points share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Hidden units.
    pub hidden: usize,
    /// Sequences of a batch.
    pub batch: usize,
    /// Measured rounds per point; the best one counts.
    pub rounds: usize,
    /// Threads.
    pub threads: usize,
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hidden, batch, rounds, threads } = self;
        let many = |count: usize| if count == 1 { "" } else { "s" };
        write!(f, "{hidden} hidden unit{}, batch {batch}, ", many(*hidden))?;
        write!(f, "{threads} thread{}, best of {rounds} round{}", many(*threads), many(*rounds))
    }
}
