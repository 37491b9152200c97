//! `ptb`: characters of the Penn Treebank.

use super::CommonKeys;
use super::characters::Text;
use crate::data::{self, TextSplit};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Characters of the Penn Treebank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ptb {
    /// Characters per sequence.
    pub length: usize,
    /// Whether each row of a batch reads its own part of the text from one end to the other, with its state carried from
    /// one batch to the next; otherwise each sequence begins afresh.
    pub stream: bool,
}

impl Default for Ptb {
    fn default() -> Self {
        Self { length: 100, stream: false }
    }
}

impl Text for Ptb {
    fn help(&self) -> &'static str {
        "predict the next character of the Penn Treebank"
    }

    fn load(&self, data_dir: &Path) -> data::Result<TextSplit> {
        data::load_ptb(data_dir)
    }

    fn length(&self) -> usize {
        self.length
    }

    fn stream(&self) -> bool {
        self.stream
    }

    fn common_keys(&mut self) -> CommonKeys<'_> {
        CommonKeys { length: Some(&mut self.length), ..CommonKeys::default() }
    }
}
