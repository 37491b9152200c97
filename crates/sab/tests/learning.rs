//! Losses and gradients: padding changes nothing, the loss and its gradient are right, training ends when it should,
//! and it works.

mod common;

use attentive::ForwardOptions;
use burn::module::Module;
use burn::module::{ModuleVisitor, Param};
use burn::tensor::{Device, Gradients, Tensor, TensorData};
use common::{Place, TINY, metrics, tiny_copy};
use sab::experiment::{Experiment, parse_value};
use sab::models::{Model, loss};
use sab::tasks::{Answers, Asked, Batch, Input, Task, open};
use std::time::{Duration, Instant};

/// Sequences of 1 to 9 steps with two features, as classes or as numbers.
fn table(classes: bool) -> String {
    let mut text = "id,step,x,y,label\n".to_string();
    for (id, step) in (0..30_u32).flat_map(|id| (0..1 + id * 7 % 9).map(move |step| (id, step))) {
        let wave = |by: u32| f64::from((id * 31 + step * by) % 17) / 5.0 - 1.5;
        let label = if classes { ["a", "b", "c"][(id + step) as usize % 3].to_string() } else { wave(11).to_string() };
        text += &format!("s{id},{step},{},{},{label}\n", wave(3), wave(5));
    }
    text
}

const SAB: &[(&str, &str)] =
    &[("model.hidden", "12"), ("model.k_top", "2"), ("model.k_att", "2"), ("model.k_trunc", "3")];

const TRANSFORMER: &[(&str, &str)] = &[
    ("model.kind", "transformer"),
    ("model.hidden", "16"),
    ("model.heads", "2"),
    ("model.layers", "2"),
    ("model.feed_forward", "32"),
];

/// A table's task and a model for it.
fn csv(classes: bool, on: &str, settings: &[(&str, &str)], device: &Device) -> (Box<dyn Task>, Model) {
    let place = Place::new();
    let file = place.write("table.csv", table(classes)).display().to_string();
    let kind = if classes { "class" } else { "value" };
    let mine = [("task.file", file.as_str()), ("task.on", on), ("task.answers", kind)];
    let overrides: Vec<_> =
        settings.iter().chain(&mine).map(|(key, value)| (key.to_string(), parse_value(value))).collect();
    let experiment = Experiment::of_task("csv", &overrides).expect("settings that hold");
    let task = open(&experiment.task, &experiment.data_dir).expect("a table");
    let model = Model::new(&experiment.model, task.input(), task.output(), 3, device).expect("a model");
    (task, model)
}

fn lengths(batch: &Batch) -> Vec<usize> {
    match &batch.asked {
        Asked::At(last) => last.iter().map(|last| last + 1).collect(),
        Asked::Until(lengths) => lengths.clone(),
        other => panic!("{other:?}"),
    }
}

/// The rows of a batch, each by itself and without padding.
fn rows_alone(batch: &Batch) -> Vec<Batch> {
    let Input::Dense { width, values } = &batch.input else { panic!("numbers were expected") };
    let alone = |(row, length): (usize, usize)| {
        let (asked, from, count) = match &batch.asked {
            Asked::At(_) => (Asked::At(vec![length - 1]), row, 1),
            _ => (Asked::Until(vec![length]), row * batch.steps, length),
        };
        let answers = match &batch.answers {
            Answers::Classes(right) => Answers::Classes(right[from..from + count].to_vec()),
            Answers::Values(right) => Answers::Values(right[from..from + count].to_vec()),
            Answers::Unknown => Answers::Unknown,
        };
        let values = values[row * batch.steps * width..][..length * width].to_vec();
        Batch { rows: 1, steps: length, input: Input::Dense { width: *width, values }, asked, answers }
    };
    lengths(batch).into_iter().enumerate().map(alone).collect()
}

fn options() -> ForwardOptions {
    ForwardOptions::new().with_threads(1).with_batch(1, 7)
}

fn outputs(model: &Model, batch: &Batch, device: &Device) -> Vec<f32> {
    let outputs = model.answer(batch, &options(), device).expect("outputs");
    outputs.into_data().try_to_vec().expect("floats")
}

struct Collect<'a> {
    gradients: &'a Gradients,
    found: Vec<Vec<f64>>,
}

impl ModuleVisitor for Collect<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let value = param.val();
        let gradient = value.grad(self.gradients).map(|gradient| gradient.into_data().try_to_vec::<f32>());
        self.found.push(match gradient {
            Some(numbers) => numbers.expect("floats").into_iter().map(f64::from).collect(),
            None => vec![0.0; value.dims().iter().product()],
        });
    }
}

/// The gradient of a batch's loss for each parameter.
fn gradient(model: &Model, batch: &Batch, device: &Device) -> Vec<Vec<f64>> {
    let outputs = model.answer(batch, &options(), device).expect("outputs");
    let gradients = loss(outputs, batch, device).expect("a loss").backward();
    let mut collect = Collect { gradients: &gradients, found: Vec::new() };
    model.visit(&mut collect);
    collect.found
}

/// A batch whose rows have different lengths, the first of them not the longest.
fn uneven(task: &dyn Task) -> Batch {
    let uneven = |batch: &Batch| lengths(batch)[0] < batch.steps && lengths(batch).contains(&1);
    (0..50).map(|update| task.training_batch(1, update, 6)).find(uneven).expect("an uneven batch")
}

fn padding_changes_no_output(settings: &[(&str, &str)], tolerance: f32) {
    let device = Device::flex();
    for (classes, on) in [(true, "last"), (true, "each"), (false, "last"), (false, "each")] {
        let (task, model) = csv(classes, on, settings, &device);
        let (batch, width) = (uneven(&*task), task.output().size());
        let together = outputs(&model, &batch, &device);
        let a_row = if on == "each" { batch.steps } else { 1 };
        for (row, alone) in rows_alone(&batch).iter().enumerate() {
            let right = outputs(&model, alone, &device);
            let found = &together[row * a_row * width..][..right.len()];
            let most = found.iter().zip(&right).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(most <= tolerance, "{on}, row {row} of {} steps: {most}", alone.steps);
        }
    }
}

#[test]
fn padding_changes_no_bit_of_an_output() {
    padding_changes_no_output(SAB, 0.0);
}

#[test]
fn padding_changes_no_output_of_a_transformer() {
    padding_changes_no_output(TRANSFORMER, 1e-6);
}

fn padding_changes_no_gradient(settings: &[(&str, &str)]) {
    let device = Device::flex().autodiff();
    for (classes, on) in [(true, "last"), (true, "each"), (false, "last"), (false, "each")] {
        let (task, model) = csv(classes, on, settings, &device);
        let batch = uneven(&*task);
        let found = gradient(&model, &batch, &device).concat();
        let mut right = vec![0.0; found.len()];
        let alone = rows_alone(&batch);
        let all: usize = alone.iter().map(Batch::answer_count).sum();
        for row in &alone {
            let share = row.answer_count() as f64 / all as f64;
            let one = gradient(&model, row, &device).concat();
            right.iter_mut().zip(one).for_each(|(sum, one)| *sum += share * one);
        }
        let largest = right.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
        let apart = found.iter().zip(&right).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(largest > 1e-3 && apart < 1e-5 * largest, "{on}: {apart} of {largest}");
    }
}

#[test]
fn the_gradient_of_a_batch_is_that_of_its_rows_alone() {
    padding_changes_no_gradient(SAB);
}

#[test]
fn the_gradient_of_a_transformers_batch_is_that_of_its_rows_alone() {
    padding_changes_no_gradient(TRANSFORMER);
}

#[test]
fn what_stands_in_the_padding_changes_nothing() {
    let device = Device::flex().autodiff();
    for settings in [SAB, TRANSFORMER] {
        let (task, model) = csv(false, "each", settings, &device);
        let batch = uneven(&*task);
        let mut dirty = batch.clone();
        let Input::Dense { width, values } = &mut dirty.input else { panic!("numbers were expected") };
        let Answers::Values(right) = &mut dirty.answers else { panic!("numbers were expected") };
        for (row, length) in lengths(&batch).into_iter().enumerate() {
            let (from, to) = (row * batch.steps + length, (row + 1) * batch.steps);
            values[from * *width..to * *width].fill(0.7);
            right[from..to].fill(-3.0);
        }
        assert_ne!(batch, dirty);
        let (clean, dirty) = (gradient(&model, &batch, &device).concat(), gradient(&model, &dirty, &device).concat());
        let apart = clean.iter().zip(&dirty).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(apart < 1e-6, "{apart}");
    }
}

/// The loss in double precision, one answer after the other.
fn plain_loss(outputs: &[f32], batch: &Batch) -> f64 {
    let width = outputs.len() / batch.answer_count();
    let one = |place: usize| {
        let output = &outputs[place * width..][..width];
        match &batch.answers {
            Answers::Classes(right) => {
                let sum: f64 = output.iter().map(|score| f64::from(*score).exp()).sum();
                sum.ln() - f64::from(output[right[place] as usize])
            }
            Answers::Values(right) => (f64::from(output[0]) - f64::from(right[place])).powi(2),
            Answers::Unknown => panic!("answers were expected"),
        }
    };
    let mean = |places: &mut dyn Iterator<Item = usize>| {
        let losses: Vec<f64> = places.map(one).collect();
        losses.iter().sum::<f64>() / losses.len() as f64
    };
    let (count, steps) = (batch.answer_count(), batch.steps);
    match &batch.asked {
        Asked::TwoGroups { first, weight } => {
            f64::from(*weight) * mean(&mut (0..count).filter(|place| place % steps < *first))
                + mean(&mut (0..count).filter(|place| place % steps >= *first))
        }
        Asked::Until(lengths) => mean(&mut (0..count).filter(|place| place % steps < lengths[place / steps])),
        Asked::From(_) | Asked::At(_) | Asked::Only(_) => mean(&mut (0..count)),
    }
}

#[test]
fn the_loss_is_that_of_plain_code() {
    let device = Device::flex();
    let (rows, steps) = (3, 5);
    let every_kind = [
        Asked::From(0),
        Asked::From(2),
        Asked::From(4),
        Asked::At(vec![0, 4, 2]),
        Asked::Only(vec![(2, 4), (0, 1)]),
        Asked::Until(vec![5, 1, 3]),
        Asked::Until(vec![2, 1, 3]),
        Asked::Until(vec![5, 5, 5]),
        Asked::TwoGroups { first: 3, weight: 0.02 },
        Asked::TwoGroups { first: 1, weight: 30.0 },
    ];
    for asked in every_kind {
        for width in [4, 1] {
            let mut batch = Batch {
                rows,
                steps,
                input: Input::Tokens(vec![0; rows * steps]),
                asked: asked.clone(),
                answers: Answers::Unknown,
            };
            let count = batch.answer_count();
            batch.answers = match width {
                1 => Answers::Values((0..count).map(|place| (place * 7 % 5) as f32 - 1.5).collect()),
                _ => Answers::Classes((0..count).map(|place| (place * 7 % width) as i32).collect()),
            };
            let outputs: Vec<f32> = (0..count * width).map(|place| (place * 37 % 23) as f32 / 3.0 - 4.0).collect();
            let tensor = Tensor::<2>::from_data(TensorData::new(outputs.clone(), [count, width]), &device);
            let found = f64::from(loss(tensor.clone(), &batch, &device).expect("a loss").into_scalar::<f32>());
            let right = plain_loss(&outputs, &batch);
            assert!((found / right - 1.0).abs() < 1e-5, "{asked:?}, {width} outputs: {found} and {right}");
            // A batch without known answers has no loss.
            batch.answers = Answers::Unknown;
            assert!(loss(tensor, &batch, &device).is_err_and(|why| why.to_string().contains("not evaluated")));
        }
    }
}

/// With nothing cut, the gradient is the exact derivative.
#[test]
fn the_gradient_through_model_and_loss_is_that_of_small_differences() {
    let exact = [
        ("model.hidden", "6"),
        ("model.k_trunc", "none"),
        ("model.score_gradient", "full"),
        // Attention that matters.
        ("model.start.attention_gain", "2"),
        ("model.start.score_gain", "4"),
    ];
    let transformer = [("model.hidden", "8"), ("model.heads", "2"), ("model.layers", "1"), ("model.feed_forward", "8")];
    let models = [
        [&exact[..], &[("model.k_att", "1"), ("model.k_top", "all")]].concat(),
        [&exact[..], &[("model.k_att", "2"), ("model.k_top", "2")]].concat(),
        [&transformer[..], &[("model.kind", "transformer")]].concat(),
    ];
    let device = Device::flex().autodiff();
    for settings in models {
        for (classes, on) in [(true, "each"), (false, "last")] {
            let (task, model) = csv(classes, on, &settings, &device);
            let batch = uneven(&*task);
            let found = gradient(&model, &batch, &device);
            let parameters = model.snapshot().expect("numbers");
            let plain = model.valid();
            let step = 4e-3_f32;
            for (place, parameter) in parameters.iter().enumerate() {
                let largest = found[place].iter().fold(0.0_f64, |most, x| most.max(x.abs()));
                for at in [0, parameter.values.len() / 2, parameter.values.len() - 1] {
                    let moved = |by: f32| {
                        let mut parameters = parameters.clone();
                        parameters[place].values[at] += by;
                        let moved = plain.clone().with_parameters(&parameters).expect("all parameters");
                        plain_loss(&outputs(&moved, &batch, &device.clone().inner()), &batch)
                    };
                    let right = (moved(step) - moved(-step)) / (2.0 * f64::from(step));
                    let (name, found) = (&parameter.name, found[place][at]);
                    assert!((found - right).abs() < 5e-3 * largest + 2e-5, "{name} {at}: {found} and {right}");
                }
            }
        }
    }
}

/// Arguments that show the report.
fn aloud<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    arguments.iter().copied().filter(|word| *word != "--quiet").collect()
}

#[test]
fn training_that_does_not_get_better_ends_when_patience_does() {
    let place = Place::new();
    // Too small a rate to change an output: the first validation is the best, two more are waited for.
    let stuck = tiny_copy("run", "1000", &["--lr", "1e-30", "--set", "train.patience=2"]);
    let shown = place.ok(&aloud(&stuck));
    assert!(shown.contains("validation has stopped improving"), "{shown}");
    let summary = place.json("run/summary.json");
    assert_eq!((summary["updates"].as_u64(), summary["best_update"].as_u64()), (Some(120), Some(40)));
    let validations = metrics(&place.path("run")).iter().filter(|line| line["kind"] == "validation").count();
    assert_eq!(validations, 3);
}

#[test]
fn without_patience_training_goes_on_to_the_end_of_the_budget() {
    let place = Place::new();
    let shown = place.ok(&aloud(&tiny_copy("run", "200", &["--lr", "1e-30"])));
    assert!(shown.contains("the budget of updates is spent"), "{shown}");
    assert_eq!(place.json("run/summary.json")["updates"].as_u64(), Some(200));
}

/// Of 30 sequences 24 train.
#[test]
fn epochs_are_a_budget_of_whole_passes() {
    let place = Place::new();
    place.write("table.csv", table(true));
    for (batch, updates) in [("4", 12), ("5", 8), ("24", 2), ("100", 2)] {
        let (run, rows) = (format!("run{batch}"), format!("train.batch={batch}"));
        let csv = ["train", "csv", "--file", "table.csv", "--epochs", "2", "--run", &run];
        place.ok(&[&csv[..], TINY, &["--set", &rows]].concat());
        let summary = place.json(&format!("{run}/summary.json"));
        assert_eq!(summary["updates"].as_u64(), Some(updates), "{batch} rows a batch");
    }
    let why = place.fails(2, &tiny_copy("none", "5", &["--set", "train.epochs=2"]));
    assert!(why.contains("train.epochs"), "{why}");
}

#[test]
fn training_ends_soon_after_its_time_with_a_summary() {
    let place = Place::new();
    let began = Instant::now();
    let shown = place.ok(&aloud(&tiny_copy("run", "100000000", &["--max-time", "1s"])));
    assert!(began.elapsed() < Duration::from_secs(20));
    assert!(shown.contains("the time is up"), "{shown}");
    let summary = place.json("run/summary.json");
    let seconds = summary["wall_seconds"].as_f64().expect("seconds");
    assert!((1.0..5.0).contains(&seconds), "{seconds}");
    assert!(summary["updates"].as_u64() > Some(0) && summary["test"]["accuracy"].is_number());
}

/// The share of test digits of the copy task that a small network gets right; an eighth is chance.
fn copied(length: &str, more: &[&str]) -> f64 {
    let place = Place::new();
    let small = ["--hidden", "32", "--batch", "32", "--lr", "2e-2", "--steps", "1200", "--threads", "1", "--quiet"];
    let few = ["--set", "task.test=500", "--set", "task.validation=64"];
    place.ok(&[&["train", "copy", "--length", length, "--run", "run"], &small[..], &few, more].concat());
    place.json("run/summary.json")["test"]["accuracy"].as_f64().expect("an accuracy")
}

#[test]
fn sparse_attentive_backtracking_learns_to_copy() {
    let accuracy = copied("3", &[]);
    assert!(accuracy > 0.5, "{accuracy}");
}

#[test]
fn truncated_backpropagation_does_not_learn_to_copy() {
    for steps in ["1", "5"] {
        let accuracy = copied("20", &["--k-top", "0", "--k-trunc", steps]);
        assert!(accuracy < 0.25, "{steps}: {accuracy}");
    }
}
