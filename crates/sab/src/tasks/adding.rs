//! `adding`: the sum of two marked numbers.

use super::{
    Answers, Asked, Batch, CommonKeys, HeldOut, Input, InputKind, Metrics, OutputKind, Split, Tally, Task, TaskKind,
    kind,
};
use crate::error::Result;
use crate::rng::{Draws, Purpose};
use crate::settings::TrainSettings;
use attentive::{Initialization, SabLstmConfig};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::Path;

/// Numbers in 0..1, two of them marked, one in each half; asked for is the sum of the two, on the last step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adding {
    /// The paper's T, the steps of a sequence.
    pub length: usize,
    /// Validation sequences.
    pub validation: usize,
    /// Test sequences.
    pub test: usize,
}

impl Default for Adding {
    fn default() -> Self {
        Self { length: 200, validation: 640, test: 5000 }
    }
}

impl TaskKind for Adding {
    fn help(&self) -> &'static str {
        "add two marked numbers among LENGTH"
    }

    fn model(&self) -> SabLstmConfig {
        let initialization = Initialization { input_gain: 64.0, ..Initialization::default() };
        SabLstmConfig::new(0, 128).with_initialization(initialization)
    }

    fn train(&self) -> TrainSettings {
        TrainSettings { batch: 32, updates: 6_000, learning_rate: 8e-3, ..TrainSettings::default() }
    }

    fn validate(&self) -> Result<()> {
        kind::check_length(self.length, 2)?;
        self.counts().validate()
    }

    fn common_keys(&mut self) -> CommonKeys<'_> {
        CommonKeys { length: Some(&mut self.length), test: Some(&mut self.test), ..CommonKeys::default() }
    }

    fn open(&self, _data_dir: &Path) -> Result<Box<dyn Task>> {
        Ok(Box::new(self.clone()))
    }
}

impl Adding {
    fn counts(&self) -> HeldOut {
        HeldOut { validation: self.validation, test: self.test }
    }

    fn batch(&self, rows: usize, mut draws_of: impl FnMut(usize) -> Draws) -> Batch {
        let steps = self.length;
        let mut values = vec![0.0; rows * steps * 2];
        let mut sums = Vec::with_capacity(rows);
        for (row, values) in values.chunks_exact_mut(steps * 2).enumerate() {
            let mut draws = draws_of(row);
            let half = steps / 2;
            let marked = [draws.below(half), half + draws.below(steps - half)];
            for step in values.chunks_exact_mut(2) {
                step[0] = draws.fraction();
            }
            marked.iter().for_each(|step| values[step * 2 + 1] = 1.0);
            sums.push(marked.iter().map(|step| values[step * 2]).sum());
        }
        let input = Input::Dense { width: 2, values };
        Batch { rows, steps, input, asked: Asked::From(steps - 1), answers: Answers::Values(sums) }
    }
}

impl Task for Adding {
    fn input(&self) -> InputKind {
        InputKind::Dense(2)
    }

    fn output(&self) -> OutputKind {
        OutputKind::Value
    }

    fn training_batch(&self, seed: u64, update: u64, rows: usize) -> Batch {
        self.batch(rows, |row| Draws::new(Purpose::Training, seed, update * rows as u64 + row as u64))
    }

    fn held_out(&self, split: Split) -> usize {
        self.counts().of(split)
    }

    fn held_out_sequences(&self, split: Split, sequences: Range<usize>) -> Batch {
        self.batch(sequences.len(), |row| HeldOut::draws(split, sequences.start + row))
    }

    fn metrics(&self, tally: &Tally) -> Metrics {
        vec![("mse", tally.all.mse())]
    }
}
