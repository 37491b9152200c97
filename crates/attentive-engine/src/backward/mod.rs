//! Sparse replay: the gradients of one call, by one sweep over time in reverse (R9-R13).
//!
//! ```text
//! backward()           buffers, threads, and the sums without padding
//!   Sweep::run         the loop over chunks of steps          (steps)
//!     find_lanes       which rows have an adjoint at step t   (lanes)
//!     replay           its states, if the tape has only some  (replay)
//!     gather           the adjoint of h(t)                    (gather)
//!     remind           through the attention of step t        (attention)
//!     cells            through the cell of step t             (cell)
//!     hand_down        to step t-1, unless it is cut off      (cell)
//!   Products           the weights' gradients of a chunk      (products)
//! Tape::add_credit     through memories of earlier calls      (credit)
//! ```
//!
//! The sweep carries a list of *lanes* from step to step. A lane is a row whose adjoint at this step is not exactly
//! zero. With `hops = one` a row has up to two lanes: one that has not skipped yet and one that has (R12). Rows without
//! a lane cost nothing (R13). The adjoints of gates and queries are collected in a chunk of a few steps. The weights'
//! gradients are computed from the chunk while it is still in the cache. `buffers` describes the buffers.

mod attention;
mod buffers;
mod cell;
mod credit;
mod gather;
mod lanes;
mod left;
mod outputs;
mod products;
mod replay;
mod steps;
mod sweep;

pub use credit::Drift;
pub use outputs::{OutputAdjoints, ReadoutAdjoint};

use crate::error::{EngineError, Result, check_length};
use crate::parameters::{BIAS, WEIGHT_HH, WEIGHT_IH, check_lengths};
use crate::problem::{Inputs, Problem};
use crate::projections::States;
use crate::tape::Tape;
use crate::team::{self, Barrier, Shared, Worker};
use crate::weights::BackwardWeights;
use buffers::{Buffers, Sizes};
use products::Sums;
use replay::Stretch;
use sweep::Sweep;

/// The gradients of all inputs of a call.
#[derive(Debug)]
pub struct Gradients {
    /// The gradients of the parameters, in their order and layout.
    pub parameters: Vec<Vec<f32>>,
    /// The gradient of the dense input, `[batch, time, input]`, if it was requested.
    pub input: Option<Vec<f32>>,
    /// How far replayed memories of earlier calls have drifted; `None` if none was replayed (R21).
    pub drift: Option<Drift>,
}

/// The values of the forward pass that the tape does not own.
#[derive(Clone, Copy, Debug)]
pub struct TapeInputs<'a> {
    /// The dense input, `[batch, time, input]`; empty for tokens.
    pub dense: &'a [f32],
    /// The forward pass's hidden states, `[batch, time, hidden]`.
    pub hidden: &'a [f32],
}

/// The gradients of a call, from the derivative of the loss with respect to its outputs. `parameters` and `inputs` must
/// be those of the forward pass.
pub fn backward(
    tape: &Tape, parameters: &[&[f32]], inputs: TapeInputs<'_>, outputs: OutputAdjoints<'_>, input_gradient: bool,
) -> Result<Gradients> {
    let problem = &tape.problem;
    if !problem.tracked {
        let hint = "the forward pass kept no tape; set `tracked` in a call whose gradient is wanted".into();
        return Err(EngineError::Model { field: "tracked", value: "false".into(), hint });
    }
    check_lengths(&problem.model.parameters(), parameters)?;
    let dense = if tape.is_dense() { problem.batch * problem.time * problem.input } else { 0 };
    check_length("input", inputs.dense.len(), dense)?;
    check_length("hidden", inputs.hidden.len(), problem.batch * problem.time * problem.hidden)?;
    outputs.check(problem)?;

    let threads = problem.workers();
    let weights = BackwardWeights::new(problem, parameters, input_gradient);
    let sizes = Sizes::new(problem);
    let mut sums = PaddedSums::new(problem, input_gradient);
    let mut buffers = Buffers::new(problem, sizes, &weights, !outputs.readouts.is_empty());
    let mut stretch = Stretch::new(problem);
    let stretch = stretch.share(problem);
    let mut projections = tape.projections.view(problem, &tape.weights.vector);
    let (gates, cells) = if problem.replayed {
        projections.queries = stretch.queries;
        (stretch.gates, stretch.cells)
    } else {
        (Shared::read_only(tape.gates.as_slice()), Shared::read_only(tape.cells.as_slice()))
    };
    let sweep = Sweep {
        problem,
        sizes,
        weights: &weights,
        tape,
        gates,
        cells,
        stretch,
        projections,
        outputs,
        states: States {
            dense: inputs.dense,
            // The output itself, or the tape's padded copy of it.
            hidden: Shared::read_only(if problem.hidden == problem.padded {
                inputs.hidden
            } else {
                tape.hidden.as_slice()
            }),
            initial_hidden: tape.initial_hidden.as_slice(),
            carried: &tape.carried,
        },
        sums: sums.share(problem),
        memories: buffers.memories.share(problem.padded),
        chunk: buffers.chunk.share(problem),
        lanes: buffers.lanes.share(problem.padded),
        loss: buffers.loss.share(),
        left: buffers.left.share(),
    };
    let barrier = Barrier::new(threads);
    team::run(threads, |index| sweep.run(&Worker::new(problem.batch, index, problem.together(), &barrier)));
    let mut gradients = sums.finish(problem);
    tape.add_credit(parameters, &buffers.memories, weights.key.as_ref(), &mut gradients)?;
    Ok(gradients)
}

/// The sums of the gradients, padded. They start at zero.
struct PaddedSums {
    /// `[input, gates]`, `[hidden, gates]` and `[gates]`
    weight_ih: Vec<f32>,
    weight_hh: Vec<f32>,
    bias: Vec<f32>,
    /// `[hidden, padded]` each; `query` is `None` if one matrix serves both.
    key: Vec<f32>,
    query: Option<Vec<f32>>,
    /// `[batch, vector]`. Each row has its own sum, so that the number of threads does not matter.
    vector: Vec<f32>,
    /// `[batch, time, input]`
    input: Option<Vec<f32>>,
}

impl PaddedSums {
    fn new(problem: &Problem, input_gradient: bool) -> Self {
        let (hidden, padded, gates) = (problem.hidden, problem.padded, problem.gate_width());
        let scorer = problem.model.scorer;
        let tied = scorer.key_weight() == scorer.query_weight();
        Self {
            weight_ih: vec![0.0; problem.input * gates],
            weight_hh: vec![0.0; hidden * gates],
            bias: vec![0.0; gates],
            key: vec![0.0; hidden * padded],
            query: (!tied).then(|| vec![0.0; hidden * padded]),
            vector: vec![0.0; problem.batch * problem.vector_room()],
            input: input_gradient.then(|| vec![0.0; problem.batch * problem.time * problem.input]),
        }
    }

    fn share(&mut self, problem: &Problem) -> Sums<'_> {
        let key = Shared::new(&mut self.key);
        Sums {
            weight_hh: Shared::new(&mut self.weight_hh),
            weight_ih: Shared::new(&mut self.weight_ih),
            bias: Shared::new(&mut self.bias),
            key,
            // If one matrix projects both, both add to the same sum.
            query: self.query.as_mut().map_or(key, |query| Shared::new(query)),
            vector: Shared::new(&mut self.vector),
            vector_room: problem.vector_room(),
            input: Shared::new(self.input.as_deref_mut().unwrap_or_default()),
        }
    }

    /// The gradients in the parameters' layout.
    fn finish(mut self, problem: &Problem) -> Gradients {
        let (model, layout, gates) = (&problem.model, problem.layout, problem.gate_width());
        let declared = model.parameters();
        if matches!(problem.inputs, Inputs::Tokens(_)) {
            // Every pair has exactly one token. Blocks that no token fills have their own sum.
            let input_blocks = crate::cells::Layout::range(layout.input);
            let columns = input_blocks.start * problem.padded..input_blocks.end * problem.padded;
            for row in self.weight_ih.chunks_exact(gates) {
                add(&mut self.bias[columns.clone()], &row[columns.clone()]);
            }
        }
        let mut parameters = vec![Vec::new(); declared.len()];
        parameters[WEIGHT_IH] = blocks_without_padding(problem, self.weight_ih, layout.input);
        parameters[WEIGHT_HH] = blocks_without_padding(problem, self.weight_hh, layout.hidden);
        parameters[BIAS] = blocks_without_padding(problem, self.bias, layout.bias);
        parameters[model.scorer.key_weight()] = without_padding(problem, self.key);
        if let Some(query) = self.query {
            parameters[model.scorer.query_weight()] = without_padding(problem, query);
        }
        if let Some(place) = model.scorer.vector() {
            let mut sum = vec![0.0; problem.vector_room()];
            self.vector.chunks_exact(problem.vector_room()).for_each(|row| add(&mut sum, row));
            sum.truncate(declared[place].len());
            parameters[place] = sum;
        }
        Gradients { parameters, input: self.input, drift: None }
    }
}

fn add(to: &mut [f32], from: &[f32]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
}

/// Rows of `padded` floats without their padding.
fn without_padding(problem: &Problem, values: Vec<f32>) -> Vec<f32> {
    if problem.hidden == problem.padded {
        return values;
    }
    values.chunks_exact(problem.padded).flat_map(|block| &block[..problem.hidden]).copied().collect()
}

/// Converts rows of gate blocks to a parameter's layout: its own blocks in its own order, without padding.
fn blocks_without_padding(problem: &Problem, values: Vec<f32>, blocks: &[usize]) -> Vec<f32> {
    if blocks.iter().copied().eq(0..problem.layout.blocks) {
        return without_padding(problem, values);
    }
    let rows = values.chunks_exact(problem.gate_width());
    rows.flat_map(|row| blocks.iter().flat_map(|block| &row[block * problem.padded..][..problem.hidden]))
        .copied()
        .collect()
}
