//! Whole runs, as `sab train` does them: from an experiment to a run directory with a trained model and its result.
//!
//! ```no_run
//! use sab::device::DeviceName;
//! use sab::display::Style;
//! use sab::experiment::Experiment;
//! use sab::runs::{self, Trained};
//! use sab::train::{Session, Stop};
//! use std::path::Path;
//!
//! let experiment = Experiment::of_text("[task]\nname = \"copy\"\nlength = 30", "here", &[])?;
//! let done = runs::begin(Path::new("runs/mine"), &experiment, Session::default(), Style::Auto, Stop::default())?;
//! println!("{:?}", done.test);
//! let trained = Trained::open(Path::new("runs/mine"), None, DeviceName::Cpu)?; // now, or in another program
//! # Ok::<(), sab::LabError>(())
//! ```

pub(crate) mod changes;
mod conclusion;
mod lengths;
pub(crate) mod picture;
mod trained;
mod transfer_file;

pub use changes::Changes;
pub use lengths::{At, AtLength, JudgeOptions, Judging, OVERFLOWED, judge_lengths};
pub use trained::{Held, Trained};
pub(crate) use transfer_file::entry_of;

use crate::data::DataError;
use crate::device::DeviceName;
use crate::display::{Style, display};
use crate::error::{LabError, Result};
use crate::experiment::{Experiment, TaskSettings};
use crate::models::Model;
use crate::run_dir::{DeviceUse, Environment, ModelConfig, RunDir, available_memory, cores};
use crate::tasks::{Metrics, Task, TaskFacts};
use crate::train::checkpoint::TrainState;
use crate::train::{NoteKind, Session, Stop, StopReason, Trainer};
use conclusion::conclude;
use std::path::{Path, PathBuf};

/// A run that has ended.
#[derive(Debug)]
pub struct Finished {
    /// Its directory.
    pub run: RunDir,
    /// Its experiment.
    pub experiment: Experiment,
    /// The model that validated best, without gradient.
    pub model: Model,
    /// The state of training at its end.
    pub state: TrainState,
    /// Why training stopped.
    pub stop_reason: StopReason,
    /// Metrics of the model on the validation set; the first of them chose it.
    pub validation: Metrics,
    /// Metrics of the model on the test set.
    pub test: Metrics,
    /// The content of `summary.json`.
    pub summary: serde_json::Value,
    /// Pictures of the attention on a test sequence; none if the model does not attend.
    pub pictures: Vec<PathBuf>,
}

/// Makes a run directory at `path`, which must not exist, trains in it, and tests the best model.
///
/// A [`Stop`] that listens to signals ends training with [`LabError::Interrupted`] after a checkpoint; [`resume`]
/// continues from there. The run keeps the whole path of a table or text, so that it can be resumed from any folder.
/// The first call in a process sets the number of threads of Burn's own operations.
pub fn begin(path: &Path, experiment: &Experiment, session: Session, style: Style, stop: Stop) -> Result<Finished> {
    let experiment = &Experiment { task: experiment.task.clone().with_whole_path()?, ..experiment.clone() };
    let task = crate::tasks::open(&experiment.task, &experiment.data_dir)?;
    let device = session.device.unwrap_or_default();
    let device_use = DeviceUse::new(device, &device.open()?, 0);
    check_memory(experiment, &*task, device)?;
    // A budget that makes no sense must not leave a run directory behind.
    crate::train::budget(experiment, &*task)?;
    let threads = session.threads.or(experiment.train.threads).unwrap_or_else(cores);
    let environment = Environment::here(threads, experiment.train.seed, device_use);
    let model = ModelConfig::new(experiment.task.name(), &*task, &experiment.model);
    let run = RunDir::create(path, experiment, &model, &environment)?;
    train(run, experiment.clone(), &*task, session, style, stop)
}

/// Continues the run at `path`, exactly as if it had never stopped (on another device, up to rounding). `data_dir`
/// names the place of data sets, if it has changed.
pub fn resume(path: &Path, data_dir: Option<&Path>, session: Session, style: Style, stop: Stop) -> Result<Finished> {
    let run = RunDir::open(path)?;
    let mut experiment = run.experiment()?;
    if let Some(data_dir) = data_dir {
        experiment.data_dir = data_dir.to_path_buf();
    }
    let saved = ModelConfig::load(path)?;
    let task = reopen(&run, &experiment.task, &experiment.data_dir, &saved.facts)?;
    let now = ModelConfig::new(experiment.task.name(), &*task, &experiment.model);
    if !saved.fits(&now) {
        let path = path.display();
        return Err(LabError::Run(format!(
            "{path}/config.json does not fit config.toml and the data as they are now: one of them has changed since \
             the run began; restore it, or begin a new run"
        )));
    }
    train(run, experiment, &*task, session, style, stop)
}

/// The task of an existing run, with its data. A table or text of the user must not have changed, by the digest that
/// is kept with the model; its place may have.
fn reopen(run: &RunDir, settings: &TaskSettings, data_dir: &Path, kept: &TaskFacts) -> Result<Box<dyn Task>> {
    let name = run.path().display();
    if let Some(file) = settings.file()
        && !file.exists()
    {
        let hint = format!("put it back, or name its new place in {name}/config.toml (`task.file`)");
        return Err(DataError::missing(&file, &hint).into());
    }
    let task = crate::tasks::open(settings, data_dir)?;
    match (settings.file(), &kept.sha256, task.facts().sha256) {
        (Some(file), Some(then), Some(now)) if *then != now => {
            let problem = format!("has changed since the run {name} began (its SHA-256 was {then})");
            let hint = format!(
                "put the old one back; `sab eval {name} --file {}` evaluates the model on all of the new one, and a new \
                 run can learn from it",
                file.display()
            );
            Err(DataError::bad(&file, problem, &hint).into())
        }
        _ => Ok(task),
    }
}

fn train(
    run: RunDir, experiment: Experiment, task: &dyn Task, session: Session, style: Style, stop: Stop,
) -> Result<Finished> {
    let _lock = run.lock()?;
    let threads = session.threads.or(experiment.train.threads).unwrap_or_else(cores);
    // The pool of Burn's own operations. A process can set it only once; later calls change nothing.
    let _ = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
    let mut display = display(style, &experiment.short_name());
    let mut trainer = Trainer::resume(&run, task, session, stop, &mut *display)?;
    let (threads, device) = (trainer.threads(), trainer.device().clone().inner());
    introduce(&mut trainer, &run, &experiment, task);
    let (model, state, stop_reason) = trainer.run()?;
    display.note(NoteKind::Info, &format!("{}; testing the best model", stop_reason.describe()));
    conclude(run, experiment, task, (model, state, stop_reason), (threads, &device))
}

/// Refuses a run that cannot fit into memory: a process that runs out of memory leaves no message. A GPU has its own
/// memory and does not tell how much of it is free.
fn check_memory(experiment: &Experiment, task: &dyn Task, device: DeviceName) -> Result<()> {
    if device != DeviceName::Cpu {
        return Ok(());
    }
    let steps = experiment.train.update_every.unwrap_or(usize::MAX).min(task.training_steps());
    let (rows, steps) = (experiment.train.batch as f64, steps as f64);
    let needed = experiment.model.training_bytes(rows, steps, task.input().size(), task.output().size());
    let Some(have) = available_memory().filter(|have| needed > *have as f64) else { return Ok(()) };
    let gib = |bytes: f64| bytes / (1_u64 << 30) as f64;
    Err(LabError::Config(format!(
        "a batch of {rows} sequences of {steps} steps takes {:.1} GiB or more, and {:.1} GiB are free: reduce \
         --batch, --length or --hidden",
        gib(needed),
        gib(have as f64)
    )))
}

/// Announces the run.
fn introduce(trainer: &mut Trainer, run: &RunDir, experiment: &Experiment, task: &dyn Task) {
    let (done, budget, threads) = (trainer.state().update, trainer.budget(), trainer.threads());
    let place = match trainer.device_use() {
        DeviceUse { device: DeviceName::Cpu, .. } => format!("{threads} thread{}", if threads == 1 { "" } else { "s" }),
        gpu => gpu.to_string(),
    };
    let length = experiment.task.length().map_or(String::new(), |length| format!(" at length {length}"));
    let (name, batch, seed) = (experiment.task.name(), experiment.train.batch, experiment.train.seed);
    trainer
        .announce(&format!("learning `{name}`{length}: {budget} updates of {batch} sequences, seed {seed}, {place}"));
    let progress = match done {
        0 => "; Ctrl-C saves a checkpoint and stops".into(),
        done if done >= budget => format!("; all {done} updates are done"),
        done => format!(", continuing from update {done}; Ctrl-C saves a checkpoint and stops"),
    };
    let folder = run.path().display();
    trainer.announce(&format!("writing to {folder}{progress}"));
    for text in [task.describe(), task.facts().note].into_iter().flatten() {
        trainer.announce(&text);
    }
}
