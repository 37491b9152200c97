//! A line for each report: text, JSON, or warnings only.

use super::Throttle;
use super::format::{duration, metric, number, rate};
use super::json;
use crate::train::{NoteKind, Observer, Progress, Validation};
use std::fmt::Write as _;
use std::io::Write;

/// Numbers are right-aligned in this many characters, so that the columns of consecutive lines match.
const COLUMN: usize = 7;

/// The form of the lines.
#[derive(Clone, Copy, PartialEq)]
pub enum Form {
    /// For people.
    Text,
    /// One JSON object per line, for programs.
    Json,
    /// For people, warnings only.
    Quiet,
}

/// One line now and then, for logs, for programs, and for terminals that cannot be drawn on.
pub struct Lines<W: Write> {
    out: W,
    form: Form,
    throttle: Throttle,
    /// The latest progress, if it was not shown.
    pending: Option<String>,
    /// Digits of the budget, for validation lines to match lines of progress.
    digits: usize,
}

impl<W: Write> Lines<W> {
    /// Begins with the title, if it is not empty and the form is text.
    pub fn new(out: W, form: Form, throttle: Throttle, title: &str) -> Self {
        let mut lines = Self { out, form, throttle, pending: None, digits: COLUMN };
        if form == Form::Text && !title.is_empty() {
            lines.line(title);
        }
        lines
    }

    /// Writes a line at once. A closed pipe must not stop the training, so errors are dropped.
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{text}").and_then(|()| self.out.flush());
    }

    fn show_pending(&mut self) {
        if let Some(progress) = self.pending.take() {
            self.line(&progress);
        }
    }
}

impl<W: Write + Send> Observer for Lines<W> {
    fn progress(&mut self, progress: &Progress) {
        self.digits = digits(progress);
        let line = match self.form {
            Form::Text => progress_line(progress),
            Form::Json => json::progress_line(progress),
            Form::Quiet => return,
        };
        // The end of the budget is always worth a line, in its place before the last validation.
        if self.throttle.ready() || progress.update >= progress.budget {
            self.pending = None;
            self.line(&line);
        } else {
            self.pending = Some(line);
        }
    }

    fn validation(&mut self, validation: &Validation) {
        match self.form {
            Form::Text => self.line(&validation_line(validation, self.digits)),
            Form::Json => self.line(&json::validation_line(validation)),
            Form::Quiet => {}
        }
    }

    fn note(&mut self, kind: NoteKind, text: &str) {
        // Training may have ended before its budget: its last progress comes before the note that says so.
        if kind == NoteKind::Info {
            self.show_pending();
        }
        match self.form {
            Form::Json => self.line(&json::note_line(kind, text)),
            Form::Quiet if kind == NoteKind::Info => {}
            Form::Text | Form::Quiet => self.line(&note_line(kind, text)),
        }
    }
}

impl<W: Write> Drop for Lines<W> {
    fn drop(&mut self) {
        self.show_pending();
    }
}

/// How many digits a number of updates may have.
pub fn digits(progress: &Progress) -> usize {
    progress.budget.to_string().len()
}

/// `1200/20000   6 %`
pub fn updates(progress: &Progress) -> String {
    let (width, Progress { update, budget, .. }) = (digits(progress), progress);
    // Cut, not rounded: only the end is 100 %.
    format!("{update:>width$}/{budget} {:>3} %", (100.0 * progress.fraction()) as u64)
}

/// A whole progress report in a line.
pub fn progress_line(progress: &Progress) -> String {
    let mut line = format!("update {}  loss {:>COLUMN$}", updates(progress), number(progress.loss));
    push_metrics(&mut line, &progress.metrics);
    // Writing to a string does not fail.
    let _ = write!(
        line,
        "  lr {:>COLUMN$}  grad {:>COLUMN$}  {:>6} updates/s",
        number(progress.learning_rate),
        number(progress.gradient_norm),
        rate(progress.updates_per_second)
    );
    if let Some(left) = progress.seconds_left {
        let _ = write!(line, "  {:>COLUMN$} left", duration(left));
    }
    line
}

/// A validation result in a line.
pub fn validation_line(validation: &Validation, digits: usize) -> String {
    let mut line = format!("validation at update {:>digits$}", validation.update);
    push_metrics(&mut line, &validation.metrics);
    if validation.best {
        line.push_str("  best so far");
    }
    line
}

/// A note in a line, marked if it is a warning.
pub fn note_line(kind: NoteKind, text: &str) -> String {
    match kind {
        NoteKind::Info => text.to_owned(),
        NoteKind::Warning => format!("warning: {text}"),
    }
}

fn push_metrics(line: &mut String, metrics: &[(&'static str, f64)]) {
    for (name, value) in metrics {
        let _ = write!(line, "  {name} {:>COLUMN$}", metric(name, *value));
    }
}
