//! `sab info`

use super::{print, readable};
use crate::device::cpu;
use crate::error::Result;
use crate::experiment::TrainSettings;
use crate::run_dir::{ModelConfig, RunDir, SUMMARY, files, load_model};
use crate::tasks::{InputKind, OutputKind};
use crate::train::{StopReason, checkpoint};
use clap::Args;
use serde::Deserialize;
use serde_json::Value;
use std::path::PathBuf;

/// Describe a run directory or model folder
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  sab info runs/copy")]
pub struct InfoArguments {
    /// A run directory, or a folder with model.safetensors and config.json
    path: PathBuf,
}

pub(super) fn run(arguments: &InfoArguments) -> Result<()> {
    let path = &arguments.path;
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        text += format!("{name:<12}{value}").trim_end();
        text += "\n";
    };
    if let Ok(run) = RunDir::open(path) {
        let experiment = run.experiment()?;
        line("run", experiment.short_name());
        let checkpoints = checkpoint::list(&run)?;
        let latest = checkpoints.last().map_or(0, |(update, _)| *update);
        let summary = summary_of(&run, latest);
        line("updates", state(&run, &experiment.train, latest, summary.as_ref()));
        let updates: Vec<String> = checkpoints.iter().map(|(update, _)| update.to_string()).collect();
        line("checkpoints", if updates.is_empty() { "none".into() } else { updates.join(", ") });
        let not_finished = || format!("not finished; `sab train --resume {}` continues", path.display());
        let test = summary.as_ref().and_then(|summary| summary.get("test"));
        line("result", test.map_or_else(not_finished, |test| format!("test {}", metrics(test))));
    }
    let config = ModelConfig::load(path)?;
    line("task", config.task.clone());
    let input = match config.input {
        InputKind::Tokens(symbols) => format!("one of {symbols} symbols per step"),
        InputKind::Dense(numbers) => format!("{numbers} numbers per step"),
    };
    line("input", input);
    let output = match config.output {
        OutputKind::Classes(classes) => format!("{classes} classes"),
        OutputKind::Value => "a number".into(),
    };
    line("output", output);
    for (what, names) in [("features", &config.facts.features), ("classes", &config.facts.classes)] {
        if let Some(names) = names {
            line(what, names.join(", "));
        }
    }
    for (place, setting) in toml::to_string(&config.model).unwrap_or_default().lines().enumerate() {
        line(if place == 0 { "model" } else { "" }, setting.to_string());
    }
    match load_model(path, &cpu()) {
        Ok((_, model, update)) => {
            let at = update.map_or(String::new(), |update| format!(", saved at update {update}"));
            line("parameters", format!("{}{at}", model.size()));
            for parameter in crate::models::file::to_pytorch(model.snapshot()?) {
                line("", format!("{} {:?}", parameter.name, parameter.shape));
            }
        }
        Err(why) => line("parameters", why.to_string()),
    }
    print(&text)
}

/// The metrics of a summary as one readable line, as after training.
fn metrics(found: &Value) -> String {
    let entries = found.as_object().into_iter().flatten();
    let found: Vec<(&str, f64)> =
        entries.map(|(name, value)| (&name[..], value.as_f64().unwrap_or(f64::NAN))).collect();
    readable(&found)
}

/// The summary of a run. An earlier one does not count if training has continued since, with more time.
fn summary_of(run: &RunDir, latest: u64) -> Option<Value> {
    let summary = files::read_json(&run.file(SUMMARY)).ok().flatten()?;
    summary["updates"].as_u64().is_none_or(|updates| updates >= latest).then_some(summary)
}

/// How far training has come, and why it has ended if it has.
fn state(run: &RunDir, train: &TrainSettings, latest: u64, summary: Option<&Value>) -> String {
    let most = match train.epochs {
        Some(epochs) => format!("those of {epochs} epochs"),
        None => train.updates.to_string(),
    };
    let Some(summary) = summary else { return format!("{latest} of {most}") };
    let done = summary["updates"].as_u64().unwrap_or(latest);
    // The reason was called an ending in earlier versions.
    let reason = ["stop_reason", "ending"].iter().find_map(|key| StopReason::deserialize(summary.get(key)?).ok());
    match reason {
        None => format!("{done} of {most}; training has ended"),
        Some(StopReason::Time) => {
            let path = run.path().display();
            format!("{done} of {most}; the time is up, `sab train --resume {path} --max-time TIME` continues")
        }
        Some(reason) => format!("{done} of {most}; training has ended: {}", reason.describe()),
    }
}
