//! Checkpoints: everything that training needs to continue bit for bit, one file each, written while training runs.

use super::adam::{Adam, FIRST, SECOND};
use super::learner::Learned;
use crate::error::{LabError, Result};
use crate::experiment::{Experiment, TrainSettings};
use crate::models::{Model, Snapshot, file};
use crate::run_dir::{CHECKPOINTS, RunDir, atomic, save_model};
use attentive::{SabState, SabStateRecord};
use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

/// The progress of training, besides weights and moments.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainState {
    /// Updates done, refused ones included: the number of the next batch.
    pub update: u64,
    /// Updates that Adam has made.
    pub adam_steps: u64,
    /// Seconds of training, those before a resume included.
    pub seconds: f64,
    /// The best score so far and its update.
    pub best: Option<(f64, u64)>,
    /// The update of the last validation.
    pub last_validation: Option<u64>,
    /// Validations since the best.
    pub validations_since_best: u64,
    /// Updates refused because their loss or gradient was not a number.
    pub refused: u64,
    /// Those in a row, up to now.
    pub refused_in_a_row: u64,
    /// Sums since the last line of metrics.
    pub window: Window,
}

/// Sums since the last line of metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Updates that were not refused.
    pub updates: u64,
    /// Of their losses.
    pub loss: f64,
    /// Of their gradients' norms.
    pub norm: f64,
    /// Of their drifts (R21), and how many of them had one.
    #[serde(default)]
    pub drift: f64,
    /// See `drift`.
    #[serde(default)]
    pub drifts: u64,
}

impl Window {
    /// Adds an update.
    pub fn add(&mut self, learned: &Learned) {
        let Learned { loss, norm, drift } = learned;
        (self.updates, self.loss, self.norm) = (self.updates + 1, self.loss + loss, self.norm + norm);
        if let Some(drift) = drift {
            (self.drift, self.drifts) = (self.drift + drift, self.drifts + 1);
        }
    }
}

/// The facts of a checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Facts {
    // Earlier checkpoints call it `standing`.
    #[serde(alias = "standing")]
    state: TrainState,
    /// The experiment, so that a checkpoint cannot continue another one.
    experiment: String,
}

/// A checkpoint in memory.
pub struct Checkpoint {
    /// The progress of training.
    pub state: TrainState,
    /// The model's parameters.
    pub parameters: Snapshot,
    /// Adam's moments.
    pub moments: Snapshot,
    /// The state that the next update continues from, if it does.
    pub carried: Option<SabStateRecord>,
}

/// A checkpoint read again.
pub struct Restored {
    /// The progress of training.
    pub state: TrainState,
    /// The model.
    pub model: Model,
    /// Its optimizer.
    pub adam: Adam,
    /// The state that the next update continues from, if it does.
    pub carried: Option<SabState>,
}

fn name_of(update: u64) -> String {
    format!("update-{update:010}.safetensors")
}

/// The checkpoints of a run, oldest first.
pub fn list(run: &RunDir) -> Result<Vec<(u64, PathBuf)>> {
    let folder = run.file(CHECKPOINTS);
    let entries = std::fs::read_dir(&folder).map_err(|why| LabError::file("read", &folder, &why))?;
    let update_of = |path: &Path| -> Option<u64> {
        path.file_name()?.to_str()?.strip_prefix("update-")?.strip_suffix(".safetensors")?.parse().ok()
    };
    let mut found: Vec<(u64, PathBuf)> =
        entries.flatten().filter_map(|entry| Some((update_of(&entry.path())?, entry.path()))).collect();
    found.sort();
    Ok(found)
}

/// The latest checkpoint of a run, if it has one.
pub fn latest(
    run: &RunDir, experiment: &str, settings: &TrainSettings, model: Model, device: &Device,
) -> Result<Option<Restored>> {
    let checkpoints = list(run)?;
    let Some((_, path)) = checkpoints.last() else { return Ok(None) };
    let hint = match checkpoints.len() {
        1 => "remove it to start from the beginning".to_string(),
        count => format!("remove it to continue from {}", checkpoints[count - 2].1.display()),
    };
    let content = file::read::<Facts>(path, &hint)?;
    let wrong = |why: &str| LabError::Run(format!("{} {why}; {hint}", path.display()));
    let facts = content.facts.ok_or_else(|| wrong("is not a checkpoint"))?;
    if facts.experiment != experiment && without_file(&facts.experiment) != without_file(experiment) {
        return Err(wrong(
            "belongs to another experiment than config.toml describes: one of the two was changed or copied",
        ));
    }
    let is_moment = |name: &str| name.starts_with(FIRST) || name.starts_with(SECOND);
    let (moments, parameters): (Snapshot, Snapshot) = content.parameters.into_iter().partition(|p| is_moment(&p.name));
    let does_not_fit = |why: String| wrong(&format!("does not fit the model: {why}"));
    let model = model.with_parameters(&parameters).map_err(does_not_fit)?;
    let adam = Adam::restore(settings, facts.state.adam_steps, &model.snapshot()?, moments).map_err(does_not_fit)?;
    let carried = content.state.map(|bytes| from_bytes(&bytes, settings.batch, device)).transpose();
    let carried = carried.map_err(|why| wrong(&format!("has a carried state that cannot be continued: {why}")))?;
    Ok(Some(Restored { state: facts.state, model, adam, carried }))
}

/// The bytes of a carried state. CBOR keeps numbers of any width as they are and lists of bytes short.
fn to_bytes(carried: &SabStateRecord) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    ciborium::into_writer(carried, &mut bytes)
        .map_err(|why| LabError::Run(format!("cannot save the carried state: {why}")))?;
    Ok(bytes)
}

/// The carried state of some bytes, for a batch of so many rows.
fn from_bytes(bytes: &[u8], rows: usize, device: &Device) -> std::result::Result<SabState, String> {
    let record: SabStateRecord = ciborium::from_reader(bytes).map_err(|why| why.to_string())?;
    let state = SabState::from_record(record, device).map_err(|why| why.to_string())?;
    match state.batch() {
        batch if batch == rows => Ok(state),
        batch => Err(format!("it has {batch} rows, but `train.batch` is {rows}")),
    }
}

/// An experiment without the path of its file: the file's content is checked elsewhere, and its path does not matter.
/// Keys that did not exist yet have their defaults.
fn without_file(experiment: &str) -> Option<toml::Table> {
    let experiment = Experiment::of_text(experiment, "the checkpoint", &[]).ok()?;
    let mut table = toml::Table::try_from(&experiment).ok()?;
    table.get_mut("task")?.as_table_mut()?.remove("file");
    Some(table)
}

enum Job {
    Checkpoint(Box<Checkpoint>),
    Model(Snapshot, u64),
}

/// Writes checkpoints and models on a thread of its own, in the order they are handed over.
pub struct Writer {
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Writer {
    /// For a run; `keep` checkpoints stay.
    pub fn new(run: &RunDir, experiment: String, keep: usize) -> Self {
        // No job waits: one is handed over when the one before is on the disk, so that a kill loses less than what
        // two of them span. Training is held up only if the disk is slower than the interval.
        let (jobs, to_do) = sync_channel(0);
        let run = run.clone();
        let thread = std::thread::spawn(move || {
            for job in to_do {
                // The first failure ends the thread: a later file must not appear without an earlier one.
                match job {
                    Job::Checkpoint(checkpoint) => write(&run, &experiment, *checkpoint, keep)?,
                    Job::Model(parameters, update) => save_model(run.path(), parameters, update)?,
                }
            }
            Ok(())
        });
        Self { jobs: Some(jobs), thread: Some(thread) }
    }

    /// Hands a checkpoint over.
    pub fn checkpoint(&mut self, checkpoint: Checkpoint) -> Result<()> {
        self.hand_over(Job::Checkpoint(Box::new(checkpoint)))
    }

    /// Hands over the best model so far.
    pub fn model(&mut self, parameters: Snapshot, update: u64) -> Result<()> {
        self.hand_over(Job::Model(parameters, update))
    }

    /// If the thread takes no more jobs, the error is the failure that ended it.
    fn hand_over(&mut self, job: Job) -> Result<()> {
        match self.jobs.as_ref().map(|jobs| jobs.send(job)) {
            Some(Ok(())) => Ok(()),
            _ => self.finish().and_then(|()| Err(stopped())),
        }
    }

    /// Waits until everything is written.
    pub fn finish(&mut self) -> Result<()> {
        self.jobs = None;
        self.thread.take().map_or(Ok(()), |thread| thread.join().unwrap_or_else(|_| Err(stopped())))
    }
}

fn stopped() -> LabError {
    LabError::Run("the thread that writes checkpoints has stopped".into())
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Callers that want the error call `finish`. Jobs that were handed over are written either way.
        let _ = self.finish();
    }
}

fn write(run: &RunDir, experiment: &str, checkpoint: Checkpoint, keep: usize) -> Result<()> {
    let update = checkpoint.state.update;
    let facts = Facts { state: checkpoint.state, experiment: experiment.to_string() };
    let tensors = [checkpoint.parameters, checkpoint.moments].concat();
    let carried = checkpoint.carried.as_ref().map(to_bytes).transpose()?;
    let bytes = file::to_bytes_with_state(&tensors, carried.as_deref(), &facts)?;
    atomic::write(&run.file(CHECKPOINTS).join(name_of(update)), &bytes)?;
    let all = list(run)?;
    for (_, old) in &all[..all.len().saturating_sub(keep)] {
        std::fs::remove_file(old).map_err(|why| LabError::file("remove", old, &why))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_from_before_a_key_was_known_belongs_to_the_same_experiment() {
        let now = Experiment::of_task("cifar10", &[]).unwrap().to_toml().unwrap();
        let older: String =
            now.lines().filter(|line| !line.contains("weight_decay")).map(|line| format!("{line}\n")).collect();
        assert!(older.len() < now.len());
        assert_eq!(without_file(&older), without_file(&now));
        assert!(without_file(&now).is_some());
        assert_ne!(without_file(&older.replace("hidden = 128", "hidden = 127")), without_file(&now));
    }
}
