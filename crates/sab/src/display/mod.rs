//! Shows training: nothing, JSON lines, lines of text, a progress bar or a dashboard. A [`Meter`] shows an evaluation.
//!
//! A display is an [`Observer`] of the trainer and decides which of its reports are worth showing. Text for people goes
//! to stderr, JSON for programs to stdout. A display never stops the training: if its output is closed, training
//! continues in silence.

mod bar;
mod dashboard;
mod format;
mod json;
mod lines;
mod meter;
#[cfg(test)]
mod tests;
mod throttle;

pub use dashboard::restore_terminal;
pub use format::{duration, is_fraction, metric, number, percent, rate};
pub use meter::Meter;

use crate::train::{NoteKind, Observer, Progress, Validation};
use bar::Bar;
use dashboard::Dashboard;
use lines::{Form, Lines};
use std::io::{self, IsTerminal};
use std::time::Duration;
use throttle::Throttle;

/// The least time between two lines of progress.
const BETWEEN_LINES: Duration = Duration::from_secs(5);

/// The ways of showing a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// [`Bar`](Self::Bar) on a terminal, [`Lines`](Self::Lines) elsewhere.
    #[default]
    Auto,
    /// Warnings only.
    Quiet,
    /// One JSON object per line on stdout, for programs.
    Json,
    /// A line of text every few seconds.
    Lines,
    /// A progress bar with results above it.
    Bar,
    /// Live charts that fill the terminal.
    Dashboard,
}

/// Makes the display of a style for a run called `title`. Dropping it shows everything that is still pending and leaves
/// the terminal clean.
///
/// A bar and a dashboard need stderr to be a terminal; elsewhere the display falls back to lines, with a note.
pub fn display(style: Style, title: &str) -> Box<dyn Observer> {
    let throttle = || Throttle::new(BETWEEN_LINES);
    let lines = || Lines::new(io::stderr(), Form::Text, throttle(), title);
    match style {
        Style::Quiet => Box::new(Lines::new(io::stderr(), Form::Quiet, throttle(), title)),
        Style::Json => Box::new(Lines::new(io::stdout(), Form::Json, throttle(), title)),
        Style::Lines => Box::new(lines()),
        Style::Auto if !can_draw() => Box::new(lines()),
        Style::Auto | Style::Bar if can_draw() => Box::new(Bar::new(indicatif::ProgressDrawTarget::stderr(), title)),
        Style::Dashboard if can_draw() => match Dashboard::open(title) {
            Ok(dashboard) => Box::new(dashboard),
            Err(error) => instead_of("dashboard", &error.to_string(), lines()),
        },
        Style::Auto | Style::Bar => instead_of("bar", "stderr is not a terminal", lines()),
        Style::Dashboard => instead_of("dashboard", "stderr is not a terminal", lines()),
    }
}

fn instead_of(wanted: &str, why: &str, mut lines: Lines<io::Stderr>) -> Box<dyn Observer> {
    lines.note(NoteKind::Info, &format!("{why}: showing lines instead of the {wanted}"));
    Box::new(lines)
}

/// Whether lines on stderr can be drawn over.
fn can_draw() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}
