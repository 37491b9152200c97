//! `ptb`: characters of the Penn Treebank.

use super::characters::{self, Characters};
use super::{CommonKeys, Task, TaskFacts, TaskKind, kind};
use crate::data::load_ptb;
use crate::error::Result;
use crate::settings::TrainSettings;
use attentive::SabLstmConfig;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Characters of the Penn Treebank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ptb {
    /// Characters per sequence.
    pub length: usize,
}

impl Default for Ptb {
    fn default() -> Self {
        Self { length: 100 }
    }
}

impl TaskKind for Ptb {
    fn help(&self) -> &'static str {
        "predict the next character of the Penn Treebank"
    }

    fn model(&self) -> SabLstmConfig {
        characters::model()
    }

    fn train(&self) -> TrainSettings {
        characters::train()
    }

    fn validate(&self) -> Result<()> {
        kind::check_length(self.length, 1)
    }

    fn common_keys(&mut self) -> CommonKeys<'_> {
        CommonKeys { length: Some(&mut self.length), ..CommonKeys::default() }
    }

    fn open(&self, data_dir: &Path) -> Result<Box<dyn Task>> {
        Characters::open(load_ptb(data_dir)?, self.length)
    }

    fn judge_file(&self, facts: &TaskFacts, file: &Path) -> Option<Result<Box<dyn Task>>> {
        Some(Characters::of_model(file, facts, self.length))
    }
}
