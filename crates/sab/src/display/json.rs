//! JSON lines, for programs that watch a run.

use super::Throttle;
use crate::train::{NoteKind, Observer, Progress, Validation};
use serde_json::{Map, Value, json};
use std::io::Write;

/// One object per line. `event` names its kind: `progress`, `validation` or `note`. NaN and infinities are `null`, as
/// JSON has no word for them.
pub struct Json<W: Write> {
    out: W,
    throttle: Throttle,
    /// The latest progress, if it was not shown.
    pending: Option<Value>,
}

impl<W: Write> Json<W> {
    pub fn new(out: W, throttle: Throttle) -> Self {
        Self { out, throttle, pending: None }
    }

    /// Writes a line at once. A closed pipe must not stop the training, so errors are dropped.
    fn line(&mut self, value: &Value) {
        let _ = writeln!(self.out, "{value}").and_then(|()| self.out.flush());
    }
}

impl<W: Write + Send> Observer for Json<W> {
    fn progress(&mut self, progress: &Progress) {
        let value = json!({
            "event": "progress",
            "update": progress.update,
            "budget": progress.budget,
            "loss": progress.loss,
            "metrics": metrics(&progress.metrics),
            "gradient_norm": progress.gradient_norm,
            "learning_rate": progress.learning_rate,
            "updates_per_second": progress.updates_per_second,
            "seconds": progress.seconds,
            "seconds_left": progress.seconds_left,
        });
        if self.throttle.ready() {
            self.pending = None;
            self.line(&value);
        } else {
            self.pending = Some(value);
        }
    }

    fn validation(&mut self, validation: &Validation) {
        self.line(&json!({
            "event": "validation",
            "update": validation.update,
            "metrics": metrics(&validation.metrics),
            "best": validation.best,
        }));
    }

    fn note(&mut self, kind: NoteKind, text: &str) {
        let kind = match kind {
            NoteKind::Info => "info",
            NoteKind::Warning => "warning",
        };
        self.line(&json!({ "event": "note", "kind": kind, "text": text }));
    }
}

impl<W: Write> Drop for Json<W> {
    fn drop(&mut self) {
        if let Some(progress) = self.pending.take() {
            self.line(&progress);
        }
    }
}

fn metrics(metrics: &[(&'static str, f64)]) -> Map<String, Value> {
    metrics.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect()
}
