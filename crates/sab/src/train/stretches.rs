//! [`Stretches`]: where each update lies among the batches and within its batch.

use crate::error::{LabError, Result};
use crate::experiment::Experiment;
use crate::settings::{ModelSettings, wrong};
use crate::tasks::Task;
use attentive::KTop;
use std::ops::Range;

/// How batches are cut into updates: with `train.update_every`, each batch is taken some steps at a time. The place of
/// an update is a function of its number alone, so that a resumed run finds it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretches {
    /// Steps of an update; none for whole batches.
    every: Option<usize>,
    /// Updates of the longest batch.
    per_batch: u64,
}

/// The place of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The number of the batch.
    pub batch: u64,
    /// The steps of the batch; none for all.
    pub steps: Option<Range<usize>>,
    /// Whether the update is the first of its batch.
    pub first: bool,
    /// Whether it is the last.
    pub last: bool,
}

impl Stretches {
    /// The updates of an experiment. An error if its model cannot carry a state on, or cannot do so in bounded memory.
    pub fn new(experiment: &Experiment, task: &dyn Task) -> Result<Self> {
        let train = &experiment.train;
        task.check_rows(train.batch)?;
        let streams = task.begins(train.seed, 1, train.batch).len() < train.batch;
        match &experiment.model {
            ModelSettings::Transformer(_) if streams || train.update_every.is_some() => {
                let (key, value) = if streams { ("task.stream", "true") } else { ("train.update_every", "a number") };
                return Err(LabError::Config(format!(
                    "`{key}` is {value}, but a Transformer carries no state from one update to the next: use \
                     `model.kind = \"sab\"`"
                )));
            }
            ModelSettings::Sab(lstm) if streams && lstm.k_top != KTop::Count(0) && lstm.capacity.is_none() => {
                let hint = "the sequences of this task go on without end, and so would the memories of the model: set a \
                            number, such as 500";
                return Err(wrong("model.capacity", "\"none\"", hint));
            }
            _ => {}
        }
        let stretches = |every: usize| task.training_steps().div_ceil(every.max(1)).max(1) as u64;
        Ok(Self { every: train.update_every, per_batch: train.update_every.map_or(1, stretches) })
    }

    /// Updates of the longest batch. A shorter batch has some updates without steps.
    pub fn per_batch(&self) -> u64 {
        self.per_batch
    }

    /// The place of an update.
    pub fn place(&self, update: u64) -> Place {
        let (batch, stretch) = (update / self.per_batch, update % self.per_batch);
        let steps = self.every.map(|every| {
            let start = every.saturating_mul(stretch as usize);
            start..start.saturating_add(every)
        });
        Place { batch, steps, first: stretch == 0, last: stretch + 1 == self.per_batch }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretches(task: &str, changes: &str) -> Result<Stretches> {
        let experiment = Experiment::of_text(&format!("[task]\nname = \"{task}\"\n{changes}"), "here", &[])?;
        let task = crate::tasks::open(&experiment.task, "nowhere".as_ref())?;
        Stretches::new(&experiment, &*task)
    }

    #[test]
    fn without_the_key_every_update_has_a_batch_of_its_own() {
        let whole = stretches("copy", "").expect("settings that hold");
        assert_eq!(whole.per_batch(), 1);
        for update in [0, 1, 77] {
            assert_eq!(whole.place(update), Place { batch: update, steps: None, first: true, last: true });
        }
    }

    #[test]
    fn a_batch_is_taken_from_its_start_to_its_end() {
        let cut = stretches("copy", "[train]\nupdate_every = 50").expect("settings that hold");
        assert_eq!(cut.per_batch(), 3, "120 steps");
        let place = |update| cut.place(update);
        assert_eq!(place(3), Place { batch: 1, steps: Some(0..50), first: true, last: false });
        assert_eq!(place(5), Place { batch: 1, steps: Some(100..150), first: false, last: true });
        assert_eq!(stretches("copy", "[train]\nupdate_every = 120").expect("settings that hold").per_batch(), 1);
    }

    #[test]
    fn a_transformer_is_refused() {
        let why = stretches("copy", "[train]\nupdate_every = 50\n[model]\nkind = \"transformer\"");
        let why = why.expect_err("it carries no state").to_string();
        assert!(why.contains("`train.update_every`") && why.contains("carries no state"), "{why}");
    }

    #[test]
    fn memories_without_bound_are_refused_for_a_stream() {
        let why = stretches("stream", "[model]\ncapacity = \"none\"").expect_err("it would grow").to_string();
        assert!(why.contains("`model.capacity`") && why.contains("without end"), "{why}");
        assert!(stretches("stream", "[model]\ncapacity = \"none\"\nk_top = 0").is_ok(), "it has no memories");
    }
}
