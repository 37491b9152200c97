//! What each task puts into its batches, and that held-out data never trains.

mod common;

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

mod copy {
    use super::*;

    fn copy(length: usize, blank_weight: &str) -> Box<dyn Task> {
        let length = length.to_string();
        task("copy", &[("task.length", &length), ("task.blank_weight", blank_weight)])
    }

    /// Checks the tokens and gives the digits of each row.
    fn digits(batch: &Batch, length: usize) -> Vec<[i32; 10]> {
        assert_eq!(batch.steps, length + 20);
        let of_row = |row: &[i32]| -> [i32; 10] {
            let (digits, rest) = row.split_at(10);
            assert!(digits.iter().all(|digit| (1..=8).contains(digit)), "{digits:?}");
            let right: Vec<i32> = [vec![0; length - 1], vec![9], vec![0; 10]].concat();
            assert_eq!(rest, right);
            digits.try_into().expect("ten digits")
        };
        tokens(batch).into_iter().map(of_row).collect()
    }

    #[test]
    fn a_sequence_is_ten_digits_blanks_the_marker_and_ten_blanks() {
        for length in [1, 2, 3, 10, 100] {
            let batch = copy(length, "auto").training_batch(1, 0, 5);
            assert_eq!(digits(&batch, length).len(), 5);
        }
    }

    #[test]
    fn by_itself_every_step_is_asked_and_counts_the_same() {
        for length in [1, 3, 50] {
            let batch = copy(length, "auto").training_batch(1, 0, 4);
            assert_eq!((&batch.asked, batch.weights()), (&Asked::From(0), None));
            assert_eq!(batch.answer_count(), 4 * (length + 20));
            let right: Vec<i32> =
                digits(&batch, length).iter().flat_map(|row| [&vec![0; length + 10][..], row].concat()).collect();
            assert_eq!(classes(&batch), right);
        }
    }

    #[test]
    fn without_weight_on_blanks_only_the_digits_are_asked() {
        for length in [1, 3, 50] {
            let batch = copy(length, "0").training_batch(1, 0, 4);
            assert_eq!((&batch.asked, batch.weights()), (&Asked::From(length + 10), None));
            assert_eq!(batch.answer_count(), 40);
            assert_eq!(classes(&batch), digits(&batch, length).concat());
        }
    }

    #[test]
    fn with_a_weight_the_blanks_count_so_much_together_and_the_digits_once() {
        for (length, weight) in [(1, 0.02), (3, 1.0), (50, 30.0)] {
            let batch = copy(length, &weight.to_string()).training_batch(1, 0, 4);
            assert_eq!(batch.asked, Asked::TwoGroups { first: length + 10, weight: weight as f32 });
            assert_eq!(classes(&batch), classes(&copy(length, "auto").training_batch(1, 0, 4)));
            let weights = batch.weights().expect("weights that differ");
            assert_eq!(weights.len(), batch.answer_count());
            let (mut blanks, mut asked) = (0.0, 0.0);
            for (place, one) in weights.iter().enumerate() {
                let blank = place % (length + 20) < length + 10;
                let right = if blank { weight / (4 * (length + 10)) as f64 } else { 1.0 / 40.0 };
                assert!((f64::from(*one) - right).abs() < 1e-6 * right, "{place}");
                *(if blank { &mut blanks } else { &mut asked }) += f64::from(*one);
            }
            assert!((blanks - weight).abs() < 1e-5 * weight && (asked - 1.0).abs() < 1e-5, "{blanks} {asked}");
        }
    }

    #[test]
    fn held_out_sequences_are_asked_at_every_step_whatever_the_weight() {
        for weight in ["auto", "0", "0.02"] {
            let batch = copy(7, weight).held_out_batch(Split::Test, 0, 3);
            assert_eq!((&batch.asked, batch.weights(), classes(&batch).len()), (&Asked::From(0), None, 81));
        }
    }

    #[test]
    fn digits_are_uniform_in_every_place() {
        let rows = digits(&copy(3, "auto").training_batch(1, 0, 8000), 3);
        for place in 0..10 {
            let mut seen = [0; 8];
            rows.iter().for_each(|row| seen[row[place] as usize - 1] += 1);
            assert!(seen.iter().all(|count| (840..1160).contains(count)), "place {place}: {seen:?}");
        }
    }

    #[test]
    fn training_batches_are_functions_of_seed_and_update() {
        let (one, same) = (copy(5, "auto"), copy(5, "auto"));
        let mut all = BTreeSet::new();
        for (seed, update) in [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (0, 0), (u64::MAX, u64::MAX)] {
            let batch = one.training_batch(seed, update, 6);
            assert_eq!(batch, same.training_batch(seed, update, 6));
            all.extend(digits(&batch, 5));
        }
        assert_eq!(all.len(), 7 * 6, "no sequence comes twice");
    }

    #[test]
    fn held_out_sequences_are_of_their_own_and_do_not_depend_on_the_seed() {
        let settings = |seed| [("task.length", "5"), ("task.test", "300"), ("train.seed", seed)];
        let (one, two) = (task("copy", &settings("1")), task("copy", &settings("2")));
        let all = |task: &dyn Task, split| -> BTreeSet<[i32; 10]> {
            held_out(task, split, 64).iter().flat_map(|batch| digits(batch, 5)).collect()
        };
        let (validation, test) = (all(&*one, Split::Validation), all(&*one, Split::Test));
        assert_eq!((validation.len(), test.len()), (320, 300));
        assert!(validation.is_disjoint(&test));
        assert!(validation == all(&*two, Split::Validation) && test == all(&*two, Split::Test));
        for seed in 0..4 {
            let batches = (0..20).map(|update| one.training_batch(seed, update, 32));
            let training: BTreeSet<_> = batches.flat_map(|batch| digits(&batch, 5)).collect();
            assert!(training.is_disjoint(&validation) && training.is_disjoint(&test), "seed {seed}");
        }
    }

    #[test]
    fn held_out_batches_cover_what_is_announced_whatever_the_rows() {
        let copy = task("copy", &[("task.length", "4"), ("task.validation", "31"), ("task.test", "50")]);
        rows_do_not_matter(&*copy, Split::Validation, 31);
        rows_do_not_matter(&*copy, Split::Test, 50);
    }

    #[test]
    fn the_digits_are_graded_apart() {
        let copy = copy(6, "auto");
        let batch = copy.held_out_batch(Split::Validation, 0, 20);
        let mut tally = Tally::grading_last(copy.graded_steps());
        // Sure of a blank everywhere.
        let outputs: Vec<f32> = (0..batch.answer_count()).flat_map(|_| [5.0, 0., 0., 0., 0., 0., 0., 0., 0.]).collect();
        tally.add(&batch, &outputs, 9).expect("answers");
        assert_eq!((tally.graded.count, tally.graded.accuracy()), (200, 0.0));
        assert_eq!((tally.all.count, tally.all.accuracy()), (520, 320.0 / 520.0));
        assert_eq!(copy.figures(&tally)[0], ("ce_last10", tally.graded.ce()));
    }
}

mod adding {
    use super::*;

    fn adding(length: usize) -> Box<dyn Task> {
        let length = length.to_string();
        task("adding", &[("task.length", &length), ("task.validation", "21"), ("task.test", "4000")])
    }

    fn is_right(batch: &Batch, length: usize) {
        assert_eq!((batch.steps, &batch.asked), (length, &Asked::From(length - 1)));
        assert_eq!(values(batch).len(), batch.rows);
        for (row, sum) in dense(batch).into_iter().zip(values(batch)) {
            assert!(row.iter().step_by(2).all(|number| (0.0..1.0).contains(number)));
            let marks = || row.chunks_exact(2).enumerate().filter(|(_, step)| step[1] == 1.0);
            let places: Vec<usize> = marks().map(|(place, _)| place).collect();
            assert!(places.len() == 2 && places[0] < length / 2 && places[1] >= length / 2, "{places:?}");
            assert_eq!(row.chunks_exact(2).filter(|step| step[1] == 0.0).count(), length - 2);
            assert_eq!(*sum, marks().map(|(_, step)| step[0]).sum::<f32>());
        }
    }

    #[test]
    fn one_number_of_each_half_is_marked_and_their_sum_is_asked() {
        for length in [2, 3, 200] {
            let adding = adding(length);
            is_right(&adding.training_batch(1, 3, 50), length);
            is_right(&adding.held_out_batch(Split::Validation, 0, 21), length);
            is_right(&adding.held_out_batch(Split::Test, 0, 21), length);
        }
    }

    #[test]
    fn every_place_can_be_marked() {
        let batch = adding(7).training_batch(1, 0, 500);
        let marked = |row: &[f32]| (0..7).filter(|step| row[step * 2 + 1] == 1.0).collect::<Vec<_>>();
        let seen: BTreeSet<usize> = dense(&batch).into_iter().flat_map(marked).collect();
        assert_eq!(seen.len(), 7);
    }

    /// The sum of two uniform numbers has the mean 1 and the variance 1/6.
    #[test]
    fn always_answering_one_has_a_squared_error_of_a_sixth() {
        for length in [2, 3, 200] {
            let adding = adding(length);
            let mut tally = Tally::default();
            for batch in held_out(&*adding, Split::Test, 500) {
                tally.add(&batch, &vec![1.0; batch.rows], 1).expect("answers");
            }
            assert_eq!(tally.all.count, 4000);
            let figures = adding.figures(&tally);
            assert!(figures[0].0 == "mse" && (figures[0].1 - 1.0 / 6.0).abs() < 0.012, "{length}: {figures:?}");
        }
    }

    #[test]
    fn batches_are_functions_of_seed_and_update_and_held_out_ones_are_apart() {
        let (one, same) = (adding(9), adding(9));
        let mut all = BTreeSet::new();
        let mut add = |batch: &Batch| {
            all.extend(dense(batch).iter().map(|row| row.iter().map(|x| x.to_bits()).collect::<Vec<_>>()));
        };
        for (seed, update) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            assert_eq!(one.training_batch(seed, update, 8), same.training_batch(seed, update, 8));
            add(&one.training_batch(seed, update, 8));
        }
        add(&one.held_out_batch(Split::Validation, 0, 8));
        add(&one.held_out_batch(Split::Test, 0, 8));
        assert_eq!(all.len(), 6 * 8, "no sequence comes twice");
    }

    #[test]
    fn held_out_batches_cover_what_is_announced_whatever_the_rows() {
        rows_do_not_matter(&*adding(5), Split::Validation, 21);
    }
}

mod characters {
    use super::*;

    /// A text in which no character comes twice: as the alphabet is sorted, a symbol's number is its place in the text.
    fn places(place: &Place, count: u32, length: usize) -> sab::Result<Box<dyn Task>> {
        let text: String = (0..count).map(|at| char::from_u32(0x4E00 + at).expect("a character")).collect();
        let file = place.write("text.txt", text).display().to_string();
        let settings = [("task.file", file.as_str()), ("task.length", &length.to_string())]
            .map(|(key, value)| (key.to_string(), parse_value(value)));
        open(&Experiment::of_task("text", &settings).expect("settings").task, place.path("").as_path())
    }

    fn is_shifted(batch: &Batch, length: usize) {
        assert_eq!((batch.steps, &batch.asked, classes(batch).len()), (length, &Asked::From(0), batch.rows * length));
        for (row, right) in tokens(batch).into_iter().zip(classes(batch).chunks_exact(length)) {
            assert!(row.array_windows().all(|[a, b]| a + 1 == *b), "a stretch of the text: {row:?}");
            assert!(row.iter().zip(right).all(|(seen, next)| seen + 1 == *next), "{row:?} {right:?}");
        }
    }

    #[test]
    fn answers_are_the_next_characters() {
        let place = Place::new();
        for length in [1, 2, 10, 33] {
            let text = places(&place, 2000, length).expect("a task");
            assert_eq!(text.output(), OutputKind::Classes(2000));
            let rows = 4;
            first_pass(&*text, 1, rows).iter().for_each(|batch| is_shifted(batch, length));
            for split in [Split::Validation, Split::Test] {
                held_out(&*text, split, rows).iter().for_each(|batch| is_shifted(batch, length));
            }
        }
    }

    /// Every symbol of batches, seen or asked for.
    fn symbols(batches: &[Batch]) -> BTreeSet<i32> {
        batches.iter().flat_map(|batch| tokens(batch).concat().into_iter().chain(classes(batch).to_vec())).collect()
    }

    #[test]
    fn held_out_text_is_never_seen_in_training() {
        let place = Place::new();
        for length in [1, 7, 49] {
            let text = places(&place, 1000, length).expect("a task");
            for seed in 0..5 {
                let updates = 4 * text.updates_an_epoch(3).expect("epochs");
                let batches: Vec<Batch> = (0..updates).map(|update| text.training_batch(seed, update, 3)).collect();
                assert!(symbols(&batches).last().is_some_and(|last| *last < 900), "length {length}, seed {seed}");
            }
            let (validation, test) =
                (symbols(&held_out(&*text, Split::Validation, 3)), symbols(&held_out(&*text, Split::Test, 3)));
            assert!(validation.iter().all(|at| (900..950).contains(at)), "{validation:?}");
            assert!(test.iter().all(|at| (950..1000).contains(at)), "{test:?}");
        }
    }

    #[test]
    fn a_pass_covers_nearly_all_of_the_text_once() {
        let place = Place::new();
        let text = places(&place, 4000, 10).expect("a task");
        // 3600 characters, from 0 on in steps of 10, each with the one after it; one sequence is given up.
        assert_eq!(text.updates_an_epoch(2), Some(179));
        let mut beginnings = BTreeSet::new();
        for epoch in 0..20 {
            let batches: Vec<Batch> = (0..179).map(|update| text.training_batch(1, epoch * 179 + update, 2)).collect();
            let mut seen: Vec<i32> = batches.iter().flat_map(|batch| tokens(batch).concat()).collect();
            let count = seen.len();
            seen.sort_unstable();
            beginnings.insert(seen[0]);
            seen.dedup();
            assert_eq!((seen.len(), count), (3580, 3580), "nothing comes twice");
        }
        assert!(beginnings.iter().all(|at| (0..10).contains(at)) && beginnings.len() > 4, "{beginnings:?}");
    }

    #[test]
    fn a_held_out_part_is_covered_without_its_remainder() {
        let place = Place::new();
        let text = places(&place, 2000, 9).expect("a task");
        // 100 characters each: eleven sequences of nine and the character after the last.
        rows_do_not_matter(&*text, Split::Validation, 11);
        rows_do_not_matter(&*text, Split::Test, 11);
        assert_eq!(symbols(&held_out(&*text, Split::Test, 4)), (1900..2000).collect());
    }

    #[test]
    fn training_batches_are_functions_of_seed_and_update() {
        let place = Place::new();
        let text = places(&place, 1000, 8).expect("a task");
        let batch = text.training_batch(1, 3, 4);
        let _ = text.training_batch(2, 500, 4);
        assert_eq!(batch, text.training_batch(1, 3, 4));
        assert_ne!(batch, text.training_batch(1, 4, 4));
        assert_ne!(batch, text.training_batch(2, 3, 4));
    }

    #[test]
    fn the_longest_length_is_one_less_than_a_part_and_more_is_an_error() {
        let place = Place::new();
        let text = places(&place, 1000, 49).expect("a task");
        is_shifted(&text.held_out_batch(Split::Test, 0, 5), 49);
        assert_eq!(text.held_out_count(Split::Test, 5), 1);
        for length in [50, 899, 5000] {
            let why = places(&place, 1000, length).err().expect("an error").to_string();
            assert!(why.contains("task.length") && why.contains(&length.to_string()), "{why}");
        }
    }
}

mod permuted_mnist {
    use super::*;

    const TRAINING: u32 = 30;
    const TEST: u32 = 11;

    fn idx(magic: u32, sizes: &[u32], content: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        let head = [&[magic][..], sizes].concat();
        let bytes: Vec<u8> =
            head.iter().flat_map(|number| number.to_be_bytes()).chain(content.iter().copied()).collect();
        encoder.write_all(&bytes).expect("memory");
        encoder.finish().expect("memory")
    }

    /// The pixels of all images, training first: each image is different and has the darkest and the brightest pixel.
    fn pixels() -> Vec<Vec<u8>> {
        let pixel = |image: u32, at: u32| match at {
            0 => 0,
            1 => 255,
            _ => ((image * 784 + at).wrapping_mul(2_654_435_761) >> 24) as u8,
        };
        (0..TRAINING + TEST).map(|image| (0..784).map(|at| pixel(image, at)).collect()).collect()
    }

    fn pmnist(place: &Place, seed: &str) -> Box<dyn Task> {
        let all = pixels();
        let (training, test) = all.split_at(TRAINING as usize);
        for (name, images, first) in [("train", training, 0), ("t10k", test, TRAINING)] {
            let count = images.len() as u32;
            let labels: Vec<u8> = (first..first + count).map(|image| (image % 10) as u8).collect();
            place.write(
                &format!("data/mnist/{name}-images-idx3-ubyte.gz"),
                idx(2051, &[count, 28, 28], &images.concat()),
            );
            place.write(&format!("data/mnist/{name}-labels-idx1-ubyte.gz"), idx(2049, &[count], &labels));
        }
        task_in(&place.path("data"), "pmnist", &[("task.permutation_seed", seed), ("task.validation", "8")])
    }

    fn permutation(task: &dyn Task) -> Vec<u16> {
        task.facts().permutation.expect("an order in the facts")
    }

    /// Which images a batch shows, by their pixels in the order of the facts.
    fn images(task: &dyn Task, batch: &Batch) -> Vec<u32> {
        let (all, order) = (pixels(), permutation(task));
        assert_eq!((batch.steps, &batch.asked), (784, &Asked::From(783)));
        let image = |(row, label): (&[f32], &i32)| {
            let shown = |image: &Vec<u8>| {
                let right = |at: &u16| f32::from(image[usize::from(*at)]) / 255.0 - 0.5;
                order.iter().map(right).zip(row).all(|(right, seen)| (right - seen).abs() < 1e-6)
            };
            let found = all.iter().position(shown).expect("an image of the files") as u32;
            assert_eq!(found % 10, *label as u32);
            found
        };
        dense(batch).into_iter().zip(classes(batch)).map(image).collect()
    }

    #[test]
    fn the_order_of_pixels_is_a_permutation_drawn_from_its_seed() {
        let place = Place::new();
        let one = permutation(&*pmnist(&place, "1"));
        let mut sorted = one.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..784).collect::<Vec<u16>>());
        assert_ne!(one, sorted);
        assert_eq!(one, permutation(&*pmnist(&place, "1")));
        assert_ne!(one, permutation(&*pmnist(&place, "2")));
    }

    #[test]
    fn pixels_are_scaled_to_half_below_and_above_nothing() {
        let place = Place::new();
        let pmnist = pmnist(&place, "3");
        for row in dense(&pmnist.training_batch(1, 0, 4)) {
            let (least, most) = row.iter().fold((0.0_f32, 0.0_f32), |(least, most), x| (least.min(*x), most.max(*x)));
            assert_eq!((least, most), (-0.5, 0.5));
        }
    }

    #[test]
    fn validation_takes_the_last_training_images_and_they_never_train() {
        let place = Place::new();
        let pmnist = pmnist(&place, "3");
        let shown =
            |batches: Vec<Batch>| -> Vec<u32> { batches.iter().flat_map(|batch| images(&*pmnist, batch)).collect() };
        assert_eq!(shown(held_out(&*pmnist, Split::Validation, 3)), (22..30).collect::<Vec<_>>());
        assert_eq!(shown(held_out(&*pmnist, Split::Test, 3)), (30..41).collect::<Vec<_>>());
        for seed in 0..3 {
            let mut pass = shown(first_pass(&*pmnist, seed, 2));
            assert_ne!(pass, (0..22).collect::<Vec<_>>());
            pass.sort_unstable();
            assert_eq!(pass, (0..22).collect::<Vec<_>>(), "each training image once");
        }
    }

    #[test]
    fn held_out_batches_cover_what_there_is_whatever_the_rows() {
        let place = Place::new();
        let pmnist = pmnist(&place, "3");
        rows_do_not_matter(&*pmnist, Split::Validation, 8);
        rows_do_not_matter(&*pmnist, Split::Test, 11);
    }
}

mod table {
    use super::*;

    const COUNT: usize = 40;

    fn steps_of(id: usize) -> usize {
        1 + id * 5 % 7
    }

    /// A number for each step of a sequence, all different.
    fn value_of(id: usize, step: usize) -> f64 {
        1000.0 - 12.5 * id as f64 + 0.25 * step as f64
    }

    fn class_of(id: usize, step: usize) -> usize {
        (id + step) % 3
    }

    /// The features are the number of the sequence and that of the step; steps do not stand in order.
    fn table(settings: &[(&str, &str)], label: impl Fn(usize, usize) -> String) -> Box<dyn Task> {
        let place = Place::new();
        let mut text = "id,step,which,when,label\n".to_string();
        for (id, step) in (0..COUNT).flat_map(|id| (0..steps_of(id)).rev().map(move |step| (id, step))) {
            text += &format!("s{id},{step},{id},{step},{}\n", label(id, step));
        }
        let file = place.write("table.csv", text).display().to_string();
        task("csv", &[settings, &[("task.file", file.as_str())]].concat())
    }

    fn regression(on: &str) -> Box<dyn Task> {
        table(&[("task.on", on)], |id, step| value_of(id, step).to_string())
    }

    fn classification(on: &str) -> Box<dyn Task> {
        table(&[("task.on", on)], |id, step| ["down", "same", "up"][class_of(id, step)].to_string())
    }

    fn lengths(batch: &Batch) -> Vec<usize> {
        match &batch.asked {
            Asked::At(last) => last.iter().map(|last| last + 1).collect(),
            Asked::Until(lengths) => lengths.clone(),
            other => panic!("{other:?}"),
        }
    }

    /// The numbers of the sequences of a batch, after a look at every feature and the padding.
    fn ids(task: &dyn Task, batch: &Batch) -> Vec<usize> {
        let scale = task.facts().standardization.expect("a scale in the facts");
        assert_eq!(Some(&batch.steps), lengths(batch).iter().max());
        let id = |(row, length): (&[f32], usize)| {
            let (content, padding) = row.split_at(length * 2);
            assert!(padding.iter().all(|x| *x == 0.0));
            let mut content = content.to_vec();
            scale.undo(&mut content);
            let id = content[0].round() as usize;
            assert_eq!(length, steps_of(id));
            for (step, two) in content.chunks_exact(2).enumerate() {
                assert!((two[0] - id as f32).abs() < 1e-3 && (two[1] - step as f32).abs() < 1e-3, "{id}: {content:?}");
            }
            id
        };
        dense(batch).into_iter().zip(lengths(batch)).map(id).collect()
    }

    /// The sequences of training, validation and test.
    fn parts(task: &dyn Task) -> [Vec<usize>; 3] {
        let of = |batches: Vec<Batch>| batches.iter().flat_map(|batch| ids(task, batch)).collect::<Vec<_>>();
        [of(first_pass(task, 1, 4)), of(held_out(task, Split::Validation, 3)), of(held_out(task, Split::Test, 3))]
    }

    #[test]
    fn an_answer_at_the_end_is_asked_at_the_last_step_of_each_row() {
        let (numbers, names) = (regression("last"), classification("last"));
        let scale = numbers.facts().answer_standardization.expect("a scale of answers");
        for update in 0..8 {
            let batch = numbers.training_batch(1, update, 4);
            assert!(matches!(batch.asked, Asked::At(_)) && batch.answer_count() == 4 && batch.weights().is_none());
            let mut answers = values(&batch).to_vec();
            scale.undo(&mut answers);
            for (id, answer) in ids(&*numbers, &batch).into_iter().zip(answers) {
                assert!((f64::from(answer) - value_of(id, steps_of(id) - 1)).abs() < 1e-3, "{id}: {answer}");
            }
            let batch = names.training_batch(1, update, 4);
            let right: Vec<i32> =
                ids(&*names, &batch).into_iter().map(|id| class_of(id, steps_of(id) - 1) as i32).collect();
            assert_eq!(classes(&batch), right);
        }
        assert_eq!(names.facts().classes.expect("names of classes"), ["down", "same", "up"]);
        assert_eq!((names.output(), numbers.output()), (OutputKind::Classes(3), OutputKind::Value));
    }

    #[test]
    fn answers_at_each_step_are_asked_until_the_row_ends() {
        let (numbers, names) = (regression("each"), classification("each"));
        let scale = numbers.facts().answer_standardization.expect("a scale of answers");
        for update in 0..8 {
            let batch = numbers.training_batch(1, update, 4);
            let (ids_here, asked) = (ids(&*numbers, &batch), lengths(&batch));
            assert!(matches!(batch.asked, Asked::Until(_)) && values(&batch).len() == 4 * batch.steps);
            for ((id, length), answers) in ids_here.iter().zip(&asked).zip(values(&batch).chunks_exact(batch.steps)) {
                let (content, padding) = answers.split_at(*length);
                assert!(padding.iter().all(|x| *x == 0.0));
                let mut content = content.to_vec();
                scale.undo(&mut content);
                let right = |(step, answer): (usize, &f32)| (f64::from(*answer) - value_of(*id, step)).abs() < 1e-3;
                assert!(content.iter().enumerate().all(right), "{id}: {content:?}");
            }
            let counted = batch.counted().unwrap_or_else(|| vec![true; 4 * batch.steps]);
            assert_eq!(counted.iter().filter(|counts| **counts).count(), asked.iter().sum::<usize>());

            let batch = names.training_batch(1, update, 4);
            for (id, answers) in ids(&*names, &batch).into_iter().zip(classes(&batch).chunks_exact(batch.steps)) {
                let right = |step| if step < steps_of(id) { class_of(id, step) as i32 } else { 0 };
                assert!(answers.iter().enumerate().all(|(step, answer)| *answer == right(step)), "{id}: {answers:?}");
            }
        }
    }

    #[test]
    fn parts_are_disjoint_complete_and_drawn_from_the_seed_of_the_split() {
        let [training, validation, test] = parts(&*regression("last"));
        assert_eq!([training.len(), validation.len(), test.len()], [32, 4, 4]);
        let mut all = [&training[..], &validation, &test].concat();
        all.sort_unstable();
        assert_eq!(all, (0..COUNT).collect::<Vec<_>>());
        assert_eq!(parts(&*classification("each"))[2], test);
        let other = table(&[("task.split_seed", "2")], |id, step| value_of(id, step).to_string());
        assert_ne!(parts(&*other)[2], test);
    }

    #[test]
    fn held_out_batches_cover_a_part_whatever_the_rows() {
        let task = regression("each");
        let [_, validation, _] = parts(&*task);
        for rows in [1, 2, 3, 5, 100] {
            let batches = held_out(&*task, Split::Validation, rows);
            assert_eq!(batches.iter().flat_map(|batch| ids(&*task, batch)).collect::<Vec<_>>(), validation);
        }
    }

    fn moments(numbers: &[f64]) -> (f64, f64) {
        let count = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / count;
        (mean, (numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count).sqrt())
    }

    #[test]
    fn scales_come_from_the_training_sequences_alone() {
        for on in ["last", "each"] {
            let task = regression(on);
            let [training, ..] = parts(&*task);
            let steps = |id: &usize| (0..steps_of(*id)).map(|step| (*id, step)).collect::<Vec<_>>();
            let all: Vec<(usize, usize)> = training.iter().flat_map(steps).collect();
            let asked = all.iter().filter(|(id, step)| on == "each" || step + 1 == steps_of(*id));
            let right = [
                moments(&all.iter().map(|(id, _)| *id as f64).collect::<Vec<_>>()),
                moments(&all.iter().map(|(_, step)| *step as f64).collect::<Vec<_>>()),
                moments(&asked.map(|(id, step)| value_of(*id, *step)).collect::<Vec<_>>()),
            ];
            let facts = task.facts();
            let (features, answers) =
                (facts.standardization.expect("a scale"), facts.answer_standardization.expect("a scale of answers"));
            let means = features.mean().iter().chain(answers.mean());
            let deviations = features.deviation().iter().chain(answers.deviation());
            for ((mean, deviation), right) in means.zip(deviations).zip(right) {
                assert!((f64::from(*mean) - right.0).abs() < 1e-6 * right.0.abs(), "{on}: {mean} {right:?}");
                assert!((f64::from(*deviation) - right.1).abs() < 1e-6 * right.1, "{on}: {deviation} {right:?}");
            }
        }
    }

    fn figure(task: &dyn Task, tally: &Tally, name: &str) -> f64 {
        task.figures(tally).iter().find(|(found, _)| *found == name).expect("a figure").1
    }

    #[test]
    fn figures_of_numbers_are_in_the_units_of_the_table() {
        for on in ["last", "each"] {
            let task = regression(on);
            let scale = task.facts().answer_standardization.expect("a scale of answers");
            let (mean, unit) = (f64::from(scale.mean()[0]), scale.deviation()[0]);
            let (mut off_by_two, mut naive) = (Tally::default(), Tally::default());
            let batches = held_out(&*task, Split::Test, 3);
            for batch in &batches {
                let outputs: Vec<f32> = values(batch).iter().map(|right| right + 2.0 / unit).collect();
                off_by_two.add(batch, &outputs, 1).expect("answers");
                naive.add(batch, &vec![0.0; outputs.len()], 1).expect("answers");
            }
            assert!((figure(&*task, &off_by_two, "mse") - 4.0).abs() < 1e-3, "{on}");
            assert!((figure(&*task, &off_by_two, "mae") - 2.0).abs() < 1e-3, "{on}");
            let first = |id: usize| if on == "each" { 0 } else { steps_of(id) - 1 };
            let test = batches.iter().flat_map(|batch| ids(&*task, batch));
            let errors: Vec<f64> =
                test.flat_map(|id| (first(id)..steps_of(id)).map(move |step| value_of(id, step) - mean)).collect();
            let mean_of = |of: fn(f64) -> f64| errors.iter().map(|x| of(*x)).sum::<f64>() / errors.len() as f64;
            let (mse, mae) = (figure(&*task, &naive, "mse"), figure(&*task, &naive, "mae"));
            assert!((mse / mean_of(|x| x * x) - 1.0).abs() < 1e-5, "{on}: {mse}");
            assert!((mae / mean_of(f64::abs) - 1.0).abs() < 1e-5, "{on}: {mae}");
            assert_eq!(task.figures(&naive)[0].0, "mse");
        }
    }
}
