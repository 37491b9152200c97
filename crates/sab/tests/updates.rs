//! Updates inside sequences: stretches are parts of the whole, states are carried from one to the next, and a checkpoint
//! has all that the next stretch needs.

mod common;

use attentive::ForwardOptions;
use burn::tensor::{Device, Tensor};
use common::{Place, TINY, checkpoints, metrics, stderr, tiny_copy, weights};
use sab::experiment::{Experiment, parse_value};
use sab::models::{Model, file};
use sab::tasks::{Answers, Asked, Batch, Input};
use std::fs;
use std::path::Path;

/// Three rows of seven steps; each answer is a number of its own.
fn batch(asked: Asked, dense: bool) -> Batch {
    let (rows, steps) = (3, 7);
    let input = match dense {
        true => Input::Dense { width: 2, values: (0..rows * steps * 2).map(|x| x as f32).collect() },
        false => Input::Tokens((0..(rows * steps) as i32).collect()),
    };
    let mut batch = Batch { rows, steps, input, asked, answers: Answers::Unknown };
    batch.answers = Answers::Classes((100..100 + batch.answer_count() as i32).collect());
    batch
}

/// Row, step and right answer of all that counts.
fn asked(batch: &Batch) -> Vec<(usize, usize, i32)> {
    let Answers::Classes(right) = &batch.answers else { panic!("classes were expected") };
    assert_eq!(right.len(), batch.answer_count());
    let (rows, steps) = (batch.rows, batch.steps);
    let all = |from: usize| (0..rows).flat_map(move |row| (from..steps).map(move |step| (row, step))).collect();
    let places: Vec<(usize, usize)> = match &batch.asked {
        Asked::From(from) => all(*from),
        Asked::TwoGroups { .. } | Asked::Until(_) => all(0),
        Asked::At(steps) => steps.iter().copied().enumerate().collect(),
        Asked::Only(places) => places.clone(),
    };
    let counted = batch.counted().unwrap_or(vec![true; right.len()]);
    let answers = places.iter().zip(right).zip(counted).filter(|(_, counts)| *counts);
    answers.map(|(((row, step), right), _)| (*row, *step, *right)).collect()
}

/// The input of each row and step.
fn inputs(batch: &Batch) -> Vec<Vec<Vec<u32>>> {
    let numbers: Vec<u32> = match &batch.input {
        Input::Tokens(tokens) => tokens.iter().map(|token| *token as u32).collect(),
        Input::Dense { values, .. } => values.iter().map(|value| value.to_bits()).collect(),
    };
    let width = numbers.len() / (batch.rows * batch.steps).max(1);
    let of_row = |row: &[u32]| row.chunks_exact(width).map(<[u32]>::to_vec).collect();
    numbers.chunks_exact(batch.steps * width).map(of_row).collect()
}

#[test]
fn the_stretches_of_a_batch_are_the_batch() {
    for question in [
        Asked::From(0),
        Asked::From(4),
        Asked::From(6),
        Asked::TwoGroups { first: 3, weight: 0.5 },
        Asked::At(vec![6, 0, 3]),
        Asked::Until(vec![7, 1, 4]),
        Asked::Only(vec![(0, 2), (0, 6), (2, 0), (2, 4)]),
    ] {
        for every in 1..=8 {
            let whole = batch(question.clone(), every % 2 == 0);
            let (mut answers, mut rows) = (Vec::new(), vec![Vec::new(); 3]);
            for start in (0..7).step_by(every) {
                let stretch = whole.stretch(start..start + every);
                assert_eq!((stretch.rows, stretch.steps), (3, every.min(7 - start)));
                answers.extend(asked(&stretch).into_iter().map(|(row, step, right)| (row, start + step, right)));
                assert_eq!(stretch.asks_nothing(), asked(&stretch).is_empty(), "{question:?} from {start}");
                rows.iter_mut().zip(inputs(&stretch)).for_each(|(row, part)| row.extend(part));
            }
            answers.sort_unstable();
            let mut right = asked(&whole);
            right.sort_unstable();
            assert_eq!(answers, right, "{question:?} by {every}");
            assert_eq!(rows, inputs(&whole), "{question:?} by {every}");
        }
    }
}

#[test]
fn the_two_groups_of_a_stretch_are_weighted_each_by_itself() {
    let whole = batch(Asked::TwoGroups { first: 3, weight: 0.5 }, false);
    let weights = |stretch: Batch| stretch.weights().expect("weights");
    let sum = |weights: Vec<f32>| weights.iter().sum::<f32>();
    assert!((sum(weights(whole.stretch(0..2))) - 0.5).abs() < 1e-6, "the first group alone");
    assert!((sum(weights(whole.stretch(5..7))) - 1.0).abs() < 1e-6, "the second group alone");
    assert!((sum(weights(whole.stretch(2..5))) - 1.5).abs() < 1e-6, "both");
}

#[test]
fn steps_past_the_end_are_an_empty_stretch() {
    for question in [Asked::From(2), Asked::At(vec![6, 0, 3]), Asked::Until(vec![7, 1, 4])] {
        let stretch = batch(question, false).stretch(9..12);
        assert_eq!((stretch.steps, stretch.asks_nothing()), (0, true));
        assert_eq!(stretch.input, Input::Tokens(Vec::new()));
    }
}

/// Outputs do not depend on where a batch is cut, whatever is asked for.
#[test]
fn answers_with_a_carried_state_are_those_of_the_whole() {
    let device = Device::flex();
    let overrides = [("model.hidden", "8"), ("task.length", "3")].map(|(key, value)| (key.into(), parse_value(value)));
    let experiment = Experiment::of_task("copy", &overrides).expect("settings");
    let task = sab::tasks::open(&experiment.task, Path::new("nowhere")).expect("a task");
    let model = Model::new(&experiment.model, task.input(), task.output(), 1, &device).expect("a model");
    let whole = Batch { asked: Asked::From(0), ..task.held_out_sequences(sab::tasks::Split::Test, 0..3) };
    let options = ForwardOptions::new().with_threads(1);
    let numbers = |outputs: Tensor<2>| outputs.into_data().try_into_vec::<f32>().expect("numbers");
    let right = numbers(model.answer(&whole, &options, &device).expect("outputs"));
    let (mut state, mut rows) = (None, vec![Vec::new(); 3]);
    for start in (0..whole.steps).step_by(5) {
        let stretch = whole.stretch(start..start + 5);
        let answered = model.answer_from(state, &stretch, &options, &device).expect("outputs");
        let outputs = numbers(answered.outputs);
        let a_row = outputs.len() / 3;
        rows.iter_mut().zip(outputs.chunks_exact(a_row)).for_each(|(row, part)| row.extend_from_slice(part));
        state = answered.state;
    }
    assert!(rows.concat() == right);
}

#[test]
fn a_stretch_as_long_as_a_batch_is_a_batch() {
    let place = Place::new();
    place.ok(&tiny_copy("whole", "60", &[]));
    place.ok(&tiny_copy("stretches", "60", &["--set", "train.update_every=23"]));
    assert!(weights(&place.path("whole")) == weights(&place.path("stretches")));
    assert_eq!(metrics(&place.path("whole")), metrics(&place.path("stretches")));
    let state = content(&place.path("stretches")).state;
    assert!(state.is_none(), "every batch begins anew, so no state is kept");
}

#[test]
fn updates_inside_a_sequence_are_more_updates() {
    let place = Place::new();
    place.ok(&tiny_copy("run", "62", &["--set", "train.update_every=10", "--set", "train.log_every=1"]));
    let run = place.path("run");
    let training = metrics(&run).into_iter().filter(|line| line["kind"] == "train").collect::<Vec<_>>();
    assert_eq!(training.len(), 62);
    // Of 23 steps the last three are digits; the ten before them are as well, in the stretch before.
    let graded = |line: &serde_json::Value| line["accuracy"].is_number();
    assert_eq!(training.iter().take(6).map(graded).collect::<Vec<_>>(), [false, false, true, false, false, true]);
    assert!(training.iter().all(|line| line["loss"].is_number() && line["ce"].is_number()));
    assert!(content(&run).state.is_some(), "update 62 is the second stretch of a batch");
}

/// A sequence of a table that ends early has no loss in later stretches, and stretches without any step change nothing.
#[test]
fn a_table_with_sequences_of_several_lengths_is_learned_in_stretches() {
    let place = Place::new();
    let mut table = "id,step,x,label\n".to_string();
    for (id, step) in (0..40).flat_map(|id| (0..2 + id % 9).map(move |step| (id, step))) {
        table += &format!("s{id},{step},{},{}\n", id % 2, ["up", "down"][id % 2]);
    }
    place.write("table.csv", table);
    for on in ["task.on=last", "task.on=each"] {
        let run = on.replace('=', "-");
        let mine =
            ["train", "csv", "--file", "table.csv", "--run", &run, "--steps", "400", "--lr", "0.02", "--set", on];
        place.ok(&[&mine[..], TINY, &["--set", "train.update_every=3", "--set", "model.k_trunc=3"]].concat());
        let accuracy = place.json(&format!("{run}/summary.json"))["test"]["accuracy"].as_f64();
        assert!(accuracy.is_some_and(|accuracy| accuracy > 0.9), "{on}: {accuracy:?}");
    }
}

fn content(run: &Path) -> file::Content<serde_json::Value> {
    let latest = checkpoints(run).pop().expect("a checkpoint");
    file::from_bytes(&fs::read(latest).expect("readable")).expect("a checkpoint")
}

#[test]
fn a_damaged_state_is_refused_and_says_so() {
    let place = Place::new();
    place.ok(&tiny_copy("run", "50", &["--set", "train.update_every=10"]));
    let latest = checkpoints(&place.path("run")).pop().expect("a checkpoint");
    let good = fs::read(&latest).expect("readable");
    let content = content(&place.path("run"));
    let (state, facts) = (content.state.expect("a state"), content.facts.expect("facts"));
    // The file is whole, but not the record in it.
    let without_digest = || {
        let mut facts = facts.clone();
        facts.as_object_mut().expect("an object").remove("sha256");
        facts
    };
    let refused = |state: &[u8]| {
        let bytes = file::to_bytes_with_state(&content.parameters, Some(state), &without_digest()).expect("a file");
        fs::write(&latest, bytes).expect("written");
        let message = place.fails(4, &["train", "--resume", "run", "--quiet"]);
        assert!(message.contains("carried state") && message.contains("remove it to continue"), "{message}");
        message
    };
    refused(b"");
    refused(&state[..state.len() - 1]);
    refused(&[0xff; 64]);
    let at = state.windows(5).position(|five| five == b"steps").expect("the key");
    let mut other = state.clone();
    other[at..at + 5].copy_from_slice(b"stops");
    assert!(refused(&other).contains("stops"));
    // One flipped bit anywhere does not fit the digest.
    let mut flipped = good.clone();
    let place_of_state = good.windows(state.len()).position(|part| part == state).expect("the state");
    flipped[place_of_state + state.len() / 2] ^= 1;
    fs::write(&latest, flipped).expect("written");
    assert!(place.fails(4, &["train", "--resume", "run", "--quiet"]).contains("damaged"));
    // The state of another batch.
    place.ok(&tiny_copy("small", "50", &["--set", "train.update_every=10", "--set", "train.batch=3"]));
    let small = content_state(&place.path("small"));
    assert!(refused(&small).contains("3 rows"));
    // The good one still works.
    fs::write(&latest, good).expect("written");
    let done = stderr(&place.sab(&["train", "--resume", "run"]));
    assert!(done.contains("all 50 updates are done"), "{done}");
}

fn content_state(run: &Path) -> Vec<u8> {
    content(run).state.expect("a state")
}

#[test]
fn a_transformer_is_refused_before_a_run_is_made() {
    let place = Place::new();
    let arguments = tiny_copy("run", "5", &["--set", "train.update_every=10", "--set", "model.kind=transformer"]);
    let arguments: Vec<&str> = arguments.into_iter().collect();
    let message = place.fails(2, &[&arguments[..], &["--set", "model.heads=2"]].concat());
    assert!(message.contains("carries no state"), "{message}");
    assert!(!place.path("run").exists());
}
