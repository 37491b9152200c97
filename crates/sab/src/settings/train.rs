//! [`TrainSettings`]: how a model is trained.

use super::wrong;
use crate::error::Result;
use attentive::number_or::{auto, none};
use serde::{Deserialize, Serialize};

/// How the learning rate changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Schedule {
    /// It does not.
    Constant,
    /// Half a cosine from the first rate to the last over the budget of updates.
    Cosine,
    /// A straight line from the first rate to the last over the budget of updates.
    Linear,
}

/// How a model is trained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainSettings {
    /// Weights, batches and truncation phases are drawn from this.
    pub seed: u64,
    /// Sequences a batch.
    pub batch: usize,
    /// The budget; with `epochs` a number, they are the budget.
    pub updates: u64,
    /// Passes over the training data, for tasks that have such: a number or `"none"`.
    #[serde(with = "none")]
    pub epochs: Option<u64>,
    /// Seconds of training after which to stop: a number or `"none"`.
    #[serde(with = "none")]
    pub max_seconds: Option<f64>,
    /// Adam's step at the start.
    pub learning_rate: f64,
    /// How it changes.
    pub schedule: Schedule,
    /// The last rate as a fraction of the first.
    pub final_rate: f64,
    /// Updates over which the rate rises from nothing at the start.
    pub warmup: u64,
    /// Adam's decay of the mean gradient.
    pub beta1: f64,
    /// Adam's decay of the mean squared gradient.
    pub beta2: f64,
    /// What Adam adds to the root of the mean square.
    pub epsilon: f64,
    /// How strongly all weights decay, as in AdamW: each update takes away this times the learning rate of them.
    pub weight_decay: f64,
    /// The largest global norm of a gradient: a number or `"none"`.
    #[serde(with = "none")]
    pub clip: Option<f64>,
    /// Updates between validations.
    pub validate_every: u64,
    /// The most batches of a validation: a number or `"none"`.
    #[serde(with = "none")]
    pub validation_batches: Option<u64>,
    /// The most batches of the test at the end: a number or `"none"`.
    #[serde(with = "none")]
    pub test_batches: Option<u64>,
    /// Validations without a better score after which to stop: a number or `"none"`.
    #[serde(with = "none")]
    pub patience: Option<u64>,
    /// The most updates that a kill may lose; checkpoints are written twice as often.
    pub checkpoint_every: u64,
    /// Checkpoints kept.
    pub keep: usize,
    /// Updates between lines of `metrics.jsonl`.
    pub log_every: u64,
    /// Updates between records of what one sequence is reminded of: a number or `"none"`.
    #[serde(with = "none")]
    pub attention_every: Option<u64>,
    /// Refused updates in a row after which training has failed.
    pub refusals: u64,
    /// Threads: a number or `"auto"`, one a core.
    #[serde(with = "auto")]
    pub threads: Option<usize>,
}

/// The settings that tasks start from.
impl Default for TrainSettings {
    fn default() -> Self {
        Self {
            seed: 1,
            batch: 64,
            updates: 20_000,
            epochs: None,
            max_seconds: None,
            learning_rate: 1e-3,
            schedule: Schedule::Cosine,
            final_rate: 0.0,
            warmup: 0,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            weight_decay: 0.0,
            clip: Some(1.0),
            validate_every: 500,
            validation_batches: None,
            test_batches: None,
            patience: None,
            checkpoint_every: 500,
            keep: 2,
            log_every: 50,
            attention_every: Some(500),
            refusals: 10,
            threads: None,
        }
    }
}

impl TrainSettings {
    pub(crate) fn validate(&self) -> Result<()> {
        let counts = [
            ("batch", self.batch as u64),
            ("updates", self.updates),
            ("epochs", self.epochs.unwrap_or(1)),
            ("validate_every", self.validate_every),
            ("validation_batches", self.validation_batches.unwrap_or(1)),
            ("test_batches", self.test_batches.unwrap_or(1)),
            ("patience", self.patience.unwrap_or(1)),
            ("checkpoint_every", self.checkpoint_every),
            ("keep", self.keep as u64),
            ("log_every", self.log_every),
            ("attention_every", self.attention_every.unwrap_or(1)),
            ("refusals", self.refusals),
            ("threads", self.threads.unwrap_or(1) as u64),
        ];
        if let Some((key, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return Err(wrong(&format!("train.{key}"), 0, "at least 1"));
        }
        if self.batch > 1 << 20 {
            return Err(wrong("train.batch", self.batch, "at most 1048576"));
        }
        let positive = [
            ("learning_rate", self.learning_rate),
            ("epsilon", self.epsilon),
            ("clip", self.clip.unwrap_or(1.0)),
            ("max_seconds", self.max_seconds.unwrap_or(1.0)),
        ];
        for (key, value) in positive {
            if !(value > 0.0 && value.is_finite()) {
                return Err(wrong(&format!("train.{key}"), value, "a finite number above 0"));
            }
        }
        for (key, value) in [("beta1", self.beta1), ("beta2", self.beta2)] {
            if !(0.0..1.0).contains(&value) {
                return Err(wrong(&format!("train.{key}"), value, "at least 0 and below 1"));
            }
        }
        if !(self.weight_decay >= 0.0 && self.weight_decay * self.learning_rate < 1.0) {
            return Err(wrong(
                "train.weight_decay",
                self.weight_decay,
                "at least 0 and below 1 / `train.learning_rate`",
            ));
        }
        match (0.0..=1.0).contains(&self.final_rate) {
            true => Ok(()),
            false => Err(wrong("train.final_rate", self.final_rate, "a fraction from 0 to 1")),
        }
    }
}
