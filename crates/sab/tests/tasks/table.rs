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

fn metric(task: &dyn Task, tally: &Tally, name: &str) -> f64 {
    task.metrics(tally).iter().find(|(found, _)| *found == name).expect("a metric").1
}

#[test]
fn metrics_of_numbers_are_in_the_units_of_the_table() {
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
        assert!((metric(&*task, &off_by_two, "mse") - 4.0).abs() < 1e-3, "{on}");
        assert!((metric(&*task, &off_by_two, "mae") - 2.0).abs() < 1e-3, "{on}");
        let first = |id: usize| if on == "each" { 0 } else { steps_of(id) - 1 };
        let test = batches.iter().flat_map(|batch| ids(&*task, batch));
        let errors: Vec<f64> =
            test.flat_map(|id| (first(id)..steps_of(id)).map(move |step| value_of(id, step) - mean)).collect();
        let mean_of = |of: fn(f64) -> f64| errors.iter().map(|x| of(*x)).sum::<f64>() / errors.len() as f64;
        let (mse, mae) = (metric(&*task, &naive, "mse"), metric(&*task, &naive, "mae"));
        assert!((mse / mean_of(|x| x * x) - 1.0).abs() < 1e-5, "{on}: {mse}");
        assert!((mae / mean_of(f64::abs) - 1.0).abs() < 1e-5, "{on}: {mae}");
        assert_eq!(task.metrics(&naive)[0].0, "mse");
    }
}
