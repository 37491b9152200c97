//! How training is shown: nothing, JSON lines, lines of text, a progress bar or a dashboard.
//!
//! The trainer reports [`Progress`], [`Validation`] and notes to a [`Display`] as often as it likes; the display decides
//! what of it is worth showing. What people read goes to stderr, what programs read (JSON) to stdout. A display never
//! stops the training: if its output is closed it goes on in silence.

mod bar;
mod dashboard;
mod format;
mod json;
mod lines;
#[cfg(test)]
mod tests;
mod throttle;

pub use dashboard::restore_terminal;
pub use format::{duration, figure, is_fraction, number, percent, rate};

use bar::Bar;
use dashboard::Dashboard;
use json::Json;
use lines::{Lines, Quiet};
use std::io::{self, IsTerminal};
use std::time::Duration;
use throttle::Throttle;

/// The least time between two lines of progress.
const BETWEEN_LINES: Duration = Duration::from_secs(5);

/// What the trainer reports from time to time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Updates done.
    pub update: u64,
    /// Updates in all, if that is known.
    pub budget: Option<u64>,
    /// The training loss.
    pub loss: f64,
    /// Further figures with their names, such as the accuracy of recent training batches.
    pub figures: Vec<(&'static str, f64)>,
    /// The norm of the gradient before clipping.
    pub gradient_norm: f64,
    /// The learning rate.
    pub learning_rate: f64,
    /// Recent speed.
    pub updates_per_second: f64,
    /// Seconds trained so far.
    pub seconds: f64,
    /// Seconds until the end, if that can be told.
    pub seconds_left: Option<f64>,
}

impl Progress {
    /// The part of the budget that is done, in 0..=1.
    fn fraction(&self) -> Option<f64> {
        let budget = self.budget.filter(|budget| *budget > 0)?;
        Some((self.update as f64 / budget as f64).clamp(0.0, 1.0))
    }
}

/// A result on held-out data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Validation {
    /// Updates done.
    pub update: u64,
    /// The figures with their names.
    pub figures: Vec<(&'static str, f64)>,
    /// Whether this is the best result so far.
    pub best: bool,
}

/// How much a note matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteKind {
    /// Good to know.
    Info,
    /// Something may be wrong; shown in every style.
    Warning,
}

/// Shows a run while it goes on.
pub trait Display: Send {
    /// Takes note of progress; shows it if it is time to.
    fn progress(&mut self, progress: &Progress);

    /// Shows a result on held-out data.
    fn validation(&mut self, validation: &Validation);

    /// Shows a remark.
    fn note(&mut self, kind: NoteKind, text: &str);

    /// Shows what is still to be shown and leaves the terminal clean. A second call does nothing; dropping the display
    /// does the same.
    fn finish(&mut self);
}

/// The ways of showing a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// [`Bar`](Self::Bar) on a terminal, [`Lines`](Self::Lines) elsewhere.
    #[default]
    Auto,
    /// Warnings only.
    Quiet,
    /// One JSON object a line on stdout, for programs.
    Json,
    /// A line of text every few seconds.
    Lines,
    /// A progress bar with results above it.
    Bar,
    /// Live charts that fill the terminal.
    Dashboard,
}

/// Makes the display of a style for a run called `title`.
///
/// A bar and a dashboard need stderr to be a terminal; elsewhere lines are shown in their place, with a note that says
/// so.
pub fn display(style: Style, title: &str) -> Box<dyn Display> {
    let lines = || Lines::new(io::stderr(), Throttle::new(BETWEEN_LINES), title);
    match style {
        Style::Quiet => Box::new(Quiet::new(io::stderr())),
        Style::Json => Box::new(Json::new(io::stdout(), Throttle::new(BETWEEN_LINES))),
        Style::Lines => Box::new(lines()),
        Style::Auto if !can_draw() => Box::new(lines()),
        Style::Auto | Style::Bar if can_draw() => Box::new(Bar::new(indicatif::ProgressDrawTarget::stderr(), title)),
        Style::Dashboard if can_draw() => match Dashboard::open(title) {
            Ok(dashboard) => Box::new(dashboard),
            Err(error) => in_place_of("dashboard", &error.to_string(), lines()),
        },
        Style::Auto | Style::Bar => in_place_of("bar", "stderr is not a terminal", lines()),
        Style::Dashboard => in_place_of("dashboard", "stderr is not a terminal", lines()),
    }
}

fn in_place_of(wanted: &str, why: &str, mut lines: Lines<io::Stderr>) -> Box<dyn Display> {
    lines.note(NoteKind::Info, &format!("{why}: lines are shown in place of the {wanted}"));
    Box::new(lines)
}

/// Whether lines on stderr can be drawn over.
fn can_draw() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}
