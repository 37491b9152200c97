//! The paper's synthetic tasks: copy and adding.

use super::{Answers, Asked, Batch, HeldOut, Input, InputKind, Metrics, OutputKind, Split, Tally, Task};
use crate::experiment::Auto;
use crate::rng::{Draws, Purpose};

/// Digits to copy.
pub(crate) const DIGITS: usize = 10;
const BLANK: i32 = 0;
const MARKER: i32 = 9;

/// Ten digits of 1..8, `length - 1` blanks, the marker 9, ten blanks; asked for are blanks until the marker has been
/// seen, then the digits.
#[derive(Clone, Debug)]
pub(super) struct Copy {
    pub(super) length: usize,
    pub(super) blank_weight: Auto<f64>,
    pub(super) held_out: HeldOut,
}

impl Copy {
    fn steps(&self) -> usize {
        self.length + 2 * DIGITS
    }

    fn batch(&self, rows: usize, asked: Asked, mut digits_of: impl FnMut(usize) -> [i32; DIGITS]) -> Batch {
        let (steps, marker) = (self.steps(), self.length + DIGITS - 1);
        let mut tokens = vec![BLANK; rows * steps];
        let mut answers = Vec::new();
        for (row, tokens) in tokens.chunks_exact_mut(steps).enumerate() {
            let digits = digits_of(row);
            tokens[..DIGITS].copy_from_slice(&digits);
            tokens[marker] = MARKER;
            let blanks = steps - DIGITS - if let Asked::From(from) = asked { from } else { 0 };
            answers.extend(std::iter::repeat_n(BLANK, blanks));
            answers.extend(digits);
        }
        Batch { rows, steps, input: Input::Tokens(tokens), asked, answers: Answers::Classes(answers) }
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
        let asked = match self.blank_weight.get() {
            None => Asked::From(0),
            Some(0.0) => Asked::From(first),
            Some(weight) => Asked::TwoGroups { first, weight: weight as f32 },
        };
        self.batch(rows, asked, |_| digits(&mut draws))
    }

    fn updates_an_epoch(&self, _rows: usize) -> Option<u64> {
        None
    }

    fn held_out_count(&self, split: Split, rows: usize) -> u64 {
        self.held_out.batches(split, rows)
    }

    fn held_out_batch(&self, split: Split, number: u64, rows: usize) -> Batch {
        let range = self.held_out.batch(split, number, rows);
        let first = range.start;
        self.batch(range.len(), Asked::From(0), |row| digits(&mut HeldOut::draws(split, first + row)))
    }

    fn graded_steps(&self) -> usize {
        DIGITS
    }

    fn metrics(&self, tally: &Tally) -> Metrics {
        vec![("ce_last10", tally.graded.ce()), ("accuracy", tally.graded.accuracy()), ("ce", tally.all.ce())]
    }
}

/// Numbers in 0..1, two of them marked, one in each half; asked for is the sum of the two, on the last step.
#[derive(Clone, Debug)]
pub(super) struct Adding {
    pub(super) length: usize,
    pub(super) held_out: HeldOut,
}

impl Adding {
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

    fn updates_an_epoch(&self, _rows: usize) -> Option<u64> {
        None
    }

    fn held_out_count(&self, split: Split, rows: usize) -> u64 {
        self.held_out.batches(split, rows)
    }

    fn held_out_batch(&self, split: Split, number: u64, rows: usize) -> Batch {
        let range = self.held_out.batch(split, number, rows);
        let first = range.start;
        self.batch(range.len(), |row| HeldOut::draws(split, first + row))
    }

    fn metrics(&self, tally: &Tally) -> Metrics {
        vec![("mse", tally.all.mse())]
    }
}
