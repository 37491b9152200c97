//! The readout (R8) as an operation, either on tensors or linked to the call whose outputs it reads.

use super::exchange::{Exchange, LinkedAdjoint};
use super::tensors::{carrier, floats, lost, tensor};
use crate::options::ForwardOptions;
use attentive_engine::{InstructionSet, Readout, ReadoutAdjoint};
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::backend::flex::FlexTensor;
use burn::backend::{DispatchTensor, Flex, TensorMetadata};
use burn::tensor::Tensor;
use std::sync::Arc;

/// A link to a call. It lets a readout read the call's outputs directly and pass its derivative straight to the sweep.
#[derive(Clone, Debug)]
pub(crate) struct OutputLink {
    pub(super) carrier: DispatchTensor,
    pub(super) exchange: Arc<Exchange>,
    /// Hidden states and summaries, `[batch, time, hidden]` each.
    pub(super) hidden: FlexTensor,
    pub(super) summary: FlexTensor,
    /// Whether there are summaries; those of a plain recurrent network are zero (R6).
    pub(super) attends: bool,
    /// The number of threads of the call.
    pub(super) threads: usize,
}

/// A readout of a call's outputs.
#[derive(Clone, Debug)]
pub(crate) struct LinkedRead {
    pub(super) exchange: Arc<Exchange>,
    pub(super) hidden: FlexTensor,
    /// `None` means all zero.
    pub(super) summary: Option<FlexTensor>,
    pub(super) last_step: bool,
    pub(super) threads: usize,
}

impl OutputLink {
    pub(super) fn new(
        carrier: DispatchTensor, exchange: Arc<Exchange>, [hidden, summary]: [FlexTensor; 2], attends: bool,
        threads: usize,
    ) -> Self {
        Self { carrier, exchange, hidden, summary, attends, threads }
    }

    /// Whether a tensor is an unchanged output of the call.
    fn same(output: &FlexTensor, tensor: &Tensor<3>) -> bool {
        let primitive = tensor.clone().inner().try_into_primitive::<Flex>();
        primitive.is_ok_and(|primitive| {
            Arc::ptr_eq(&primitive.data_arc(), &output.data_arc()) && primitive.layout() == output.layout()
        })
    }

    /// Whether these are the unchanged outputs of the call, not tensors computed from them.
    pub(crate) fn still_holds(&self, hidden: &Tensor<3>, summary: &Tensor<3>) -> bool {
        Self::same(&self.hidden, hidden) && Self::same(&self.summary, summary)
    }
}

/// A readout's derivative in the form that the sweep takes.
pub(super) fn readout_adjoint(linked: &LinkedAdjoint) -> ReadoutAdjoint<'_> {
    let [hidden, output] = [linked.v1.shape()[0], linked.v1.shape()[1]];
    ReadoutAdjoint::new(floats(&linked.d_y), [hidden, output], linked.last_step, floats(&linked.v1), floats(&linked.v2))
}

/// Hidden states, summaries, V1, V2 and bias.
pub(super) type ReadoutOperands = [FlexTensor; 5];

fn readout(operands: &ReadoutOperands, threads: usize) -> Readout<'_> {
    let [hidden, _, v1, v2, bias] = operands;
    Readout {
        rows: hidden.shape()[0],
        hidden: hidden.shape()[1],
        output: bias.shape()[0],
        v1: floats(v1),
        v2: floats(v2),
        threads,
        instructions: InstructionSet::Detect,
    }
}

/// The number of threads for a readout that is not linked to a call.
pub(super) fn all_cores() -> usize {
    ForwardOptions::new().thread_count()
}

pub(super) fn run_readout(operands: &ReadoutOperands, threads: usize) -> FlexTensor {
    let readout = readout(operands, threads);
    let y = readout.forward(floats(&operands[0]), floats(&operands[1]), floats(&operands[4]));
    let y = y.unwrap_or_else(|_| lost(readout.rows * readout.output));
    tensor(y, vec![readout.rows, readout.output])
}

#[derive(Debug)]
pub(super) struct ReadoutBackward;

impl Backward<Flex, 5> for ReadoutBackward {
    type State = ReadoutOperands;

    fn backward(self, ops: Ops<ReadoutOperands, 5>, grads: &mut Gradients, _: &mut Checkpointer) {
        let d_y = grads.consume::<Flex>(&ops.node).to_contiguous();
        let operands = &ops.state;
        let wanted = [ops.parents[0].is_some(), ops.parents[1].is_some()];
        let readout = readout(operands, all_cores());
        let result = readout.backward(floats(&operands[0]), floats(&operands[1]), floats(&d_y), wanted);
        let gradients = match result {
            Ok(result) => [result.hidden, result.summary, Some(result.v1), Some(result.v2), Some(result.bias)],
            Err(_) => operands.each_ref().map(|operand| Some(lost(operand.shape().num_elements()))),
        };
        for ((parent, gradient), operand) in ops.parents.into_iter().zip(gradients).zip(operands) {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                grads.register::<Flex>(parent.id, tensor(gradient, operand.shape().to_vec()));
            }
        }
    }
}

/// The operands of a linked readout. It reads all steps of all rows, or the last step of each row.
pub(super) fn linked_operands(read: &LinkedRead, [v1, v2, bias]: [FlexTensor; 3]) -> ReadoutOperands {
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
pub(super) struct LinkedReadoutBackward;

impl Backward<Flex, 4> for LinkedReadoutBackward {
    type State = (ReadoutOperands, LinkedRead);

    fn backward(self, ops: Ops<Self::State, 4>, grads: &mut Gradients, _: &mut Checkpointer) {
        let d_y = grads.consume::<Flex>(&ops.node).to_contiguous();
        let (operands, read) = &ops.state;
        let readout = readout(operands, read.threads);
        let result = readout.backward(floats(&operands[0]), floats(&operands[1]), floats(&d_y), [false; 2]);
        let [carrier_node, v1, v2, bias] = ops.parents;
        if let Some(parent) = carrier_node {
            let (v1, v2, last_step) = (operands[2].clone(), operands[3].clone(), read.last_step);
            read.exchange.lock().readouts.push(LinkedAdjoint { d_y, v1, v2, last_step });
            grads.register::<Flex>(parent.id, carrier());
        }
        let gradients = match result {
            Ok(result) => [result.v1, result.v2, result.bias],
            Err(_) => [2, 3, 4].map(|place| lost(operands[place].shape().num_elements())),
        };
        for ((parent, gradient), operand) in [v1, v2, bias].into_iter().zip(gradients).zip(&operands[2..]) {
            if let Some(parent) = parent {
                grads.register::<Flex>(parent.id, tensor(gradient, operand.shape().to_vec()));
            }
        }
    }
}
