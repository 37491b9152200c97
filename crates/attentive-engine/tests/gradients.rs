//! The engine against the plain f64 reference: outputs, memories, and gradients by finite differences.
//!
//! With `score_gradient = full`, `hops = all`, mental updates and no truncation, the engine's gradient is the exact
//! derivative of the forward pass (R10), as long as no choice and no stored state changes within the finite difference.

mod common;
mod reference;

use attentive_engine::{Evict, Hops, InstructionSet, KTop, KTrunc, Model, ScoreGradient, Store, StoreRule};
use common::{Example, Input, Run, all_parts};
use reference::{Memory, Reference, Row, Trace};

/// No decision of the reference may be closer than this, so that single precision does not change it.
const MARGIN: f64 = 1e-3;
/// The width of a finite difference.
const STEP: f64 = 1e-6;

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|value| f64::from(*value)).collect()
}

/// An example in f64.
struct Plain {
    reference: Reference,
    /// For each row and step.
    inputs: Vec<Vec<Vec<f64>>>,
    rows: Vec<Row>,
    adjoints: [Vec<f64>; 2],
}

impl Plain {
    fn new(example: &Example) -> Self {
        let (model, state, time) = (example.model, &example.state, example.time);
        let declared = model.parameters();
        let parameters = declared.iter().zip(&example.parameters).map(|(p, values)| (p.name, wide(values))).collect();
        let one_hot = |token: &u32| (0..model.input).map(|i| f64::from(u8::from(i == *token as usize))).collect();
        let steps: Vec<Vec<f64>> = match &example.input {
            Input::Dense(x) => x.chunks_exact(model.input).map(wide).collect(),
            Input::Tokens(tokens) => tokens.iter().map(one_hot).collect(),
        };
        let of_row = |values: &[f32], row: usize| match values.is_empty() {
            true => vec![0.0; model.hidden],
            false => wide(&values[row * model.hidden..][..model.hidden]),
        };
        let row = |row: usize| {
            let start = &state.rows[row];
            let received = |slot: usize| start.received.get(slot).map_or(0.0, |received| f64::from(*received));
            let memories = state.memories[row].chunks_exact(model.hidden).zip(start.slot_steps.iter()).enumerate();
            Row {
                h: of_row(&state.hidden, row),
                c: of_row(&state.cell, row),
                memories: memories
                    .map(|(slot, (state, step))| Memory { step: *step, state: wide(state), received: received(slot) })
                    .collect(),
                steps: start.steps,
            }
        };
        Self {
            reference: Reference { model, parameters },
            inputs: steps.chunks_exact(time).map(<[_]>::to_vec).collect(),
            rows: (0..example.batch()).map(row).collect(),
            adjoints: [wide(&example.adjoints[0]), wide(&example.adjoints[1])],
        }
    }

    fn run(&self) -> (Vec<Trace>, Vec<Row>) {
        let mut rows = self.rows.clone();
        let traces = rows.iter_mut().zip(&self.inputs).map(|(row, inputs)| self.reference.run(row, inputs)).collect();
        (traces, rows)
    }

    /// Whether parameters that are off by the rounding of single precision leave the outputs nearly unchanged.
    fn is_well_conditioned(&mut self, right: &[Trace]) -> bool {
        let exact = self.reference.parameters.clone();
        let values = self.reference.parameters.iter_mut().flat_map(|(_, values)| values);
        values
            .enumerate()
            .for_each(|(i, value)| *value *= 1.0 + 6e-8 * f64::from((i * 7919 % 17) as u8 as i8 - 8) / 8.0);
        let (traces, _) = self.run();
        self.reference.parameters = exact;
        let hidden = |traces: &[Trace]| traces.iter().flat_map(|trace| trace.hidden.concat()).collect::<Vec<_>>();
        let (off, right) = (hidden(&traces), hidden(right));
        let largest = right.iter().fold(1.0_f64, |largest, x| largest.max(x.abs()));
        off.iter().zip(&right).all(|(off, right)| (off - right).abs() < 1e-6 * largest)
    }

    fn decisions(traces: &[Trace]) -> Vec<&Vec<Vec<u64>>> {
        traces.iter().map(|trace| &trace.decisions).collect()
    }

    fn loss(&self, traces: &[Trace]) -> f64 {
        let dot = |values: &mut dyn Iterator<Item = &f64>, adjoints: &[f64]| -> f64 {
            values.zip(adjoints).map(|(value, d)| value * d).sum()
        };
        dot(&mut traces.iter().flat_map(|trace| trace.hidden.iter().flatten()), &self.adjoints[0])
            + dot(&mut traces.iter().flat_map(|trace| trace.summary.iter().flatten()), &self.adjoints[1])
    }

    /// The derivative of the loss with respect to one number, which `change(self, by)` moves.
    fn slope(&mut self, right: &[Trace], change: impl Fn(&mut Self, f64)) -> f64 {
        let mut at = |by: f64| {
            change(self, by);
            let (traces, _) = self.run();
            change(self, -by);
            assert_eq!(Self::decisions(&traces), Self::decisions(right), "a decision changes: draw another example");
            self.loss(&traces)
        };
        (at(STEP) - at(-STEP)) / (2.0 * STEP)
    }
}

/// The first example whose decisions are all clear. If the store evicts memories or skips states, the example must
/// contain such cases.
fn clear_example(model: Model, dense: bool, carried: bool) -> Example {
    for seed in 0..4000 {
        let mut example = Example::random(model, (2, 13), dense, 1.2, seed);
        if carried {
            example = example.with_random_state(seed);
        }
        let mut plain = Plain::new(&example);
        let (traces, rows) = plain.run();
        let eventful = rows.iter().zip(&plain.rows).zip(&traces).all(|((row, before), trace)| {
            let forgets = row.memories.len() < before.memories.len() + trace.stored.len();
            let leaves_out = trace.stored.len() < example.time;
            (model.store.capacity.is_none() || forgets)
                && (model.store.store == Store::Every || leaves_out)
                && trace.stored.len() > 3
        });
        let clear = traces.iter().all(|trace| trace.margin > MARGIN);
        if eventful && clear && plain.is_well_conditioned(&traces) {
            return example;
        }
    }
    panic!("no seed gives a clear example of {model:?}");
}

/// Asserts that errors stay within `tolerance` times the largest element, or `least` if that is larger.
fn check(got: &[f32], right: &[f64], tolerance: f64, least: f64, what: &str) {
    let largest = right.iter().fold(least, |largest, x| largest.max(x.abs()));
    let error = got.iter().zip(right).map(|(got, right)| (f64::from(*got) - right).abs()).fold(0.0, f64::max);
    assert!(error <= tolerance * largest, "{what}: off by {error:e}, largest {largest:e}");
    assert_eq!(got.len(), right.len(), "{what}");
}

fn check_forward(example: &Example, got: &Run, traces: &[Trace], rows: &[Row], what: &str) {
    let all = |of: fn(&Trace) -> &Vec<Vec<f64>>| traces.iter().flat_map(|t| of(t).concat()).collect::<Vec<_>>();
    check(&got.hidden, &all(|trace| &trace.hidden), 1e-5, 1.0, &format!("{what}: hidden"));
    check(&got.summary, &all(|trace| &trace.summary), 1e-5, 1.0, &format!("{what}: summary"));
    if example.model.cell.carries() {
        let cells: Vec<f64> = rows.iter().flat_map(|row| row.c.clone()).collect();
        check(&got.after.cell, &cells, 1e-5, 1.0, &format!("{what}: cell"));
    }
    let after = &got.after;
    for (row, (trace, right)) in traces.iter().zip(rows).enumerate() {
        let (start, end) = (&example.state.rows[row], &after.rows[row]);
        assert_eq!(end.steps, right.steps, "{what}: row {row}");
        let kept: Vec<u64> = right.memories.iter().map(|memory| memory.step).collect();
        assert_eq!(end.slot_steps, kept, "{what}: row {row}");
        if example.model.store.capacity.is_none() {
            let stored: Vec<u64> = trace.stored.iter().map(|t| start.steps + *t as u64 + 1).collect();
            assert_eq!(kept[start.slot_steps.len()..], stored, "{what}: row {row}");
        }
        let states: Vec<f64> = right.memories.iter().flat_map(|memory| memory.state.clone()).collect();
        check(&after.memories[row], &states, 1e-5, 1.0, &format!("{what}: memories of row {row}"));
        let counts = example.model.store.capacity.is_some() && example.model.store.evict == Evict::LeastAttended;
        assert_eq!(end.received.is_empty(), !counts, "{what}: row {row}");
        if counts {
            let received: Vec<f64> = right.memories.iter().map(|memory| memory.received).collect();
            check(&end.received, &received, 2e-5, 1.0, &format!("{what}: received of row {row}"));
        }
    }
}

/// Checks one example: forward, and the gradient of every parameter and of the input.
fn compare(model: Model, dense: bool, carried: bool) {
    let what = format!("dense {dense}, carried {carried}, {model:?}");
    let mut example = clear_example(model, dense, carried);
    let mut plain = Plain::new(&example);
    let (traces, rows) = plain.run();
    let mut right: Vec<Vec<f64>> = Vec::new();
    for place in 0..plain.reference.parameters.len() {
        let by_parameter = |plain: &mut Plain, i: usize| {
            plain.slope(&traces, |plain, by| plain.reference.parameters[place].1[i] += by)
        };
        right.push((0..plain.reference.parameters[place].1.len()).map(|i| by_parameter(&mut plain, i)).collect());
    }
    if dense {
        let (time, input) = (example.time, model.input);
        let by_input = |plain: &mut Plain, i: usize| {
            let (row, t, i) = (i / (time * input), i / input % time, i % input);
            plain.slope(&traces, |plain, by| plain.inputs[row][t][i] += by)
        };
        right.push((0..example.batch() * time * input).map(|i| by_input(&mut plain, i)).collect());
    }
    let largest = right.iter().flatten().fold(0.0_f64, |largest, d| largest.max(d.abs()));
    for instructions in [InstructionSet::Detect, InstructionSet::Baseline] {
        example.instructions = instructions;
        let got = example.run(1, true).expect(&what);
        check_forward(&example, &got, &traces, &rows, &what);
        assert_eq!(got.gradients.len(), right.len(), "{what}");
        for ((name, got), right) in got.gradients.iter().zip(&right) {
            check(got, right, 3e-4, 1e-2 * largest, &format!("{what}: gradient of {name}"));
        }
    }
}

/// The model whose gradient is the derivative of its forward pass.
fn exact(store: StoreRule, k_top: KTop) -> Model {
    Model {
        store,
        k_top,
        k_trunc: KTrunc::None,
        score_gradient: ScoreGradient::Full,
        hops: Hops::All,
        mental_updates: true,
        ..Model::new(3, 5)
    }
}

/// Every cell with every scorer and sparsifier. Dense inputs and tokens alternate, and so do fresh and carried states.
fn compare_all(store: StoreRule, k_top: KTop) {
    for (turn, (cell, scorer, sparsifier)) in all_parts().into_iter().enumerate() {
        let model = Model { cell, scorer, sparsifier, ..exact(store, k_top) };
        compare(model, turn % 2 == 0, false);
        compare(model, turn % 2 == 1, true);
    }
}

#[test]
fn r10_r15_r16_r17_gradients_agree_with_finite_differences() {
    compare_all(StoreRule::default(), KTop::Count(2));
}

#[test]
fn r2_r6_gradients_are_exact_with_sparse_memories_and_with_all_of_them() {
    compare_all(StoreRule { k_att: 2, ..StoreRule::default() }, KTop::Count(1));
    compare_all(StoreRule::default(), KTop::All);
}

#[test]
fn r18_gradients_are_exact_where_only_new_states_are_stored() {
    compare_all(StoreRule { store: Store::Novelty, novelty: 0.6, ..StoreRule::default() }, KTop::Count(2));
}

#[test]
fn r18_gradients_are_exact_where_the_oldest_makes_room() {
    compare_all(StoreRule { capacity: Some(4), evict: Evict::Oldest, ..StoreRule::default() }, KTop::Count(2));
}

#[test]
fn r18_gradients_are_exact_where_the_least_attended_makes_room() {
    let store = StoreRule { capacity: Some(4), evict: Evict::LeastAttended, ..StoreRule::default() };
    compare_all(store, KTop::Count(2));
    compare_all(StoreRule { store: Store::Novelty, novelty: 0.5, ..store }, KTop::All);
}

#[test]
fn r15_gradients_are_exact_without_attention() {
    for &cell in attentive_engine::Cell::ALL {
        let model = Model { cell, ..exact(StoreRule::default(), KTop::Count(0)) };
        compare(model, true, false);
        compare(model, false, true);
    }
}
