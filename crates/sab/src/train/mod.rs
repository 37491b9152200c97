//! The trainer: runs updates, reading its state from a run directory and writing it back.

mod adam;
pub mod checkpoint;
mod evaluate;
mod learner;
mod observer;
mod schedule;
mod sequences;
mod signals;
mod stretches;

pub use adam::{Adam, GradientSet, LARGEST_NORM};
pub(crate) use evaluate::STEPS_AT_ONCE;
pub use evaluate::{Evaluation, Judgement, Limits, MEMORIES, PEAK_MIB, SECONDS, Watch, evaluate, judge};
pub use learner::{Learned, Learner, Outcome};
pub use observer::{NoteKind, Observer, Progress, Validation};
pub use schedule::learning_rate;
use sequences::{Part, Sequences};
pub use signals::Stop;
pub use stretches::{Place, Stretches};

use crate::attention::Attention;
use crate::device::DeviceName;
use crate::error::{LabError, Result};
use crate::experiment::{Experiment, TrainSettings};
use crate::models::{Model, Snapshot, numbers};
use crate::run_dir::attention_trace::{self, AttentionTrace};
use crate::run_dir::metrics::{Kind, MetricsFile};
use crate::run_dir::{DeviceUse, RunDir, atomic, cores, load_model};
use crate::tasks::{Batch, Metrics, Split, Tally, Task};
use attentive::{ForwardOptions, SabError, SabState};
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use checkpoint::{Checkpoint, Restored, TrainState, Window, Writer};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Why training stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StopReason {
    /// The budget of updates is spent.
    Budget,
    /// The time is up.
    Time,
    /// Validation has not improved for long enough.
    Patience,
}

impl StopReason {
    /// In words.
    pub fn describe(&self) -> &'static str {
        match self {
            Self::Budget => "the budget of updates is spent",
            Self::Time => "the time is up",
            Self::Patience => "validation has stopped improving",
        }
    }
}

/// Limits that are not part of the experiment: a resumed run may have others.
#[derive(Clone, Copy, Debug, Default)]
pub struct Session {
    /// Threads, if they differ from the experiment's.
    pub threads: Option<usize>,
    /// Seconds of training in all, if they differ from the experiment's.
    pub max_seconds: Option<f64>,
    /// The device, if it differs from the run's last one. A new run trains on the CPU by default.
    pub device: Option<DeviceName>,
}

/// Trains one model in one run directory.
pub struct Trainer<'a> {
    settings: TrainSettings,
    task: &'a dyn Task,
    observer: &'a mut dyn Observer,
    stop: Stop,
    device_use: DeviceUse,
    threads: usize,
    budget: u64,
    max_seconds: Option<f64>,
    sequences: Sequences,
    learner: Learner,
    best: Option<Model>,
    state: TrainState,
    metrics: MetricsFile,
    trace: AttentionTrace,
    writer: Writer,
    run: RunDir,
    began: Instant,
    seconds_before: f64,
    /// The start of the interval over which the update rate is measured.
    pace: (Instant, u64),
    last_checkpoint: Option<u64>,
}

impl<'a> Trainer<'a> {
    /// Continues from the latest checkpoint of a run, or starts if there is none. The caller holds the run's lock.
    pub fn resume(
        run: &RunDir, task: &'a dyn Task, session: Session, stop: Stop, observer: &'a mut dyn Observer,
    ) -> Result<Self> {
        let experiment = run.experiment()?;
        let settings = experiment.train.clone();
        let budget = budget(&experiment, task)?;
        atomic::clean(run.path())?;
        atomic::clean(&run.file(crate::run_dir::CHECKPOINTS))?;
        let last_device = run.last_device()?;
        let name = session.device.unwrap_or(last_device.device);
        let device = name.open()?.autodiff();
        let model = Model::new(&experiment.model, task.input(), task.output(), settings.seed, &device)?;
        let identity = identity(&experiment)?;
        let found = checkpoint::latest(run, &identity, &settings, model.clone(), &device)?;
        let last_checkpoint = found.as_ref().map(|found| found.state.update);
        let Restored { state, model, adam, carried } = match found {
            Some(found) => found,
            None => {
                let adam = Adam::new(&settings, &model)?;
                Restored { state: TrainState::default(), model, adam, carried: None }
            }
        };
        let best = match state.best {
            Some(_) => Some(load_model(run.path(), &device.clone().inner())?.1),
            None => None,
        };
        let device_use = DeviceUse::new(name, &device, state.update);
        if (last_device.device, &last_device.adapter) != (name, &device_use.adapter) {
            run.note_device(&device_use)?;
        }
        let now = Instant::now();
        Ok(Self {
            task,
            observer,
            stop,
            device_use,
            threads: session.threads.or(settings.threads).unwrap_or_else(cores),
            budget,
            max_seconds: session.max_seconds.or(settings.max_seconds),
            sequences: Sequences::new(Stretches::new(&experiment, task)?, &settings, carried),
            learner: Learner { model, adam, clip: settings.clip, device },
            best,
            metrics: MetricsFile::resume(run.path(), state.update, state.last_validation)?,
            trace: AttentionTrace::resume(run.path(), state.update)?,
            writer: Writer::new(run, identity, settings.keep),
            run: run.clone(),
            began: now,
            seconds_before: state.seconds,
            pace: (now, state.update),
            last_checkpoint,
            state,
            settings,
        })
    }

    /// The train state.
    pub fn state(&self) -> &TrainState {
        &self.state
    }

    /// Updates in all.
    pub fn budget(&self) -> u64 {
        self.budget
    }

    /// Threads in use.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The device, with autodiff.
    pub fn device(&self) -> &Device {
        &self.learner.device
    }

    /// The device, as `environment.json` describes it.
    pub(crate) fn device_use(&self) -> &DeviceUse {
        &self.device_use
    }

    /// Sends a note before training starts.
    pub fn announce(&mut self, text: &str) {
        self.observer.note(NoteKind::Info, text);
    }

    /// Trains until a stop reason and leaves a checkpoint there. Returns the model with the best validation.
    pub fn run(mut self) -> Result<(Model, TrainState, StopReason)> {
        let stop_reason = loop {
            if let Some(stop_reason) = self.stop_reason()? {
                break stop_reason;
            }
            if let Some(signal) = self.stop.asked() {
                self.checkpoint()?;
                self.writer.finish()?;
                let again = format!("`sab train --resume {}`", self.run.path().display());
                return Err(LabError::Interrupted { signal, again, update: self.state.update });
            }
            self.trace_attention()?;
            self.update()?;
            // Twice per interval: a kill may interrupt the latest write, and then loses no more than the interval.
            let due = |every: u64| self.state.update.is_multiple_of(every);
            let (validate, save) =
                (due(self.settings.validate_every), due((self.settings.checkpoint_every / 2).max(1)));
            if validate {
                self.validate()?;
            }
            if save {
                self.checkpoint()?;
            }
        };
        self.trace_attention()?;
        // A short run, or one whose end falls between two validations.
        if self.state.last_validation != Some(self.state.update) {
            self.validate()?;
            self.last_checkpoint = None;
        }
        self.checkpoint()?;
        self.writer.finish()?;
        let model = self.best.take().unwrap_or_else(|| self.learner.model.valid());
        Ok((model, self.state, stop_reason))
    }

    /// The stop reason, if there is one: a function of the train state, so that a resumed run stops where it would
    /// have.
    fn stop_reason(&mut self) -> Result<Option<StopReason>> {
        self.state.seconds = self.seconds_before + self.began.elapsed().as_secs_f64();
        let state = &self.state;
        if state.refused_in_a_row >= self.settings.refusals {
            let (count, update) = (state.refused_in_a_row, state.update);
            self.checkpoint()?;
            self.writer.finish()?;
            let run = self.run.path().display();
            return Err(LabError::Diverged(format!(
                "training failed: the loss or the gradient was not a finite number in {count} updates in a row, up to \
                 update {update}. None of them changed the weights; the last good ones are in {run}. A smaller --lr or \
                 a smaller train.clip may help"
            )));
        }
        Ok(if state.update >= self.budget {
            Some(StopReason::Budget)
        } else if self.settings.patience.is_some_and(|most| state.validations_since_best >= most) {
            Some(StopReason::Patience)
        } else if self.max_seconds.is_some_and(|most| state.seconds >= most) {
            Some(StopReason::Time)
        } else {
            None
        })
    }

    /// One update.
    fn update(&mut self) -> Result<()> {
        let (seed, number) = (self.settings.seed, self.state.update);
        let rate = learning_rate(&self.settings, number, self.budget);
        let Part { batch, last, carries } = self.sequences.part(self.task, number)?;
        let options = ForwardOptions::new().with_threads(self.threads).with_batch(seed, number);
        let log = (number + 1).is_multiple_of(self.settings.log_every);
        let mut outputs = None;
        let carried = carries.then_some(&mut self.sequences.carried);
        let learned = self.learner.learn_from(carried, &batch, &options, rate, log.then_some(&mut outputs))?;
        self.state.update += 1;
        match learned {
            Outcome::Learned(learned) => {
                self.state.adam_steps = self.learner.adam.steps();
                self.state.refused_in_a_row = 0;
                self.state.window.add(&learned);
            }
            Outcome::NothingAsked => self.state.refused_in_a_row = 0,
            Outcome::Refused => {
                self.state.refused += 1;
                self.state.refused_in_a_row += 1;
                let refused = format!("update {} was refused: its loss or gradient is not a finite number", number + 1);
                self.observer.note(NoteKind::Warning, &refused);
            }
        }
        if log { self.log(&batch, outputs, last, rate) } else { Ok(()) }
    }

    /// A line of metrics: means since the last one, and the task's metrics on the batch or the stretch just seen. Only
    /// the last stretch of a batch has the steps that the task grades apart.
    fn log(&mut self, batch: &Batch, outputs: Option<Tensor<2>>, last: bool, rate: f64) -> Result<()> {
        let window = std::mem::take(&mut self.state.window);
        let mut metrics = match outputs {
            Some(outputs) => {
                let mut tally = Tally::grading_last(if last { self.task.graded_steps() } else { 0 });
                tally.add(batch, &numbers(outputs)?, self.task.output().size())?;
                let known = |(_, value): &(&'static str, f64)| last || !value.is_nan();
                self.task.metrics(&tally).into_iter().filter(known).collect()
            }
            None => Metrics::new(),
        };
        let Window { updates, loss, norm, drift, drifts } = window;
        if drifts > 0 {
            metrics.push(("drift", drift / drifts as f64));
        }
        let mean = |sum: f64| sum / updates as f64;
        let mut line = vec![("loss", mean(loss)), ("gradient_norm", mean(norm)), ("learning_rate", rate)];
        line.extend(metrics.iter().copied());
        let seconds = self.seconds_before + self.began.elapsed().as_secs_f64();
        let update = self.state.update;
        self.metrics.add(Kind::Train, update, seconds, &line)?;
        let (since, from) = self.pace;
        let updates_per_second = (update - from) as f64 / since.elapsed().as_secs_f64().max(1e-9);
        if since.elapsed().as_secs() > 20 {
            self.pace = (Instant::now(), update);
        }
        let left = (self.budget - update.min(self.budget)) as f64 / updates_per_second;
        let left = self.max_seconds.map_or(left, |most| left.min(most - seconds));
        self.observer.progress(&Progress {
            update,
            budget: self.budget,
            loss: mean(loss),
            metrics,
            gradient_norm: mean(norm),
            learning_rate: rate,
            updates_per_second,
            seconds,
            seconds_left: left.is_finite().then_some(left.max(0.0)),
        });
        Ok(())
    }

    /// Judges the model on the validation set and keeps it if it is the best so far.
    fn validate(&mut self) -> Result<()> {
        let model = self.learner.model.valid();
        let (device, most) = (self.learner.device.clone().inner(), self.settings.validation_batches);
        let judged = evaluate(&model, self.task, Split::Validation, self.settings.batch, most, self.threads, &device);
        let metrics = match judged {
            // Finite weights can still overflow; such a model is never the best.
            Err(LabError::Model(SabError::NonFinite { .. })) => vec![("score", f64::NAN)],
            judged => judged?.metrics,
        };
        let score = metrics.first().map_or(f64::NAN, |(_, value)| *value);
        let update = self.state.update;
        let best = !score.is_nan() && self.state.best.is_none_or(|(best, _)| score < best);
        if best {
            self.state.best = Some((score, update));
            self.state.validations_since_best = 0;
            self.writer.model(self.learner.model.snapshot()?, update)?;
            self.best = Some(model);
        } else {
            self.state.validations_since_best += 1;
        }
        self.state.last_validation = Some(update);
        let seconds = self.seconds_before + self.began.elapsed().as_secs_f64();
        self.metrics.add(Kind::Validation, update, seconds, &metrics)?;
        self.observer.validation(&Validation { update, metrics, best });
        Ok(())
    }

    /// Records the reminders of one sequence when that is due: before the first update, then every `attention_every`.
    fn trace_attention(&mut self) -> Result<()> {
        let update = self.state.update;
        let due = self.settings.attention_every.is_some_and(|every| update.is_multiple_of(every));
        let (true, false, Model::Sab(model)) = (due, self.trace.has(update), self.learner.model.valid()) else {
            return Ok(());
        };
        let (split, sequence) = attention_trace::SEQUENCE;
        match Attention::of(&model, self.task, split, sequence, &self.learner.device.clone().inner()) {
            // Finite weights can still overflow; there is nothing to see then.
            Ok(None) | Err(LabError::Model(SabError::NonFinite { .. })) => Ok(()),
            Ok(Some(attention)) => self.trace.add(update, &attention),
            Err(why) => Err(why),
        }
    }

    /// Hands a checkpoint to the writer, unless this update has one.
    fn checkpoint(&mut self) -> Result<()> {
        if self.last_checkpoint == Some(self.state.update) {
            return Ok(());
        }
        self.last_checkpoint = Some(self.state.update);
        self.state.seconds = self.seconds_before + self.began.elapsed().as_secs_f64();
        let parameters: Snapshot = self.learner.model.snapshot()?;
        let moments = self.learner.adam.moments(&parameters);
        let carried = self.sequences.carried.as_ref().map(SabState::to_record);
        self.writer.checkpoint(Checkpoint { state: self.state.clone(), parameters, moments, carried })
    }
}

/// Updates in all: those of the epochs if `train.epochs` is a number, otherwise `train.updates`.
pub fn budget(experiment: &Experiment, task: &dyn Task) -> Result<u64> {
    let stretches = Stretches::new(experiment, task)?;
    let Some(epochs) = experiment.train.epochs else { return Ok(experiment.train.updates) };
    match task.updates_an_epoch(experiment.train.batch) {
        Some(batches) => Ok(batches.saturating_mul(stretches.per_batch()).saturating_mul(epochs)),
        None => Err(LabError::Config(format!(
            "`train.epochs` is {epochs}, but `{}` generates new sequences for each batch and has no epochs: \
             set `train.updates`",
            experiment.task.name()
        ))),
    }
}

/// The keys that two experiments must share for one to continue from the other's checkpoint: all but threads, time and
/// the place of the data.
fn identity(experiment: &Experiment) -> Result<String> {
    let mut same = experiment.clone();
    same.data_dir = Default::default();
    same.train.threads = None;
    same.train.max_seconds = None;
    same.to_toml()
}
