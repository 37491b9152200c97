//! The last words of `sab train`.

use super::{print, readable};
use crate::display::duration;
use crate::error::Result;
use crate::run_dir::SUMMARY;
use crate::runs::Finished;

/// Prints the result and where it is.
pub(super) fn report(finished: &Finished) -> Result<()> {
    let Finished { run, experiment, state, stop_reason, validation, test, pictures, .. } = finished;
    let file = |name: &str| run.file(name).display().to_string();
    let best = state.best.map_or(String::new(), |(_, update)| format!(" (the model of update {update})"));
    let mut text = format!(
        "\n{}: {} updates in {}, {}\n  validation  {}\n  test        {}{best}\n\nIn {}:\n",
        experiment.short_name(),
        state.update,
        duration(state.seconds),
        stop_reason.describe(),
        readable(validation),
        readable(test),
        run.path().display(),
    );
    let mut line = |path: String, what: &str| text += &format!("  {path}  {what}\n");
    line(file(SUMMARY), "the result");
    line(file("model.safetensors"), "the model, with config.json; PyTorch can read both");
    line(file("metrics.jsonl"), "how it learned (`tensorboard --logdir` shows it too)");
    if let Some(picture) = pictures.first() {
        line(picture.display().to_string(), "which past steps each step was reminded of, with .svg and .json");
    }
    print(&text)
}
