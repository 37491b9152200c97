//! A progress bar at the bottom of the terminal, with results and notes as lines above it.

use super::format::{duration, metric, number, rate};
use super::lines::{digits, note_line, updates, validation_line};
use crate::train::{NoteKind, Observer, Progress, Validation};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar with the numbers of the last report beside it.
pub struct Bar {
    bar: ProgressBar,
    digits: usize,
}

impl Bar {
    pub fn new(target: ProgressDrawTarget, title: &str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), target);
        bar.set_style(style());
        if !title.is_empty() {
            bar.println(title);
        }
        Self { bar, digits: 0 }
    }
}

impl Observer for Bar {
    fn progress(&mut self, progress: &Progress) {
        self.digits = digits(progress);
        self.bar.set_length(progress.budget);
        self.bar.set_position(progress.update);
        self.bar.set_message(message(progress));
    }

    fn validation(&mut self, validation: &Validation) {
        self.bar.println(validation_line(validation, self.digits));
    }

    fn note(&mut self, kind: NoteKind, text: &str) {
        self.bar.println(note_line(kind, text));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        // The last state of the bar stays on the terminal as a record.
        self.bar.abandon();
    }
}

/// How every bar looks.
pub(super) fn style() -> ProgressStyle {
    let style = ProgressStyle::with_template("{wide_bar:.cyan/black.bright} {msg}");
    style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━╸─")
}

/// The text beside the bar. A narrow terminal cuts its end, so the most important numbers come first.
fn message(progress: &Progress) -> String {
    let mut parts = vec![updates(progress)];
    parts.extend(progress.seconds_left.map(|left| format!("{} left", duration(left))));
    parts.push(format!("loss {}", number(progress.loss)));
    parts.extend(progress.metrics.iter().take(2).map(|(name, value)| format!("{name} {}", metric(name, *value))));
    parts.push(format!("{}/s", rate(progress.updates_per_second)));
    parts.join("  ")
}
