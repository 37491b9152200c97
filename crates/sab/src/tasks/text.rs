//! `text`: characters of any UTF-8 file.

use super::characters::{self, Characters};
use super::{CommonKeys, Task, TaskFacts, TaskKind, kind};
use crate::data::load_text;
use crate::error::Result;
use crate::settings::TrainSettings;
use attentive::SabLstmConfig;
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
}

impl Default for Text {
    fn default() -> Self {
        Self { file: PathBuf::new(), length: 100 }
    }
}

impl TaskKind for Text {
    fn help(&self) -> &'static str {
        "predict the next character of your own text: --file TEXT"
    }

    fn model(&self) -> SabLstmConfig {
        characters::model()
    }

    fn train(&self) -> TrainSettings {
        TrainSettings { updates: 5_000, validate_every: 250, ..characters::train() }
    }

    fn validate(&self) -> Result<()> {
        kind::check_length(self.length, 1)
    }

    fn common_keys(&mut self) -> CommonKeys<'_> {
        CommonKeys { length: Some(&mut self.length), file: Some(&mut self.file), ..CommonKeys::default() }
    }

    fn open(&self, _data_dir: &Path) -> Result<Box<dyn Task>> {
        Characters::open(load_text(&self.file)?, self.length)
    }

    fn judge_file(&self, facts: &TaskFacts, file: &Path) -> Option<Result<Box<dyn Task>>> {
        Some(Characters::of_model(file, facts, self.length))
    }
}
