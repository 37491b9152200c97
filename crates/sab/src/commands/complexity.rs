//! `sab complexity`

use super::{print, print_json};
use crate::complexity::{Case, LossOn, Outcome, Point, Report, Settings, Subject, Survey, figure, measure};
use crate::error::{LabError, Result};
use crate::run_dir::{atomic, cores};
use clap::Args;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Measure time and memory of forward and backward at different lengths
///
/// SAB, SAB with every tenth state stored, an LSTM with full backpropagation and full self-attention, each with a loss on
/// every step and with one on the last step alone. Each point has a process of its own. A model goes up to the length at
/// which it would take too much, and what is not measured is said.
///
/// Points that are in DIR already are kept, so a second call goes on where the first was stopped.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  sab complexity --lengths 100,200,400,800,1600 --out results/complexity")]
pub struct ComplexityArguments {
    /// Lengths, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "100,200,500,1000,2000,5000", value_name = "T,T,...")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    lengths: Vec<u32>,

    #[command(flatten)]
    common: Common,

    /// Where to put complexity.json, .csv, .md, .svg and .png
    #[arg(long, value_name = "DIR", default_value = "complexity")]
    out: PathBuf,

    /// Seconds that a point may take, all rounds together
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = parse_seconds)]
    max_seconds_per_point: f64,

    /// Memory that a point may take; by default most of what is free
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..1 << 40))]
    max_memory_mib: Option<u64>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What all points have in common.
#[derive(Args, Debug)]
struct Common {
    /// Hidden units
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u16).range(1..))]
    hidden: u16,

    /// Sequences of a batch
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    batch: u16,

    /// Rounds of each point; the best counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,

    /// Threads; one for each core if not said
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
}

impl Common {
    fn settings(&self) -> Settings {
        let [hidden, batch, rounds] = [self.hidden, self.batch, self.rounds].map(usize::from);
        Settings { hidden, batch, rounds, threads: self.threads.map_or_else(cores, usize::from) }
    }
}

/// Measure one point in this process, for `sab complexity`
#[derive(Args, Debug)]
pub struct PointArguments {
    /// The model
    #[arg(long, value_enum)]
    model: Subject,

    /// Where the loss is
    #[arg(long, value_enum)]
    loss: LossOn,

    /// Steps
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    length: u32,

    #[command(flatten)]
    common: Common,

    /// Time that all may take
    #[arg(long, value_parser = parse_seconds)]
    seconds: f64,
}

fn parse_seconds(text: &str) -> std::result::Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds > 0.0);
    seconds.ok_or_else(|| "seconds are a number above 0".into())
}

/// Measures a point and prints it.
pub(super) fn run_point(arguments: &PointArguments) -> Result<()> {
    let case = Case { model: arguments.model, loss: arguments.loss, length: arguments.length as usize };
    print_json(&measure(case, arguments.common.settings(), arguments.seconds)?)
}

pub(super) fn run(arguments: &ComplexityArguments) -> Result<()> {
    let folder = &arguments.out;
    std::fs::create_dir_all(folder).map_err(|why| LabError::file("create", folder, &why))?;
    let program = std::env::current_exe().map_err(|why| LabError::file("find", Path::new("this program"), &why))?;
    let survey = Survey {
        settings: arguments.common.settings(),
        lengths: arguments.lengths.iter().map(|length| *length as usize).collect(),
        max_seconds: arguments.max_seconds_per_point,
        max_bytes: arguments.max_memory_mib.map(|mebibytes| mebibytes << 20),
        file: folder.join("complexity.json"),
        program,
    };
    let mut new = 0;
    let document = survey.run(|point| {
        new += 1;
        // Beside the result, so that what is piped stays whole.
        eprintln!("{}", progress(point));
    })?;
    let report = Report::new(&document);
    let mut value =
        serde_json::to_value(&document).map_err(|why| LabError::Run(format!("cannot write JSON: {why}")))?;
    value["growth"] = json!(report.growth);
    let mut files = write(folder, &value, &report)?;
    files.extend(draw(folder, &document)?);
    if arguments.json {
        value["new_points"] = json!(new);
        return print_json(&value);
    }
    let kept = document.points.len() - new;
    let names: Vec<String> = files.iter().map(|file| format!("{}\n", file.display())).collect();
    print(&format!("{}\n{new} points are new, {kept} were there already\n{}", report.to_text(), names.concat()))
}

/// A line for each new point.
fn progress(point: &Point) -> String {
    match &point.outcome {
        Outcome::Measured(measured) => {
            format!("{}: forward {:.2} ms, backward {:.2} ms", point.case, measured.forward_ms, measured.backward_ms)
        }
        Outcome::NotMeasured { not_measured, .. } => format!("{}: not measured: {not_measured}", point.case),
    }
}

const PICTURE: &str = "complexity.png";

fn write(folder: &Path, value: &Value, report: &Report<'_>) -> Result<Vec<PathBuf>> {
    let [json, csv, markdown] = ["json", "csv", "md"].map(|kind| folder.join(format!("complexity.{kind}")));
    atomic::write_json(&json, value)?;
    atomic::write(&csv, report.to_csv()?.as_bytes())?;
    let picture = report.has_measurements().then_some(PICTURE);
    atomic::write(&markdown, report.to_markdown(picture).as_bytes())?;
    Ok(vec![json, csv, markdown])
}

/// Draws what was measured, if anything was.
fn draw(folder: &Path, document: &crate::complexity::Document) -> Result<Vec<PathBuf>> {
    let Some(figure) = figure(document) else { return Ok(Vec::new()) };
    let wrong = |why: crate::line_chart::LineChartError| LabError::Run(format!("cannot draw the figure: {why}"));
    let [svg, png] = ["complexity.svg", PICTURE].map(|name| folder.join(name));
    atomic::write(&svg, figure.to_svg().map_err(wrong)?.as_bytes())?;
    atomic::write(&png, &figure.to_png().map_err(wrong)?)?;
    Ok(vec![svg, png])
}
