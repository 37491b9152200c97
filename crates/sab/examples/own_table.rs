//! Trains on a table of your own from Rust, as `sab train csv` does.
//!
//! ```text
//! cargo run --release --example own_table
//! ```
//!
//! The table holds batches of a chemical plant. In the first minutes of a batch a valve opens once and lets in the acid
//! of that minute; some thirty minutes later the batch is strong or mild. Gradient runs back only five steps
//! (`k_trunc`), so the network must be reminded of the valve: without reminders (`k_top` 0) it guesses. After a few
//! seconds the program prints:
//!
//! ```text
//! with reminders     100.0 % of the test batches are right
//! without reminders  53.3 %
//! the new batch monday is said to be strong
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use sab::display::Style;
use sab::experiment::{Experiment, parse_value};
use sab::predict::{Answer, Prediction, Predictor};
use sab::rng::{Draws, Purpose};
use sab::runs::{self, Finished};
use sab::tasks::metric;
use sab::train::{Session, Stop};
use std::error::Error;
use std::fmt::Write;
use std::path::Path;

/// A header, then one line per step: sequence, step, features, label.
fn table(batches: u64) -> String {
    let mut text = String::from("batch,minute,valve,acid,result\n");
    for batch in 0..batches {
        let mut draws = Draws::new(Purpose::Training, 1, batch);
        let acid: Vec<f32> = (0..30 + draws.below(6)).map(|_| draws.fraction()).collect();
        let opened = draws.below(6);
        let result = if acid[opened] > 0.5 { "strong" } else { "mild" };
        for (minute, acid) in acid.iter().enumerate() {
            let valve = u8::from(minute == opened);
            writeln!(text, "{batch},{},{valve},{acid:.3},{result}", minute + 1).expect("a string has room");
        }
    }
    text
}

/// A batch whose result nobody knows yet: the valve opens in the second minute.
fn new_batch() -> String {
    let minute =
        |minute: u64| format!("monday,{minute},{},{}\n", u8::from(minute == 2), [0.1, 0.9][usize::from(minute == 2)]);
    format!("batch,minute,valve,acid\n{}", (1..=32).map(minute).collect::<String>())
}

fn train(folder: &Path, k_top: usize) -> sab::Result<Finished> {
    // The differences from the defaults of the task; `sab train csv --dry-run` prints all keys.
    let settings = format!(
        r#"
        [task]
        name = "csv"

        [model]
        hidden = 32
        k_top = {k_top}
        k_trunc = 5

        [train]
        updates = 600
        learning_rate = 3e-3
        validate_every = 100
        "#
    );
    let file = parse_value(&folder.join("batches.csv").display().to_string());
    let experiment = Experiment::of_text(&settings, "the example", &[("task.file".into(), file)])?;
    let run = folder.join(format!("top{k_top}"));
    // `Stop::on_signals()` and `runs::resume` are for runs that take longer; `Style::Auto` shows progress.
    runs::begin(&run, &experiment, Session::default(), Style::Quiet, Stop::default())
}

fn accuracy(finished: &Finished) -> f64 {
    metric(&finished.test, "accuracy").unwrap_or(f64::NAN)
}

/// Makes the table, trains on it with and without reminders, and answers a new batch.
pub fn run() -> Result<(), Box<dyn Error>> {
    attentive::keep_freed_memory();
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("batches.csv"), table(600))?;

    let with = train(folder.path(), 5)?;
    println!("with reminders     {:.1} % of the test batches are right", 100.0 * accuracy(&with));
    let without = train(folder.path(), 0)?;
    println!("without reminders  {:.1} %", 100.0 * accuracy(&without));
    assert!(accuracy(&with) > 0.85 && accuracy(&without) < 0.75, "{:?} and {:?}", with.test, without.test);

    // A run is a folder: the rest could be another program on another day.
    let predictor = Predictor::open(with.run.path())?;
    std::fs::write(folder.path().join("new.csv"), new_batch())?;
    let questions = predictor.load(&folder.path().join("new.csv"))?;
    predictor.answer(&questions, 1, |Prediction { sequence, answer, .. }| {
        if let Answer::Class { name, .. } = answer {
            println!("the new batch {sequence} is said to be {name}");
        }
        Ok(())
    })?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    run()
}
