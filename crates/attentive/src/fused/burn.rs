//! The engine as an operation of Burn's CPU backend (Flex), with and without autodiff.
//!
//! The operation has two large outputs but a node of Burn's graph has one. So the node is a *carrier* of a single
//! float; hidden states and summaries are children of it. Their backward steps run before the carrier's and
//! leave the adjoints in the [`Exchange`]; the carrier's step then runs the sweep. An output that the loss does
//! not use leaves nothing, and nothing is copied or filled with zeros on the way.

use super::backward::{TapeInputs, backward};
use super::forward::{CallData, ForwardResult, forward};
use super::problem::{Inputs, Problem};
use super::readout::{Readout, pack};
use super::sweep::{OutputAdjoints, ReadoutAdjoint};
use super::tape::Tape;
use super::weights::{Parameters, all_finite};
use crate::error::{Result, SabError};
use crate::reminders::Reminders;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, NodeGuard, Ops, OpsKind};
use burn::backend::flex::FlexTensor;
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, DispatchTensor, Flex, TensorMetadata, backend_extension};
use burn::tensor::{DType, Tensor, TensorData};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use super::kernels::Kernels;
pub(crate) use super::problem::{Inputs as FusedInputs, Problem as FusedProblem};

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
    exchange: Arc<Exchange>,
}

/// What passes between the nodes of one call, and back to the caller.
#[derive(Debug, Default)]
pub(crate) struct Exchange(Mutex<Exchanged>);

#[derive(Debug, Default)]
struct Exchanged {
    hidden: Option<FlexTensor>,
    summary: Option<FlexTensor>,
    last_cell: Vec<f32>,
    reminders: Option<Reminders>,
    error: Option<SabError>,
    d_hidden: Option<FlexTensor>,
    d_summary: Option<FlexTensor>,
    readouts: Vec<LinkedAdjoint>,
}

/// A readout's derivative on its way to the sweep.
#[derive(Debug)]
struct LinkedAdjoint {
    d_y: FlexTensor,
    v1: FlexTensor,
    v2: FlexTensor,
    last_step: bool,
}

/// What a readout needs to read a call's outputs directly, so that its derivative reaches the sweep as it is.
#[derive(Clone, Debug)]
pub(crate) struct OutputLink {
    carrier: DispatchTensor,
    exchange: Arc<Exchange>,
    /// `[batch, time, hidden]` twice.
    hidden: FlexTensor,
    summary: FlexTensor,
    /// Whether there are summaries at all; a plain LSTM's are zero (R6).
    attends: bool,
}

/// A readout of a call's outputs.
#[derive(Clone, Debug)]
pub(crate) struct LinkedRead {
    exchange: Arc<Exchange>,
    hidden: FlexTensor,
    /// `None`: all zero.
    summary: Option<FlexTensor>,
    last_step: bool,
}

impl Exchange {
    fn lock(&self) -> MutexGuard<'_, Exchanged> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which output of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Output {
    Hidden,
    Summary,
}

impl Output {
    fn value(self, exchange: &Exchange) -> FlexTensor {
        let mut exchanged = exchange.lock();
        let value = match self {
            Output::Hidden => exchanged.hidden.take(),
            Output::Summary => exchanged.summary.take(),
        };
        // Empty only after an error, which the caller reports instead of using the outputs.
        value.unwrap_or_else(carrier)
    }

    fn set_adjoint(self, exchange: &Exchange, adjoint: FlexTensor) {
        let mut exchanged = exchange.lock();
        match self {
            Output::Hidden => exchanged.d_hidden = Some(adjoint),
            Output::Summary => exchanged.d_summary = Some(adjoint),
        }
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

/// The first NaN or infinity among what comes in.
fn check_operands(operands: &Operands, problem: &Problem) -> Result<()> {
    if let Some(what) = parameters(operands).non_finite() {
        return Err(SabError::NonFinite { what, place: String::new() });
    }
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
    if let Err(error) = check_operands(operands, problem) {
        call.exchange.lock().error = Some(error);
        return None;
    }
    let carried = call.carried.as_ref();
    let data = CallData {
        dense: dense(operands, problem),
        hidden: carried.map_or(&[], |carried| floats(&carried.hidden)),
        cell: carried.map_or(&[], |carried| floats(&carried.cell)),
        memory: carried.map_or(&[], |carried| floats(&carried.memory)),
    };
    let ForwardResult { hidden: states, summary, last_cell, reminders, tape } =
        forward(call.problem.clone(), &parameters(operands), data);
    let mut exchanged = call.exchange.lock();
    // A NaN in a row's state stays in it to the end, so the last one tells.
    let last = |row: usize| &states[(row * time + time - 1) * hidden..][..hidden];
    if let Some(row) = (0..batch).find(|row| !all_finite(last(*row))) {
        let place = format!(" in row {row}: the products overflowed");
        exchanged.error = Some(SabError::NonFinite { what: "hidden", place });
        return None;
    }
    let states = tensor(states, vec![batch, time, hidden]);
    exchanged.hidden = Some(states.clone());
    exchanged.summary = Some(if summary.is_empty() {
        zeros(vec![batch, time, hidden])
    } else {
        tensor(summary, vec![batch, time, hidden])
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
        run_readout(&[hidden, summary, v1, v2, bias].map(|operand| operand.to_contiguous()))
    }

    fn sab_linked_readout(
        _: FlexTensor, v1: FlexTensor, v2: FlexTensor, bias: FlexTensor, read: LinkedRead,
    ) -> FlexTensor {
        run_readout(&linked_operands(&read, [v1, v2, bias]))
    }
}

/// The rows that a linked readout sees: all steps of all rows, or the last step of each.
fn linked_operands(read: &LinkedRead, [v1, v2, bias]: [FlexTensor; 3]) -> ReadoutOperands {
    let [batch, time, hidden] = [0, 1, 2].map(|i| read.hidden.shape()[i]);
    let rows = |states: &FlexTensor| match read.last_step {
        true => {
            let last = floats(states).chunks_exact(time * hidden).flat_map(|row| &row[(time - 1) * hidden..]);
            tensor(last.copied().collect(), vec![batch, hidden])
        }
        false => states.reshape(vec![batch * time, hidden].into()),
    };
    let summary = read.summary.as_ref().map_or_else(|| tensor(Vec::new(), vec![0, hidden]), rows);
    [rows(&read.hidden), summary, v1, v2, bias].map(|operand| operand.to_contiguous())
}

#[derive(Debug)]
struct LinkedReadoutBackward;

impl Backward<Flex, 4> for LinkedReadoutBackward {
    type State = (ReadoutOperands, LinkedRead);

    fn backward(self, ops: Ops<Self::State, 4>, grads: &mut Gradients, _: &mut Checkpointer) {
        let d_y = grads.consume::<Flex>(&ops.node).to_contiguous();
        let (operands, read) = &ops.state;
        let result = readout(operands).backward(floats(&operands[0]), floats(&operands[1]), floats(&d_y), [false; 2]);
        let [carrier_node, v1, v2, bias] = ops.parents;
        if let Some(parent) = carrier_node {
            let (v1, v2, last_step) = (operands[2].clone(), operands[3].clone(), read.last_step);
            read.exchange.lock().readouts.push(LinkedAdjoint { d_y, v1, v2, last_step });
            grads.register::<Flex>(parent.id, carrier());
        }
        for ((parent, gradient), operand) in
            [v1, v2, bias].into_iter().zip([result.v1, result.v2, result.bias]).zip(&operands[2..])
        {
            if let Some(parent) = parent {
                grads.register::<Flex>(parent.id, tensor(gradient, operand.shape().to_vec()));
            }
        }
    }
}

/// Hidden states, summaries, V1, V2 and bias.
type ReadoutOperands = [FlexTensor; 5];

fn readout(operands: &ReadoutOperands) -> Readout<'_> {
    let [hidden, _, v1, v2, bias] = operands;
    Readout {
        rows: hidden.shape()[0],
        hidden: hidden.shape()[1],
        output: bias.shape()[0],
        v1: floats(v1),
        v2: floats(v2),
        threads: crate::options::ForwardOptions::new().thread_count(),
        kernels: Kernels::detect(),
    }
}

fn run_readout(operands: &ReadoutOperands) -> FlexTensor {
    let readout = readout(operands);
    let y = readout.forward(floats(&operands[0]), floats(&operands[1]), floats(&operands[4]));
    tensor(y, vec![readout.rows, readout.output])
}

#[derive(Debug)]
struct ReadoutBackward;

impl Backward<Flex, 5> for ReadoutBackward {
    type State = ReadoutOperands;

    fn backward(self, ops: Ops<ReadoutOperands, 5>, grads: &mut Gradients, _: &mut Checkpointer) {
        let d_y = grads.consume::<Flex>(&ops.node).to_contiguous();
        let operands = &ops.state;
        let wanted = [ops.parents[0].is_some(), ops.parents[1].is_some()];
        let result = readout(operands).backward(floats(&operands[0]), floats(&operands[1]), floats(&d_y), wanted);
        let gradients = [result.hidden, result.summary, Some(result.v1), Some(result.v2), Some(result.bias)];
        for ((parent, gradient), operand) in ops.parents.into_iter().zip(gradients).zip(operands) {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                grads.register::<Flex>(parent.id, tensor(gradient, operand.shape().to_vec()));
            }
        }
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

fn readout_adjoint(linked: &LinkedAdjoint) -> ReadoutAdjoint<'_> {
    let [hidden, output] = [linked.v1.shape()[0], linked.v1.shape()[1]];
    let transposed = |v: &FlexTensor| {
        let v = floats(v);
        pack(output, hidden, |class, unit| v[unit * output + class])
    };
    let (v1, v2) = (transposed(&linked.v1), transposed(&linked.v2));
    ReadoutAdjoint { d_y: floats(&linked.d_y), output, last_step: linked.last_step, v1, v2 }
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
        let y = run_readout(&operands);
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
        let y = run_readout(&operands);
        match LinkedReadoutBackward.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prepared) => prepared.finish((operands, read), y),
            OpsKind::UnTracked(prepared) => prepared.finish(y),
        }
    }
}

impl OutputLink {
    /// Whether a tensor is one of the outputs as the call made it.
    fn same(output: &FlexTensor, tensor: &Tensor<3>) -> bool {
        let primitive = tensor.clone().inner().try_into_primitive::<Flex>();
        primitive.is_ok_and(|primitive| {
            Arc::ptr_eq(&primitive.data_arc(), &output.data_arc()) && primitive.layout() == output.layout()
        })
    }

    /// Whether these are the outputs as the call made them, not something computed from them since.
    pub(crate) fn still_holds(&self, hidden: &Tensor<3>, summary: &Tensor<3>) -> bool {
        Self::same(&self.hidden, hidden) && Self::same(&self.summary, summary)
    }

    /// The readout of all steps, `[batch * time, output]`, or of the last ones, `[batch, output]`.
    pub(crate) fn read(&self, v1: Tensor<2>, v2: Tensor<2>, bias: Tensor<1>, last_step: bool) -> Tensor<2> {
        let (exchange, hidden) = (self.exchange.clone(), self.hidden.clone());
        let summary = self.attends.then(|| self.summary.clone());
        Tensor::from_dispatch(Dispatch::sab_linked_readout(
            self.carrier.clone(),
            v1.into_dispatch(),
            v2.into_dispatch(),
            bias.into_dispatch(),
            LinkedRead { exchange, hidden, summary, last_step },
        ))
    }
}

/// The readout on Burn tensors of type `f32` on a Flex device, shapes checked by the caller.
pub(crate) fn readout_rows(
    hidden: Tensor<2>, summary: Tensor<2>, v1: Tensor<2>, v2: Tensor<2>, bias: Tensor<1>,
) -> Tensor<2> {
    Tensor::from_dispatch(Dispatch::sab_readout(
        hidden.into_dispatch(),
        summary.into_dispatch(),
        v1.into_dispatch(),
        v2.into_dispatch(),
        bias.into_dispatch(),
    ))
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
) -> Result<FusedOutput> {
    let exchange = Arc::new(Exchange::default());
    let (batch, hidden, attends) = (problem.batch, problem.hidden, problem.rules.attends());
    let call = Call { problem, carried, exchange: exchange.clone() };
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
        let link = OutputLink { carrier: carrier.clone(), exchange: exchange.clone(), hidden, summary, attends };
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
