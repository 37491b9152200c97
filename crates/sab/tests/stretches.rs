//! Held-out sequences of any length are evaluated stretch by stretch: with the bits of whole sequences, in little memory.

mod common;

use burn::tensor::Device;
use common::Place;
use sab::LabError;
use sab::experiment::{Experiment, parse_value};
use sab::models::Model;
use sab::tasks::{Answers, Asked, Batch, Input, InputKind, Metrics, OutputKind, RowTallies, Split, Tally, Task, open};
use sab::train::{Evaluation, Judgement, Limits, evaluate};
use std::ops::Range;
use std::sync::Mutex;

/// Sequences of 1 to 90 steps.
fn table(classes: bool) -> String {
    let mut text = "id,step,x,y,label\n".to_string();
    for (id, step) in (0..30_u32).flat_map(|id| (0..1 + id * 37 % 90).map(move |step| (id, step))) {
        let wave = |by: u32| f64::from((id * 31 + step * by) % 17) / 5.0 - 1.5;
        let label = if classes { ["a", "b", "c"][(id + step) as usize % 3].to_string() } else { wave(11).to_string() };
        text += &format!("s{id},{step},{},{},{label}\n", wave(3), wave(5));
    }
    text
}

/// A task and an untrained model for it; the settings of the task come first.
fn prepared(name: &str, place: &Place, settings: &[(&str, &str)]) -> (Box<dyn Task>, Model) {
    let file = match (name, settings) {
        ("text", _) => place.write("book.txt", "abc abd and so on. ".repeat(400)),
        ("csv", settings) => place.write("table.csv", table(settings.contains(&("task.answers", "class")))),
        _ => place.path(""),
    };
    let file = file.display().to_string();
    let needed = matches!(name, "text" | "csv").then_some(("task.file", file.as_str()));
    let own = [("model.hidden", "12"), ("train.seed", "3")];
    let overrides: Vec<_> = (own.iter().chain(settings).copied().chain(needed))
        .map(|(key, value)| (key.to_string(), parse_value(value)))
        .collect();
    let experiment = Experiment::of_task(name, &overrides).expect("settings that hold");
    let task = open(&experiment.task, &experiment.data_dir).expect("a task");
    let model = Model::new(&experiment.model, task.input(), task.output(), 3, &Device::flex()).expect("a model");
    (task, model)
}

const TASKS: [(&str, &[(&str, &str)]); 8] = [
    ("copy", &[("task.length", "130"), ("task.test", "7")]),
    ("copy", &[("task.length", "1"), ("task.test", "7")]),
    ("adding", &[("task.length", "141"), ("task.test", "7")]),
    ("text", &[("task.length", "150")]),
    ("csv", &[("task.answers", "class"), ("task.on", "last")]),
    ("csv", &[("task.answers", "class"), ("task.on", "each")]),
    ("csv", &[("task.answers", "value"), ("task.on", "last")]),
    ("csv", &[("task.answers", "value"), ("task.on", "each")]),
];

#[test]
fn a_stretch_is_a_cut_of_the_whole_batch() {
    for (name, settings) in TASKS {
        let place = Place::new();
        let (task, _) = prepared(name, &place, settings);
        let all = task.held_out(Split::Test);
        for sequences in [0..1, 1..all.min(4), 0..all] {
            let whole = task.held_out_sequences(Split::Test, sequences.clone());
            assert_eq!(task.held_out_steps(Split::Test, sequences.clone()), whole.steps);
            let steps = whole.steps;
            let mut answers = 0;
            for length in [1, 7, 10, 64, steps] {
                for first in (0..steps).step_by(length) {
                    let range = first..steps.min(first + length);
                    let stretch = task.held_out_stretch(Split::Test, sequences.clone(), range.clone());
                    assert_eq!(stretch.rows, whole.rows);
                    assert_eq!(stretch.steps, range.len());
                    if length < steps {
                        assert_eq!(stretch, whole.stretch(range.clone()), "{name} {settings:?} {range:?}");
                    } else {
                        assert_eq!(stretch, whole, "{name} {settings:?}");
                    }
                    answers += stretch.answer_count();
                }
            }
            assert_eq!(answers, 5 * whole.answer_count(), "every answer is asked once");
        }
    }
}

/// The bits of a result. How many states are stored in the padding of shorter sequences depends on those beside them.
fn bits(judged: &Judgement, padded: bool) -> Vec<(&'static str, u64)> {
    let memories = judged.memories.filter(|_| !padded).unwrap_or(-1.0).to_bits();
    let metrics = judged.metrics.iter().map(|(name, value)| (*name, value.to_bits()));
    metrics.chain([("sequences", judged.sequences), ("memories", memories)]).collect()
}

/// Stretches of so many floats, and so many bytes of memories.
fn cut(stretch: usize, held: usize) -> Limits {
    Limits { whole: 0, stretch, held }
}

#[test]
fn an_evaluation_in_stretches_has_the_bits_of_whole_sequences() {
    let models: [&[(&str, &str)]; 5] = [
        &[],
        &[("model.k_top", "0")],
        &[("model.k_att", "3"), ("model.k_top", "all")],
        &[("model.store", "novelty"), ("model.novelty", "0.3")],
        // A GRU's states grow with prominence.
        &[
            ("model.cell", "gru"),
            ("model.sparsifier", "softmax"),
            ("model.capacity", "9"),
            ("model.evict", "least-attended"),
        ],
    ];
    for (name, settings) in TASKS {
        for model in models {
            let place = Place::new();
            let (task, model) = prepared(name, &place, &[settings, model].concat());
            let device = Device::flex();
            let whole = evaluate(&model, &*task, Split::Test, 4, None, 1, &device).expect("whole");
            // One row at a time; two; all four; and as many as their memories allow.
            for limits in
                [cut(0, 0), cut(12 * 37 * 4, usize::MAX), cut(12 * 100, 12 * 8 * 60), cut(12 * 50, 12 * 8 * 170)]
            {
                for threads in [1, 2] {
                    let (task, model, device) = (&*task, &model, &device);
                    let evaluation = Evaluation { model, task, rows: 4, most_batches: None, limits, threads, device };
                    let cut = evaluation.run(Split::Test, &mut |_| Ok(())).expect("in stretches");
                    let padded = name == "csv";
                    assert_eq!(bits(&cut, padded), bits(&whole, padded), "{name} {settings:?} {limits:?}");
                }
            }
        }
    }
}

/// Two rows of five steps, their outputs, and the tally of them.
fn judged_in(stretches: &[Range<usize>], answers: Answers, longest: usize) -> Tally {
    let (rows, steps, width) = (2, 5, if matches!(answers, Answers::Values(_)) { 1 } else { 3 });
    let input = Input::Tokens(vec![0; rows * steps]);
    let whole = Batch { rows, steps, input, asked: Asked::From(0), answers };
    // Numbers whose sum depends on its order: large ones of the first row, small ones of the second.
    let output = |row: usize, step: usize, place: usize| match (row, place) {
        (0, 0) => 1e7 * (step + 1) as f32,
        _ => ((step * 3 + place + 2) as f32).sqrt(),
    };
    let mut tally = Tally::grading_last(2);
    let mut judged = RowTallies::new(rows, steps, longest);
    for range in stretches {
        let outputs: Vec<f32> = (0..rows)
            .flat_map(|row| range.clone().map(move |step| (row, step)))
            .flat_map(|(row, step)| (0..width).map(move |place| output(row, step, place)))
            .collect();
        judged.add(&tally, &whole.stretch(range.clone()), range.start, &outputs, width).expect("answers");
        if stretches.len() == 1 && longest <= 200_000 {
            let mut right = Tally::grading_last(2);
            right.add(&whole, &outputs, width).expect("answers");
            let mut found = tally;
            judged.finish(&mut found);
            assert_eq!(found, right, "short sequences are summed as those of a batch are");
            return found;
        }
    }
    judged.finish(&mut tally);
    tally
}

#[test]
fn sums_keep_their_order_whatever_the_stretches() {
    let classes = || Answers::Classes((0..10).map(|place| place % 3).collect());
    let values = || Answers::Values((0..10).map(|place| place as f32 / 3.0).collect());
    let mut sums = Vec::new();
    for longest in [5, 200_000, 200_001] {
        for answers in [classes(), values()] {
            let whole = judged_in(std::slice::from_ref(&(0..5)), answers.clone(), longest);
            assert_eq!((whole.all.count, whole.graded.count), (10, 4));
            for stretches in [vec![0..2, 2..4, 4..5], vec![0..1, 1..5], (0..5).map(|step| step..step + 1).collect()] {
                assert_eq!(judged_in(&stretches, answers.clone(), longest), whole, "{stretches:?}");
            }
            sums.push(whole.all);
        }
    }
    assert_eq!(sums[..2], sums[2..4]);
    // The sums of long sequences are added, not their answers: the numbers are such that this shows.
    assert_ne!((sums[0], sums[1]), (sums[4], sums[5]));
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-12 * a.abs();
    assert!(close(sums[0].cross_entropy, sums[4].cross_entropy) && close(sums[1].squared_error, sums[5].squared_error));
}

/// A task that counts what is asked of it.
struct Counting {
    task: Box<dyn Task>,
    largest: Mutex<usize>,
}

impl Task for Counting {
    fn input(&self) -> InputKind {
        self.task.input()
    }

    fn output(&self) -> OutputKind {
        self.task.output()
    }

    fn training_batch(&self, _seed: u64, _update: u64, _rows: usize) -> Batch {
        panic!("nothing is trained here")
    }

    fn held_out(&self, split: Split) -> usize {
        self.task.held_out(split)
    }

    fn held_out_sequences(&self, _split: Split, sequences: Range<usize>) -> Batch {
        panic!("the sequences {sequences:?} were asked for as a whole")
    }

    fn held_out_steps(&self, split: Split, sequences: Range<usize>) -> usize {
        self.task.held_out_steps(split, sequences)
    }

    fn held_out_stretch(&self, split: Split, sequences: Range<usize>, steps: Range<usize>) -> Batch {
        let mut largest = self.largest.lock().expect("one thread");
        *largest = (*largest).max(sequences.len() * steps.len());
        self.task.held_out_stretch(split, sequences, steps)
    }

    fn graded_steps(&self) -> usize {
        self.task.graded_steps()
    }

    fn metrics(&self, tally: &Tally) -> Metrics {
        self.task.metrics(tally)
    }
}

#[test]
fn no_batch_grows_with_the_length() {
    let largest = |length: &str| {
        let settings = [("task.length", length), ("task.test", "5"), ("model.k_top", "0"), ("model.hidden", "16")];
        let (task, model) = prepared("copy", &Place::new(), &settings);
        let task = Counting { task, largest: Mutex::new(0) };
        let judged = evaluate(&model, &task, Split::Test, 5, None, 1, &Device::flex()).expect("judged");
        assert_eq!(judged.sequences, 5);
        *task.largest.lock().expect("one thread")
    };
    let [short, long] = ["60000", "240000"].map(largest);
    assert_eq!(short, long);
    assert!(long <= 300_000, "{long} steps at once");
}

#[test]
fn an_evaluation_tells_how_far_it_is_and_can_be_stopped() {
    let settings = [("task.length", "100"), ("task.test", "6")];
    let (task, model) = prepared("copy", &Place::new(), &settings);
    let (task, model, device) = (&*task, &model, &Device::flex());
    let limits = cut(12 * 40 * 2, 30_000);
    let evaluation = Evaluation { model, task, rows: 2, most_batches: None, limits, threads: 1, device };
    let mut shares = Vec::new();
    let mut watch = |share: f64| {
        shares.push(share);
        Ok(())
    };
    evaluation.run(Split::Test, &mut watch).expect("judged");
    assert_eq!(shares.len(), 9, "three stretches of three groups: {shares:?}");
    assert!(shares.is_sorted() && shares[0] > 0.0 && shares[8] == 1.0, "{shares:?}");
    let mut calls = 0;
    let stopped = evaluation.run(Split::Test, &mut |share| {
        calls += 1;
        if share > 0.3 { Err(LabError::Config("enough".into())) } else { Ok(()) }
    });
    assert_eq!((stopped.expect_err("stopped").to_string().as_str(), calls), ("enough", 3));
}

#[test]
fn as_many_sequences_are_evaluated_as_asked_for() {
    let (task, model) = prepared("copy", &Place::new(), &[("task.length", "100"), ("task.test", "60")]);
    for (most, count) in [(Some(1), 16), (Some(3), 48), (Some(9), 60), (None, 60)] {
        let (task, model, device) = (&*task, &model, &Device::flex());
        for limits in [Limits::default(), cut(12 * 64, 0)] {
            let evaluation = Evaluation { model, task, rows: 16, most_batches: most, limits, threads: 1, device };
            assert_eq!(evaluation.run(Split::Test, &mut |_| Ok(())).expect("judged").sequences, count);
        }
    }
}
