//! [`ModelSettings`]: what learns.

use super::values::{Auto, Limit};
use super::wrong;
use crate::error::{LabError, Result};
use crate::tasks::{InputKind, OutputKind};
use attentive::{
    Cell, Evict, Hops, Initialization, KTop, KTrunc, SabLstmConfig, ScoreGradient, Scorer, Sparsifier, Store,
    TruncPhase,
};
use serde::{Deserialize, Serialize};

/// What learns. The key `kind` says which; each has keys of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum ModelSettings {
    /// The family of the paper: LSTM, with self-attention, SAB and its variants.
    Sab(LstmSettings),
    /// A Transformer encoder.
    Transformer(TransformerSettings),
}

/// The keys of the paper's family, those of [`SabLstmConfig`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LstmSettings {
    /// Hidden units.
    pub hidden: usize,
    /// The recurrent cell: `"lstm"` or `"gru"`. This key and the next six are missing in runs of earlier versions.
    #[serde(default)]
    pub cell: Cell,
    /// How memories are scored: `"additive"`, `"dot"` or `"cosine"`.
    #[serde(default)]
    pub scorer: Scorer,
    /// How scores become weights: `"prominence"` or `"softmax"`.
    #[serde(default)]
    pub sparsifier: Sparsifier,
    /// Which states are stored: `"every"` (every `k_att`-th) or `"novelty"` (of those, what differs from the last stored).
    #[serde(default)]
    pub store: Store,
    /// How much a state must differ, as a part of its own norm, to be stored by novelty.
    #[serde(default = "default_novelty")]
    pub novelty: f64,
    /// How many memories are kept at most: a number or `"none"`.
    #[serde(default = "no_capacity")]
    pub capacity: Limit<usize>,
    /// Which memory makes room: `"oldest"` or `"least-attended"`.
    #[serde(default)]
    pub evict: Evict,
    /// How many memories a step may be reminded of: 0 (a plain LSTM), a number or `"all"`.
    pub k_top: KTop,
    /// Only every `k_att`-th hidden state can be stored.
    pub k_att: usize,
    /// How many steps the sequential gradient runs: a number or `"none"` (full backpropagation).
    pub k_trunc: KTrunc,
    /// Where the truncation points lie: a number or `"random"`.
    pub trunc_phase: TruncPhase,
    /// Whether gradient enters memories.
    pub mental_updates: bool,
    /// What the gradient of the scores reaches: `"weights"` or `"full"`.
    pub score_gradient: ScoreGradient,
    /// How often gradient may skip: `"all"` or `"one"`.
    pub hops: Hops,
    /// How the weights start; a trained model need not say.
    #[serde(default)]
    pub start: Start,
}

pub(super) fn default_novelty() -> f64 {
    SabLstmConfig::new(1, 1).novelty
}

pub(super) fn no_capacity() -> Limit<usize> {
    Limit::WORD
}

/// How the weights start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Start {
    /// Uniform in plus and minus this; `"auto"` is one over the root of the hidden units.
    pub bound: Auto<f64>,
    /// The input weights are multiplied by this.
    pub input_gain: f64,
    /// W1 and W2 are multiplied by this.
    pub attention_gain: f64,
    /// W3, or the temperature of the cosine, is multiplied by this.
    pub score_gain: f64,
    /// Added to the bias of the gate that keeps the state: the LSTM's forget gate, the GRU's update gate.
    pub forget_bias: f64,
}

impl Default for Start {
    fn default() -> Self {
        let Initialization { bound: _, input_gain, attention_gain, score_gain, forget_bias } =
            Initialization::default();
        Self { bound: Auto::WORD, input_gain, attention_gain, score_gain, forget_bias }
    }
}

/// The keys of the Transformer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransformerSettings {
    /// Width of a position.
    pub hidden: usize,
    /// Layers.
    pub layers: usize,
    /// Attention heads; they share the width.
    pub heads: usize,
    /// Width of the feed-forward part.
    pub feed_forward: usize,
}

impl LstmSettings {
    /// The layer's configuration for inputs of this size.
    pub fn layer(&self, input: usize) -> SabLstmConfig {
        let Start { bound, input_gain, attention_gain, score_gain, forget_bias } = self.start;
        SabLstmConfig {
            input,
            hidden: self.hidden,
            cell: self.cell,
            scorer: self.scorer,
            sparsifier: self.sparsifier,
            store: self.store,
            novelty: self.novelty,
            capacity: self.capacity.get(),
            evict: self.evict,
            k_top: self.k_top,
            k_att: self.k_att,
            k_trunc: self.k_trunc,
            trunc_phase: self.trunc_phase,
            mental_updates: self.mental_updates,
            score_gradient: self.score_gradient,
            hops: self.hops,
            initialization: Initialization { bound: bound.get(), input_gain, attention_gain, score_gain, forget_bias },
        }
    }
}

impl ModelSettings {
    pub(super) fn validate(&self) -> Result<()> {
        match self {
            Self::Sab(lstm) => lstm.layer(1).validate().map_err(|why| LabError::Config(format!("model: {why}"))),
            Self::Transformer(TransformerSettings { hidden, layers, heads, feed_forward }) => {
                let sizes = [("hidden", hidden), ("layers", layers), ("heads", heads), ("feed_forward", feed_forward)];
                for (key, size) in sizes {
                    if !(1..=65_536).contains(size) {
                        return Err(wrong(&format!("model.{key}"), size, "from 1 to 65536"));
                    }
                }
                match hidden % heads {
                    0 => Ok(()),
                    _ => Err(wrong("model.heads", heads, &format!("it must divide `model.hidden`, {hidden}"))),
                }
            }
        }
    }

    /// About how many bytes a batch of training takes, rather less than more.
    pub fn training_bytes(&self, rows: f64, steps: f64, input: InputKind, output: OutputKind) -> f64 {
        let (input, output, float) = (input.size() as f64, output.size() as f64, 4.0);
        match self {
            // Gates, cell, query, hidden state, summary and their adjoints; weights, gradients and Adam's means.
            Self::Sab(lstm) => {
                let hidden = lstm.hidden as f64;
                let weights = hidden * (4.0 * (input + hidden) + 2.0 * hidden + 2.0 * output);
                float * (rows * steps * (10.0 * hidden + 2.0 * output) + 5.0 * weights)
            }
            // Weights of attention and their adjoints are what grows.
            Self::Transformer(TransformerSettings { layers, heads, hidden, .. }) => {
                let (layers, heads, hidden) = (*layers as f64, *heads as f64, *hidden as f64);
                float * rows * layers * (3.0 * heads * steps * steps + 10.0 * steps * hidden)
            }
        }
    }

    /// About how many multiplications one sequence of training takes: enough to tell a long run from a short one.
    pub fn work(&self, steps: f64) -> f64 {
        match self {
            Self::Sab(lstm) => {
                let hidden = lstm.hidden as f64;
                // Forward, and twice that backward; then a score for each pair of a step and a memory, which costs a
                // division.
                let attention = match lstm.k_top {
                    KTop::Count(0) => 0.0,
                    _ => 6.0 * hidden * hidden + 4.0 * hidden * steps / lstm.k_att as f64,
                };
                steps * (12.0 * hidden * hidden + attention)
            }
            Self::Transformer(TransformerSettings { layers, hidden, feed_forward, .. }) => {
                let (layers, hidden, feed_forward) = (*layers as f64, *hidden as f64, *feed_forward as f64);
                3.0 * layers * steps * hidden * (4.0 * hidden + 2.0 * feed_forward + 2.0 * steps)
            }
        }
    }

    /// The order of the gates in the weights of a saved model; a Transformer keeps the word that it always had there.
    pub fn gates(&self) -> &'static str {
        match self {
            Self::Sab(lstm) => lstm.cell.gates(),
            Self::Transformer(_) => Cell::Lstm.gates(),
        }
    }

    /// What stands out, for the name of a run.
    pub fn short_name(&self) -> String {
        match self {
            Self::Transformer(_) => "transformer".into(),
            Self::Sab(lstm) => {
                let trunc = match lstm.k_trunc {
                    KTrunc::Every(steps) => format!("trunc{steps}"),
                    KTrunc::None => "full".into(),
                };
                let name = match lstm.k_top {
                    KTop::Count(0) => return format!("{}-{trunc}", lstm.cell),
                    KTop::Count(top) => format!("sab-{trunc}-top{top}"),
                    KTop::All => format!("attention-{trunc}"),
                };
                // Parts that are not the default.
                let parts = [
                    (lstm.cell != Cell::default()).then(|| lstm.cell.to_string()),
                    (lstm.scorer != Scorer::default()).then(|| lstm.scorer.to_string()),
                    (lstm.sparsifier != Sparsifier::default()).then(|| lstm.sparsifier.to_string()),
                    (lstm.store != Store::default()).then(|| lstm.store.to_string()),
                    lstm.capacity.get().map(|capacity| format!("{}{capacity}", lstm.evict)),
                ];
                parts.into_iter().flatten().fold(name, |name, part| format!("{name}-{part}"))
            }
        }
    }
}
