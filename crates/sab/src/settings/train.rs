//! [`TrainSettings`]: the settings of training.

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
    /// The seed of weights, batches and truncation phases.
    pub seed: u64,
    /// Sequences per batch.
    pub batch: usize,
    /// An update after every this many steps of a batch, from which the states are carried on: a number, or `"none"`
    /// for one update per batch.
    #[serde(with = "none")]
    pub update_every: Option<usize>,
    /// The budget, unless `epochs` is a number.
    pub updates: u64,
    /// The budget in passes over the training data: a number or `"none"`. Generated tasks have no passes.
    #[serde(with = "none")]
    pub epochs: Option<u64>,
    /// Stops after this many seconds of training: a number or `"none"`.
    #[serde(with = "none")]
    pub max_seconds: Option<f64>,
    /// The initial learning rate.
    pub learning_rate: f64,
    /// The schedule of the learning rate.
    pub schedule: Schedule,
    /// The last rate as a fraction of the first.
    pub final_rate: f64,
    /// Updates over which the rate rises from zero at the start.
    pub warmup: u64,
    /// The decay of Adam's first moment.
    pub beta1: f64,
    /// The decay of Adam's second moment.
    pub beta2: f64,
    /// Added to the root of Adam's second moment.
    pub epsilon: f64,
    /// Weight decay as in AdamW: each update shrinks all weights by this times the learning rate.
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
    /// Stops after this many validations without a better score: a number or `"none"`.
    #[serde(with = "none")]
    pub patience: Option<u64>,
    /// The most updates that a kill may lose; checkpoints are written twice as often.
    pub checkpoint_every: u64,
    /// Checkpoints kept.
    pub keep: usize,
    /// Updates between lines of `metrics.jsonl`.
    pub log_every: u64,
    /// Updates between records of the reminders of one sequence: a number or `"none"`.
    #[serde(with = "none")]
    pub attention_every: Option<u64>,
    /// Training fails after this many refused updates in a row.
    pub refusals: u64,
    /// Threads: a number or `"auto"`, one per core.
    #[serde(with = "auto")]
    pub threads: Option<usize>,
}

/// The settings that tasks start from.
impl Default for TrainSettings {
    fn default() -> Self {
        Self {
            seed: 1,
            batch: 64,
            update_every: None,
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
            ("update_every", self.update_every.unwrap_or(1) as u64),
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
            return Err(wrong(&format!("train.{key}"), 0, "it must be at least 1"));
        }
        if self.batch > 1 << 20 {
            return Err(wrong("train.batch", self.batch, "it must be at most 1048576"));
        }
        let positive = [
            ("learning_rate", self.learning_rate),
            ("epsilon", self.epsilon),
            ("clip", self.clip.unwrap_or(1.0)),
            ("max_seconds", self.max_seconds.unwrap_or(1.0)),
        ];
        for (key, value) in positive {
            if !(value > 0.0 && value.is_finite()) {
                return Err(wrong(&format!("train.{key}"), value, "it must be a finite number above 0"));
            }
        }
        for (key, value) in [("beta1", self.beta1), ("beta2", self.beta2)] {
            if !(0.0..1.0).contains(&value) {
                return Err(wrong(&format!("train.{key}"), value, "it must be at least 0 and below 1"));
            }
        }
        if !(self.weight_decay >= 0.0 && self.weight_decay * self.learning_rate < 1.0) {
            return Err(wrong(
                "train.weight_decay",
                self.weight_decay,
                "it must be at least 0 and below 1 / `train.learning_rate`",
            ));
        }
        match (0.0..=1.0).contains(&self.final_rate) {
            true => Ok(()),
            false => Err(wrong("train.final_rate", self.final_rate, "it must be a fraction between 0 and 1")),
        }
    }
}
