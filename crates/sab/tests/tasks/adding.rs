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
        let metrics = adding.metrics(&tally);
        assert!(metrics[0].0 == "mse" && (metrics[0].1 - 1.0 / 6.0).abs() < 0.012, "{length}: {metrics:?}");
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
