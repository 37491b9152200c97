//! The batches of each task hold the right data, and held-out data never trains.

mod adding;
mod characters;
#[path = "../common/mod.rs"]
mod common;
mod copy;
mod draws;
mod permuted_mnist;
mod stream;
mod table;

use common::Place;
use flate2::{Compression, write::GzEncoder};
use sab::experiment::{Experiment, parse_value};
use sab::tasks::{Answers, Asked, Batch, Input, OutputKind, Split, Tally, Task, open};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

fn task_in(folder: &Path, name: &str, settings: &[(&str, &str)]) -> Box<dyn Task> {
    let overrides: Vec<_> = settings.iter().map(|(key, value)| (key.to_string(), parse_value(value))).collect();
    let experiment = Experiment::of_task(name, &overrides).expect("settings that hold");
    open(&experiment.task, folder).expect("a task")
}

fn task(name: &str, settings: &[(&str, &str)]) -> Box<dyn Task> {
    task_in(Path::new("nowhere"), name, settings)
}

fn tokens(batch: &Batch) -> Vec<&[i32]> {
    match &batch.input {
        Input::Tokens(tokens) => tokens.chunks_exact(batch.steps).collect(),
        Input::Dense { .. } => panic!("tokens were expected"),
    }
}

/// The numbers of each row, `[steps, width]`.
fn dense(batch: &Batch) -> Vec<&[f32]> {
    match &batch.input {
        Input::Dense { width, values } => values.chunks_exact(batch.steps * width).collect(),
        Input::Tokens(_) => panic!("numbers were expected"),
    }
}

fn classes(batch: &Batch) -> &[i32] {
    match &batch.answers {
        Answers::Classes(right) => right,
        _ => panic!("classes were expected"),
    }
}

fn values(batch: &Batch) -> &[f32] {
    match &batch.answers {
        Answers::Values(right) => right,
        _ => panic!("numbers were expected"),
    }
}

fn held_out(task: &dyn Task, split: Split, rows: usize) -> Vec<Batch> {
    (0..task.held_out_count(split, rows)).map(|number| task.held_out_batch(split, number, rows)).collect()
}

/// The batches of the first pass over the training data.
fn first_pass(task: &dyn Task, seed: u64, rows: usize) -> Vec<Batch> {
    let updates = task.updates_an_epoch(rows).expect("a task with epochs");
    (0..updates).map(|update| task.training_batch(seed, update, rows)).collect()
}

/// Every held-out sequence comes once, in the same order, whatever the number of rows.
fn rows_do_not_matter(task: &dyn Task, split: Split, count: usize) {
    let all = |rows: usize| -> Vec<Vec<u32>> {
        let of_batch = |batch: &Batch| -> Vec<Vec<u32>> {
            match &batch.input {
                Input::Tokens(_) => tokens(batch).iter().map(|row| row.iter().map(|x| *x as u32).collect()).collect(),
                Input::Dense { .. } => {
                    dense(batch).iter().map(|row| row.iter().map(|x| x.to_bits()).collect()).collect()
                }
            }
        };
        held_out(task, split, rows).iter().flat_map(of_batch).collect()
    };
    let whole = all(count);
    assert_eq!(whole.len(), count);
    for rows in [1, 2, 7, count - 1, count + 1, 10 * count] {
        assert!(all(rows) == whole, "{split:?} by {rows}");
        assert!(held_out(task, split, rows).iter().all(|batch| (1..=rows).contains(&batch.rows)));
    }
}
