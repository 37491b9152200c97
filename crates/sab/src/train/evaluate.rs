//! Evaluation on data that the model was not trained on.
//!
//! Short sequences run a batch at a time. Long ones run in stretches, from the state that the stretch before left, so
//! that nothing has the size of whole sequences but their memories. Stretches change no bit of a result (R14).

use crate::error::Result;
use crate::models::{Model, SabModel, numbers};
use crate::tasks::{Batch, Metrics, RowTallies, Split, Tally, Task};
use attentive::{ForwardOptions, SabState};
use burn::tensor::Device;
use std::ops::Range;

/// Steps of all rows that are in memory at once: more are run in stretches, or by a Transformer a few rows at a time.
pub(crate) const STEPS_AT_ONCE: usize = 200_000;

/// What an evaluation holds at once. It changes no bit of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Steps of all rows together that run whole. More are cut into stretches.
    pub whole: usize,
    /// Hidden states of a stretch, in floats; it has a few steps at least, because each call has a cost of its own.
    pub stretch: usize,
    /// Bytes of the memories that the sequences which run together hold. A single sequence holds what it needs.
    pub held: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { whole: STEPS_AT_ONCE, stretch: 1 << 22, held: 256 << 20 }
    }
}

/// The fewest steps of a stretch.
const SHORTEST_STRETCH: usize = 32;

/// The name of the number of stored states among the metrics of a length.
pub const MEMORIES: &str = "memories";

/// The name of the time that a length took, in seconds.
pub const SECONDS: &str = "seconds";

/// The name of the most memory that the process held at a length, in MiB.
pub const PEAK_MIB: &str = "peak_mib";

/// The metrics of a model and the number of sequences behind them.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The task's metrics.
    pub metrics: Metrics,
    /// Evaluated sequences.
    pub sequences: u64,
    /// How many states a sequence stored on average, the null slot aside; `None` for a model without memories. What a
    /// shorter sequence stores while the longest beside it goes on counts too.
    pub memories: Option<f64>,
}

/// Hears of an evaluation from time to time: the share that is done, in `0.0..=1.0`. An error ends the evaluation.
pub type Watch<'a> = dyn FnMut(f64) -> Result<()> + 'a;

/// Runs a split through a model (without gradient) and gives the task's metrics.
pub fn evaluate(
    model: &Model, task: &dyn Task, split: Split, rows: usize, most_batches: Option<u64>, threads: usize,
    device: &Device,
) -> Result<Judgement> {
    Evaluation { model, task, rows, most_batches, limits: Limits::default(), threads, device }
        .run(split, &mut |_| Ok(()))
}

/// An evaluation that can be watched and stopped.
#[derive(Clone, Copy)]
pub struct Evaluation<'a> {
    /// The model, without gradient.
    pub model: &'a Model,
    /// The task that has the sequences and the metrics.
    pub task: &'a dyn Task,
    /// The most sequences that run together.
    pub rows: usize,
    /// At most so many times `rows` sequences are evaluated.
    pub most_batches: Option<u64>,
    /// How much is held at once.
    pub limits: Limits,
    /// Number of threads; the result does not depend on it.
    pub threads: usize,
    /// The device of the model.
    pub device: &'a Device,
}

impl Evaluation<'_> {
    /// Evaluates a split.
    pub fn run(&self, split: Split, watch: &mut Watch) -> Result<Judgement> {
        let most = self.most_batches.map_or(u64::MAX, |batches| batches.saturating_mul(self.rows as u64));
        let count = (self.task.held_out(split) as u64).min(most) as usize;
        let (mut together, whole) = self.together(split);
        let (mut stored, mut tally, mut first) = (None, Tally::grading_last(self.task.graded_steps()), 0);
        while first < count {
            let group = first..count.min(first.saturating_add(together));
            let mut watch = |share: f64| watch((group.start as f64 + share * group.len() as f64) / count as f64);
            let memories = match self.model {
                Model::Sab(model) if !whole => {
                    match self.in_stretches(model, (split, group.clone()), &mut tally, &mut watch)? {
                        Stretches::Done(memories) => memories,
                        Stretches::TooMany => {
                            together = group.len() / 2;
                            continue;
                        }
                    }
                }
                _ => {
                    let batch = self.task.held_out_sequences(split, group.clone());
                    let memories = judge(self.model, self.task, &batch, self.threads, self.device, &mut tally)?;
                    watch(1.0)?;
                    memories
                }
            };
            if let Some(memories) = memories {
                *stored.get_or_insert(0) += memories;
            }
            first = group.end;
        }
        let memories = stored.map(|stored| stored as f64 / count as f64);
        Ok(Judgement { metrics: self.task.metrics(&tally), sequences: count as u64, memories })
    }

    /// How many sequences run together, and whether each runs whole. Neither changes a bit of the result.
    fn together(&self, split: Split) -> (usize, bool) {
        let longest = self.task.longest(split).max(1);
        let short = self.rows.saturating_mul(longest) <= self.limits.whole;
        let most = match self.model {
            Model::Transformer(_) => self.limits.whole / longest,
            Model::Sab(_) if short => usize::MAX,
            Model::Sab(model) => {
                // Where the states decide, few are stored, until a group turns out to store more.
                let memories = model.memories_after(longest).unwrap_or(0).saturating_mul(model.memory_bytes());
                self.limits.held / memories.saturating_add(RowTallies::bytes_a_row(longest)).max(1)
            }
        };
        (self.rows.min(most).max(1), short)
    }

    /// Runs sequences together, stretch by stretch.
    fn in_stretches(
        &self, model: &SabModel, (split, group): (Split, Range<usize>), tally: &mut Tally, watch: &mut Watch,
    ) -> Result<Stretches> {
        let (options, width) = (ForwardOptions::new().with_threads(self.threads), self.task.output().size());
        let steps = self.task.held_out_steps(split, group.clone());
        let length = (self.limits.stretch / (group.len() * model.lstm.config().hidden).max(1)).max(SHORTEST_STRETCH);
        let mut rows = RowTallies::new(group.len(), steps, self.task.longest(split));
        let mut state: Option<SabState> = None;
        for first in (0..steps).step_by(length) {
            let stretch = self.task.held_out_stretch(split, group.clone(), first..steps.min(first + length));
            let out = model.run_from(state.take(), &stretch, &options, self.device)?;
            if stretch.answer_count() > 0 {
                let outputs = numbers(model.read(&stretch, &out, self.device)?)?;
                rows.add(tally, &stretch, first, &outputs, width)?;
            }
            let mut left = out.state;
            match model.memories_after(steps) {
                Some(memories) if first == 0 => left.reserve(memories + 1)?,
                None if group.len() > 1 && model.held_bytes(&left) > self.limits.held => {
                    return Ok(Stretches::TooMany);
                }
                _ => {}
            }
            state = Some(left);
            watch((first + stretch.steps) as f64 / steps as f64)?;
        }
        rows.finish(tally);
        Ok(Stretches::Done(state.and_then(|state| model.stored(&state))))
    }
}

/// How sequences ended that ran together.
enum Stretches {
    /// All steps are done; how many states they stored, if the model has memories.
    Done(Option<usize>),
    /// They stored more states than may be held at once, and must run again, fewer together.
    TooMany,
}

/// Adds the outputs of one batch to a tally. Returns how many states the batch stored, if the model has memories.
pub fn judge(
    model: &Model, task: &dyn Task, batch: &Batch, threads: usize, device: &Device, tally: &mut Tally,
) -> Result<Option<usize>> {
    let (outputs, stored) = model.answer_and_count(batch, &ForwardOptions::new().with_threads(threads), device)?;
    tally.add(batch, &numbers(outputs)?, task.output().size())?;
    Ok(stored)
}
