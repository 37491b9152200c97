//! The `sab` command: flags are parsed here, and each subcommand has a file.

mod attention;
mod bench;
mod data;
mod eval;
mod info;
mod predict;
mod report;
mod reproduce;
mod sample;
mod train;
mod transfer;

use crate::error::{LabError, Result};
use crate::run_dir::files;
use crate::tasks::as_json;
use clap::{CommandFactory, Parser, Subcommand};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  the model refused its input, or an unexpected failure
  2  a wrong command line or configuration
  3  missing or wrong data
  4  a run directory, checkpoint or file is missing, damaged or cannot be written
  5  training failed: too many losses or gradients that are not finite
  130, 143  stopped by Ctrl-C or SIGTERM: training after a checkpoint, an evaluation with the lengths that are done";

const EXAMPLES: &str = "\
Examples:
  sab train copy                              learn to copy ten digits across 100 blank steps
  sab train text --file book.txt              train a language model on your own text
  sab train csv --file sensors.csv            classify or predict your own sequences
  sab predict RUN new.csv                     answer new sequences with such a model
  sab train --resume runs/copy-100-sab-trunc5-top5-seed1
  sab transfer RUN --lengths 100,1000,5000    evaluate the model at other lengths
  sab attention RUN                           draw which past steps each step was reminded of
  sab report RUN...                           write one HTML page: curves, and attention over training";

/// Train recurrent networks with Sparse Attentive Backtracking.
#[derive(Parser, Debug)]
#[command(name = "sab", version, after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
#[command(arg_required_else_help = true, infer_subcommands = false)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Train(Box<train::TrainArguments>),
    Eval(eval::EvalArguments),
    Predict(predict::PredictArguments),
    Transfer(transfer::TransferArguments),
    Sample(sample::SampleArguments),
    Attention(attention::AttentionArguments),
    Reproduce(reproduce::ReproduceArguments),
    Report(report::ReportArguments),
    Info(info::InfoArguments),
    Bench(bench::BenchArguments),
    #[command(subcommand)]
    Data(data::DataCommand),
    /// Print shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write manual pages for `sab` and each command
    #[command(after_help = "Example:\n  sab man ~/.local/share/man/man1 && man sab-train")]
    Man {
        /// The folder to write to; it is created if necessary
        folder: PathBuf,
    },
}

/// Runs the command line of the process.
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    attentive::keep_freed_memory();
    let done = match cli.command {
        Command::Train(arguments) => train::run(*arguments),
        Command::Eval(arguments) => eval::run(&arguments),
        Command::Predict(arguments) => predict::run(&arguments),
        Command::Transfer(arguments) => transfer::run(&arguments),
        Command::Sample(arguments) => sample::run(&arguments),
        Command::Attention(arguments) => attention::run(&arguments),
        Command::Reproduce(arguments) => reproduce::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Info(arguments) => info::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Data(command) => data::run(&command),
        Command::Completions { shell } => {
            // Through a buffer: clap_complete panics if the pipe is closed early.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "sab", &mut script);
            print(&String::from_utf8_lossy(&script))
        }
        Command::Man { folder } => write_manual(&folder),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            crate::display::restore_terminal();
            eprintln!("error: {why}");
            ExitCode::from(why.exit_code())
        }
    }
}

fn write_manual(folder: &Path) -> Result<()> {
    files::create_folder(folder)?;
    let written = clap_mangen::generate_to(Cli::command(), folder);
    written.map_err(|why| LabError::file("write manual pages into", folder, &why))?;
    print(&format!("{}\n", folder.join("sab.1").display()))
}

/// Prints to stdout.
fn print(text: &str) -> Result<()> {
    let done = Printed.write_all(text.as_bytes()).and_then(|()| Printed.flush());
    done.map_err(|why| LabError::file("write", Path::new("the output"), &why))
}

/// Stdout. A reader that has gone away is no reason to fail; a full disk is.
struct Printed;

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        unless_closed(io::stdout().lock().write(bytes), bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        unless_closed(io::stdout().lock().flush(), ())
    }
}

fn unless_closed<T>(done: io::Result<T>, otherwise: T) -> io::Result<T> {
    match done {
        Err(why) if why.kind() == ErrorKind::BrokenPipe => Ok(otherwise),
        done => done,
    }
}

/// Prints a JSON value on one line.
fn print_json(value: &serde_json::Value) -> Result<()> {
    print(&format!("{value}\n"))
}

/// Metrics as one readable line.
fn readable(metrics: &[(&str, f64)]) -> String {
    metrics
        .iter()
        .map(|(name, value)| format!("{name} {}", crate::display::metric(name, *value)))
        .collect::<Vec<_>>()
        .join("  ")
}
