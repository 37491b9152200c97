//! The engine as an operation of Burn's CPU backend (Flex), with and without autodiff.
//!
//! The operation has two large outputs but a node of Burn's graph has one. So the node is a *carrier* of a single
//! float; hidden states and summaries are children of it. Their backward steps run before the carrier's and
//! leave the adjoints in the [`Exchange`]; the carrier's step then runs the sweep. An output that the loss does
//! not use leaves nothing, and nothing is copied or filled with zeros on the way.

mod exchange;
mod loss;
mod pooled;
mod readout;

use exchange::{Exchange, Output};
use loss::{Answers, CrossEntropyBackward};
use pooled::pooled;
use readout::{
    LinkedRead, LinkedReadoutBackward, ReadoutBackward, all_cores, linked_operands, readout_adjoint, run_readout,
};

use super::backward::{TapeInputs, backward};
use super::forward::{CallData, ForwardResult, forward};
use super::problem::{Inputs, Problem};
use super::sweep::OutputAdjoints;
use super::tape::Tape;
use super::weights::{ForwardWeights, Parameters, all_finite};
use crate::error::{Result, SabError};
use crate::reminders::Reminders;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, NodeGuard, Ops, OpsKind};
use burn::backend::flex::FlexTensor;
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{DType, Tensor, TensorData};
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use super::kernels::Kernels;
pub(crate) use super::problem::{Inputs as FusedInputs, Problem as FusedProblem};
pub(crate) use loss::cross_entropy;
pub(crate) use readout::{OutputLink, readout_rows};

/// The state carried into a call, `[batch, hidden]` twice and `[batch, slots, hidden]`.
#[derive(Clone, Debug)]
pub(crate) struct Carried {
    pub(crate) hidden: FlexTensor,
    pub(crate) cell: FlexTensor,
    pub(crate) memory: FlexTensor,
}

/// One call of the operation.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) problem: Problem,
    pub(crate) carried: Option<Carried>,
    prepared: Arc<PreparedWeights>,
    exchange: Arc<Exchange>,
}

/// The packed weights of the last call without autodiff: a stream of steps packs them once.
///
/// They belong to tensors, not to values: as long as the tensors are held here nobody writes them (Burn copies what is
/// shared before it writes), so the same memory means the same values.
#[derive(Debug, Default)]
pub(crate) struct PreparedWeights(Mutex<Option<(Vec<FlexTensor>, Arc<ForwardWeights>)>>);

impl PreparedWeights {
    /// The packed weights of these operands, or an error if one holds a NaN or an infinity.
    fn of(&self, operands: &Operands, problem: &Problem) -> Result<Arc<ForwardWeights>> {
        let parameters = &operands[..6];
        let same_memory =
            |a: &FlexTensor, b: &FlexTensor| Arc::ptr_eq(&a.data_arc(), &b.data_arc()) && a.layout() == b.layout();
        let same = |held: &[FlexTensor]| held.iter().zip(parameters).all(|(a, b)| same_memory(a, b));
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, weights)) = last.as_ref().filter(|(held, weights)| same(held) && weights.fits(problem)) {
            return Ok(weights.clone());
        }
        let weights = pack_weights(operands, problem)?;
        // Holding them while they are trained would make every update copy them.
        *last = (!problem.tracked).then(|| (parameters.to_vec(), weights.clone()));
        Ok(weights)
    }
}

fn pack_weights(operands: &Operands, problem: &Problem) -> Result<Arc<ForwardWeights>> {
    let parameters = parameters(operands);
    match parameters.non_finite() {
        Some(what) => Err(SabError::NonFinite { what, place: String::new() }),
        None => Ok(Arc::new(ForwardWeights::new(problem, &parameters))),
    }
}

/// The operations that Burn dispatches to.
#[backend_extension(Autodiff, Flex)]
pub(crate) trait SabBackend: Backend {
    /// Runs a sequence; `input` is `[batch, time, input]`, or anything if the inputs are tokens.
    #[allow(clippy::too_many_arguments)]
    fn sab_sequence(
        weight_ih: FloatTensor<Self>, weight_hh: FloatTensor<Self>, bias: FloatTensor<Self>, w1: FloatTensor<Self>,
        w2: FloatTensor<Self>, w3: FloatTensor<Self>, input: FloatTensor<Self>, call: Call,
    ) -> FloatTensor<Self>;

    /// One of the outputs of the sequence that `carrier` stands for.
    fn sab_output(carrier: FloatTensor<Self>, exchange: Arc<Exchange>, output: Output) -> FloatTensor<Self>;

    /// `V1 h + V2 s + b`, `[rows, output]`, from `[rows, hidden]` twice (R8).
    fn sab_readout(
        hidden: FloatTensor<Self>, summary: FloatTensor<Self>, v1: FloatTensor<Self>, v2: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> FloatTensor<Self>;

    /// The same on the outputs of the sequence that `carrier` stands for.
    fn sab_linked_readout(
        carrier: FloatTensor<Self>, v1: FloatTensor<Self>, v2: FloatTensor<Self>, bias: FloatTensor<Self>,
        read: LinkedRead,
    ) -> FloatTensor<Self>;

    /// The cross-entropy of `[rows, classes]`, `[1]`.
    fn sab_cross_entropy(scores: FloatTensor<Self>, answers: Answers) -> FloatTensor<Self>;
}

fn carrier() -> FlexTensor {
    tensor(vec![0.0], vec![1])
}

fn tensor(values: Vec<f32>, shape: Vec<usize>) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values, shape))
}

/// Zeros of any shape in the memory of one: a plain LSTM's summaries.
fn zeros(shape: Vec<usize>) -> FlexTensor {
    Flex::float_expand(tensor(vec![0.0], vec![1; shape.len()]), shape.into())
}

/// The floats of a contiguous tensor. The layer checks types beforehand; anything else is an empty slice.
fn floats(tensor: &FlexTensor) -> &[f32] {
    tensor.as_slice::<f32>().unwrap_or_default()
}

/// Parameters and input, contiguous, in the order of [`SabBackend::sab_sequence`].
type Operands = [FlexTensor; 7];

fn parameters(operands: &Operands) -> Parameters<'_> {
    let [weight_ih, weight_hh, bias, w1, w2, w3, _] = operands.each_ref().map(floats);
    Parameters { weight_ih, weight_hh, bias, w1, w2, w3 }
}

fn dense<'a>(operands: &'a Operands, problem: &Problem) -> &'a [f32] {
    match problem.inputs {
        Inputs::Dense => floats(&operands[6]),
        Inputs::Tokens(_) => &[],
    }
}

/// The first NaN or infinity of the input.
fn check_input(operands: &Operands, problem: &Problem) -> Result<()> {
    let dense = dense(operands, problem);
    if !all_finite(dense) {
        let place = dense.iter().position(|x| !x.is_finite()).unwrap_or(0) / problem.input;
        let place = format!(" in row {} at step {}", place / problem.time, place % problem.time);
        return Err(SabError::NonFinite { what: "input", place });
    }
    Ok(())
}

/// Runs the forward pass; leaves the outputs (or an error) in the exchange and returns what backward needs.
fn run(operands: &Operands, mut call: Call, tracked: bool) -> Option<(Tape, FlexTensor)> {
    call.problem.tracked = tracked;
    let problem = &call.problem;
    let (batch, time, hidden) = (problem.batch, problem.time, problem.hidden);
    let weights = match check_input(operands, problem).and_then(|()| call.prepared.of(operands, problem)) {
        Ok(weights) => weights,
        Err(error) => {
            call.exchange.lock().error = Some(error);
            return None;
        }
    };
    let carried = call.carried.as_ref();
    let data = CallData {
        dense: dense(operands, problem),
        hidden: carried.map_or(&[], |carried| floats(&carried.hidden)),
        cell: carried.map_or(&[], |carried| floats(&carried.cell)),
        memory: carried.map_or(&[], |carried| floats(&carried.memory)),
    };
    let ForwardResult { hidden: states, summary, last_cell, reminders, tape } =
        forward(call.problem.clone(), weights, data);
    let mut exchanged = call.exchange.lock();
    // A NaN in a row's state stays in it to the end, so the last one tells.
    let last = |row: usize| &states.as_slice()[(row * time + time - 1) * hidden..][..hidden];
    if let Some(row) = (0..batch).find(|row| !all_finite(last(*row))) {
        let place = format!(" in row {row}: the products overflowed");
        exchanged.error = Some(SabError::NonFinite { what: "hidden", place });
        return None;
    }
    let states = pooled(states, vec![batch, time, hidden]);
    exchanged.hidden = Some(states.clone());
    exchanged.summary = Some(if summary.as_slice().is_empty() {
        zeros(vec![batch, time, hidden])
    } else {
        pooled(summary, vec![batch, time, hidden])
    });
    exchanged.last_cell = last_cell;
    exchanged.reminders = reminders;
    Some((tape, states))
}

impl SabBackend for Flex {
    fn sab_sequence(
        weight_ih: FlexTensor, weight_hh: FlexTensor, bias: FlexTensor, w1: FlexTensor, w2: FlexTensor, w3: FlexTensor,
        input: FlexTensor, call: Call,
    ) -> FlexTensor {
        run(&[weight_ih, weight_hh, bias, w1, w2, w3, input].map(|t| t.to_contiguous()), call, false);
        carrier()
    }

    fn sab_output(_carrier: FlexTensor, exchange: Arc<Exchange>, output: Output) -> FlexTensor {
        output.value(&exchange)
    }

    fn sab_readout(
        hidden: FlexTensor, summary: FlexTensor, v1: FlexTensor, v2: FlexTensor, bias: FlexTensor,
    ) -> FlexTensor {
        run_readout(&[hidden, summary, v1, v2, bias].map(|operand| operand.to_contiguous()), all_cores())
    }

    fn sab_linked_readout(
        _: FlexTensor, v1: FlexTensor, v2: FlexTensor, bias: FlexTensor, read: LinkedRead,
    ) -> FlexTensor {
        run_readout(&linked_operands(&read, [v1, v2, bias]), read.threads)
    }

    fn sab_cross_entropy(scores: FlexTensor, answers: Answers) -> FlexTensor {
        loss::run(&scores.to_contiguous(), &answers).0
    }
}

/// What the sweep needs besides the outputs' adjoints. Burn asks for `Clone`; the tape is used once.
#[derive(Clone, Debug)]
struct SequenceState {
    operands: Operands,
    hidden: FlexTensor,
    tape: Arc<Mutex<Option<Tape>>>,
    exchange: Arc<Exchange>,
}

#[derive(Debug)]
struct SequenceBackward;

impl Backward<Flex, 7> for SequenceBackward {
    type State = SequenceState;

    fn backward(self, ops: Ops<SequenceState, 7>, grads: &mut Gradients, _: &mut Checkpointer) {
        // The carrier's own gradient means nothing; consuming it frees it.
        drop(grads.consume::<Flex>(&ops.node));
        let state = ops.state;
        let (d_hidden, d_summary, readouts) = {
            let mut exchanged = state.exchange.lock();
            (exchanged.d_hidden.take(), exchanged.d_summary.take(), std::mem::take(&mut exchanged.readouts))
        };
        let Some(tape) = state.tape.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        let dense = dense(&state.operands, tape.problem());
        let outputs = OutputAdjoints {
            hidden: d_hidden.as_ref().map(floats),
            summary: d_summary.as_ref().map(floats),
            readouts: readouts.iter().map(readout_adjoint).collect(),
        };
        let inputs = TapeInputs { dense, hidden: floats(&state.hidden) };
        let result = backward(&tape, &parameters(&state.operands), inputs, outputs, ops.parents[6].is_some());
        let gradients = [
            Some(result.weight_ih),
            Some(result.weight_hh),
            Some(result.bias),
            Some(result.w1),
            Some(result.w2),
            Some(result.w3),
            result.input,
        ];
        for ((parent, gradient), operand) in ops.parents.into_iter().zip(gradients).zip(&state.operands) {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                grads.register::<Flex>(parent.id, tensor(gradient, operand.shape().to_vec()));
            }
        }
    }
}

#[derive(Debug)]
struct OutputBackward;

impl Backward<Flex, 1> for OutputBackward {
    type State = (Arc<Exchange>, Output);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let adjoint = grads.consume::<Flex>(&ops.node).to_contiguous();
        let (exchange, output) = ops.state;
        output.set_adjoint(&exchange, adjoint);
        if let [Some(parent)] = ops.parents {
            grads.register::<Flex>(parent.id, carrier());
        }
    }
}

impl<C: CheckpointStrategy> SabBackend for Autodiff<Flex, C> {
    fn sab_sequence(
        weight_ih: FloatTensor<Self>, weight_hh: FloatTensor<Self>, bias: FloatTensor<Self>, w1: FloatTensor<Self>,
        w2: FloatTensor<Self>, w3: FloatTensor<Self>, input: FloatTensor<Self>, call: Call,
    ) -> FloatTensor<Self> {
        let operands = [weight_ih, weight_hh, bias, w1, w2, w3, input];
        let nodes: [NodeGuard; 7] = operands.each_ref().map(|operand| operand.node());
        let operands = operands.map(|operand| operand.into_primitive().to_contiguous());
        let exchange = call.exchange.clone();
        match SequenceBackward.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prepared) => {
                let (tape, hidden) = run(&operands, call, true).map_or((None, carrier()), |(tape, h)| (Some(tape), h));
                let state = SequenceState { operands, hidden, tape: Arc::new(Mutex::new(tape)), exchange };
                prepared.finish(state, carrier())
            }
            OpsKind::UnTracked(prepared) => {
                run(&operands, call, false);
                prepared.finish(carrier())
            }
        }
    }

    fn sab_output(carrier: FloatTensor<Self>, exchange: Arc<Exchange>, output: Output) -> FloatTensor<Self> {
        let nodes = [carrier.node()];
        let value = output.value(&exchange);
        match OutputBackward.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prepared) => prepared.finish((exchange, output), value),
            OpsKind::UnTracked(prepared) => prepared.finish(value),
        }
    }

    fn sab_readout(
        hidden: FloatTensor<Self>, summary: FloatTensor<Self>, v1: FloatTensor<Self>, v2: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let operands = [hidden, summary, v1, v2, bias];
        let nodes: [NodeGuard; 5] = operands.each_ref().map(|operand| operand.node());
        let operands = operands.map(|operand| operand.into_primitive().to_contiguous());
        let y = run_readout(&operands, all_cores());
        match ReadoutBackward.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prepared) => prepared.finish(operands, y),
            OpsKind::UnTracked(prepared) => prepared.finish(y),
        }
    }

    fn sab_linked_readout(
        carrier: FloatTensor<Self>, v1: FloatTensor<Self>, v2: FloatTensor<Self>, bias: FloatTensor<Self>,
        read: LinkedRead,
    ) -> FloatTensor<Self> {
        let parents = [carrier, v1, v2, bias];
        let nodes: [NodeGuard; 4] = parents.each_ref().map(|parent| parent.node());
        let [_, v1, v2, bias] = parents.map(|parent| parent.into_primitive());
        let operands = linked_operands(&read, [v1, v2, bias]);
        let y = run_readout(&operands, read.threads);
        match LinkedReadoutBackward.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prepared) => prepared.finish((operands, read), y),
            OpsKind::UnTracked(prepared) => prepared.finish(y),
        }
    }

    fn sab_cross_entropy(scores: FloatTensor<Self>, answers: Answers) -> FloatTensor<Self> {
        let nodes = [scores.node()];
        let (loss, gradient) = loss::run(&scores.into_primitive().to_contiguous(), &answers);
        match CrossEntropyBackward.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prepared) => prepared.finish(gradient, loss),
            OpsKind::UnTracked(prepared) => prepared.finish(loss),
        }
    }
}

/// What a call of the operation gives.
pub(crate) struct FusedOutput {
    /// `[batch, time, hidden]`
    pub(crate) hidden: Tensor<3>,
    /// `[batch, time, hidden]`
    pub(crate) summary: Tensor<3>,
    /// `[batch, hidden]`, without autodiff.
    pub(crate) last_cell: Tensor<2>,
    pub(crate) reminders: Option<Reminders>,
    pub(crate) link: OutputLink,
}

/// Runs the operation on Burn tensors of type `f32` on a Flex device.
pub(crate) fn sequence(
    weights: crate::lstm::Weights, input: Option<Tensor<3>>, problem: Problem, carried: Option<Carried>,
    prepared: Arc<PreparedWeights>,
) -> Result<FusedOutput> {
    let exchange = Arc::new(Exchange::default());
    let (batch, hidden, attends, threads) = (problem.batch, problem.hidden, problem.rules.attends(), problem.threads);
    let call = Call { problem, carried, prepared, exchange: exchange.clone() };
    let input = match input {
        Some(input) => input.into_dispatch(),
        None => Tensor::<1>::from_primitive::<Flex>(carrier()).into_dispatch(),
    };
    let carrier = Dispatch::sab_sequence(
        weights.weight_ih.into_dispatch(),
        weights.weight_hh.into_dispatch(),
        weights.bias.into_dispatch(),
        weights.w1.into_dispatch(),
        weights.w2.into_dispatch(),
        weights.w3.into_dispatch(),
        input,
        call,
    );
    let (last_cell, reminders, link) = {
        let mut exchanged = exchange.lock();
        if let Some(error) = exchanged.error.take() {
            return Err(error);
        }
        let outputs = (exchanged.hidden.clone(), exchanged.summary.clone());
        let (Some(hidden), Some(summary)) = outputs else {
            return Err(SabError::NoFusedPath("the operation returned nothing".into()));
        };
        let link = OutputLink::new(carrier.clone(), exchange.clone(), [hidden, summary], attends, threads);
        (std::mem::take(&mut exchanged.last_cell), exchanged.reminders.take(), link)
    };
    let hidden_states = Dispatch::sab_output(carrier.clone(), exchange.clone(), Output::Hidden);
    let summary = Dispatch::sab_output(carrier, exchange, Output::Summary);
    Ok(FusedOutput {
        hidden: Tensor::from_dispatch(hidden_states),
        summary: Tensor::from_dispatch(summary),
        last_cell: Tensor::from_primitive::<Flex>(tensor(last_cell, vec![batch, hidden])),
        reminders,
        link,
    })
}

/// The primitive of a state's tensor: contiguous `f32` on the Flex backend.
pub(crate) fn carried_primitive<const D: usize>(what: &str, tensor: Tensor<D>) -> Result<FlexTensor> {
    let primitive = tensor
        .inner()
        .try_into_primitive::<Flex>()
        .map_err(|error| SabError::State(format!("its `{what}` is not on the CPU: {error:?}")))?;
    if primitive.dtype() != DType::F32 {
        return Err(SabError::State(format!("its `{what}` is {:?}, but F32 is needed", primitive.dtype())));
    }
    Ok(primitive.to_contiguous())
}

/// Whether no number of a carried state that a step would use is a NaN or an infinity.
pub(crate) fn check_carried(carried: &Carried, slots: impl Fn(usize) -> usize) -> Result<()> {
    let [_, room, units] = [0, 1, 2].map(|i| carried.memory.shape()[i]);
    let mut rows = floats(&carried.memory).chunks_exact(room * units).enumerate();
    let finite = all_finite(floats(&carried.hidden))
        && all_finite(floats(&carried.cell))
        && rows.all(|(row, memory)| all_finite(&memory[..slots(row) * units]));
    if finite { Ok(()) } else { Err(SabError::NonFinite { what: "state", place: String::new() }) }
}
