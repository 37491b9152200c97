//! `sab attention`

use super::eval::Trained;
use super::print;
use crate::attention::{Attention, attends};
use crate::error::{LabError, Result};
use crate::experiment::Experiment;
use crate::models::SabModel;
use crate::run_dir::atomic;
use crate::tasks::{Split, Task};
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
    let Some(attention) = Attention::of(model, task, Split::Test, choice.sequence, device)? else {
        return Ok(Vec::new());
    };
    let title = format!("{}, test sequence {}", experiment.short_name(), choice.sequence);
    let map = match choice.last {
        Some(steps) => attention.heat_map(title).last_rows(steps.max(1)),
        None => attention.heat_map(title),
    };
    let [png, svg, numbers] = ["png", "svg", "json"].map(|kind| folder.join(format!("attention.{kind}")));
    let wrong = |why: crate::heat_map::HeatMapError| LabError::Run(format!("cannot draw the attention: {why}"));
    atomic::write(&png, &map.to_png().map_err(wrong)?)?;
    atomic::write(&svg, map.to_svg().map_err(wrong)?.as_bytes())?;
    atomic::write_json(&numbers, &as_numbers(experiment, choice, &attention))?;
    Ok(vec![png, svg, numbers])
}

fn as_numbers(experiment: &Experiment, choice: &Choice, attention: &Attention) -> Value {
    let of_step = |(step, reminded): (usize, &Vec<(u64, f32)>)| {
        let reminded: Vec<Value> =
            reminded.iter().map(|(step, weight)| json!({ "step": step, "weight": weight })).collect();
        let input = attention.inputs.as_ref().and_then(|inputs| inputs.get(step));
        json!({ "step": step + 1, "input": input, "reminded_of": reminded })
    };
    json!({
        "run": experiment.short_name(),
        "test_sequence": choice.sequence,
        "steps_count_from": 1,
        "null_slot": 0,
        "steps": attention.reminded_of.iter().enumerate().map(of_step).collect::<Vec<_>>(),
    })
}
