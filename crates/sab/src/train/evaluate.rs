//! Evaluation on data that the model was not trained on.

use crate::error::Result;
use crate::models::{Model, numbers};
use crate::tasks::{Batch, Metrics, Split, Tally, Task};
use attentive::ForwardOptions;
use burn::tensor::Device;

/// Steps of all rows that are in memory at once: long sequences are run a few at a time.
pub(crate) const STEPS_AT_ONCE: usize = 200_000;

/// The name of the number of stored states among the metrics of a length.
pub const MEMORIES: &str = "memories";

/// The metrics of a model and the number of sequences behind them.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The task's metrics.
    pub metrics: Metrics,
    /// Evaluated sequences.
    pub sequences: u64,
    /// How many states a sequence stored on average, the null slot aside; `None` for a model without memories.
    pub memories: Option<f64>,
}

/// Runs a split through a model (without gradient) and gives the task's metrics.
pub fn evaluate(
    model: &Model, task: &dyn Task, split: Split, rows: usize, most_batches: Option<u64>, threads: usize,
    device: &Device,
) -> Result<Judgement> {
    let at_once = rows.min(STEPS_AT_ONCE / task.longest(split).max(1)).max(1);
    let sequences = most_batches.map(|batches| batches.saturating_mul(rows as u64));
    let most = sequences.map_or(u64::MAX, |sequences| sequences.div_ceil(at_once as u64));
    let (mut judged, mut stored) = (0, None);
    let mut tally = Tally::grading_last(task.graded_steps());
    for number in 0..task.held_out_count(split, at_once).min(most) {
        let batch = task.held_out_batch(split, number, at_once);
        if let Some(memories) = judge(model, task, &batch, threads, device, &mut tally)? {
            *stored.get_or_insert(0) += memories;
        }
        judged += batch.rows as u64;
    }
    let memories = stored.map(|stored| stored as f64 / judged as f64);
    Ok(Judgement { metrics: task.metrics(&tally), sequences: judged, memories })
}

/// Adds the outputs of one batch to a tally. Returns how many states the batch stored, if the model has memories.
pub fn judge(
    model: &Model, task: &dyn Task, batch: &Batch, threads: usize, device: &Device, tally: &mut Tally,
) -> Result<Option<usize>> {
    let (outputs, stored) = model.answer_and_count(batch, &ForwardOptions::new().with_threads(threads), device)?;
    tally.add(batch, &numbers(outputs)?, task.output().size())?;
    Ok(stored)
}
