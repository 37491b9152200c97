//! [`RunDir`]: the folder in which a run keeps everything.
//!
//! ```text
//! config.toml         the resolved experiment
//! environment.json    versions, machine, devices, threads, seed
//! metrics.jsonl       a line every few updates and at each validation
//! events.out.tfevents.*   the same metrics for TensorBoard
//! attention.jsonl     the reminders of one sequence at several points of training
//! checkpoints/        the states that a run can resume from
//! model.safetensors   the best model so far, as PyTorch orders it
//! config.json         the model's settings and the facts it needs about its data
//! summary.json        the result
//! ```

pub mod atomic;
pub mod attention_trace;
mod environment;
pub mod files;
pub mod metrics;
mod model_folder;

pub use environment::{
    DeviceUse, Environment, available_memory, bytes_of_proc, cores, forget_peak_memory, now, peak_memory,
};
pub use model_folder::{ModelConfig, load_model, save_model};

use crate::device::DeviceName;
use crate::error::{LabError, Result};
use crate::experiment::Experiment;
use serde_json::{Value, json};
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

/// The settings of a run; a folder without them is no run directory.
pub const CONFIG: &str = "config.toml";
const LOCK: &str = ".lock";

/// The file with programs, machine and devices of a run.
pub const ENVIRONMENT: &str = "environment.json";
/// The file with the result.
pub const SUMMARY: &str = "summary.json";
/// The results of `sab transfer`.
pub const TRANSFER: &str = "transfer.json";
/// The folder of checkpoints.
pub const CHECKPOINTS: &str = "checkpoints";

/// A run directory that exists.
#[derive(Clone, Debug)]
pub struct RunDir {
    path: PathBuf,
}

impl RunDir {
    /// Creates a run directory. It appears complete, with everything that resuming needs, or not at all.
    pub fn create(
        path: &Path, experiment: &Experiment, model: &ModelConfig, environment: &Environment,
    ) -> Result<Self> {
        if path.exists() {
            let path = path.display();
            return Err(LabError::Run(format!(
                "{path} exists already: `sab train --resume {path}` continues it, another --run DIR starts a new run"
            )));
        }
        let parent = atomic::parent(path);
        files::create_folder(parent)?;
        let fresh = parent.join(format!(".sab-new-{}-{}", std::process::id(), environment.began));
        let fill = || {
            files::create_folder(&fresh.join(CHECKPOINTS))?;
            atomic::write(&fresh.join(CONFIG), experiment.to_toml()?.as_bytes())?;
            atomic::write_json(&fresh.join(ENVIRONMENT), environment)?;
            model.save(&fresh)?;
            fs::rename(&fresh, path)
                .and_then(|()| atomic::sync_parent(path))
                .map_err(|why| LabError::file("create", path, &why))
        };
        // The first error is the one to report.
        fill().inspect_err(|_| _ = fs::remove_dir_all(&fresh))?;
        Ok(Self { path: path.to_path_buf() })
    }

    /// The first of `runs/NAME`, `runs/NAME-2`, ... that does not exist.
    pub fn free_name(experiment: &Experiment) -> PathBuf {
        let name = experiment.short_name();
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let names = std::iter::once(name.clone()).chain(numbered);
        names.map(|name| Path::new("runs").join(name)).find(|path| !path.exists()).unwrap_or_default()
    }

    /// A run directory that exists.
    pub fn open(path: &Path) -> Result<Self> {
        if path.join(CONFIG).is_file() {
            return Ok(Self { path: path.to_path_buf() });
        }
        let what = if path.exists() { "is not a run directory: it has no config.toml" } else { "does not exist" };
        Err(LabError::Run(format!(
            "{} {what}; `sab train` creates run directories, by default under runs/",
            path.display()
        )))
    }

    /// Keeps other processes from training here until the returned file is closed.
    pub fn lock(&self) -> Result<File> {
        let path = self.path.join(LOCK);
        let file = File::create(&path).map_err(|why| LabError::file("write", &path, &why))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => {
                Err(LabError::Run(format!("another process is training in {}", self.path.display())))
            }
            Err(TryLockError::Error(why)) => Err(LabError::file("lock", &path, &why)),
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The experiment that it was made for.
    pub fn experiment(&self) -> Result<Experiment> {
        Experiment::of_file(&self.file(CONFIG), &[])
    }

    /// The device that it was trained on last; the CPU if nothing is known.
    pub(crate) fn last_device(&self) -> Result<DeviceUse> {
        let path = self.file(ENVIRONMENT);
        let environment = files::read_json(&path)?.unwrap_or_default();
        let Some(last) = environment["devices"].as_array().and_then(|devices| devices.last()) else {
            return Ok(DeviceUse { device: DeviceName::Cpu, adapter: None, from_update: 0 });
        };
        serde_json::from_value(last.clone())
            .map_err(|why| LabError::Run(format!("{} names a device that is not known: {why}", path.display())))
    }

    /// Records in `environment.json` that the run continues on another device.
    pub(crate) fn note_device(&self, device: &DeviceUse) -> Result<()> {
        let path = self.file(ENVIRONMENT);
        let mut environment = files::read_json(&path)?.filter(Value::is_object).unwrap_or_else(|| json!({}));
        let mut devices = environment["devices"].as_array().cloned().unwrap_or_default();
        devices.push(json!(device));
        environment["devices"] = Value::Array(devices);
        atomic::write_json(&path, &environment)
    }
}
