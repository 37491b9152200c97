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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;

    fn settings(schedule: Schedule, final_rate: f64, warmup: u64) -> TrainSettings {
        let usual = Experiment::of_task("copy", &[]).expect("the defaults hold").train;
        TrainSettings { learning_rate: 2.0, schedule, final_rate, warmup, ..usual }
    }

    #[test]
    fn schedules_begin_at_the_first_rate_and_end_at_the_last() {
        for (schedule, middle) in [(Schedule::Cosine, 1.1), (Schedule::Linear, 1.1), (Schedule::Constant, 2.0)] {
            let settings = settings(schedule, 0.1, 0);
            assert_eq!(learning_rate(&settings, 0, 100), 2.0);
            assert!((learning_rate(&settings, 50, 100) - middle).abs() < 1e-12);
            let last = if schedule == Schedule::Constant { 2.0 } else { 0.2 };
            assert!((learning_rate(&settings, 100, 100) - last).abs() < 1e-12);
        }
    }

    #[test]
    fn the_rate_rises_over_the_warm_up() {
        let settings = settings(Schedule::Constant, 0.0, 9);
        assert!((learning_rate(&settings, 0, 100) - 0.2).abs() < 1e-12);
        assert!((learning_rate(&settings, 4, 100) - 1.0).abs() < 1e-12);
        assert_eq!(learning_rate(&settings, 9, 100), 2.0);
    }
}
