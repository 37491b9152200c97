//! R21, credit across calls: the gradient of a call that is reminded of an earlier one, against one long call, and
//! against finite differences of the f64 reference.

mod common;
mod reference;

use attentive_engine::{
    Cell, EngineError, Evict, Hops, KTop, KTrunc, Led, Model, PackedWeights, ScoreGradient, Scorer, Segment,
    SegmentInputs, Segments, State, Store, StoreRule,
};
use common::{Example, Input, Random, Run, all_parts, all_stores, bits};
use reference::{Memory, Reference, Row};
use std::ops::Range;
use std::sync::Arc;

const K: usize = 5;

fn model() -> Model {
    Model {
        k_top: KTop::Count(3),
        k_trunc: KTrunc::Every(K),
        hops: Hops::One,
        credit_across_calls: true,
        ..Model::new(3, 5)
    }
}

fn example(model: Model, time: usize, dense: bool, seed: u64) -> Example {
    Example::random(model, (3, time), dense, 1.0, seed)
}

/// Runs some steps of an example from a state.
fn go(all: &Example, steps: Range<usize>, state: State, weights: &Arc<PackedWeights>, tracked: bool) -> (Run, State) {
    all.part(0..all.batch(), steps).run_from(state, weights, 1, tracked).expect("a good call")
}

fn fresh(all: &Example) -> State {
    State::fresh(&all.model, all.batch())
}

/// The gradients of the last call, after calls without a gradient that end at the given steps.
fn after_calls(all: &Example, ends: &[usize]) -> Run {
    let weights = all.weights(1).expect("good weights");
    let (mut state, mut from) = (fresh(all), 0);
    for end in ends {
        state = go(all, from..*end, state, &weights, false).1;
        from = *end;
    }
    go(all, from..all.time, state, &weights, true).0
}

type Named = (&'static str, Vec<f32>);

/// The largest difference, relative to the largest element of the same gradient.
fn difference(a: &[Named], b: &[Named]) -> f32 {
    let off = |((_, a), (_, b)): (&Named, &Named)| {
        let largest = b.iter().fold(1e-2_f32, |largest, x| largest.max(x.abs()));
        a.iter().zip(b).map(|(a, b)| (a - b).abs() / largest).fold(0.0, f32::max)
    };
    a.iter().zip(b).map(off).fold(0.0, f32::max)
}

/// The gradient of the last call against one long call whose loss lies in the same steps.
fn compare_with_one_call(model: Model, dense: bool, seed: u64) -> bool {
    let (time, boundary) = (8 * K, 6 * K);
    let mut all = example(model, time, dense, seed);
    for adjoint in &mut all.adjoints {
        let per_row = time * model.hidden;
        adjoint.chunks_exact_mut(per_row).for_each(|row| row[..boundary * model.hidden].fill(0.0));
    }
    let weights = all.weights(1).expect("good weights");
    let mut right = go(&all, 0..time, fresh(&all), &weights, true).0.gradients;
    let got = after_calls(&all, &[boundary]);
    let without = Example { model: Model { credit_across_calls: false, ..model }, ..all.clone() };
    let without = after_calls(&without, &[boundary]);
    if dense {
        // The inputs of earlier calls are data.
        right.pop();
    }
    let what = format!("dense {dense}, seed {seed}, {model:?}");
    assert!(difference(&got.gradients, &right) < 2e-5, "{what}: {}", difference(&got.gradients, &right));
    assert_eq!(bits(&got.hidden), bits(&without.hidden), "{what}: credit changes no output");
    assert!(without.drift.is_none());
    if let Some(drift) = got.drift {
        assert!(drift.memories > 0);
        assert_eq!((drift.mean, drift.most), (0.0, 0.0), "{what}: a replay with the same weights gives the same bits");
    }
    got.drift.is_some() && difference(&without.gradients, &right) > 1e-3
}

#[test]
fn r21_the_gradient_is_that_of_one_long_call_with_one_hop() {
    for (turn, (cell, scorer, sparsifier)) in all_parts().into_iter().enumerate() {
        for score_gradient in [ScoreGradient::Weights, ScoreGradient::Full] {
            let model = Model { cell, scorer, sparsifier, score_gradient, ..model() };
            let seen =
                (0..4).filter(|seed| compare_with_one_call(model, turn % 2 == 0, 10 * turn as u64 + seed)).count();
            assert!(seen > 0, "no example passes credit: {model:?}");
        }
    }
}

#[test]
fn r21_the_store_decides_which_memories_have_segments() {
    for store in all_stores() {
        let room = |capacity: usize| StoreRule { capacity: Some(3 * capacity), ..store };
        for store in [store.capacity.map_or(store, room), StoreRule { k_att: 3, ..store }] {
            let model = Model { store, cell: Cell::Gru, ..model() };
            (0..4).for_each(|seed| {
                compare_with_one_call(model, false, seed);
            });
        }
    }
}

#[test]
fn r21_the_cuts_of_calls_do_not_matter() {
    for (dense, seed) in [(false, 1), (true, 2)] {
        let all =
            example(Model { store: StoreRule { k_att: 2, ..model().store }, phase: 2, ..model() }, 9 * K, dense, seed);
        // The last call begins right after a truncation point.
        let last = 8 * K - 2;
        let right = after_calls(&all, &[last]);
        let by_one: Vec<usize> = (1..=last).collect();
        for ends in [&by_one[..], &[3, 4, 17, 20, last]] {
            let got = after_calls(&all, ends);
            assert_eq!(bits(&got.hidden), bits(&right.hidden));
            for ((name, got), (_, right)) in got.gradients.iter().zip(&right.gradients) {
                let off = got.iter().zip(right).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(off < 1e-5, "{name}: {off:e}");
            }
            assert_eq!(got.drift, right.drift);
        }
    }
}

#[test]
fn r21_threads_and_batches_change_no_bit() {
    let all = example(Model { hidden: 20, hops: Hops::All, ..model() }, 60, false, 3);
    let weights = all.weights(1).expect("good weights");
    let (_, state) = go(&all, 0..40, fresh(&all), &weights, true);
    let last = all.part(0..3, 40..60);
    let right = last.run_from(state.clone(), &weights, 1, true).expect("a good call").0;
    assert!(right.drift.is_some());
    for threads in [2, 3, 8] {
        let got = last.run_from(state.clone(), &weights, threads, true).expect("a good call").0;
        common::assert_same(&got, &right, &format!("{threads} threads"));
    }
}

/// A memory of the f64 reference with the steps that led to it.
struct Kept {
    state: Vec<f64>,
    start: Row,
    inputs: Vec<Vec<f64>>,
    summaries: Vec<Vec<f64>>,
}

impl Kept {
    fn replay(&self, reference: &Reference) -> Vec<f64> {
        let mut row = self.start.clone();
        for (x, summary) in self.inputs.iter().zip(&self.summaries) {
            let h_hat = reference.cell(&mut row, x);
            row.h = h_hat.iter().zip(summary).map(|(h_hat, s)| h_hat + s).collect();
        }
        row.h
    }
}

/// One row of an example in f64.
fn plain_inputs(all: &Example) -> Vec<Vec<f64>> {
    match &all.input {
        Input::Dense(x) => x.chunks_exact(all.model.input).map(|x| x.iter().map(|x| f64::from(*x)).collect()).collect(),
        Input::Tokens(tokens) => {
            let one_hot =
                |token: &u32| (0..all.model.input).map(|i| f64::from(u8::from(i == *token as usize))).collect();
            tokens.iter().map(one_hot).collect()
        }
    }
}

fn reference(all: &Example) -> Reference {
    let wide = |values: &Vec<f32>| values.iter().map(|x| f64::from(*x)).collect();
    let parameters = all.model.parameters().iter().zip(&all.parameters).map(|(p, v)| (p.name, wide(v))).collect();
    Reference { model: all.model, parameters }
}

/// A first call with some weights and a second with others: the engine against the slope of the reference's loss, in
/// which each carried memory moves as its replay does.
fn compare_with_slopes(cell: Cell, scorer: Scorer, dense: bool, seed: u64) -> bool {
    let model = Model { cell, scorer, score_gradient: ScoreGradient::Full, hops: Hops::All, ..model() };
    let (before, time) = (3 * K, 4 * K);
    let all = Example::random(model, (1, time), dense, 1.0, seed);
    let mut random = Random::new(seed + 77);
    let mut later = all.clone();
    later.parameters.iter_mut().flatten().for_each(|value| *value += random.number(0.02));

    let inputs = plain_inputs(&all);
    let zeros = vec![0.0; model.hidden];
    let first = Memory { step: 0, state: zeros.clone(), received: 0.0 };
    let mut row = Row { h: zeros.clone(), c: zeros, memories: vec![first], steps: 0 };
    let (old, new) = (reference(&all), reference(&later));
    let mut kept: Vec<Option<Kept>> = vec![None];
    let mut start = (0, row.clone());
    let mut summaries = Vec::new();
    for t in 0..before {
        let trace = old.run(&mut row, &inputs[t..=t]);
        summaries.push(trace.summary[0].clone());
        let (inputs, summaries) = (inputs[start.0..=t].to_vec(), summaries[start.0..=t].to_vec());
        kept.push(Some(Kept { state: row.h.clone(), start: start.1.clone(), inputs, summaries }));
        if model.cut_after(t as u64 + 1) {
            start = (t + 1, row.clone());
        }
    }
    let drifted: Vec<Vec<f64>> = kept.iter().flatten().map(|kept| kept.replay(&new)).collect();
    let adjoints: Vec<Vec<f64>> = (0..2)
        .map(|which| later.adjoints[which][before * model.hidden..].iter().map(|d| f64::from(*d)).collect())
        .collect();
    let run = |reference: &Reference| {
        let mut row = row.clone();
        let moved = row.memories[1..].iter_mut().zip(kept.iter().flatten()).zip(&drifted);
        for ((memory, kept), drifted) in moved {
            let replayed = kept.replay(reference);
            memory.state = (0..replayed.len()).map(|i| kept.state[i] + (replayed[i] - drifted[i])).collect();
        }
        reference.run(&mut row, &inputs[before..])
    };
    let loss = |trace: &reference::Trace| -> f64 {
        let dot = |values: &[Vec<f64>], d: &[f64]| values.iter().flatten().zip(d).map(|(x, d)| x * d).sum::<f64>();
        dot(&trace.hidden, &adjoints[0]) + dot(&trace.summary, &adjoints[1])
    };
    let right = run(&new);
    if right.margin < 2e-3 {
        return false;
    }
    let (weights, later_weights) = (all.weights(1).expect("good"), later.weights(1).expect("good"));
    let (_, state) = go(&all, 0..before, State::fresh(&model, 1), &weights, false);
    let got = go(&later, before..time, state, &later_weights, true).0;
    let drift = got.drift.expect("memories are replayed");
    assert!(drift.mean > 1e-3 && drift.most >= drift.mean, "{drift:?}");
    let mut moving = reference(&later);
    let mut slopes: Vec<Vec<f64>> = Vec::new();
    for place in 0..moving.parameters.len() {
        let mut slope = |i: usize| {
            let mut at = |by: f64| {
                moving.parameters[place].1[i] += by;
                let trace = run(&moving);
                moving.parameters[place].1[i] -= by;
                loss(&trace)
            };
            (at(1e-6) - at(-1e-6)) / 2e-6
        };
        slopes.push((0..later.parameters[place].len()).map(&mut slope).collect());
    }
    let largest = |slopes: &[f64]| slopes.iter().fold(0.0_f64, |largest, d| largest.max(d.abs()));
    let least = 1e-2 * largest(&slopes.concat());
    for ((name, got), slopes) in got.gradients.iter().zip(&slopes) {
        let off = got.iter().zip(slopes).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max);
        let allowed = 5e-4 * least.max(largest(slopes));
        assert!(off < allowed, "{cell} {scorer} dense {dense} seed {seed}: {name} is off by {off:e}, not {allowed:e}");
    }
    true
}

#[test]
fn r21_gradients_agree_with_finite_differences_after_the_weights_have_changed() {
    for &cell in Cell::ALL {
        for &scorer in Scorer::ALL {
            for dense in [false, true] {
                let seen = (0..400).filter(|seed| compare_with_slopes(cell, scorer, dense, *seed)).take(2).count();
                assert_eq!(seen, 2, "no clear example: {cell} {scorer}");
            }
        }
    }
}

#[test]
fn r21_what_a_state_keeps_is_bounded() {
    let store = StoreRule { capacity: Some(4), evict: Evict::Oldest, ..StoreRule::default() };
    let all = example(Model { store, ..model() }, 200, true, 5);
    let weights = all.weights(1).expect("good weights");
    let (_, state) = go(&all, 0..200, fresh(&all), &weights, true);
    for row in &state.segments().expect("segments").rows {
        assert_eq!(row.slots.len(), 5);
        assert!(row.slots[0].is_none(), "nothing led to the null slot");
        for led in row.slots[1..].iter().flatten() {
            assert!(led.by.steps() <= K && (1..=led.by.steps()).contains(&led.steps));
        }
        assert!(row.open.as_ref().expect("open").steps() < K);
    }
    // A call without the option drops them, and so does a reset of a row.
    let mut reset = state.clone();
    reset.reset(&[1]).expect("a settled state");
    let row = &reset.segments().expect("segments").rows[1];
    assert!(row.slots.iter().all(Option::is_none) && row.open.is_none());
    let plain = Example { model: Model { credit_across_calls: false, ..all.model }, ..all };
    assert!(go(&plain, 0..1, state, &weights, false).1.segments().is_none());
}

#[test]
fn r21_a_call_with_another_grid_begins_new_segments() {
    let all = example(model(), 12, false, 6);
    let weights = all.weights(1).expect("good weights");
    let (_, state) = go(&all, 0..3, fresh(&all), &weights, false);
    let open = |state: &State| state.segments().expect("segments").rows[0].open.as_ref().expect("open").steps();
    assert_eq!(open(&state), 3);
    let shifted = Example { model: Model { phase: 1, ..all.model }, ..all.clone() };
    assert_eq!(open(&go(&shifted, 3..4, state.clone(), &weights, false).1), 0, "step 4 is followed by a cut");
    assert_eq!(open(&go(&all, 3..4, state, &weights, false).1), 4);
}

#[test]
fn r21_segments_that_contradict_themselves_are_refused() {
    let all = example(model(), 12, false, 7);
    let weights = all.weights(1).expect("good weights");
    let (_, state) = go(&all, 0..12, fresh(&all), &weights, false);
    let good = state.segments().expect("segments").clone();
    state.clone().with_segments(&all.model, good.clone()).expect("good segments");
    let changed = |change: &dyn Fn(&mut Segments)| {
        let mut bad = good.clone();
        change(&mut bad);
        state.clone().with_segments(&all.model, bad).expect_err("bad segments").to_string()
    };
    let of = |bad: &mut Segments, change: &dyn Fn(&mut Segment)| {
        let led = bad.rows[1].slots[3].as_mut().expect("a segment");
        let mut segment = (*led.by).clone();
        change(&mut segment);
        *led = Led { by: Arc::new(segment), steps: led.steps };
    };
    type Change<'a> = &'a dyn Fn(&mut Segments);
    let changes: [(Change<'_>, &str); 9] = [
        (&|bad| of(bad, &|s| s.hidden[2] = f32::NAN), "not finite"),
        (&|bad| of(bad, &|s| s.cell.clear()), "cell"),
        (&|bad| of(bad, &|s| s.summaries.truncate(5)), "tokens"),
        (&|bad| of(bad, &|s| s.inputs = SegmentInputs::Tokens(vec![9; s.steps()])), "token 9"),
        (&|bad| of(bad, &|s| s.inputs = SegmentInputs::Dense(vec![0.0; 3 * s.steps()])), "tokens and some dense"),
        (&|bad| of(bad, &|s| s.summaries = vec![0.0; 60]), "`k_trunc`"),
        (&|bad| bad.rows[1].slots[3].as_mut().expect("led").steps = 0, "step 0"),
        (&|bad| bad.rows[1].slots.truncate(2), "segments"),
        (&|bad| bad.rows.truncate(1), "segments"),
    ];
    for (change, why) in changes {
        let message = changed(change);
        assert!(message.contains(why), "{message}");
    }
    let dense = example(model(), 4, true, 7);
    let dense_weights = dense.weights(1).expect("good weights");
    let refused = dense.run_from(state, &dense_weights, 1, false).expect_err("another kind of input").to_string();
    assert!(refused.contains("hold tokens"), "{refused}");
}

#[test]
fn r21_a_model_that_bounds_nothing_is_refused() {
    for (bad, why) in [
        (Model { k_trunc: KTrunc::None, ..model() }, "k_trunc"),
        (Model { k_top: KTop::Count(0), ..model() }, "k_top"),
        (Model { mental_updates: false, ..model() }, "mental_updates"),
    ] {
        match bad.check() {
            Err(EngineError::Model { field: "credit_across_calls", hint, .. }) => assert!(hint.contains(why), "{hint}"),
            other => panic!("{other:?}"),
        }
    }
    let novelty = StoreRule { store: Store::Novelty, ..StoreRule::default() };
    Model { store: novelty, ..model() }.check().expect("any store");
}
