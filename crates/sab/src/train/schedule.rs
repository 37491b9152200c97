//! How the learning rate changes.

use crate::experiment::{Schedule, TrainSettings};

/// The learning rate of an update (counted from 0) of a budget.
pub fn learning_rate(settings: &TrainSettings, update: u64, budget: u64) -> f64 {
    let done = (update as f64 / budget.max(1) as f64).clamp(0.0, 1.0);
    let from_one_to_last = |share: f64| settings.final_rate + (1.0 - settings.final_rate) * share;
    let share = match settings.schedule {
        Schedule::Constant => 1.0,
        Schedule::Cosine => from_one_to_last(0.5 * (1.0 + (std::f64::consts::PI * done).cos())),
        Schedule::Linear => from_one_to_last(1.0 - done),
    };
    let risen = ((update + 1) as f64 / (settings.warmup + 1) as f64).min(1.0);
    settings.learning_rate * share * risen
}
