use super::*;

fn stream(settings: &[(&str, &str)]) -> Box<dyn Task> {
    let small = [("task.length", "120"), ("task.open", "8"), ("task.names", "12"), ("task.noise", "0.3")];
    task("stream", &[&small[..], settings].concat())
}

const NAMES: i32 = 12;
const VALUES: i32 = 8;

/// The tokens of a row, and its asked steps with their answers.
type Row = (Vec<i32>, Vec<(usize, i32)>);

/// Some batches of training end to end: the symbols of each row, and its questions with the right values.
fn rows_of(task: &dyn Task, seed: u64, batches: u64, rows: usize) -> Vec<Row> {
    let mut all = vec![(Vec::new(), Vec::new()); rows];
    for number in 0..batches {
        let batch = task.training_batch(seed, number, rows);
        let before = all[0].0.len();
        all.iter_mut().zip(tokens(&batch)).for_each(|((row, _), new)| row.extend(new));
        let Asked::Only(places) = &batch.asked else { panic!("{:?}", batch.asked) };
        assert!(places.is_sorted() && places.len() == classes(&batch).len());
        places.iter().zip(classes(&batch)).for_each(|((row, step), right)| all[*row].1.push((before + step, *right)));
    }
    all
}

/// What a perfect memory answers: checks a whole stream and returns the delays of its questions.
fn check(row: &[i32], questions: &[(usize, i32)], gap: usize) -> Vec<usize> {
    let is_name = |symbol: i32| (1..=NAMES).contains(&symbol);
    let is_value = |symbol: i32| (NAMES + 1..=NAMES + VALUES).contains(&symbol);
    let (mut open, mut delays, mut most) = (std::collections::BTreeMap::new(), Vec::new(), 0);
    let mut asked = questions.iter().peekable();
    for (step, symbol) in row.iter().enumerate() {
        if is_value(*symbol) {
            assert!(row[step + 1..step + 1 + gap].iter().all(|blank| *blank == 0), "the gap is blank");
            assert!(row.get(step + 1 + gap).is_none_or(|name| is_name(*name)), "a value has a name");
        }
        let value = step.checked_sub(gap + 1).map(|step| row[step]).filter(|symbol| is_value(*symbol));
        match (is_name(*symbol), value, asked.peek()) {
            (true, Some(value), _) => {
                let was = open.insert(*symbol, (step, value - NAMES - 1));
                assert!(was.is_none(), "a name comes again while it is open");
                most = most.max(open.len());
            }
            (true, None, Some((place, right))) => {
                assert_eq!(*place, step, "every name by itself is a question");
                let (since, value) = open.remove(symbol).expect("a cue that is open");
                assert_eq!(value, *right);
                delays.push(step - since);
                asked.next();
            }
            (true, None, None) => panic!("a name at step {step} is neither cue nor question"),
            (false, ..) => {}
        }
    }
    assert!(asked.next().is_none() && (5..=9).contains(&most), "{most} are open");
    delays
}

#[test]
fn each_cue_is_asked_for_once_within_its_time_in_random_order() {
    for gap in [0, 1, 5] {
        let task = stream(&[("task.gap", &gap.to_string())]);
        let mut delays = Vec::new();
        let mut in_order = 0;
        for (row, questions) in rows_of(&*task, 1, 40, 5) {
            // Eight questions in every 120 steps, from step 120 on.
            assert_eq!(questions.len(), 39 * 8);
            let found = check(&row, &questions, gap);
            in_order += found.array_windows().filter(|[a, b]| a == b).count();
            delays.extend(found);
        }
        assert!(delays.iter().all(|delay| (60..180).contains(delay)), "{:?}", delays.iter().max());
        let mean = delays.iter().sum::<usize>() as f64 / delays.len() as f64;
        // A name stands towards the end of its slot if the gap is long.
        assert!((mean - 120.0).abs() < 5.0, "{mean}");
        assert!(delays.iter().any(|delay| *delay < 80) && delays.iter().any(|delay| *delay > 160) && in_order < 100);
    }
}

#[test]
fn values_are_uniform_and_guessing_is_right_one_time_in_eight() {
    let mut seen = [0; VALUES as usize];
    for (_, questions) in rows_of(&*stream(&[]), 3, 40, 20) {
        questions.iter().for_each(|(_, right)| seen[*right as usize] += 1);
    }
    let all: usize = seen.iter().sum();
    assert_eq!(all, 20 * 39 * 8);
    assert!(seen.iter().all(|count| (670..890).contains(count)), "{seen:?}");
}

#[test]
fn distractors_are_no_names_and_as_frequent_as_the_key_says() {
    let (row, _) = &rows_of(&*stream(&[]), 1, 100, 1)[0];
    let distractors = row.iter().filter(|symbol| **symbol > NAMES + VALUES).count() as f64;
    // Three of the 15 steps of a slot are cue and question.
    let share = distractors / (row.len() as f64 * 12.0 / 15.0);
    assert!((share - 0.3).abs() < 0.02, "{share}");
    assert!(row.iter().all(|symbol| (0..1 + NAMES + VALUES + 8).contains(symbol)));
    let (row, _) = &rows_of(&*stream(&[("task.noise", "0")]), 1, 3, 1)[0];
    assert!(row.iter().all(|symbol| *symbol <= NAMES + VALUES));
}

#[test]
fn a_stream_is_the_same_wherever_it_is_cut() {
    for length in [120, 121, 127] {
        let task = stream(&[("task.length", &length.to_string())]);
        let batch = task.training_batch(5, 3, 4);
        assert_eq!(batch.steps, length);
        // The same batch without those before it, by another value of the task.
        assert_eq!(batch, stream(&[("task.length", &length.to_string())]).training_batch(5, 3, 4));
        // Fewer rows are the same rows.
        assert_eq!(tokens(&task.training_batch(5, 3, 2)), tokens(&batch)[..2]);
        // Training and held-out streams are blocks of the same making; a held-out stream is one long piece.
        let held_out = task.held_out_batch(Split::Test, 0, 2);
        assert_eq!(held_out.steps, 4 * length);
        let Asked::Only(places) = &held_out.asked else { panic!("{:?}", held_out.asked) };
        let questions: Vec<(usize, i32)> = places
            .iter()
            .zip(classes(&held_out))
            .filter(|((row, _), _)| *row == 1)
            .map(|((_, s), r)| (*s, *r))
            .collect();
        check(tokens(&held_out)[1], &questions, 0);
    }
}

#[test]
fn batches_are_functions_of_seed_and_number_and_rows_are_streams_of_their_own() {
    let task = stream(&[]);
    let mut all = BTreeSet::new();
    for (seed, number) in [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (u64::MAX, 1 << 30)] {
        let batch = task.training_batch(seed, number, 6);
        all.extend(tokens(&batch).iter().map(|row| row.to_vec()));
    }
    assert_eq!(all.len(), 36, "no stretch comes twice");
}

#[test]
fn only_the_first_batch_begins_streams_unless_they_restart() {
    let task = stream(&[]);
    assert_eq!(task.begins(1, 0, 3), [0, 1, 2]);
    assert!((1..50).all(|batch| task.begins(1, batch, 3).is_empty()));
    let task = stream(&[("task.restart", "4")]);
    assert_eq!(task.begins(1, 0, 3), [0, 1, 2]);
    // The rows take turns, one batch apart, and each lives for four batches.
    let begins: Vec<Vec<usize>> = (1..9).map(|batch| task.begins(1, batch, 3)).collect();
    let (none, row) = (Vec::new, |row: usize| vec![row]);
    assert_eq!(begins, [none(), row(2), row(1), row(0), none(), row(2), row(1), row(0)]);
}

#[test]
fn each_life_of_a_restarted_stream_is_whole_and_new() {
    let task = stream(&[("task.restart", "4")]);
    let rows = rows_of(&*task, 1, 20, 3);
    let mut lives = BTreeSet::new();
    for (number, (row, questions)) in rows.iter().enumerate() {
        let begins: Vec<usize> = (0..20)
            .filter(|batch| task.begins(1, *batch as u64, 3).contains(&number))
            .map(|batch| batch * 120)
            .collect();
        for life in begins.array_windows().map(|[from, to]| *from..*to) {
            let inside = questions.iter().filter(|(step, _)| life.contains(step));
            let inside: Vec<(usize, i32)> = inside.map(|(step, right)| (step - life.start, *right)).collect();
            check(&row[life.clone()], &inside, 0);
            assert!(lives.insert(row[life.start..life.start + 120].to_vec()), "the same life again");
        }
    }
    assert!(lives.len() > 9, "{}", lives.len());
}

#[test]
fn held_out_streams_are_of_their_own() {
    let settings = [("task.validation", "31"), ("task.test", "50")];
    let task = stream(&settings);
    rows_do_not_matter(&*task, Split::Validation, 31);
    rows_do_not_matter(&*task, Split::Test, 50);
    let first = |batch: &Batch| tokens(batch).iter().map(|row| row[..120].to_vec()).collect::<BTreeSet<_>>();
    let validation = first(&task.held_out_batch(Split::Validation, 0, 31));
    let test = first(&task.held_out_batch(Split::Test, 0, 50));
    let training: BTreeSet<_> = (0..5).flat_map(|seed| first(&task.training_batch(seed, 0, 50))).collect();
    assert!(validation.is_disjoint(&test) && training.is_disjoint(&test) && training.is_disjoint(&validation));
    assert_eq!((validation.len(), test.len(), training.len()), (31, 50, 250));
}

#[test]
fn the_metrics_are_those_of_the_questions() {
    let task = stream(&[]);
    let batch = task.held_out_batch(Split::Validation, 0, 3);
    // 24 questions per stream; sure of the first value.
    assert_eq!(batch.answer_count(), 72);
    let outputs: Vec<f32> = (0..72).flat_map(|_| [9.0, 0., 0., 0., 0., 0., 0., 0.]).collect();
    let mut tally = Tally::default();
    tally.add(&batch, &outputs, 8).expect("answers");
    let right = classes(&batch).iter().filter(|value| **value == 0).count() as f64 / 72.0;
    assert_eq!(task.metrics(&tally)[1], ("accuracy", right));
    assert_eq!(task.metrics(&tally)[0], ("ce", tally.all.ce()));
}

#[test]
fn settings_that_cannot_be_are_errors() {
    for (key, value, part) in [
        ("task.open", "7", "even"),
        ("task.open", "0", "between 2"),
        ("task.names", "11", "one and a half"),
        ("task.length", "23", "at least 24 steps"),
        ("task.noise", "1.5", "between 0 and 1"),
        ("task.values", "1", "between 2"),
        ("task.restart", "0", "\"none\""),
    ] {
        let changes = [("task.length", "120"), ("task.open", "8"), ("task.names", "12"), (key, value)];
        let changes: Vec<_> = changes.iter().map(|(key, value)| (key.to_string(), parse_value(value))).collect();
        let why = Experiment::of_task("stream", &changes).expect_err(key).to_string();
        assert!(why.contains(&format!("`{key}`")) && why.contains(part), "{why}");
    }
}
