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
