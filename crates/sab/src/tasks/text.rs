//! `text`: characters of any UTF-8 file.

use super::CommonKeys;
use super::characters::Text as TextTask;
use crate::data::{self, TextSplit};
use crate::settings::TrainSettings;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Characters of any UTF-8 file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Text {
    /// The file.
    pub file: PathBuf,
    /// Characters per sequence.
    pub length: usize,
    /// Whether each row of a batch reads its own part of the text from one end to the other, with its state carried from
    /// one batch to the next; otherwise each sequence begins afresh.
    pub stream: bool,
}

impl Default for Text {
    fn default() -> Self {
        Self { file: PathBuf::new(), length: 100, stream: false }
    }
}

impl TextTask for Text {
    fn help(&self) -> &'static str {
        "predict the next character of your own text: --file TEXT"
    }

    fn load(&self, _data_dir: &Path) -> data::Result<TextSplit> {
        data::load_text(&self.file)
    }

    fn length(&self) -> usize {
        self.length
    }

    fn stream(&self) -> bool {
        self.stream
    }

    fn common_keys(&mut self) -> CommonKeys<'_> {
        CommonKeys { length: Some(&mut self.length), file: Some(&mut self.file), ..CommonKeys::default() }
    }

    fn adjust(&self, usual: TrainSettings) -> TrainSettings {
        TrainSettings { updates: 5_000, validate_every: 250, ..usual }
    }
}
