//! `sab info`

use super::print;
use crate::error::Result;
use crate::run_dir::{ModelConfig, RunDir, SUMMARY, load_model};
use crate::train::checkpoint;
use burn::tensor::Device;
use clap::Args;
use serde_json::Value;
use std::path::PathBuf;

/// Say what a run directory or model folder holds
#[derive(Args, Debug)]
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
        line("updates", format!("{} in the configuration", experiment.train.updates));
        let checkpoints = checkpoint::list(&run)?;
        let updates: Vec<String> = checkpoints.iter().map(|(update, _)| update.to_string()).collect();
        line("checkpoints", if updates.is_empty() { "none".into() } else { updates.join(", ") });
        line("result", summary(&run));
    }
    let config = ModelConfig::load(path)?;
    line("task", config.task.clone());
    line("input", format!("{:?}", config.input));
    line("output", format!("{:?}", config.output));
    let settings = toml::to_string(&config.model).unwrap_or_default();
    line("model", settings.trim().lines().filter(|line| !line.is_empty()).collect::<Vec<_>>().join(", "));
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
    print(&text);
    Ok(())
}

/// The test figures of a finished run.
fn summary(run: &RunDir) -> String {
    let text = std::fs::read_to_string(run.file(SUMMARY)).ok();
    let summary = text.and_then(|text| serde_json::from_str::<Value>(&text).ok());
    match summary.as_ref().and_then(|summary| summary.get("test")) {
        Some(test) => format!("test {test}"),
        None => format!("not finished; `sab train --resume {}` goes on", run.path().display()),
    }
}
