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
    assert_eq!(copy.metrics(&tally)[0], ("ce_last10", tally.graded.ce()));
}
