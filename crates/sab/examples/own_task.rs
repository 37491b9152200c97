//! A task of your own, written outside of the crate: the `recall` of `docs/extending.md`.
//!
//! ```text
//! cargo run --release --example own_task
//! ```
//!
//! A sequence starts with one of four names, noise follows, and the last step must give the name. After a few seconds
//! the program prints:
//!
//! ```text
//! after 200 updates 100.0 % of the test names are recalled
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use attentive::ForwardOptions;
use burn::module::Module;
use burn::tensor::Device;
use sab::experiment::{Experiment, TrainSettings};
use sab::models::Model;
use sab::rng::{Draws, Purpose};
use sab::tasks::{Answers, Asked, Batch, HeldOut, Input, InputKind, Metrics, OutputKind, Split, Tally, Task, metric};
use sab::train::{Adam, Learner, evaluate};
use std::error::Error;
use std::ops::Range;

const NAMES: usize = 4;
const NOISE: usize = 4;

struct Recall {
    length: usize,
    held_out: HeldOut,
}

impl Recall {
    fn batch(&self, rows: usize, mut draws_of: impl FnMut(usize) -> Draws) -> Batch {
        let (mut tokens, mut names) = (Vec::new(), Vec::new());
        for row in 0..rows {
            let mut draws = draws_of(row);
            let name = draws.below(NAMES) as i32;
            names.push(name);
            tokens.push(name);
            tokens.extend((1..self.length).map(|_| (NAMES + draws.below(NOISE)) as i32));
        }
        let (asked, answers) = (Asked::From(self.length - 1), Answers::Classes(names));
        Batch { rows, steps: self.length, input: Input::Tokens(tokens), asked, answers }
    }
}

impl Task for Recall {
    fn input(&self) -> InputKind {
        InputKind::Tokens(NAMES + NOISE)
    }

    fn output(&self) -> OutputKind {
        OutputKind::Classes(NAMES)
    }

    fn training_batch(&self, seed: u64, update: u64, rows: usize) -> Batch {
        self.batch(rows, |row| Draws::new(Purpose::Training, seed, update * rows as u64 + row as u64))
    }

    fn held_out(&self, split: Split) -> usize {
        self.held_out.of(split)
    }

    fn held_out_sequences(&self, split: Split, sequences: Range<usize>) -> Batch {
        self.batch(sequences.len(), |row| HeldOut::draws(split, sequences.start + row))
    }

    fn metrics(&self, tally: &Tally) -> Metrics {
        vec![("ce", tally.all.ce()), ("accuracy", tally.all.accuracy())]
    }
}

/// Trains a small network on the task and returns the fraction of names that it recalls.
pub fn run() -> Result<f64, Box<dyn Error>> {
    attentive::keep_freed_memory();
    let task = Recall { length: 20, held_out: HeldOut { validation: 100, test: 500 } };
    // The settings of a model, as in a configuration; gradient runs back five steps only.
    let settings = Experiment::of_text("[task]\nname = \"copy\"\n[model]\nhidden = 32", "the example", &[])?.model;
    let device = Device::flex().autodiff();
    let model = Model::new(&settings, task.input(), task.output(), 1, &device)?;
    let adam = Adam::new(&TrainSettings::default(), &model)?;
    let mut learner = Learner { model, adam, clip: Some(1.0), device: device.clone() };
    let updates = 200;
    for update in 0..updates {
        let batch = task.training_batch(1, update, 32);
        learner.learn(&batch, &ForwardOptions::new().with_batch(1, update), 5e-3, None)?;
    }
    let judged = evaluate(&learner.model.valid(), &task, Split::Test, 100, None, 1, &device.inner())?;
    let accuracy = metric(&judged.metrics, "accuracy").unwrap_or(f64::NAN);
    println!("after {updates} updates {:.1} % of the test names are recalled", 100.0 * accuracy);
    assert!(accuracy > 0.95);
    Ok(accuracy)
}

fn main() -> Result<(), Box<dyn Error>> {
    run().map(|_| ())
}
