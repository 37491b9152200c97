//! Sparse replay: one sweep over time in reverse (R9-R13).
//!
//! What travels is a list of *lanes*. A lane is a row whose adjoint at this step is not exactly zero; with
//! `hops = one` a row has up to two, one that has not skipped yet and one that has (R12). Rows without a lane
//! cost nothing (R13). The sweep leaves the adjoints of gates, queries and keys in the tape; the weights'
//! gradients are products over all of them afterwards ([`super::weight_gradients`]).

use super::forward::{ScoreView, memory};
use super::kernels::Kernels;
use super::kernels::attention::ScoreBackward;
use super::kernels::cell::CellBackward;
use super::kernels::gemm::{PANEL, PackedMatrix};
use super::keys;
use super::pool::Buffer;
use super::problem::Problem;
use super::tape::Tape;
use super::team::{self, Barrier, Shared, Worker};
use super::weight_gradients::{self, Adjoints};
use super::weights::{BackwardWeights, Parameters};
use crate::config::Hops;
use crate::retrieval::{Choice, SOFTMAX};

/// Gradients of all parameters, in the parameters' own layout, and of the input.
#[derive(Debug)]
pub(crate) struct GradientResult {
    pub(crate) weight_ih: Vec<f32>,
    pub(crate) weight_hh: Vec<f32>,
    pub(crate) bias: Vec<f32>,
    pub(crate) w1: Vec<f32>,
    pub(crate) w2: Vec<f32>,
    pub(crate) w3: Vec<f32>,
    /// `[batch, time, input]`, if it was asked for.
    pub(crate) input: Option<Vec<f32>>,
}

/// The loss's derivative by the outputs, `[batch, time, hidden]`; `None` is all zero.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OutputAdjoints<'a> {
    pub(crate) hidden: Option<&'a [f32]>,
    pub(crate) summary: Option<&'a [f32]>,
}

/// What the tape does not own itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TapeInputs<'a> {
    /// `[batch, time, input]`, empty for tokens.
    pub(crate) dense: &'a [f32],
    /// The forward pass's hidden states, `[batch, time, hidden]`.
    pub(crate) hidden: &'a [f32],
}

pub(crate) fn backward(
    mut tape: Tape, parameters: &Parameters<'_>, inputs: TapeInputs<'_>, outputs: OutputAdjoints<'_>, input_gradient: bool,
) -> GradientResult {
    let problem = tape.problem.clone();
    let threads = problem.workers();
    let (batch, padded) = (problem.batch, problem.padded);
    let weights = BackwardWeights::new(&problem, parameters, input_gradient, threads);
    let attends = problem.rules.attends();
    let slots = if attends { batch * problem.slot_room } else { 0 };
    let kinds = if problem.rules.hops == Hops::One { 2 } else { 1 };
    let lanes = batch * kinds;

    // The tape's hidden states: its own padded copy, or the output itself.
    let mut own_hidden = std::mem::take(&mut tape.hidden);
    let hidden: &[f32] = if problem.hidden == padded { inputs.hidden } else { own_hidden.as_mut_slice() };

    let mut d_memory = Buffer::take(slots * padded);
    let mut d_key = Buffer::take(slots * padded);
    let mut memory_touched = vec![false; slots];
    let mut key_touched = vec![false; slots];
    let mut d_w3 = vec![0.0; batch * padded];
    let mut gates_touched = vec![false; problem.time * batch];
    let mut query_touched = vec![false; if attends { problem.time * batch } else { 0 }];
    let mut loss_touched = vec![false; problem.time * batch];
    let mut d_h = Buffer::take(lanes * padded);
    let mut d_query = Buffer::take(lanes * padded);
    let mut d_key_lanes = Buffer::take(if weights.w1.is_some() { lanes * padded } else { 0 });
    let mut d_gates = Buffer::take(lanes * 4 * padded);
    let mut carry_h = Buffer::take(lanes * padded);
    let mut carry_c = [Buffer::take(lanes * padded), Buffer::take(lanes * padded)];
    let [carry_c0, carry_c1] = &mut carry_c;

    let barrier = Barrier::new(threads);
    let sweep = Sweep {
        kernels: problem.kernels,
        problem: &problem,
        weights: &weights,
        kinds,
        w3: &tape.weights.w3,
        outputs,
        hidden,
        carried: tape.carried.as_slice(),
        choice_slots: &tape.choice_slots,
        choice_weights: tape.choice_weights.as_slice(),
        choice_lens: &tape.choice_lens,
        choice_normalisers: tape.choice_normalisers.as_slice(),
        gates: Shared::new(tape.gates.as_mut_slice()),
        cells: Shared::new(tape.cells.as_mut_slice()),
        queries: Shared::new(tape.queries.as_mut_slice()),
        query_exponential: Shared::new(&mut tape.query_exponential),
        keys: Shared::new(tape.keys.as_mut_slice()),
        key_exponential: Shared::new(&mut tape.key_exponential),
        d_memory: Shared::new(d_memory.as_mut_slice()),
        d_key: Shared::new(d_key.as_mut_slice()),
        memory_touched: Shared::new(&mut memory_touched),
        key_touched: Shared::new(&mut key_touched),
        d_w3: Shared::new(&mut d_w3),
        gates_touched: Shared::new(&mut gates_touched),
        query_touched: Shared::new(&mut query_touched),
        loss_touched: Shared::new(&mut loss_touched),
        d_h: Shared::new(d_h.as_mut_slice()),
        d_query: Shared::new(d_query.as_mut_slice()),
        d_key_lanes: Shared::new(d_key_lanes.as_mut_slice()),
        d_gates: Shared::new(d_gates.as_mut_slice()),
        carry_h: Shared::new(carry_h.as_mut_slice()),
        carry_c: [Shared::new(carry_c0.as_mut_slice()), Shared::new(carry_c1.as_mut_slice())],
    };
    team::run(threads, |index| {
        let worker = Worker::new(batch, index, threads, problem.together(), &barrier);
        sweep.run(&worker);
    });

    weight_gradients::collect(
        &problem,
        &weights,
        &Adjoints {
            dense: inputs.dense,
            hidden,
            initial_hidden: tape.initial_hidden.as_slice(),
            carried: tape.carried.as_slice(),
            gates: tape.gates.as_slice(),
            h_hats: tape.cells.as_slice(),
            queries: tape.queries.as_slice(),
            keys: d_key.as_slice(),
            w3: &d_w3,
            gates_touched: &gates_touched,
            query_touched: &query_touched,
            key_touched: &key_touched,
        },
        input_gradient,
    )
}

/// One adjoint that travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lane {
    row: usize,
    /// Whether it has come through a memory and may not leave through an attention again (`hops = one` only).
    skipped: bool,
}

/// All that the threads of one sweep work on. The promise of `forward::Sequence` holds here too: *rows* phases
/// touch lanes of the thread's own rows, *columns* phases the thread's part of the columns of all lanes of its
/// team, and a `sync()` lies between. Lanes of a team lie from `rows.start * kinds` on in the lane buffers.
struct Sweep<'a> {
    kernels: &'static Kernels,
    problem: &'a Problem,
    weights: &'a BackwardWeights,
    /// Lanes that a row may have.
    kinds: usize,
    w3: &'a [f32],
    outputs: OutputAdjoints<'a>,
    hidden: &'a [f32],
    carried: &'a [f32],
    choice_slots: &'a [u32],
    choice_weights: &'a [f32],
    choice_lens: &'a [u32],
    choice_normalisers: &'a [f32],
    gates: Shared<'a, f32>,
    cells: Shared<'a, f32>,
    queries: Shared<'a, f32>,
    query_exponential: Shared<'a, bool>,
    keys: Shared<'a, f32>,
    key_exponential: Shared<'a, bool>,
    /// Adjoints of memories and keys, `[batch, slot_room, padded]`, valid where touched.
    d_memory: Shared<'a, f32>,
    d_key: Shared<'a, f32>,
    memory_touched: Shared<'a, bool>,
    key_touched: Shared<'a, bool>,
    /// `[batch, padded]`: each row adds up its own, so that threads do not matter.
    d_w3: Shared<'a, f32>,
    /// `[time, batch]`: whose gates, queries have an adjoint; where the loss has a derivative.
    gates_touched: Shared<'a, bool>,
    query_touched: Shared<'a, bool>,
    loss_touched: Shared<'a, bool>,
    /// `[lanes, padded]`: adjoint of h, then of h_hat.
    d_h: Shared<'a, f32>,
    d_query: Shared<'a, f32>,
    d_key_lanes: Shared<'a, f32>,
    /// `[lanes, 4 * padded]`
    d_gates: Shared<'a, f32>,
    /// `[lanes, padded]`: adjoints that the step after handed down.
    carry_h: Shared<'a, f32>,
    carry_c: [Shared<'a, f32>; 2],
}

/// A thread's room for one row's choice.
#[derive(Default)]
struct Scratch {
    scores: Vec<f32>,
    choice: Choice,
    d_scores: Vec<f32>,
    d_summary: Vec<f32>,
}

impl Sweep<'_> {
    fn run(&self, worker: &Worker<'_>) {
        let problem = self.problem;
        let attends = problem.rules.attends();
        let mut scratch = Scratch::default();
        // Which lane of the step after handed something down to (row, kind).
        let mut carried_from: Vec<Option<usize>> = vec![None; worker.rows.len() * self.kinds];
        let mut lanes: Vec<Lane> = Vec::with_capacity(carried_from.len());
        // Of the two buffers for the cells' adjoints one is read, the other written, by turns.
        let mut carry_c = self.carry_c;
        self.find_loss(worker);
        worker.sync();
        for t in (0..problem.time).rev() {
            self.find_lanes(worker, t, &carried_from, &mut lanes);
            if lanes.is_empty() {
                carried_from.fill(None);
                continue;
            }
            let first = worker.rows.start * self.kinds;
            let own = self.own_lanes(worker, &lanes);
            for lane in own.clone() {
                let before = carried_from[self.key(worker, lanes[lane])];
                self.gather(lanes[lane], first + lane, t, before.map(|lane| first + lane));
            }
            if let Some(w1) = &self.weights.w1 {
                worker.sync();
                self.multiply_lanes(worker, first, lanes.len(), self.d_key_lanes, w1, self.d_h, true);
                worker.sync();
            }
            if attends {
                for lane in own {
                    self.remind(lanes[lane], first + lane, t, &mut scratch);
                }
            }
            worker.sync();
            if let Some(w2) = &self.weights.w2 {
                self.multiply_lanes(worker, first, lanes.len(), self.d_query, w2, self.d_h, true);
                worker.sync();
            }
            self.cells(worker, first, &lanes, t, &carried_from, carry_c);
            worker.sync();
            self.hand_down(worker, first, &lanes, t, &mut carried_from);
            carry_c.swap(0, 1);
            worker.sync();
        }
    }

    /// The entry of a lane in `carried_from`.
    fn key(&self, worker: &Worker<'_>, lane: Lane) -> usize {
        (lane.row - worker.rows.start) * self.kinds + usize::from(lane.skipped)
    }

    /// rows: marks the steps at which the loss has a derivative that is not exactly zero (R13).
    fn find_loss(&self, worker: &Worker<'_>) {
        let problem = self.problem;
        for row in worker.own_rows() {
            for t in 0..problem.time {
                let start = (row * problem.time + t) * problem.hidden;
                let nonzero = |adjoint: Option<&[f32]>| {
                    adjoint.is_some_and(|adjoint| !is_zero(&adjoint[start..start + problem.hidden]))
                };
                let touched = nonzero(self.outputs.hidden) || (problem.rules.attends() && nonzero(self.outputs.summary));
                // SAFETY: see `Sweep`; rows.
                unsafe { self.loss_touched.set(problem.tape_row(t, row), touched) };
            }
        }
    }

    /// Every thread of a team finds the same lanes: rows in order, a row's fresh lane before its skipped one.
    fn find_lanes(&self, worker: &Worker<'_>, t: usize, carried_from: &[Option<usize>], lanes: &mut Vec<Lane>) {
        lanes.clear();
        for row in worker.rows.clone() {
            let carried = &carried_from[(row - worker.rows.start) * self.kinds..][..self.kinds];
            // SAFETY: see `Sweep`; flags of this step were written before the last sync.
            let (loss, remembered) = unsafe {
                let remembered = self.problem.clocks[row].slot_filled_by(t).is_some_and(|slot| {
                    let slot = self.problem.slot(row, slot);
                    self.problem.rules.attends()
                        && (self.memory_touched.get(slot)
                            || (self.problem.rules.scores_reach_memories() && self.key_touched.get(slot)))
                });
                (self.loss_touched.get(self.problem.tape_row(t, row)), remembered)
            };
            let one_lane = self.kinds == 1;
            if loss || carried[0].is_some() || (one_lane && remembered) {
                lanes.push(Lane { row, skipped: false });
            }
            if !one_lane && (remembered || carried[1].is_some()) {
                lanes.push(Lane { row, skipped: true });
            }
        }
    }

    /// The lanes of this thread's own rows: a run of the list.
    fn own_lanes(&self, worker: &Worker<'_>, lanes: &[Lane]) -> std::ops::Range<usize> {
        let own = worker.own_rows();
        lanes.partition_point(|lane| lane.row < own.start)..lanes.partition_point(|lane| lane.row < own.end)
    }

    /// rows: the adjoint of h(t) from the loss, from the step after, and from the steps that remembered it.
    fn gather(&self, lane: Lane, index: usize, t: usize, before: Option<usize>) {
        let (problem, padded) = (self.problem, self.problem.padded);
        // SAFETY: see `Sweep`; rows.
        unsafe {
            let d_h = self.d_h.slice_mut(index * padded, padded);
            match before {
                Some(before) => d_h.copy_from_slice(self.carry_h.slice(before * padded, padded)),
                None => d_h.fill(0.0),
            }
            if let (Some(outputs), false) = (self.outputs.hidden, lane.skipped) {
                let start = (lane.row * problem.time + t) * problem.hidden;
                add(&mut d_h[..problem.hidden], &outputs[start..start + problem.hidden]);
            }
            if self.weights.w1.is_some() {
                self.d_key_lanes.slice_mut(index * padded, padded).fill(0.0);
            }
            let takes_memories = problem.rules.attends() && (self.kinds == 1 || lane.skipped);
            if let Some(slot) = problem.clocks[lane.row].slot_filled_by(t).filter(|_| takes_memories) {
                let slot = problem.slot(lane.row, slot);
                if self.memory_touched.get(slot) {
                    add(d_h, self.d_memory.slice(slot * padded, padded));
                }
                if self.weights.w1.is_some() && self.key_touched.get(slot) {
                    let to = self.d_key_lanes.slice_mut(index * padded, padded);
                    to.copy_from_slice(self.d_key.slice(slot * padded, padded));
                }
            }
        }
    }

    /// rows: the derivative of R3-R7 for one lane. Leaves the adjoint of the query in `d_query` and in the tape.
    fn remind(&self, lane: Lane, index: usize, t: usize, scratch: &mut Scratch) {
        let (problem, padded) = (self.problem, self.problem.padded);
        let (row, tape_row) = (lane.row, self.problem.tape_row(t, lane.row));
        let clock = problem.clocks[row];
        // SAFETY: see `Sweep`; rows. Slots of this row are this thread's.
        unsafe {
            let d_query = self.d_query.slice_mut(index * padded, padded);
            if self.weights.w2.is_some() || !lane.skipped {
                d_query.fill(0.0);
            }
            if lane.skipped {
                // R12: gradient that has skipped does not leave through this step's attention.
                return;
            }
            let d_summary = &mut scratch.d_summary;
            d_summary.clear();
            d_summary.extend_from_slice(self.d_h.slice(index * padded, padded));
            if let Some(outputs) = self.outputs.summary {
                let start = (row * problem.time + t) * problem.hidden;
                add(&mut d_summary[..problem.hidden], &outputs[start..start + problem.hidden]);
            }
            self.recall(row, t, scratch);
            let choice = &scratch.choice;
            if choice.normaliser == 0.0 {
                // R5: nothing was chosen, nothing learns.
                return;
            }
            let d_summary = &scratch.d_summary;
            let d_scores = &mut scratch.d_scores;
            d_scores.clear();
            let chosen = choice.chosen();
            let state = |slot: u32| memory(problem, self.hidden_states(), self.carried, row, clock, slot as usize);
            // Derivative by the weights, then by the scores through the normalisation.
            d_scores.extend(
                choice.slots[..chosen].iter().map(|slot| (self.kernels.dot)(padded, d_summary.as_ptr(), state(*slot))),
            );
            let mean: f32 = d_scores.iter().zip(&choice.weights).map(|(d, w)| d * w).sum();
            if choice.normaliser == SOFTMAX {
                d_scores.iter_mut().zip(&choice.weights).for_each(|(d, w)| *d = w * (*d - mean));
            } else {
                let mut total = 0.0;
                for (d, weight) in d_scores.iter_mut().zip(&choice.weights) {
                    // The derivative of relu at 0 is 0.
                    *d = if *weight > 0.0 { (*d - mean) / choice.normaliser } else { 0.0 };
                    total += *d;
                }
                d_scores.push(-total);
            }
            let view = ScoreView {
                problem,
                w3: self.w3,
                keys: self.keys,
                key_exponential: self.key_exponential,
                queries: self.queries,
                query_exponential: self.query_exponential,
            };
            let query = view.query(tape_row);
            for ((&slot, &weight), &d_score) in choice.slots.iter().zip(&choice.weights).zip(d_scores.iter()) {
                let place = problem.slot(row, slot as usize);
                if d_score != 0.0 {
                    let key = view.key(place);
                    let first = !self.key_touched.get(place);
                    self.key_touched.set(place, true);
                    let d_key = self.d_key.slice_mut(place * padded, padded);
                    let d_w3 = self.d_w3.slice_mut(row * padded, padded);
                    if key.exponential && query.exponential {
                        (self.kernels.score_backward)(
                            padded,
                            ScoreBackward {
                                key: key.values.as_ptr(),
                                query: query.values.as_ptr(),
                                w3: self.w3.as_ptr(),
                                d_score,
                                d_query: d_query.as_mut_ptr(),
                                d_key: d_key.as_mut_ptr(),
                                first,
                                d_w3: d_w3.as_mut_ptr(),
                            },
                        );
                    } else {
                        if first {
                            d_key.fill(0.0);
                        }
                        keys::score_backward(key, query, self.w3, d_score, d_query, d_key, d_w3);
                    }
                }
                // R10, R11: the state behind a carried slot belongs to an earlier call.
                if weight > 0.0 && problem.rules.mental_updates && clock.filled_at(slot as usize).is_some() {
                    let add = self.memory_touched.get(place);
                    self.memory_touched.set(place, true);
                    let d_memory = self.d_memory.at(place * padded, padded);
                    (self.kernels.scaled)(padded, weight, d_summary.as_ptr(), d_memory, add);
                }
            }
            self.queries.slice_mut(tape_row * padded, padded).copy_from_slice(d_query);
            self.query_touched.set(tape_row, true);
        }
    }

    /// What step `t` of a row was reminded of: from the tape, or scored again where choices are long.
    fn recall(&self, row: usize, t: usize, scratch: &mut Scratch) {
        let problem = self.problem;
        let tape_row = problem.tape_row(t, row);
        let stored = problem.stored_choices();
        let choice = &mut scratch.choice;
        if stored == 0 {
            let view = ScoreView {
                problem,
                w3: self.w3,
                keys: self.keys,
                key_exponential: self.key_exponential,
                queries: self.queries,
                query_exponential: self.query_exponential,
            };
            view.scores(row, t, problem.clocks[row].slots_at(t), &mut scratch.scores);
            choice.choose(&scratch.scores, problem.k_top());
            return;
        }
        let len = self.choice_lens[tape_row] as usize;
        choice.slots.clear();
        choice.slots.extend_from_slice(&self.choice_slots[tape_row * stored..][..len]);
        choice.weights.clear();
        choice.weights.extend_from_slice(&self.choice_weights[tape_row * stored..][..len]);
        choice.normaliser = self.choice_normalisers[tape_row];
    }

    /// The hidden states as `memory` takes them. They are read only.
    fn hidden_states(&self) -> Shared<'_, f32> {
        Shared::read_only(self.hidden)
    }

    /// columns: the derivative of the cell (R1) for all lanes of the team.
    fn cells(
        &self, worker: &Worker<'_>, first: usize, lanes: &[Lane], t: usize, carried_from: &[Option<usize>],
        carry_c: [Shared<'_, f32>; 2],
    ) {
        let (problem, padded) = (self.problem, self.problem.padded);
        let panels = worker.part(padded / PANEL);
        let units = (panels.start * PANEL, panels.end * PANEL);
        if units.0 == units.1 {
            return;
        }
        for (index, lane) in lanes.iter().enumerate() {
            let tape_row = problem.tape_row(t, lane.row);
            let before = carried_from[self.key(worker, *lane)];
            // A row's last lane writes into the tape, which its first lane must still read.
            let last = lanes.get(index + 1).is_none_or(|next| next.row != lane.row);
            let both = last && index > 0 && lanes[index - 1].row == lane.row;
            let gates = self.gates.at(tape_row * 4 * padded, 4 * padded);
            let cell = self.cells.at((tape_row + problem.batch) * padded, padded);
            let null = std::ptr::null_mut();
            let d_gates = self.d_gates.at((first + index) * 4 * padded, 4 * padded);
            // SAFETY: see `Sweep`; columns. `at` checked the extents, units are whole panels.
            unsafe {
                (self.kernels.cell_backward)(
                    padded,
                    units,
                    CellBackward {
                        gates,
                        cell,
                        cell_before: self.cells.at(tape_row * padded, padded),
                        d_h_hat: self.d_h.at((first + index) * padded, padded),
                        d_cell: before.map_or(null, |lane| carry_c[0].at((first + lane) * padded, padded)),
                        d_gates,
                        d_gates_copy: if last { gates } else { null },
                        d_cell_before: carry_c[1].at((first + index) * padded, padded),
                        h_hat: if last { cell } else { null },
                    },
                );
                if both {
                    // The weights learn from the sum of a row's two lanes.
                    let other = self.d_gates.at((first + index - 1) * 4 * padded, 4 * padded);
                    for gate in 0..4 {
                        let start = gate * padded + units.0;
                        (self.kernels.scaled)(units.1 - units.0, 1.0, other.add(start), gates.add(start), true);
                    }
                }
                if units.0 == 0 {
                    self.gates_touched.set(tape_row, true);
                }
            }
        }
    }

    /// columns: adjoints of h(t-1) and c(t-1), where the gradient is not cut (R9).
    fn hand_down(&self, worker: &Worker<'_>, first: usize, lanes: &[Lane], t: usize, carried_from: &mut [Option<usize>]) {
        let problem = self.problem;
        carried_from.fill(None);
        if t == 0 {
            // What lies before this call is data (R14).
            return;
        }
        let mut any = false;
        for (index, lane) in lanes.iter().enumerate() {
            if !problem.rules.cut_after(problem.clocks[lane.row].step(t - 1)) {
                carried_from[self.key(worker, *lane)] = Some(index);
                any = true;
            }
        }
        if any {
            self.multiply_lanes(worker, first, lanes.len(), self.d_gates, &self.weights.weight_hh, self.carry_h, false);
        }
    }

    /// columns: `to[lanes] (+)= from[lanes] * weights`.
    fn multiply_lanes(
        &self, worker: &Worker<'_>, first: usize, lanes: usize, from: Shared<'_, f32>, weights: &PackedMatrix,
        to: Shared<'_, f32>, add: bool,
    ) {
        let (k, width) = (weights.k(), weights.panels() * PANEL);
        let a = from.at(first * k, lanes * k);
        let c = to.at(first * width, lanes * width);
        for panel in worker.part(weights.panels()) {
            // SAFETY: see `Sweep`; columns. Both extents were checked by `at`.
            unsafe {
                let c = c.add(panel * PANEL);
                (self.kernels.multiply_panel)(lanes, k, a, k, weights.panel(panel).as_ptr(), c, width, add);
            }
        }
    }
}

fn add(to: &mut [f32], from: &[f32]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
}

/// Whether all values are exactly zero, of either sign.
fn is_zero(values: &[f32]) -> bool {
    // In blocks: the compiler vectorises a block, and one that is not zero ends the search.
    values.chunks(32).all(|block| block.iter().fold(0, |bits, d| bits | (d.to_bits() << 1)) == 0)
}
