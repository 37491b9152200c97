//! `sab train`

use super::{print, print_json, readable};
use crate::device::DeviceName;
use crate::display::{Style, duration};
use crate::error::{LabError, Result};
use crate::experiment::{Experiment, TaskSettings, parse_change, parse_value};
use crate::reproduce::Record;
use crate::run_dir::{RunDir, SUMMARY};
use crate::runs::{self, Finished};
use crate::train::{Session, Stop};
use clap::Args;
use std::path::{Path, PathBuf};
use toml::Value;

/// Train a model on a task, or continue a run
///
/// TASK is one of the tasks below, a TOML file that describes an experiment, or a record (JSON) of `sab reproduce`,
/// whose experiment is run again. The run directory holds everything a run writes; it is a new folder under runs/
/// unless --run names another.
#[derive(Args, Debug)]
#[command(after_help = after_help())]
pub struct TrainArguments {
    /// A task, a TOML file, or a record
    #[arg(value_name = "TASK|FILE", required_unless_present = "resume")]
    target: Option<String>,

    /// Continue this run exactly as if it had never stopped
    #[arg(long, value_name = "RUN", conflicts_with_all = ["target", "run", "set", "dry_run", "length", "file", "hidden",
        "k_top", "k_att", "k_trunc", "seed", "steps", "epochs", "batch", "lr"])]
    resume: Option<PathBuf>,

    /// Create this run directory
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,

    /// Change a key of the configuration; repeat for more keys, --dry-run prints them all
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Print the resolved configuration and exit
    #[arg(long)]
    dry_run: bool,

    /// Length of a sequence: the paper's T, or the characters of a text
    #[arg(long, value_name = "STEPS", help_heading = "Task")]
    length: Option<usize>,

    /// The text or table to learn from
    #[arg(long, value_name = "FILE", help_heading = "Task")]
    file: Option<PathBuf>,

    /// The folder of the data sets
    #[arg(long, value_name = "DIR", help_heading = "Task", env = "SAB_DATA_DIR")]
    data_dir: Option<PathBuf>,

    /// Hidden units
    #[arg(long, value_name = "UNITS", help_heading = "Model")]
    hidden: Option<usize>,

    /// Memories that a step may be reminded of: 0 (plain LSTM), a number, or `all`
    #[arg(long, value_name = "N|all", help_heading = "Model")]
    k_top: Option<String>,

    /// Store every k-th hidden state
    #[arg(long, value_name = "STEPS", help_heading = "Model")]
    k_att: Option<usize>,

    /// Steps that the sequential gradient runs back: a number, or `none` for full backpropagation
    #[arg(long, value_name = "STEPS|none", help_heading = "Model")]
    k_trunc: Option<String>,

    /// The seed of weights and batches
    #[arg(long, value_name = "N", help_heading = "Training")]
    seed: Option<u64>,

    /// Number of updates
    #[arg(long, value_name = "UPDATES", help_heading = "Training")]
    steps: Option<u64>,

    /// Number of passes over the data, instead of --steps
    #[arg(long, value_name = "PASSES", help_heading = "Training", conflicts_with = "steps")]
    epochs: Option<u64>,

    /// Sequences per batch
    #[arg(long, value_name = "ROWS", help_heading = "Training")]
    batch: Option<usize>,

    /// Initial learning rate
    #[arg(long, value_name = "RATE", help_heading = "Training", allow_negative_numbers = true)]
    lr: Option<f64>,

    /// Stop after this much training time, such as 90s, 15m or 2h; a resumed run counts its earlier time
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = "Training")]
    max_time: Option<f64>,

    /// Number of threads; the result does not depend on it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), help_heading = "Training")]
    threads: Option<u16>,

    /// The device to train on; the default is the CPU, or the last device of a resumed run
    #[arg(long, value_enum, value_name = "DEVICE", help_heading = "Training")]
    device: Option<DeviceName>,

    #[command(flatten)]
    show: Show,
}

/// How to show a run.
#[derive(Args, Debug)]
#[command(next_help_heading = "Display")]
struct Show {
    /// Show warnings only
    #[arg(long, short, conflicts_with_all = ["json", "dashboard"])]
    quiet: bool,

    /// Print one JSON object per line to stdout
    #[arg(long, conflicts_with = "dashboard")]
    json: bool,

    /// Fill the terminal with live charts
    #[arg(long)]
    dashboard: bool,
}

/// All tasks and some examples.
fn after_help() -> String {
    let line = |task: &TaskSettings| format!("  {:<9}{}\n", task.name(), task.kind().help());
    let tasks: String = TaskSettings::all().iter().map(line).collect();
    format!("Tasks:\n{tasks}\n{EXAMPLES}")
}

const EXAMPLES: &str = "\
Examples:
  sab train copy                                   the paper's copy task, T=100, a few minutes
  sab train copy --length 300 --seed 2 --run runs/long
  sab train copy --k-top 0 --k-trunc none          a plain LSTM with full backpropagation
  sab train pmnist --data-dir data --max-time 45m
  sab train text --file book.txt --hidden 256
  sab train experiments/my.toml --set train.clip=none
  sab train results/records/copy/100-sab-5-5/seed1.json
  sab train copy --dry-run                         print every key and its value
  sab train copy --device wgpu                     on a GPU, if sab was built with wgpu
  sab train --resume runs/long                     after Ctrl-C, a crash or a power cut";

/// Seconds of `90`, `90s`, `15m` or `2h`.
fn parse_time(text: &str) -> std::result::Result<f64, String> {
    let (number, unit) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(number) => (number, &text[number.len()..]),
        None => (text, "s"),
    };
    let factor = match unit {
        "m" => 60.0,
        "h" => 3600.0,
        _ => 1.0,
    };
    match number.trim().parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number * factor),
        _ => Err("a time is a number above 0 with s, m or h, such as 90s, 15m or 2h".into()),
    }
}

impl TrainArguments {
    /// The keys that flags and `--set` change, later ones last.
    fn overrides(&self) -> Result<Vec<(String, Value)>> {
        let mut changes = Vec::new();
        let mut change = |key: &str, value: Option<Value>| changes.extend(value.map(|value| (key.to_string(), value)));
        let whole = |value: usize| Value::Integer(i64::try_from(value).unwrap_or(i64::MAX));
        let text = |path: &PathBuf| Value::String(path.to_string_lossy().into_owned());
        change("task.length", self.length.map(whole));
        change("task.file", self.file.as_ref().map(text));
        change("data_dir", self.data_dir.as_ref().map(text));
        change("model.hidden", self.hidden.map(whole));
        change("model.k_top", self.k_top.as_deref().map(parse_value));
        change("model.k_att", self.k_att.map(whole));
        change("model.k_trunc", self.k_trunc.as_deref().map(parse_value));
        change("train.seed", self.seed.map(|seed| whole(seed as usize)));
        change("train.updates", self.steps.map(|steps| whole(steps as usize)));
        change("train.epochs", self.epochs.map(|epochs| whole(epochs as usize)));
        change("train.batch", self.batch.map(whole));
        change("train.learning_rate", self.lr.map(Value::Float));
        change("train.max_seconds", self.max_time.map(Value::Float));
        change("train.threads", self.threads.map(|threads| whole(usize::from(threads))));
        for pair in &self.set {
            changes.push(parse_change(pair)?);
        }
        Ok(changes)
    }

    fn experiment(&self, target: &str) -> Result<Experiment> {
        let changes = self.overrides()?;
        let path = Path::new(target);
        if target.ends_with(".toml") || target.ends_with(".json") {
            exists(path)?;
        }
        if target.ends_with(".toml") {
            return Experiment::of_file(path, &changes);
        }
        if target.ends_with(".json") {
            return Record::experiment_of(path, &changes);
        }
        if path.exists() {
            let how = if target.ends_with(".csv") { "csv" } else { "text" };
            return Err(LabError::Config(format!(
                "`{target}` is neither a task, nor a TOML file, nor a record; to learn from it, run `sab train {how} --file {target}`"
            )));
        }
        Experiment::of_task(target, &changes)
    }

    fn style(&self) -> Style {
        match (self.show.quiet, self.show.json, self.show.dashboard) {
            (true, ..) => Style::Quiet,
            (_, true, _) => Style::Json,
            (.., true) => Style::Dashboard,
            _ => Style::Auto,
        }
    }
}

pub(super) fn run(arguments: TrainArguments) -> Result<()> {
    let threads = arguments.threads.map(usize::from);
    let session = Session { threads, max_seconds: arguments.max_time, device: arguments.device };
    let finished = match (&arguments.resume, &arguments.target) {
        (Some(path), _) => {
            runs::resume(path, arguments.data_dir.as_deref(), session, arguments.style(), Stop::on_signals()?)?
        }
        (None, Some(target)) => {
            let experiment = arguments.experiment(target)?;
            if arguments.dry_run {
                return print(&experiment.to_toml()?);
            }
            let path = arguments.run.clone().unwrap_or_else(|| RunDir::free_name(&experiment));
            runs::begin(&path, &experiment, session, arguments.style(), Stop::on_signals()?)?
        }
        (None, None) => return Err(LabError::Config("name a task, for example `sab train copy`".into())),
    };
    match (arguments.show.quiet, arguments.show.json) {
        (true, _) => Ok(()),
        (_, true) => print_json(&finished.summary),
        _ => report(&finished),
    }
}

/// Says the same for either kind of file that is not there.
fn exists(path: &Path) -> Result<()> {
    match path.exists() {
        true => Ok(()),
        false => Err(LabError::Run(format!(
            "{} does not exist: name a task, an experiment (TOML) or a record (JSON) of `sab reproduce`",
            path.display()
        ))),
    }
}

/// Prints the result and the names of the files.
fn report(finished: &Finished) -> Result<()> {
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
    line(file("metrics.jsonl"), "the learning curve (also for `tensorboard --logdir`)");
    if let Some(picture) = pictures.first() {
        line(picture.display().to_string(), "which past steps each step was reminded of, with .svg and .json");
    }
    print(&text)
}
