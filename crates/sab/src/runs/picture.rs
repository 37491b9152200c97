//! `attention.png`, `.svg` and `.json`: the attention of a model on one test sequence.

use crate::attention::Attention;
use crate::error::Result;
use crate::experiment::Experiment;
use crate::heat_map::HeatMaps;
use crate::models::SabModel;
use crate::run_dir::atomic;
use crate::tasks::{Split, Task};
use burn::tensor::Device;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The test sequence to draw, and how many of its last steps if not all.
pub(crate) struct Choice {
    pub(crate) sequence: u64,
    pub(crate) last: Option<usize>,
}

/// Draws the attention on one test sequence and returns the files; none if the model does not attend.
pub(crate) fn draw(
    model: &SabModel, experiment: &Experiment, task: &dyn Task, folder: &Path, choice: &Choice, device: &Device,
) -> Result<Vec<PathBuf>> {
    let Some(attention) = Attention::of(model, task, Split::Test, choice.sequence, device)? else {
        return Ok(Vec::new());
    };
    let title = format!("{}, test sequence {}", experiment.short_name(), choice.sequence);
    let picture = HeatMaps(vec![attention.heat_map(title, choice.last)]).draw()?;
    let [png, svg, numbers] = ["png", "svg", "json"].map(|kind| folder.join(format!("attention.{kind}")));
    atomic::write(&png, &picture.to_png()?)?;
    atomic::write(&svg, picture.to_svg().as_bytes())?;
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
