//! What a run ends with: the test of its best model, the summary, the pictures and a report.

use super::{as_json, attention, print, readable};
use crate::attention::attends;
use crate::display::duration;
use crate::error::Result;
use crate::experiment::Experiment;
use crate::models::Model;
use crate::run_dir::{RunDir, SUMMARY, atomic};
use crate::tasks::{Figures, Split, Task};
use crate::train::checkpoint::Standing;
use crate::train::{Ending, Judgement, evaluate};
use burn::tensor::Device;
use serde_json::json;
use std::path::PathBuf;

/// What a finished run has shown.
pub(super) struct Outcome {
    validation: Figures,
    test: Figures,
    pub(super) summary: serde_json::Value,
    pictures: Vec<PathBuf>,
}

/// Tests the best model and writes the summary and the pictures.
pub(super) fn conclude(
    run: &RunDir, experiment: &Experiment, task: &dyn Task, model: &Model, standing: &Standing, threads: usize,
) -> Result<Outcome> {
    let device = Device::flex();
    let settings = &experiment.train;
    let judge = |split, most| evaluate(model, task, split, settings.batch, most, threads, &device);
    let validation = judge(Split::Validation, settings.validation_batches.get())?.figures;
    let Judgement { figures: test, sequences: test_sequences } = judge(Split::Test, settings.test_batches.get())?;
    let summary = json!({
        "task": experiment.task.name(),
        "length": experiment.task.length(),
        "model": experiment.model,
        "parameters": model.size(),
        "seed": settings.seed,
        "batch": settings.batch,
        "updates": standing.update,
        "refused_updates": standing.refused,
        "best_update": standing.best.map(|(_, update)| update),
        "wall_seconds": standing.seconds,
        "threads": threads,
        "note": task.facts().note,
        "test_sequences": test_sequences,
        "validation": as_json(&validation),
        "test": as_json(&test),
    });
    let pictures = match model {
        Model::Sab(model) if attends(model) => {
            attention::draw(model, experiment, task, run.path(), &attention::Choice::usual(task), &device)?
        }
        _ => Vec::new(),
    };
    // Last: a run with a summary is complete.
    atomic::write_json(&run.file(SUMMARY), &summary)?;
    Ok(Outcome { validation, test, summary, pictures })
}

/// What was reached and where it is.
pub(super) fn report(
    run: &RunDir, experiment: &Experiment, standing: &Standing, ending: &Ending, outcome: &Outcome,
) -> Result<()> {
    let file = |name: &str| run.file(name).display().to_string();
    let best = standing.best.map_or(String::new(), |(_, update)| format!(" (the model of update {update})"));
    let mut text = format!(
        "\n{}: {} updates in {}, {}\n  validation  {}\n  test        {}{best}\n\nIn {}:\n",
        experiment.short_name(),
        standing.update,
        duration(standing.seconds),
        ending.describe(),
        readable(&outcome.validation),
        readable(&outcome.test),
        run.path().display(),
    );
    let mut line = |path: String, what: &str| text += &format!("  {path}  {what}\n");
    line(file(SUMMARY), "the result");
    line(file("model.safetensors"), "the model, with config.json; PyTorch can read both");
    line(file("metrics.jsonl"), "how it learned (`tensorboard --logdir` shows it too)");
    if let Some(picture) = outcome.pictures.first() {
        line(picture.display().to_string(), "which past steps each step was reminded of, with .svg and .json");
    }
    print(&text)
}
