//! `sab info`

use super::print;
use crate::error::Result;
use crate::run_dir::{ModelConfig, RunDir, SUMMARY, files, load_model};
use crate::tasks::{InputKind, OutputKind};
use crate::train::checkpoint;
use burn::tensor::Device;
use clap::Args;
use serde_json::Value;
use std::path::PathBuf;

/// Say what a run directory or model folder holds
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  sab info runs/copy")]
pub struct InfoArguments {
    /// A run directory, or a folder with model.safetensors and config.json
    path: PathBuf,
}

pub(super) fn run(arguments: &InfoArguments) -> Result<()> {
    let path = &arguments.path;
    let mut text = String::new();
    let mut line = |name: &str, value: String| text += &format!("{name:<12}{value}\n");
    if let Ok(run) = RunDir::open(path) {
        let experiment = run.experiment()?;
        line("run", experiment.short_name());
        let done = summary_of(&run).and_then(|summary| summary.get("updates").and_then(Value::as_u64));
        let latest = checkpoint::list(&run)?.last().map(|(update, _)| *update);
        line("updates", format!("{} of {}", done.or(latest).unwrap_or(0), experiment.train.updates));
        let checkpoints = checkpoint::list(&run)?;
        let updates: Vec<String> = checkpoints.iter().map(|(update, _)| update.to_string()).collect();
        line("checkpoints", if updates.is_empty() { "none".into() } else { updates.join(", ") });
        line("result", summary(&run));
    }
    let config = ModelConfig::load(path)?;
    line("task", config.task.clone());
    line(
        "input",
        match config.input {
            InputKind::Tokens(symbols) => format!("one of {symbols} symbols a step"),
            InputKind::Dense(numbers) => format!("{numbers} numbers a step"),
        },
    );
    line(
        "output",
        match config.output {
            OutputKind::Classes(classes) => format!("{classes} classes"),
            OutputKind::Value => "a number".into(),
        },
    );
    let named = |names: &Option<Vec<String>>| names.as_ref().map(|names| names.join(", "));
    for (what, names) in [("features", named(&config.facts.features)), ("classes", named(&config.facts.classes))] {
        if let Some(names) = names {
            line(what, names);
        }
    }
    for (place, setting) in toml::to_string(&config.model).unwrap_or_default().lines().enumerate() {
        line(if place == 0 { "model" } else { "" }, setting.to_string());
    }
    match load_model(path, &Device::flex()) {
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

fn summary_of(run: &RunDir) -> Option<Value> {
    files::read_json(&run.file(SUMMARY)).ok().flatten()
}

/// The test figures of a finished run.
fn summary(run: &RunDir) -> String {
    match summary_of(run).as_ref().and_then(|summary| summary.get("test")) {
        Some(test) => format!("test {test}"),
        None => format!("not finished; `sab train --resume {}` goes on", run.path().display()),
    }
}
