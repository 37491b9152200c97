//! The end of a run: the test of its best model, the summary and the pictures.

use super::{Finished, picture};
use crate::error::Result;
use crate::experiment::Experiment;
use crate::models::Model;
use crate::run_dir::{RunDir, SUMMARY, atomic};
use crate::tasks::{Split, Task, as_json};
use crate::train::checkpoint::TrainState;
use crate::train::{Judgement, StopReason, evaluate};
use burn::tensor::Device;
use serde_json::json;

/// Tests the best model and writes the summary and the pictures.
pub(super) fn conclude(
    run: RunDir, experiment: Experiment, task: &dyn Task, (model, state, stop_reason): (Model, TrainState, StopReason),
    (threads, device): (usize, &Device),
) -> Result<Finished> {
    let settings = &experiment.train;
    let judge = |split, most| evaluate(&model, task, split, settings.batch, most, threads, device);
    let validation = judge(Split::Validation, settings.validation_batches)?.metrics;
    let Judgement { metrics: test, sequences: test_sequences, .. } = judge(Split::Test, settings.test_batches)?;
    let summary = json!({
        "task": experiment.task.name(),
        "length": experiment.task.length(),
        "model": experiment.model,
        "parameters": model.size(),
        "seed": settings.seed,
        "batch": settings.batch,
        "updates": state.update,
        "stop_reason": stop_reason,
        "refused_updates": state.refused,
        "best_update": state.best.map(|(_, update)| update),
        "wall_seconds": state.seconds,
        "threads": threads,
        "note": task.facts().note,
        "test_sequences": test_sequences,
        "validation": as_json(&validation),
        "test": as_json(&test),
    });
    let pictures = match &model {
        Model::Sab(model) => {
            // Only the answers of the copy task.
            let last = Some(task.graded_steps()).filter(|steps| *steps > 0);
            picture::draw(model, &experiment, task, run.path(), &picture::Choice { sequence: 0, last }, device)?
        }
        Model::Transformer(_) => Vec::new(),
    };
    // Written last, because a run with a summary counts as complete.
    atomic::write_json(&run.file(SUMMARY), &summary)?;
    Ok(Finished { run, experiment, model, state, stop_reason, validation, test, summary, pictures })
}
