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

    /// Some steps of sequences: the answer is asked if the last step is among them.
    fn batch(&self, rows: usize, steps: Range<usize>, mut draws_of: impl FnMut(usize) -> Draws) -> Batch {
        let (half, last) = (self.length / 2, self.length - 1);
        let (mut values, mut sums) = (Vec::with_capacity(rows * steps.len() * 2), Vec::new());
        for row in 0..rows {
            let mut draws = draws_of(row);
            let marked = [draws.below(half), half + draws.below(self.length - half)];
            // A number of each step follows.
            let first = draws.position();
            draws.go_to(first + steps.start as u128);
            for step in steps.clone() {
                values.extend([draws.fraction(), f32::from(u8::from(marked.contains(&step)))]);
            }
            if steps.contains(&last) {
                let number = |step: &usize| {
                    draws.go_to(first + *step as u128);
                    draws.fraction()
                };
                sums.push(marked.iter().map(number).sum());
            }
        }
        let (asked, steps) = (last.clamp(steps.start, steps.end) - steps.start, steps.len());
        let input = Input::Dense { width: 2, values };
        Batch { rows, steps, input, asked: Asked::From(asked), answers: Answers::Values(sums) }
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
        let draws_of = |row| Draws::new(Purpose::Training, seed, update * rows as u64 + row as u64);
        self.batch(rows, 0..self.length, draws_of)
    }

    fn held_out(&self, split: Split) -> usize {
        self.counts().of(split)
    }

    fn held_out_sequences(&self, split: Split, sequences: Range<usize>) -> Batch {
        self.held_out_stretch(split, sequences, 0..self.length)
    }

    fn held_out_steps(&self, _split: Split, _sequences: Range<usize>) -> usize {
        self.length
    }

    fn held_out_stretch(&self, split: Split, sequences: Range<usize>, steps: Range<usize>) -> Batch {
        self.batch(sequences.len(), steps, |row| HeldOut::draws(split, sequences.start + row))
    }

    fn metrics(&self, tally: &Tally) -> Metrics {
        vec![("mse", tally.all.mse())]
    }
}
