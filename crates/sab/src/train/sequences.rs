//! [`Sequences`]: the part of the training data that each update learns from, and the state that it continues from.

use super::stretches::{Place, Stretches};
use crate::error::Result;
use crate::settings::TrainSettings;
use crate::tasks::{Batch, Task};
use attentive::SabState;

/// The sequences of training.
pub(super) struct Sequences {
    stretches: Stretches,
    seed: u64,
    rows: usize,
    /// The latest batch and its number, if several updates share it.
    batch: Option<(u64, Batch)>,
    /// The state that the next update continues from, if it does.
    pub(super) carried: Option<SabState>,
}

/// The part of one update.
pub(super) struct Part {
    /// Its steps.
    pub(super) batch: Batch,
    /// Whether a batch ends with it.
    pub(super) last: bool,
    /// Whether the next update continues any of its sequences.
    pub(super) carries: bool,
}

impl Sequences {
    /// Continues with a state of a checkpoint, if it has one.
    pub(super) fn new(stretches: Stretches, settings: &TrainSettings, carried: Option<SabState>) -> Self {
        Self { stretches, seed: settings.seed, rows: settings.batch, batch: None, carried }
    }

    /// The part of an update. Resets the carried states of the rows whose sequences begin with it.
    pub(super) fn part(&mut self, task: &dyn Task, update: u64) -> Result<Part> {
        let (place, next) = (self.stretches.place(update), self.stretches.place(update + 1));
        let begin = self.begin(task, &place);
        match &mut self.carried {
            Some(carried) if begin.len() < self.rows => carried.reset(&begin)?,
            carried => *carried = None,
        }
        let carries = self.begin(task, &next).len() < self.rows;
        Ok(Part { batch: self.batch(task, &place), last: place.last, carries })
    }

    /// The rows whose sequences begin with an update.
    fn begin(&self, task: &dyn Task, place: &Place) -> Vec<usize> {
        if place.first { task.begins(self.seed, place.batch, self.rows) } else { Vec::new() }
    }

    fn batch(&mut self, task: &dyn Task, place: &Place) -> Batch {
        let whole = || task.training_batch(self.seed, place.batch, self.rows);
        let Some(steps) = place.steps.clone() else { return whole() };
        match &self.batch {
            Some((number, batch)) if *number == place.batch => batch.stretch(steps),
            _ => {
                let batch = whole();
                let stretch = batch.stretch(steps);
                self.batch = Some((place.batch, batch));
                stretch
            }
        }
    }
}
