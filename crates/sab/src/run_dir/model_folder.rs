//! The model of a run: `model.safetensors` and `config.json`, which PyTorch programs can read.

use super::atomic;
use crate::error::{LabError, Result};
use crate::experiment::ModelSettings;
use crate::models::{Model, Snapshot, file};
use crate::tasks::{InputKind, OutputKind, Task, TaskFacts};
use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::path::Path;

const MODEL: &str = "model.safetensors";
const CONFIG: &str = "config.json";
/// Of the layout of both files.
const FORMAT: u32 = 1;

/// The settings of a model and the facts it needs about its data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelConfig {
    /// Of the layout of both files.
    pub format: u32,
    /// The name of its task.
    pub task: String,
    /// The kind of input per step.
    pub input: InputKind,
    /// The kind of output.
    pub output: OutputKind,
    /// The order of the gates in the weights.
    pub gates: String,
    /// The model's settings.
    pub model: ModelSettings,
    /// Symbols, classes, scales.
    #[serde(default)]
    pub facts: TaskFacts,
}

/// When a model was saved.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct SavedAt {
    /// Updates done when it was saved.
    pub update: u64,
}

impl ModelConfig {
    /// Describes a model for a task.
    pub fn new(name: &str, task: &dyn Task, model: &ModelSettings) -> Self {
        Self {
            format: FORMAT,
            task: name.into(),
            input: task.input(),
            output: task.output(),
            gates: model.gates().into(),
            model: model.clone(),
            facts: task.facts(),
        }
    }

    /// Whether this configuration, saved when a run began, fits the settings and the data as they are now.
    pub(crate) fn fits(&self, now: &Self) -> bool {
        let same = Self { facts: TaskFacts::default(), ..self.clone() };
        same == Self { facts: TaskFacts::default(), ..now.clone() } && self.facts.fit(&now.facts)
    }

    /// Writes `config.json`.
    pub fn save(&self, folder: &Path) -> Result<()> {
        atomic::write_json(&folder.join(CONFIG), self)
    }

    /// Reads `config.json`.
    pub fn load(folder: &Path) -> Result<Self> {
        let path = folder.join(CONFIG);
        let text = std::fs::read_to_string(&path).map_err(|why| match why.kind() {
            ErrorKind::NotFound => missing(folder),
            _ => LabError::file("read", &path, &why),
        })?;
        let config: Self = serde_json::from_str(&text).map_err(|why| {
            let fault = if why.is_data() { "does not describe a model" } else { "is not valid JSON" };
            LabError::Run(format!("{} {fault} ({why}); restore it, or train again", path.display()))
        })?;
        match config.format {
            FORMAT => Ok(config),
            other => Err(LabError::Run(format!("{} has format {other}; this version reads {FORMAT}", path.display()))),
        }
    }
}

/// The error for a folder without `config.json`.
fn missing(folder: &Path) -> LabError {
    let fault = match folder.exists() {
        true => format!("is not a run directory or a model folder: it has no {CONFIG}"),
        false => "does not exist".into(),
    };
    let folder = folder.display();
    LabError::Run(format!("{folder} {fault}; `sab train` creates run directories, by default under runs/"))
}

/// Writes the parameters of a model as PyTorch orders them.
pub fn save_model(folder: &Path, parameters: Snapshot, update: u64) -> Result<()> {
    atomic::write(&folder.join(MODEL), &file::to_bytes(&file::to_pytorch(parameters), &SavedAt { update })?)
}

/// Reads a model folder: what it is, the model itself, and the update it was saved at if it was saved here.
pub fn load_model(folder: &Path, device: &Device) -> Result<(ModelConfig, Model, Option<u64>)> {
    let config = ModelConfig::load(folder)?;
    let path = folder.join(MODEL);
    if !path.exists() {
        let folder = folder.display();
        return Err(LabError::Run(format!("{folder} has no model yet: the first validation saves it")));
    }
    let content = file::read::<SavedAt>(&path, "train again, or copy the file from where it is whole")?;
    let model = Model::new(&config.model, config.input, config.output, 0, device)?;
    let model = model
        .with_parameters(&file::from_pytorch(content.parameters))
        .map_err(|why| LabError::Run(format!("{} does not fit its config.json: {why}", path.display())))?;
    Ok((config, model, content.facts.map(|facts| facts.update)))
}
