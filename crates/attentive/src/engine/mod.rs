//! The engine as an operation of Burn's CPU backend (Flex), with and without autodiff.
//!
//! The operation has two large outputs but a node of Burn's graph has one. How adjoints travel beside the graph is told in
//! [`exchange`].

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

use crate::error::{Result, SabError};
use crate::parameters::{Value, Weights};
use crate::state::SabState;
use attentive_engine::{
    Call, CallData, Forward, Inputs, OutputAdjoints, PackedWeights, Reminders, RowEnd, Tape, TapeInputs, backward,
    forward,
};
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, NodeGuard, Ops, OpsKind};
use burn::backend::flex::FlexTensor;
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, DispatchTensor, Flex, TensorMetadata, backend_extension};
use burn::tensor::{DType, Tensor, TensorData};
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use loss::cross_entropy;
pub(crate) use readout::{OutputLink, readout_rows};

/// The state carried into a call, `[batch, hidden]` twice and `[batch, slots, hidden]`.
#[derive(Clone, Debug)]
pub(crate) struct Carried {
    hidden: FlexTensor,
    cell: Option<FlexTensor>,
    memory: FlexTensor,
}

impl Carried {
    /// The tensors of a state; `None` for one that is fresh, which the engine knows to be zero.
    pub(crate) fn of(state: &SabState) -> Result<Option<Self>> {
        if state.is_fresh() {
            return Ok(None);
        }
        Ok(Some(Self {
            hidden: carried_primitive("hidden", state.hidden())?,
            cell: state.cell().map(|cell| carried_primitive("cell", cell)).transpose()?,
            memory: carried_primitive("memory", state.memory())?,
        }))
    }
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

/// One call of the operation.
#[derive(Clone, Debug)]
pub(crate) struct SequenceCall {
    call: Call,
    /// How many of the operands are parameters.
    parameters: usize,
    carried: Option<Carried>,
    prepared: Arc<PreparedWeights>,
    exchange: Arc<Exchange>,
}

/// Parameters for which the operation has places: a cell has three, a scorer at most three.
const MOST_PARAMETERS: usize = 6;
const OPERANDS: usize = MOST_PARAMETERS + 1;

/// Parameters in the order of the engine's declaration, something empty behind them, and the input last; contiguous.
#[derive(Clone, Debug)]
struct Operands {
    tensors: [FlexTensor; OPERANDS],
    parameters: usize,
}

impl Operands {
    fn parameters(&self) -> Vec<&[f32]> {
        self.tensors[..self.parameters].iter().map(floats).collect()
    }

    /// `[batch, time, input]`, empty for tokens.
    fn dense(&self, dense: bool) -> &[f32] {
        if dense { floats(&self.tensors[MOST_PARAMETERS]) } else { &[] }
    }
}

/// The packed weights of the last call without autodiff: a stream of steps packs them once.
///
/// They belong to tensors, not to values: as long as the tensors are held here nobody writes them (Burn copies what is
/// shared before it writes), so the same memory means the same values.
#[derive(Debug, Default)]
pub(crate) struct PreparedWeights(Mutex<Option<(Vec<FlexTensor>, Arc<PackedWeights>)>>);

impl PreparedWeights {
    /// The packed weights of these operands, or an error if one holds a NaN or an infinity.
    fn of(&self, operands: &Operands, call: &Call) -> Result<Arc<PackedWeights>> {
        let parameters = &operands.tensors[..operands.parameters];
        let same_memory =
            |a: &FlexTensor, b: &FlexTensor| Arc::ptr_eq(&a.data_arc(), &b.data_arc()) && a.layout() == b.layout();
        let same = |held: &[FlexTensor]| {
            held.len() == parameters.len() && held.iter().zip(parameters).all(|(a, b)| same_memory(a, b))
        };
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |weights: &PackedWeights| weights.fits(&call.model, &call.inputs);
        if let Some((_, weights)) = last.as_ref().filter(|(held, weights)| same(held) && fits(weights)) {
            return Ok(weights.clone());
        }
        let dense = matches!(call.inputs, Inputs::Dense);
        let weights = Arc::new(PackedWeights::new(&call.model, &operands.parameters(), dense, call.threads)?);
        // Holding them while they are trained would make every update copy them.
        *last = (!call.tracked).then(|| (parameters.to_vec(), weights.clone()));
        Ok(weights)
    }
}

/// The operations that Burn dispatches to.
#[backend_extension(Autodiff, Flex)]
pub(crate) trait SabBackend: Backend {
    /// Runs a sequence. The first operands are the parameters in the engine's order; `input` is `[batch, time, input]`, or
    /// anything if the inputs are tokens.
    #[allow(clippy::too_many_arguments)]
    fn sab_sequence(
        p0: FloatTensor<Self>, p1: FloatTensor<Self>, p2: FloatTensor<Self>, p3: FloatTensor<Self>,
        p4: FloatTensor<Self>, p5: FloatTensor<Self>, input: FloatTensor<Self>, call: SequenceCall,
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

/// Zeros of any shape in the memory of one: the summaries of a layer without attention.
fn zeros(shape: Vec<usize>) -> FlexTensor {
    Flex::float_expand(tensor(vec![0.0], vec![1; shape.len()]), shape.into())
}

/// The floats of a contiguous tensor. The layer checks types beforehand; anything else is an empty slice, which the engine
/// refuses.
fn floats(tensor: &FlexTensor) -> &[f32] {
    tensor.as_slice::<f32>().unwrap_or_default()
}

/// What stands for numbers that the engine refused to compute where Burn has no way to hand on an error. The layer checks
/// everything beforehand, so this does not happen; if it did, a NaN would show and a zero would not.
fn lost(len: usize) -> Vec<f32> {
    vec![f32::NAN; len]
}

/// Runs the forward pass; leaves the outputs (or an error) in the exchange and returns what backward needs.
fn run(operands: &Operands, sequence: SequenceCall, tracked: bool) -> Option<(Tape, FlexTensor)> {
    let SequenceCall { mut call, carried, prepared, exchange, .. } = sequence;
    call.tracked = tracked;
    let shape = vec![call.rows.len(), call.time, call.model.hidden];
    let carried = carried.as_ref();
    let data = CallData {
        dense: operands.dense(matches!(call.inputs, Inputs::Dense)),
        hidden: carried.map_or(&[], |carried| floats(&carried.hidden)),
        cell: carried.and_then(|carried| carried.cell.as_ref()).map_or(&[], floats),
        memory: carried.map_or(&[], |carried| floats(&carried.memory)),
    };
    let result = prepared.of(operands, &call).and_then(|weights| Ok(forward(call, weights, data)?));
    let mut exchanged = exchange.lock();
    let Forward { hidden, summary, last_cell, rows, reminders, tape } = match result {
        Ok(result) => result,
        Err(error) => {
            exchanged.error = Some(error);
            return None;
        }
    };
    let hidden = pooled(hidden, shape.clone());
    exchanged.hidden = Some(hidden.clone());
    exchanged.summary = Some(if summary.as_slice().is_empty() { zeros(shape) } else { pooled(summary, shape) });
    (exchanged.last_cell, exchanged.rows, exchanged.reminders) = (last_cell, rows, reminders);
    Some((tape, hidden))
}

impl SabBackend for Flex {
    fn sab_sequence(
        p0: FlexTensor, p1: FlexTensor, p2: FlexTensor, p3: FlexTensor, p4: FlexTensor, p5: FlexTensor,
        input: FlexTensor, call: SequenceCall,
    ) -> FlexTensor {
        let tensors = [p0, p1, p2, p3, p4, p5, input].map(|tensor| tensor.to_contiguous());
        run(&Operands { tensors, parameters: call.parameters }, call, false);
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

impl Backward<Flex, OPERANDS> for SequenceBackward {
    type State = SequenceState;

    fn backward(self, ops: Ops<SequenceState, OPERANDS>, grads: &mut Gradients, _: &mut Checkpointer) {
        let SequenceState { operands, hidden, tape, exchange } = ops.state;
        let (d_hidden, d_summary, readouts) = exchange.take_adjoints();
        let Some(tape) = tape.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        let outputs = OutputAdjoints {
            hidden: d_hidden.as_ref().map(floats),
            summary: d_summary.as_ref().map(floats),
            readouts: readouts.iter().map(readout_adjoint).collect(),
        };
        let inputs = TapeInputs { dense: operands.dense(tape.is_dense()), hidden: floats(&hidden) };
        let wanted = ops.parents[MOST_PARAMETERS].is_some();
        let mut gradients = match backward(&tape, &operands.parameters(), inputs, outputs, wanted) {
            Ok(result) => {
                let unused = MOST_PARAMETERS - operands.parameters;
                let parameters = result.parameters.into_iter().map(Some).chain(std::iter::repeat_n(None, unused));
                parameters.chain([result.input]).collect()
            }
            Err(_) => Vec::new(),
        }
        .into_iter();
        for (parent, operand) in ops.parents.into_iter().zip(&operands.tensors) {
            let gradient = gradients.next().unwrap_or_else(|| Some(lost(operand.shape().num_elements())));
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
        p0: FloatTensor<Self>, p1: FloatTensor<Self>, p2: FloatTensor<Self>, p3: FloatTensor<Self>,
        p4: FloatTensor<Self>, p5: FloatTensor<Self>, input: FloatTensor<Self>, call: SequenceCall,
    ) -> FloatTensor<Self> {
        let tensors = [p0, p1, p2, p3, p4, p5, input];
        let nodes: [NodeGuard; OPERANDS] = tensors.each_ref().map(|tensor| tensor.node());
        let tensors = tensors.map(|tensor| tensor.into_primitive().to_contiguous());
        let (operands, exchange) = (Operands { tensors, parameters: call.parameters }, call.exchange.clone());
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
    /// `[batch, hidden]`, without autodiff; `None` for a cell that carries none.
    pub(crate) last_cell: Option<Tensor<2>>,
    /// What each row remembers.
    pub(crate) rows: Vec<RowEnd>,
    pub(crate) reminders: Option<Reminders>,
    pub(crate) link: OutputLink,
}

/// Runs the operation on Burn tensors of type `f32` on a Flex device.
pub(crate) fn sequence(
    weights: Weights, input: Option<Tensor<3>>, call: Call, carried: Option<Carried>, prepared: Arc<PreparedWeights>,
) -> Result<FusedOutput> {
    let exchange = Arc::new(Exchange::default());
    let (batch, hidden, attends, threads) = (call.rows.len(), call.model.hidden, call.model.attends(), call.threads);
    let nothing = || Tensor::<1>::from_primitive::<Flex>(carrier()).into_dispatch();
    let parameters = weights.values.len();
    let mut operands: Vec<DispatchTensor> = weights
        .values
        .into_iter()
        .map(|value| match value {
            Value::Matrix(value) => value.into_dispatch(),
            Value::Vector(value) => value.into_dispatch(),
        })
        .collect();
    operands.resize_with(MOST_PARAMETERS, nothing);
    let Ok([p0, p1, p2, p3, p4, p5]) = <[DispatchTensor; MOST_PARAMETERS]>::try_from(operands) else {
        return Err(SabError::NoFusedPath(format!(
            "{parameters} parameters, and the operation takes {MOST_PARAMETERS}"
        )));
    };
    let input = input.map_or_else(nothing, |input| input.into_dispatch());
    let call = SequenceCall { call, parameters, carried, prepared, exchange: exchange.clone() };
    let carrier = Dispatch::sab_sequence(p0, p1, p2, p3, p4, p5, input, call);
    let (last_cell, rows, reminders, link) = {
        let mut exchanged = exchange.lock();
        if let Some(error) = exchanged.error.take() {
            return Err(error);
        }
        let outputs = (exchanged.hidden.clone(), exchanged.summary.clone());
        let (Some(hidden), Some(summary)) = outputs else {
            return Err(SabError::NoFusedPath("the operation returned nothing".into()));
        };
        let link = OutputLink::new(carrier.clone(), exchange.clone(), [hidden, summary], attends, threads);
        let (last_cell, rows) = (std::mem::take(&mut exchanged.last_cell), std::mem::take(&mut exchanged.rows));
        (last_cell, rows, exchanged.reminders.take(), link)
    };
    let hidden_states = Dispatch::sab_output(carrier.clone(), exchange.clone(), Output::Hidden);
    let summary = Dispatch::sab_output(carrier, exchange, Output::Summary);
    let cell = |values: Vec<f32>| Tensor::from_primitive::<Flex>(tensor(values, vec![batch, hidden]));
    Ok(FusedOutput {
        hidden: Tensor::from_dispatch(hidden_states),
        summary: Tensor::from_dispatch(summary),
        last_cell: (!last_cell.is_empty()).then(|| cell(last_cell)),
        rows,
        reminders,
        link,
    })
}
