//! The bits are the same for any number of threads, for a row by itself, and for a sequence in pieces (R14).

mod common;

use attentive_engine::{Evict, Hops, KTop, KTrunc, Model, Replay, ScoreGradient, StoreRule};
use common::{Example, Run, State, all_parts, all_stores, assert_same};

const INPUT: usize = 3;

/// All parts with all stores. The other options alternate, so that all combinations of two occur.
fn models(hidden: usize) -> Vec<Model> {
    let k_tops = [KTop::Count(2), KTop::All, KTop::Count(5), KTop::Count(0), KTop::Count(1)];
    let k_truncs = [KTrunc::Every(4), KTrunc::None, KTrunc::Every(1)];
    let parts = all_parts().into_iter().flat_map(|parts| all_stores().map(|store| (parts, store)));
    parts
        .enumerate()
        .map(|(turn, ((cell, scorer, sparsifier), store))| Model {
            cell,
            scorer,
            sparsifier,
            store: StoreRule { k_att: 1 + turn / 3 % 2, ..store },
            k_top: k_tops[turn % 5],
            k_trunc: k_truncs[turn / 2 % 3],
            phase: turn % 4,
            score_gradient: [ScoreGradient::Full, ScoreGradient::Weights][turn / 7 % 2],
            hops: [Hops::All, Hops::One][turn / 5 % 2],
            mental_updates: turn % 11 != 0,
            ..Model::new(INPUT, hidden)
        })
        .collect()
}

/// The engine starts only as many threads as are worthwhile. These shapes are worth eight.
fn check_threads(hidden: usize, shape: (usize, usize)) {
    for (turn, model) in models(hidden).into_iter().enumerate() {
        let example = Example::random(model, shape, turn % 2 == 0, 1.0, turn as u64).with_random_state(3);
        let right = example.run(1, true).expect("a good example");
        let replayed = Example { replay: Replay::Always, ..example.clone() };
        for threads in [1, 2, 3, 8] {
            assert_same(
                &replayed.run(threads, true).expect("as before"),
                &right,
                &format!("R20: replayed by {threads} threads, {model:?}"),
            );
            assert_same(
                &example.run(threads, true).expect("as before"),
                &right,
                &format!("{threads} threads, {model:?}"),
            );
        }
        assert_same(
            &example.run(3, false).expect("as before"),
            &Run { gradients: Vec::new(), ..right },
            &format!("untracked, {model:?}"),
        );
    }
}

#[test]
fn threads_with_rows_of_their_own_change_no_bit() {
    check_threads(24, (72, 58));
}

#[test]
fn threads_with_columns_of_their_own_change_no_bit() {
    check_threads(330, (4, 11));
}

/// Each row by itself, forward.
fn check_rows(example: &Example, right: &Run) {
    let (time, hidden) = (example.time, example.model.hidden);
    for row in 0..example.batch() {
        let mut alone = example.part(row..row + 1, 0..time);
        alone.state = example.state.row(row, hidden);
        let got = alone.run(1, false).expect("a good row");
        let of_row = |values: &[f32], width: usize| values[row * width..][..width].to_vec();
        let right = Run {
            hidden: of_row(&right.hidden, time * hidden),
            summary: of_row(&right.summary, time * hidden),
            after: right.after.row(row, hidden),
            reminders: got.reminders.clone(),
            gradients: Vec::new(),
            drift: None,
        };
        assert_same(&got, &right, &format!("row {row} of {:?}", example.model));
    }
}

/// Runs forward in stretches of these lengths (R14), from the state that the stretch before left, with its keys and
/// indexes, or from the same state as plain data. The final state must be that of the whole too.
fn check_stretches(example: &Example, right: &Run, lengths: impl Iterator<Item = usize> + Clone) {
    for keys in [false, true] {
        check_carried(example, right, lengths.clone(), keys);
    }
}

fn check_carried(example: &Example, right: &Run, lengths: impl Iterator<Item = usize>, keys: bool) {
    let (batch, time, hidden) = (example.batch(), example.time, example.model.hidden);
    let what = format!("{:?}", example.model);
    let mut state = example.state.of_engine(&example.model).expect("a good state");
    let weights = example.weights(1).expect("good weights");
    let mut start = 0;
    for length in lengths {
        let end = time.min(start + length);
        if start == end {
            break;
        }
        if !keys {
            state = State::of(&state).of_engine(&example.model).expect("a good state");
        }
        let stretch = example.part(0..batch, start..end);
        let (got, left) = stretch.run_from(state, &weights, 1, false).expect("a good stretch");
        state = left;
        let of_stretch = |values: &[f32]| -> Vec<f32> {
            let row = |row: usize| &values[(row * time + start) * hidden..(row * time + end) * hidden];
            (0..batch).flat_map(row).copied().collect()
        };
        assert_eq!(common::bits(&got.hidden), common::bits(&of_stretch(&right.hidden)), "{start}..{end}, {what}");
        assert_eq!(common::bits(&got.summary), common::bits(&of_stretch(&right.summary)), "{start}..{end}, {what}");
        for (row, t) in (0..batch).flat_map(|row| (start..end).map(move |t| (row, t))) {
            let at = |run: &Run, t: usize| run.reminders.as_ref().map(|reminders| reminders.at(row, t).to_vec());
            assert_eq!(at(&got, t - start), at(right, t), "row {row}, step {t}, {what}");
        }
        start = end;
    }
    assert_eq!(start, time);
    let (state, whole) = (State::of(&state), &right.after);
    assert_eq!(state.rows, whole.rows, "{what}");
    assert_eq!(common::bits(&state.cell), common::bits(&whole.cell), "{what}");
    for (got, right) in state.memories.iter().zip(&whole.memories) {
        assert_eq!(common::bits(got), common::bits(right), "memories, {what}");
    }
}

#[test]
fn r14_rows_alone_and_sequences_in_pieces_give_the_bits_of_the_whole() {
    for (turn, model) in models(24).into_iter().enumerate() {
        for state in [false, true] {
            let mut example = Example::random(model, (3, 23), turn % 2 == 0, 1.0, turn as u64);
            if state {
                example = example.with_random_state(turn as u64);
            }
            let right = example.run(1, true).expect("a good example");
            check_rows(&example, &right);
            check_stretches(&example, &right, std::iter::repeat(1));
            check_stretches(&example, &right, [5, 1, 9, 2].into_iter().cycle());
        }
    }
}

#[test]
fn r14_large_models_are_no_exception() {
    for (turn, model) in models(330).into_iter().enumerate().step_by(5) {
        let example = Example::random(model, (3, 7), turn % 2 == 0, 1.0, turn as u64).with_random_state(turn as u64);
        let right = example.run(2, true).expect("a good example");
        check_rows(&example, &right);
        check_stretches(&example, &right, [1, 3].into_iter().cycle());
    }
}

/// Shapes and options at random.
#[test]
fn r14_any_small_model_gives_the_same_bits_in_any_pieces() {
    arbtest::arbtest(|u| {
        let all = models(u.int_in_range(1..=40)?);
        let model = u.choose(&all)?;
        let (batch, time) = (u.int_in_range(1..=5)?, u.int_in_range(1..=30)?);
        let capacity = u.choose(&[None, Some(1), Some(2), Some(7), Some(100)])?;
        let store = StoreRule {
            k_att: u.int_in_range(1..=4)?,
            capacity: *capacity,
            evict: *u.choose(Evict::ALL)?,
            novelty: *u.choose(&[0.0, 0.3, 1.0, 5.0])?,
            ..model.store
        };
        let k_top = *u.choose(&[KTop::Count(0), KTop::Count(1), KTop::Count(3), KTop::Count(90), KTop::All])?;
        let k_trunc = *u.choose(&[KTrunc::None, KTrunc::Every(1), KTrunc::Every(7)])?;
        let model = Model { store, k_top, k_trunc, ..*model };
        let scale = *u.choose(&[0.0, 0.1, 1.0, 30.0])?;
        let seed = u.arbitrary()?;
        let mut example = Example::random(model, (batch, time), u.arbitrary()?, scale, seed);
        if u.arbitrary()? {
            example = example.with_random_state(seed);
        }
        let right = example.run(1, true).expect("a good example");
        for (name, gradient) in &right.gradients {
            assert!(attentive_engine::all_finite(gradient), "{name} of {model:?}");
        }
        check_rows(&example, &right);
        let lengths: Vec<usize> = (0..5).map(|_| u.int_in_range(1..=9)).collect::<Result<_, _>>()?;
        check_stretches(&example, &right, lengths.into_iter().cycle());
        Ok(())
    });
}
