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

/// [`places`] as a stream.
fn stream(place: &Place, count: u32, length: usize) -> Box<dyn Task> {
    let text: String = (0..count).map(|at| char::from_u32(0x4E00 + at).expect("a character")).collect();
    let file = place.write("text.txt", text).display().to_string();
    let settings = [("task.file", file.as_str()), ("task.length", &length.to_string()), ("task.stream", "true")];
    task_in(place.path("").as_path(), "text", &settings)
}

#[test]
fn each_row_of_a_stream_reads_its_own_part_from_end_to_end() {
    let place = Place::new();
    // 1800 of 2000 characters train: 257 or 258 for each of seven rows, 25 batches of ten.
    let (text, rows) = (stream(&place, 2000, 10), 7);
    assert_eq!(text.updates_an_epoch(rows), Some(25));
    let mut starts = BTreeSet::new();
    for pass in 0..10_u64 {
        let batches: Vec<Batch> = (0..25).map(|place| text.training_batch(1, pass * 25 + place, rows)).collect();
        batches.iter().for_each(|batch| is_shifted(batch, 10));
        assert_eq!(text.begins(1, pass * 25, rows).len(), rows);
        assert!((1..25).all(|place| text.begins(1, pass * 25 + place, rows).is_empty()));
        for row in 0..rows {
            let read: Vec<i32> = batches.iter().flat_map(|batch| tokens(batch)[row].to_vec()).collect();
            assert!(read.array_windows().all(|[a, b]| a + 1 == *b), "row {row}: batches follow on one another");
            let part = row * 1800 / rows..(row + 1) * 1800 / rows;
            assert!(part.contains(&(read[0] as usize)) && part.contains(&(read[249] as usize + 1)), "row {row}");
            starts.insert((row, read[0]));
        }
    }
    assert!(starts.len() > 25, "the start is drawn: {}", starts.len());
}

#[test]
fn rows_that_reach_their_end_begin_anew_by_themselves() {
    let place = Place::new();
    // 900 characters for 40 rows: 22 for even rows and 23 for odd ones, that is one batch of eleven or two.
    let text = stream(&place, 1000, 11);
    let even: Vec<usize> = (0..40).step_by(2).collect();
    for batch in 0..6 {
        let begin = text.begins(1, batch, 40);
        assert_eq!(begin, if batch % 2 == 0 { (0..40).collect() } else { even.clone() }, "batch {batch}");
    }
}

#[test]
fn held_out_streams_cover_the_part_in_a_few_long_pieces() {
    let place = Place::new();
    let text = stream(&place, 2000, 9);
    // 100 characters: eight streams of twelve.
    rows_do_not_matter(&*text, Split::Validation, 8);
    let all = held_out(&*text, Split::Test, 8);
    is_shifted(&all[0], 12);
    assert_eq!(symbols(&all), (1900..1997).collect());
}

#[test]
fn a_stream_that_is_too_short_for_its_rows_is_an_error() {
    let place = Place::new();
    let text = stream(&place, 1000, 49);
    assert!(text.check_rows(18).is_ok());
    let why = text.check_rows(19).expect_err("47 characters each").to_string();
    assert!(why.contains("`train.batch` is 19") && why.contains("47") && why.contains("50"), "{why}");
    assert!(places(&place, 1000, 49).expect("a task").check_rows(1000).is_ok(), "no stream");
}
