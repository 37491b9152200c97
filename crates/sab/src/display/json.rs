//! Reports as JSON, for programs that watch a run. `event` names the kind of a report: `progress`, `validation` or
//! `note`. NaN and infinities are `null`, as JSON has no word for them.

use crate::tasks::as_json;
use crate::train::{NoteKind, Progress, Validation};
use serde_json::json;

pub fn progress_line(progress: &Progress) -> String {
    json!({
        "event": "progress",
        "update": progress.update,
        "budget": progress.budget,
        "loss": progress.loss,
        "metrics": as_json(&progress.metrics),
        "gradient_norm": progress.gradient_norm,
        "learning_rate": progress.learning_rate,
        "updates_per_second": progress.updates_per_second,
        "seconds": progress.seconds,
        "seconds_left": progress.seconds_left,
    })
    .to_string()
}

pub fn validation_line(validation: &Validation) -> String {
    let Validation { update, metrics, best } = validation;
    json!({ "event": "validation", "update": update, "metrics": as_json(metrics), "best": best }).to_string()
}

pub fn note_line(kind: NoteKind, text: &str) -> String {
    let kind = match kind {
        NoteKind::Info => "info",
        NoteKind::Warning => "warning",
    };
    json!({ "event": "note", "kind": kind, "text": text }).to_string()
}
