//! `attention.png`, `.svg` and `.json`: the attention of a model on one test sequence.

use crate::attention::Attention;
use crate::error::{LabError, Result};
use crate::experiment::Experiment;
use crate::heat_map::{HeatMapError, HeatMaps};
use crate::models::SabModel;
use crate::run_dir::atomic;
use crate::tasks::{Split, Task};
use burn::tensor::Device;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The sequence and the steps to draw.
pub(crate) struct Choice {
    pub(crate) sequence: u64,
    pub(crate) last: Option<usize>,
}

impl Choice {
    /// The first test sequence; only the answers of the copy task.
    pub(crate) fn usual(task: &dyn Task) -> Self {
        Self { sequence: 0, last: (task.graded_steps() > 0).then(|| task.graded_steps()) }
    }
}

/// Draws the attention on one test sequence and returns the files.
pub(crate) fn draw(
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
    let map = HeatMaps(vec![map]);
    let [png, svg, numbers] = ["png", "svg", "json"].map(|kind| folder.join(format!("attention.{kind}")));
    let wrong = |why: HeatMapError| LabError::Run(format!("cannot draw the attention: {why}"));
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
