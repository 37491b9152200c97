//! `copy`: ten digits, a wait, and the digits again.

use super::{
    Answers, Asked, Batch, CommonKeys, HeldOut, Input, InputKind, Metrics, OutputKind, Split, Tally, Task, TaskKind,
    kind,
};
use crate::error::Result;
use crate::rng::{Draws, Purpose};
use crate::settings::{TrainSettings, wrong};
use attentive::{Initialization, SabLstmConfig, number_or};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::Path;

/// Digits to copy.
pub(crate) const DIGITS: usize = 10;
const BLANK: i32 = 0;
const MARKER: i32 = 9;

/// Ten digits of 1..8, `length - 1` blanks, the marker 9, ten blanks; asked for are blanks until the marker has been
/// seen, then the digits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Copy {
    /// The paper's T; a sequence has 20 more steps.
    pub length: usize,
    /// The weight of the mean loss on the blanks beside that on the digits. With 0 only the digits count, and the
    /// network learns nothing about waiting. `None`, `"auto"` in a file, weighs every step the same, as the paper does.
    #[serde(with = "number_or::auto")]
    pub blank_weight: Option<f64>,
    /// Validation sequences.
    pub validation: usize,
    /// Test sequences.
    pub test: usize,
}

impl Default for Copy {
    fn default() -> Self {
        Self { length: 100, blank_weight: Some(0.02), validation: 320, test: 2000 }
    }
}

impl TaskKind for Copy {
    fn help(&self) -> &'static str {
        "repeat ten digits after a wait of LENGTH steps"
    }

    fn model(&self) -> SabLstmConfig {
        // The square root of the hidden units: a single token counts as much as the whole hidden state.
        let initialization = Initialization { input_gain: 11.3, ..Initialization::default() };
        SabLstmConfig::new(0, 128).with_initialization(initialization)
    }

    fn train(&self) -> TrainSettings {
        TrainSettings { batch: 32, updates: 12_000, learning_rate: 5e-3, ..TrainSettings::default() }
    }

    fn validate(&self) -> Result<()> {
        kind::check_length(self.length, 1)?;
        match self.blank_weight {
            Some(weight) if !(0.0..=1e6).contains(&weight) => {
                Err(wrong("task.blank_weight", weight, "it must be between 0 and 1000000, or \"auto\""))
            }
            _ => self.counts().validate(),
        }
    }

    fn common_keys(&mut self) -> CommonKeys<'_> {
        CommonKeys { length: Some(&mut self.length), test: Some(&mut self.test), ..CommonKeys::default() }
    }

    fn open(&self, _data_dir: &Path) -> Result<Box<dyn Task>> {
        Ok(Box::new(self.clone()))
    }
}

impl Copy {
    fn counts(&self) -> HeldOut {
        HeldOut { validation: self.validation, test: self.test }
    }

    fn steps(&self) -> usize {
        self.length + 2 * DIGITS
    }

    /// Some steps of sequences. `asked` counts from the first of these steps.
    fn batch(
        &self, rows: usize, steps: Range<usize>, asked: Asked, mut digits_of: impl FnMut(usize) -> [i32; DIGITS],
    ) -> Batch {
        let (marker, first) = (self.length + DIGITS - 1, self.steps() - DIGITS);
        let asked_from = steps.start + if let Asked::From(from) = asked { from } else { 0 };
        let (mut tokens, mut answers) = (Vec::with_capacity(rows * steps.len()), Vec::new());
        for row in 0..rows {
            let digits = digits_of(row);
            tokens.extend(steps.clone().map(|step| match step {
                step if step < DIGITS => digits[step],
                step if step == marker => MARKER,
                _ => BLANK,
            }));
            answers.extend((asked_from..steps.end).map(|step| if step < first { BLANK } else { digits[step - first] }));
        }
        Batch { rows, steps: steps.len(), input: Input::Tokens(tokens), asked, answers: Answers::Classes(answers) }
    }
}

fn digits(draws: &mut Draws) -> [i32; DIGITS] {
    [(); DIGITS].map(|()| 1 + draws.below(8) as i32)
}

impl Task for Copy {
    fn input(&self) -> InputKind {
        InputKind::Tokens(10)
    }

    fn output(&self) -> OutputKind {
        OutputKind::Classes(9)
    }

    fn training_batch(&self, seed: u64, update: u64, rows: usize) -> Batch {
        let mut draws = Draws::new(Purpose::Training, seed, update);
        let first = self.steps() - DIGITS;
        let asked = match self.blank_weight {
            None => Asked::From(0),
            Some(0.0) => Asked::From(first),
            Some(weight) => Asked::TwoGroups { first, weight: weight as f32 },
        };
        self.batch(rows, 0..self.steps(), asked, |_| digits(&mut draws))
    }

    fn held_out(&self, split: Split) -> usize {
        self.counts().of(split)
    }

    fn held_out_sequences(&self, split: Split, sequences: Range<usize>) -> Batch {
        self.held_out_stretch(split, sequences, 0..self.steps())
    }

    fn held_out_steps(&self, _split: Split, _sequences: Range<usize>) -> usize {
        self.steps()
    }

    fn held_out_stretch(&self, split: Split, sequences: Range<usize>, steps: Range<usize>) -> Batch {
        let digits_of = |row| digits(&mut HeldOut::draws(split, sequences.start + row));
        self.batch(sequences.len(), steps, Asked::From(0), digits_of)
    }

    fn graded_steps(&self) -> usize {
        DIGITS
    }

    fn metrics(&self, tally: &Tally) -> Metrics {
        vec![("ce_last10", tally.graded.ce()), ("accuracy", tally.graded.accuracy()), ("ce", tally.all.ce())]
    }
}
