//! `attention.jsonl`: how attention changes during training.

use super::files;
use crate::attention::Attention;
use crate::error::Result;
use crate::tasks::Split;
use serde_json::json;
use std::path::Path;

/// The file's name.
pub const FILE: &str = "attention.jsonl";

/// The sequence that is recorded: always the same one, and none of the test set.
pub const SEQUENCE: (Split, u64) = (Split::Validation, 0);

/// Records reminders at some points of training.
pub struct AttentionTrace {
    file: files::Lines,
    latest: Option<u64>,
}

impl AttentionTrace {
    /// Continues after `update`.
    pub fn resume(directory: &Path, update: u64) -> Result<Self> {
        let (lines, file) = files::resume_lines(directory.join(FILE), update, |_, _| true)?;
        let latest = lines.last().and_then(|line| line["update"].as_u64());
        Ok(Self { file, latest })
    }

    /// Whether this update is recorded.
    pub fn has(&self, update: u64) -> bool {
        self.latest == Some(update)
    }

    /// Adds a line.
    pub fn add(&mut self, update: u64, attention: &Attention) -> Result<()> {
        let Attention { inputs, reminded_of } = attention;
        self.latest = Some(update);
        self.file.add(&json!({ "update": update, "split": "validation", "sequence": SEQUENCE.1, "inputs": inputs,
            "reminded_of": reminded_of }))
    }
}
