//! The end of a run: the test of its best model, the summary and the pictures.

use super::picture;
use crate::attention::attends;
use crate::error::Result;
use crate::experiment::Experiment;
use crate::models::Model;
use crate::run_dir::{RunDir, SUMMARY, atomic};
use crate::tasks::{Metrics, Split, Task, as_json};
use crate::train::checkpoint::TrainState;
use crate::train::{Judgement, StopReason, evaluate};
use burn::tensor::Device;
use serde_json::json;
use std::path::PathBuf;

/// The results of a finished run.
pub(super) struct Outcome {
    pub(super) validation: Metrics,
    pub(super) test: Metrics,
    pub(super) summary: serde_json::Value,
    pub(super) pictures: Vec<PathBuf>,
}

/// Tests the best model and writes the summary and the pictures.
pub(super) fn conclude(
    run: &RunDir, experiment: &Experiment, task: &dyn Task, model: &Model, state: &TrainState, stop_reason: StopReason,
    (threads, device): (usize, &Device),
) -> Result<Outcome> {
    let settings = &experiment.train;
    let judge = |split, most| evaluate(model, task, split, settings.batch, most, threads, device);
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
    let pictures = match model {
        Model::Sab(model) if attends(model) => {
            picture::draw(model, experiment, task, run.path(), &picture::Choice::usual(task), device)?
        }
        _ => Vec::new(),
    };
    // Last, because a run with a summary counts as complete.
    atomic::write_json(&run.file(SUMMARY), &summary)?;
    Ok(Outcome { validation, test, summary, pictures })
}
