//! Time and memory of forward and backward against the length of a sequence, for the models of the paper.
//!
//! SAB, SAB with every tenth state stored, an LSTM with full backpropagation and full self-attention, each with a
//! loss on every step and with a loss on the last step alone. A model goes up to the length at which it would take
//! too much. The page says which points were not measured, and why.
//!
//! ```sh
//! cargo run --release -p attentive-sab --example complexity -- --out results/complexity
//! ```
#![allow(clippy::print_stdout, reason = "a program that prints its result")]

mod case;
mod measure;
mod report;
mod survey;

pub use case::{Case, LossOn, Settings, Subject};
pub use measure::{Measurement, measure, memory};
pub use report::{figure, to_markdown};
pub use survey::{Document, Outcome, Point, Survey, answer};

use clap::Parser;
use sab::run_dir::{atomic, cores};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Measure time and memory of forward and backward at different lengths
///
/// Points that are in DIR already are kept, so a second call goes on where the first was stopped.
#[derive(Parser, Debug)]
#[command(name = "complexity")]
pub struct Arguments {
    /// Lengths, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "100,200,500,1000,2000,5000", value_name = "T,T,...")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    lengths: Vec<u32>,

    /// Hidden units
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u16).range(1..))]
    hidden: u16,

    /// Sequences per batch
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    batch: u16,

    /// Rounds per point; the best one counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,

    /// Threads; by default one per core
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,

    /// The folder for complexity.json, .md, .svg and .png
    #[arg(long, value_name = "DIR", default_value = "complexity")]
    out: PathBuf,

    /// Seconds that a point may take, all rounds together
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = parse_seconds)]
    max_seconds_per_point: f64,

    /// Memory that a point may take; by default most of the free memory
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..1 << 40))]
    max_memory_mib: Option<u64>,
}

fn parse_seconds(text: &str) -> std::result::Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds > 0.0);
    seconds.ok_or_else(|| "expected a number of seconds above 0".into())
}

fn main() -> ExitCode {
    attentive::keep_freed_memory();
    let said = answer().unwrap_or_else(|| {
        let program = std::env::current_exe()?;
        run(&Arguments::parse(), &|| Command::new(&program))
    });
    match said {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Measures the points that are missing, writes all files, and returns the page with the names of the files.
pub fn run(arguments: &Arguments, program: &dyn Fn() -> Command) -> Result<String> {
    let folder = &arguments.out;
    std::fs::create_dir_all(folder).map_err(|why| format!("cannot create {}: {why}", folder.display()))?;
    let [hidden, batch, rounds] = [arguments.hidden, arguments.batch, arguments.rounds].map(usize::from);
    let survey = Survey {
        settings: Settings { hidden, batch, rounds, threads: arguments.threads.map_or_else(cores, usize::from) },
        lengths: arguments.lengths.iter().map(|length| *length as usize).collect(),
        max_seconds: arguments.max_seconds_per_point,
        max_bytes: arguments.max_memory_mib.map(|mebibytes| mebibytes << 20),
        file: folder.join("complexity.json"),
        program,
    };
    let mut new = 0;
    let document = survey.run(|point| {
        new += 1;
        eprintln!("{}", progress(point));
    })?;
    let page = write(folder, &document)?;
    Ok(format!("{page}\n{new} points are new; everything is in {}", folder.display()))
}

/// A line for each new point.
fn progress(point: &Point) -> String {
    match &point.outcome {
        Outcome::Measured(Measurement { forward_ms, backward_ms, .. }) => {
            format!("{}: forward {forward_ms:.2} ms, backward {backward_ms:.2} ms", point.case)
        }
        Outcome::NotMeasured { not_measured } => format!("{}: not measured: {not_measured}", point.case),
    }
}

/// Writes the page and, if anything was measured, the figure.
fn write(folder: &Path, document: &Document) -> Result<String> {
    const PICTURE: &str = "complexity.png";
    let figure = figure(document);
    if let Some(figure) = &figure {
        let drawn = figure.draw()?;
        atomic::write(&folder.join("complexity.svg"), drawn.to_svg().as_bytes())?;
        atomic::write(&folder.join(PICTURE), &drawn.to_png()?)?;
    }
    let page = to_markdown(document, figure.is_some().then_some(PICTURE));
    atomic::write(&folder.join("complexity.md"), page.as_bytes())?;
    Ok(page)
}
