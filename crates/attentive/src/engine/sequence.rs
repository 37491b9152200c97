//! A whole sequence as an operation: its operands, the call of the engine, and the backward steps of its nodes.

use super::carried::Carried;
use super::exchange::{Exchange, Output};
use super::pooled::pooled;
use super::readout::readout_adjoint;
use super::tensors::{carrier, floats, lost, tensor, zeros};
use crate::error::Result;
use attentive_engine::{Call, Forward, Inputs, OutputAdjoints, PackedWeights, Tape, TapeInputs, backward, forward};
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, TensorMetadata};
use std::sync::{Arc, Mutex, PoisonError};

/// One call of the operation.
#[derive(Clone, Debug)]
pub(crate) struct SequenceCall {
    pub(super) call: Call,
    /// The number of operands that are parameters.
    pub(super) parameters: usize,
    pub(super) prepared: Arc<PreparedWeights>,
    pub(super) exchange: Arc<Exchange>,
}

/// The largest number of parameters: a cell has three, a scorer at most three.
pub(super) const MOST_PARAMETERS: usize = 6;
pub(super) const OPERANDS: usize = MOST_PARAMETERS + 1;

/// Contiguous tensors: the parameters in the order of the engine's declaration, then unused ones, and the input last.
#[derive(Clone, Debug)]
pub(super) struct Operands {
    pub(super) tensors: [FlexTensor; OPERANDS],
    pub(super) parameters: usize,
}

impl Operands {
    fn parameters(&self) -> Vec<&[f32]> {
        self.tensors[..self.parameters].iter().map(floats).collect()
    }

    /// The dense input, `[batch, time, input]`; empty for tokens.
    fn dense(&self, dense: bool) -> &[f32] {
        if dense { floats(&self.tensors[MOST_PARAMETERS]) } else { &[] }
    }
}

/// The packed weights of the last call without autodiff, so that a stream of steps packs them once.
///
/// They are identified by the memory of the tensors, not by the values. While the tensors are held here, nobody writes
/// to them, because Burn copies a shared tensor before writing. So the same memory means the same values.
#[derive(Debug, Default)]
pub(crate) struct PreparedWeights(Mutex<Option<(Vec<FlexTensor>, Arc<PackedWeights>)>>);

impl PreparedWeights {
    /// The packed weights of these operands, or an error if one contains a NaN or an infinity.
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
        // Holding the tensors during training would force a copy at every update.
        *last = (!call.tracked).then(|| (parameters.to_vec(), weights.clone()));
        Ok(weights)
    }
}

/// Runs the forward pass. Leaves the outputs, or an error, in the exchange, and returns the values that backward needs.
pub(super) fn run(operands: &Operands, sequence: SequenceCall, tracked: bool) -> Option<(Tape, FlexTensor)> {
    let SequenceCall { mut call, prepared, exchange, .. } = sequence;
    call.tracked = tracked;
    let mut exchanged = exchange.lock();
    let state = exchanged.state.take()?;
    let shape = vec![state.rows().len(), call.time, call.model.hidden];
    let dense = operands.dense(matches!(call.inputs, Inputs::Dense));
    let result = prepared.of(operands, &call).and_then(|weights| {
        let Forward { hidden, summary, state, reminders, tape } = forward(call, state.settled()?, weights, dense)?;
        let hidden = pooled(hidden, shape.clone());
        let state = Carried::after(state, hidden.clone(), tracked)?;
        Ok((hidden, summary, state, reminders, tape))
    });
    match result {
        Ok((hidden, summary, state, reminders, tape)) => {
            exchanged.hidden = Some(hidden.clone());
            exchanged.summary = Some(if summary.as_slice().is_empty() { zeros(shape) } else { pooled(summary, shape) });
            (exchanged.state, exchanged.reminders) = (Some(state), reminders);
            Some((tape, hidden))
        }
        Err(error) => {
            exchanged.error = Some(error);
            None
        }
    }
}

/// The values that the sweep needs besides the adjoints of the outputs. Burn requires `Clone`; the tape is used only
/// once.
#[derive(Clone, Debug)]
pub(super) struct SequenceState {
    pub(super) operands: Operands,
    pub(super) hidden: FlexTensor,
    pub(super) tape: Arc<Mutex<Option<Tape>>>,
    pub(super) exchange: Arc<Exchange>,
}

#[derive(Debug)]
pub(super) struct SequenceBackward;

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
                exchange.lock().drift.set(result.drift);
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
pub(super) struct OutputBackward;

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
