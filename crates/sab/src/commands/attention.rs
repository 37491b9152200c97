//! `sab attention`

use super::eval::Trained;
use super::print;
use crate::error::{LabError, Result};
use crate::experiment::Experiment;
use crate::heat_map::{Cell, HeatMap};
use crate::models::SabModel;
use crate::run_dir::atomic;
use crate::tasks::{Batch, Input, Split, Task, TaskFacts};
use attentive::{ForwardOptions, KTop, Reminders};
use burn::tensor::Device;
use clap::Args;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Draw which past steps each step was reminded of, and write the numbers as JSON
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  sab attention runs/copy --sequence 3 --last 10")]
pub struct AttentionArguments {
    /// The run directory
    run: PathBuf,

    /// Which sequence of the test set, from 0
    #[arg(long, default_value_t = 0, value_name = "N")]
    sequence: u64,

    /// At another length than the model was trained at
    #[arg(long, value_name = "STEPS", value_parser = clap::value_parser!(u32).range(1..))]
    length: Option<u32>,

    /// Show only the last steps
    #[arg(long, value_name = "STEPS", value_parser = clap::value_parser!(u32).range(1..))]
    last: Option<u32>,

    /// Where to put attention.png, attention.svg and attention.json; the run directory if not said
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Where data sets are, if not where they were
    #[arg(long, value_name = "DIR", env = "SAB_DATA_DIR")]
    data_dir: Option<PathBuf>,
}

/// What is drawn.
pub(super) struct Choice {
    sequence: u64,
    last: Option<usize>,
}

impl Choice {
    /// The first test sequence; of the copy task its answers.
    pub(super) fn usual(task: &dyn Task) -> Self {
        Self { sequence: 0, last: (task.graded_steps() > 0).then(|| task.graded_steps()) }
    }
}

/// Full attention has a weight for every memory: the strongest of each step are kept.
const MOST_REMINDERS: usize = 64;

/// Whether a model has attention to draw.
pub(super) fn attends(model: &SabModel) -> bool {
    model.lstm.config().k_top != KTop::Count(0)
}

pub(super) fn run(arguments: &AttentionArguments) -> Result<()> {
    let mut trained = Trained::open(&arguments.run, arguments.data_dir.as_ref())?;
    if let Some(length) = arguments.length {
        trained.experiment.task = trained.experiment.task.with_length(length as usize)?;
    }
    let task = trained.task()?;
    let model = trained.model.recurrent()?;
    if !attends(model) {
        return Err(LabError::Config(
            "the model is a plain LSTM (`model.k_top` is 0): it is reminded of nothing".into(),
        ));
    }
    let count = task.held_out_count(Split::Test, 1);
    if arguments.sequence >= count {
        return Err(LabError::Config(format!(
            "`--sequence` is {}: the test set has 0 to {}",
            arguments.sequence,
            count - 1
        )));
    }
    let folder = arguments.out.clone().unwrap_or_else(|| arguments.run.clone());
    std::fs::create_dir_all(&folder).map_err(|why| LabError::file("create", &folder, &why))?;
    let choice = Choice { sequence: arguments.sequence, last: arguments.last.map(|steps| steps as usize) };
    let files = draw(model, &trained.experiment, &*task, &folder, &choice, &trained.device)?;
    for file in files {
        print(&format!("{}\n", file.display()))?;
    }
    Ok(())
}

/// Draws one test sequence and returns the files.
pub(super) fn draw(
    model: &SabModel, experiment: &Experiment, task: &dyn Task, folder: &Path, choice: &Choice, device: &Device,
) -> Result<Vec<PathBuf>> {
    let batch = task.held_out_batch(Split::Test, choice.sequence, 1);
    let most = match model.lstm.config().k_top {
        KTop::Count(count) => count,
        KTop::All => MOST_REMINDERS,
    };
    let out = model.run(&batch, &ForwardOptions::new().with_reminders(most.min(MOST_REMINDERS)), device)?;
    let Some(reminders) = out.reminders else { return Ok(Vec::new()) };
    let labels = step_labels(&batch, &task.facts());
    let map = heat_map(experiment, choice.sequence, &reminders, labels.clone(), batch.steps);
    let map = match choice.last {
        Some(steps) => map.last_rows(steps.max(1)),
        None => map,
    };
    let [png, svg, numbers] = ["png", "svg", "json"].map(|kind| folder.join(format!("attention.{kind}")));
    let wrong = |why: crate::heat_map::HeatMapError| LabError::Run(format!("cannot draw the attention: {why}"));
    atomic::write(&png, &map.to_png().map_err(wrong)?)?;
    atomic::write(&svg, map.to_svg().map_err(wrong)?.as_bytes())?;
    atomic::write_json(&numbers, &as_numbers(experiment, choice, &reminders, labels.as_deref(), batch.steps))?;
    Ok(vec![png, svg, numbers])
}

/// Steps count from 1 as in the paper; 0 is the null slot, the state before the first step (R2).
fn heat_map(
    experiment: &Experiment, sequence: u64, reminders: &Reminders, labels: Option<Vec<String>>, steps: usize,
) -> HeatMap {
    let cells_of = |step: usize| {
        let cell = move |reminder: &attentive::Reminder| Cell {
            step: step + 1,
            remembered: reminder.step as usize,
            weight: reminder.weight,
        };
        reminders.at(0, step).iter().map(cell)
    };
    HeatMap {
        title: format!("{}, test sequence {sequence}", experiment.short_name()),
        x_label: "remembered step".into(),
        y_label: "step".into(),
        columns: 0..steps + 1,
        rows: 1..steps + 1,
        cells: (0..steps).flat_map(cells_of).collect(),
        step_labels: labels,
        marks: Vec::new(),
    }
}

/// What was seen at each step, from step 0, where there was nothing.
fn step_labels(batch: &Batch, facts: &TaskFacts) -> Option<Vec<String>> {
    const BLANK: &str = "·";
    let Input::Tokens(tokens) = &batch.input else { return None };
    let label = |token: &i32| match (&facts.alphabet, u16::try_from(*token)) {
        (Some(alphabet), Ok(symbol)) => alphabet.decode(&[symbol]).replace(['\n', '\r'], "¶"),
        // The copy task's blank.
        _ if *token == 0 => BLANK.into(),
        _ => token.to_string(),
    };
    Some(std::iter::once(String::new()).chain(tokens.iter().map(label)).collect())
}

fn as_numbers(
    experiment: &Experiment, choice: &Choice, reminders: &Reminders, labels: Option<&[String]>, steps: usize,
) -> Value {
    let of_step = |step: usize| {
        let reminded: Vec<Value> = reminders
            .at(0, step)
            .iter()
            .map(|reminder| json!({ "step": reminder.step, "weight": reminder.weight }))
            .collect();
        let input = labels.and_then(|labels| labels.get(step + 1));
        json!({ "step": step + 1, "input": input, "reminded_of": reminded })
    };
    json!({
        "run": experiment.short_name(),
        "test_sequence": choice.sequence,
        "steps_count_from": 1,
        "null_slot": 0,
        "steps": (0..steps).map(of_step).collect::<Vec<_>>(),
    })
}
