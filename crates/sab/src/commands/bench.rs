//! `sab bench`

use super::{print, print_json};
use crate::device::DeviceName;
use crate::display::{Style, display};
use crate::error::{LabError, Result};
use crate::experiment::{Experiment, Value, parse_change};
use crate::models::Model;
use crate::run_dir::{DeviceUse, Environment, ModelConfig, RunDir, cores};
use crate::settings::wrong;
use crate::tasks::Task;
use crate::train::{Adam, Learner, Session, Stop, Trainer};
use attentive::ForwardOptions;
use clap::Args;
use serde_json::json;
use std::time::Instant;

/// Measure the overhead of the trainer over a bare training step
///
/// A bare step is forward, loss, backward, clipping and Adam on one batch. The time of the trainer includes everything:
/// data, metrics, validation, checkpoints. Both run in turn, and the best round of each counts.
#[derive(Args, Debug)]
pub struct BenchArguments {
    /// A task that needs no data
    #[arg(default_value = "copy")]
    task: String,

    /// Change a key of the configuration; repeat for more keys
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Updates per round
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    updates: u32,

    /// Number of rounds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Number of threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,

    /// The device to run the model on
    #[arg(long, value_enum, value_name = "DEVICE", default_value = "cpu")]
    device: DeviceName,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &BenchArguments) -> Result<()> {
    let mut changes = vec![("train.updates".to_string(), Value::Integer(arguments.updates.into()))];
    for pair in &arguments.set {
        changes.push(parse_change(pair)?);
    }
    let experiment = Experiment::of_task(&arguments.task, &changes)?;
    if let Some(every) = experiment.train.update_every {
        let hint = "a bare step takes a whole batch: use --set train.update_every=none";
        return Err(wrong("train.update_every", every, hint));
    }
    let task = crate::tasks::open(&experiment.task, &experiment.data_dir)?;
    let threads = arguments.threads.map_or_else(cores, usize::from);
    let (mut bare, mut trainer) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..arguments.rounds {
        bare = bare.min(bare_step(&experiment, &*task, threads, arguments.device)?);
        trainer = trainer.min(trainer_update(&experiment, &*task, threads, arguments.device)?);
    }
    let ratio = trainer / bare;
    if arguments.json {
        return print_json(&json!({ "run": experiment.short_name(), "threads": threads, "bare_ms": bare,
            "trainer_ms": trainer, "ratio": ratio, "updates": arguments.updates, "rounds": arguments.rounds }));
    }
    print(&format!(
        "bare step {bare:.2} ms, update of the trainer {trainer:.2} ms, ratio {ratio:.3} ({threads} threads)\n"
    ))
}

/// Milliseconds of one step on one batch, the mean over a round.
fn bare_step(experiment: &Experiment, task: &dyn Task, threads: usize, device: DeviceName) -> Result<f64> {
    let settings = &experiment.train;
    let device = device.open()?.autodiff();
    let model = Model::new(&experiment.model, task.input(), task.output(), settings.seed, &device)?;
    let adam = Adam::new(settings, &model)?;
    let mut learner = Learner { model, adam, clip: settings.clip, device };
    // The first batch of a stream asks nothing.
    let batch = task.training_batch(settings.seed, 1, settings.batch);
    let mut began = Instant::now();
    // The first steps find their memory.
    for step in 0..settings.updates + 2 {
        if step == 2 {
            began = Instant::now();
        }
        let options = ForwardOptions::new().with_threads(threads).with_batch(settings.seed, step);
        let learned = learner.learn(&batch, &options, settings.learning_rate, None)?;
        if learned.is_none() {
            return Err(LabError::Diverged(
                "the loss or the gradient is not a finite number: try a smaller learning rate".into(),
            ));
        }
    }
    Ok(began.elapsed().as_secs_f64() * 1e3 / settings.updates as f64)
}

/// Milliseconds of one update of the trainer, the mean over a whole run in a temporary directory.
fn trainer_update(experiment: &Experiment, task: &dyn Task, threads: usize, device: DeviceName) -> Result<f64> {
    let folder = tempfile::tempdir().map_err(|why| LabError::file("create", &std::env::temp_dir(), &why))?;
    let model = ModelConfig::new(experiment.task.name(), task, &experiment.model);
    let environment = Environment::here(threads, experiment.train.seed, DeviceUse::new(device, &device.open()?, 0));
    let run = RunDir::create(&folder.path().join("run"), experiment, &model, &environment)?;
    let session = Session { threads: Some(threads), max_seconds: None, device: Some(device) };
    let mut display = display(Style::Quiet, "");
    let trainer = Trainer::resume(&run, task, session, Stop::default(), &mut *display)?;
    let began = Instant::now();
    let (_, state, _) = trainer.run()?;
    Ok(began.elapsed().as_secs_f64() * 1e3 / state.update as f64)
}
