//! The gradients of one call: buffers for the sweep, the sweep, and its sums without padding.

use super::pool::Buffer;
use super::problem::{Inputs, Problem};
use super::sweep::{OutputAdjoints, Sweep};
use super::tape::Tape;
use super::team::{self, Barrier, Shared, Worker};
use super::weight_gradients::{LeftSides, PackedLeft, States, Sums, chunk_pairs};
use super::weights::{BackwardWeights, Parameters};
use crate::config::Hops;

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

/// What the tape does not own itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TapeInputs<'a> {
    /// `[batch, time, input]`, empty for tokens.
    pub(crate) dense: &'a [f32],
    /// The forward pass's hidden states, `[batch, time, hidden]`.
    pub(crate) hidden: &'a [f32],
}

pub(crate) fn backward(
    tape: &Tape, parameters: &Parameters<'_>, inputs: TapeInputs<'_>, outputs: OutputAdjoints<'_>, input_gradient: bool,
) -> GradientResult {
    let problem = &tape.problem;
    let threads = problem.workers();
    let (batch, hidden, padded) = (problem.batch, problem.hidden, problem.padded);
    let weights = BackwardWeights::new(problem, parameters, input_gradient, threads);
    let slots = problem.if_attends(batch * problem.slot_room);
    let kinds = if problem.rules.hops == Hops::One { 2 } else { 1 };
    let lanes = batch * kinds;
    let chunk_steps = (chunk_pairs(padded) / lanes).max(1);
    let chunk = chunk_steps * lanes;

    let mut weight_hh = vec![0.0; hidden * 4 * padded];
    let mut weight_ih = vec![0.0; problem.input * 4 * padded];
    let mut bias = vec![0.0; 4 * padded];
    let mut w1 = vec![0.0; hidden * padded];
    let mut w2 = vec![0.0; hidden * padded];
    let mut d_w3 = vec![0.0; batch * padded];
    let mut d_input = if input_gradient { vec![0.0; batch * problem.time * problem.input] } else { Vec::new() };

    let mut d_memory = Buffer::take(slots * padded);
    let mut d_key = Buffer::take(slots * padded);
    let mut memory_touched = vec![false; slots];
    let mut key_touched = vec![false; slots];
    let mut query_touched = vec![false; chunk];
    let mut chunk_rows = vec![None; chunk];
    let mut loss_touched = vec![false; problem.time * batch];
    let through_readouts = if outputs.readouts.is_empty() { 0 } else { batch * padded };
    let mut loss = [Buffer::take(through_readouts), Buffer::take(through_readouts)];
    let [loss_h, loss_s] = &mut loss;
    let mut d_h = Buffer::take(lanes * padded);
    let mut d_key_lanes = Buffer::take(if weights.w1.is_some() { lanes * padded } else { 0 });
    let mut d_gates = Buffer::take(chunk * 4 * padded);
    let mut d_query = Buffer::take(problem.if_attends(chunk * padded));
    let mut h_hat = Buffer::take(problem.if_attends(chunk * padded));
    let mut carry_h = Buffer::take(lanes * padded);
    let mut carry_c = [Buffer::take(lanes * padded), Buffer::take(lanes * padded)];
    let [carry_c0, carry_c1] = &mut carry_c;
    let square_width = problem.if_attends(hidden);
    let input_width = if matches!(problem.inputs, Inputs::Dense) { problem.input } else { 0 };
    let mut left = [hidden, input_width, square_width].map(|width| (Buffer::take(chunk * width), width));
    let [left_hidden, left_input, left_squares] =
        left.each_mut().map(|(buffer, width)| PackedLeft::new(buffer.as_mut_slice(), *width));

    let barrier = Barrier::new(threads);
    let sweep = Sweep {
        kernels: problem.kernels,
        problem,
        weights: &weights,
        kinds,
        chunk_steps,
        tape,
        outputs,
        states: States {
            dense: inputs.dense,
            // The tape's own padded copy, or the output itself.
            hidden: if hidden == padded { inputs.hidden } else { tape.hidden.as_slice() },
            initial_hidden: tape.initial_hidden.as_slice(),
            carried: tape.carried.as_slice(),
        },
        sums: Sums {
            weight_hh: Shared::new(&mut weight_hh),
            weight_ih: Shared::new(&mut weight_ih),
            bias: Shared::new(&mut bias),
            w1: Shared::new(&mut w1),
            w2: Shared::new(&mut w2),
        },
        left: LeftSides { hidden: left_hidden, input: left_input, squares: left_squares },
        d_w3: Shared::new(&mut d_w3),
        d_input: Shared::new(&mut d_input),
        d_memory: Shared::new(d_memory.as_mut_slice()),
        d_key: Shared::new(d_key.as_mut_slice()),
        memory_touched: Shared::new(&mut memory_touched),
        key_touched: Shared::new(&mut key_touched),
        query_touched: Shared::new(&mut query_touched),
        chunk_rows: Shared::new(&mut chunk_rows),
        loss_touched: Shared::new(&mut loss_touched),
        loss: [Shared::new(loss_h.as_mut_slice()), Shared::new(loss_s.as_mut_slice())],
        d_h: Shared::new(d_h.as_mut_slice()),
        d_key_lanes: Shared::new(d_key_lanes.as_mut_slice()),
        d_gates: Shared::new(d_gates.as_mut_slice()),
        d_query: Shared::new(d_query.as_mut_slice()),
        h_hat: Shared::new(h_hat.as_mut_slice()),
        carry_h: Shared::new(carry_h.as_mut_slice()),
        carry_c: [Shared::new(carry_c0.as_mut_slice()), Shared::new(carry_c1.as_mut_slice())],
    };
    team::run(threads, |index| sweep.run(&Worker::new(batch, index, problem.together(), &barrier)));

    if matches!(problem.inputs, Inputs::Tokens(_)) {
        // Every pair has exactly one token.
        weight_ih.chunks_exact(4 * padded).for_each(|row| add(&mut bias, row));
    }
    let mut w3 = vec![0.0; padded];
    d_w3.chunks_exact(padded).for_each(|row| add(&mut w3, row));
    GradientResult {
        weight_ih: without_padding(problem, weight_ih),
        weight_hh: without_padding(problem, weight_hh),
        bias: without_padding(problem, bias),
        w1: without_padding(problem, w1),
        w2: without_padding(problem, w2),
        w3: without_padding(problem, w3),
        input: input_gradient.then_some(d_input),
    }
}

fn add(to: &mut [f32], from: &[f32]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
}

fn without_padding(problem: &Problem, values: Vec<f32>) -> Vec<f32> {
    if problem.hidden == problem.padded {
        return values;
    }
    values.chunks_exact(problem.padded).flat_map(|block| &block[..problem.hidden]).copied().collect()
}
