//! [`ModelSettings`]: the settings of a model.

use super::within;
use super::wrong;
use crate::error::{LabError, Result};
use attentive::{Cell, KTop, KTrunc, SabError, SabLstmConfig, Scorer, Sparsifier, Store};
use serde::{Deserialize, Serialize};

/// The settings of a model. The key `kind` names the family; each has keys of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum ModelSettings {
    /// The family of the paper: LSTM, with self-attention, SAB and its variants. The task decides the size of the
    /// input, so that it is 0 here.
    Sab(SabLstmConfig),
    /// A Transformer encoder.
    Transformer(TransformerSettings),
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

impl Default for TransformerSettings {
    fn default() -> Self {
        Self { hidden: 128, layers: 2, heads: 4, feed_forward: 512 }
    }
}

impl ModelSettings {
    /// The defaults of a kind of model, `sab` if none is named; `lstm` are those of the recurrent one.
    pub(crate) fn of_kind(kind: Option<&str>, lstm: SabLstmConfig) -> Result<Self> {
        match kind {
            None | Some("sab") => Ok(Self::Sab(lstm)),
            Some("transformer") => Ok(Self::Transformer(TransformerSettings::default())),
            Some(other) => Err(wrong("model.kind", format!("\"{other}\""), "expected \"sab\" or \"transformer\"")),
        }
    }

    pub(crate) fn validate(&self) -> Result<()> {
        match self {
            Self::Sab(lstm) => {
                let layer = SabLstmConfig { input: 1, ..lstm.clone() };
                layer.validate().map_err(|why| match why {
                    SabError::Config { field, value, hint } => wrong(&format!("model.{field}"), value, &hint),
                    why => LabError::Config(format!("model: {why}")),
                })
            }
            Self::Transformer(TransformerSettings { hidden, layers, heads, feed_forward }) => {
                let sizes = [("hidden", hidden), ("layers", layers), ("heads", heads), ("feed_forward", feed_forward)];
                for (key, size) in sizes {
                    within(&format!("model.{key}"), *size, 1..=65_536, "")?;
                }
                match hidden % heads {
                    0 => Ok(()),
                    _ => Err(wrong("model.heads", heads, &format!("it must divide `model.hidden`, {hidden}"))),
                }
            }
        }
    }

    /// A lower estimate of the bytes that a batch of training takes, from the sizes of inputs and outputs.
    pub fn training_bytes(&self, rows: f64, steps: f64, input: usize, output: usize) -> f64 {
        let (input, output, float) = (input as f64, output as f64, 4.0);
        match self {
            // Gates, cell, query, hidden state, summary and their adjoints; weights, gradients and Adam's means.
            Self::Sab(lstm) => {
                let hidden = lstm.hidden as f64;
                let weights = hidden * (4.0 * (input + hidden) + 2.0 * hidden + 2.0 * output);
                float * (rows * steps * (10.0 * hidden + 2.0 * output) + 5.0 * weights)
            }
            // Attention weights and their adjoints grow fastest.
            Self::Transformer(TransformerSettings { layers, heads, hidden, .. }) => {
                let (layers, heads, hidden) = (*layers as f64, *heads as f64, *hidden as f64);
                float * rows * layers * (3.0 * heads * steps * steps + 10.0 * steps * hidden)
            }
        }
    }

    /// A rough number of multiplications per training sequence: enough to tell a long run from a short one.
    pub fn work(&self, steps: f64) -> f64 {
        match self {
            Self::Sab(lstm) => {
                let hidden = lstm.hidden as f64;
                // Forward, and twice as much backward; then a score for each step and memory, which costs a division.
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

    /// The order of the gates in the weights of a saved model. A Transformer has no gates; its file has
    /// the same word as an LSTM's.
    pub fn gates(&self) -> &'static str {
        match self {
            Self::Sab(lstm) => lstm.cell.gates(),
            Self::Transformer(_) => Cell::Lstm.gates(),
        }
    }

    /// The settings that stand out, for the name of a run.
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
                    lstm.capacity.map(|capacity| format!("{}{capacity}", lstm.evict)),
                ];
                parts.into_iter().flatten().fold(name, |name, part| format!("{name}-{part}"))
            }
        }
    }
}
