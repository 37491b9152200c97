//! The operations that Burn dispatches to, with and without autodiff.

use super::exchange::{Exchange, Output};
use super::loss::{self, Answers, CrossEntropyBackward};
use super::readout::{LinkedRead, LinkedReadoutBackward, ReadoutBackward, all_cores, linked_operands, run_readout};
use super::sequence::{OPERANDS, Operands, OutputBackward, SequenceBackward, SequenceCall, SequenceState, run};
use super::tensors::carrier;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::ops::{Backward, NodeGuard, OpsKind};
use burn::backend::flex::FlexTensor;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Flex, backend_extension};
use std::sync::{Arc, Mutex};

/// The operations that Burn dispatches to.
#[backend_extension(Autodiff, Flex)]
pub(crate) trait SabBackend: Backend {
    /// Runs a sequence. The first operands are the parameters in the engine's order. `input` is `[batch, time, input]`;
    /// it is ignored if the inputs are tokens.
    #[allow(clippy::too_many_arguments)]
    fn sab_sequence(
        p0: FloatTensor<Self>, p1: FloatTensor<Self>, p2: FloatTensor<Self>, p3: FloatTensor<Self>,
        p4: FloatTensor<Self>, p5: FloatTensor<Self>, input: FloatTensor<Self>, call: SequenceCall,
    ) -> FloatTensor<Self>;

    /// One of the outputs of the sequence that `carrier` represents.
    fn sab_output(carrier: FloatTensor<Self>, exchange: Arc<Exchange>, output: Output) -> FloatTensor<Self>;

    /// `V1 h + V2 s + b`, `[rows, output]`, from h and s, `[rows, hidden]` each (R8).
    fn sab_readout(
        hidden: FloatTensor<Self>, summary: FloatTensor<Self>, v1: FloatTensor<Self>, v2: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> FloatTensor<Self>;

    /// The same for the outputs of the sequence that `carrier` represents.
    fn sab_linked_readout(
        carrier: FloatTensor<Self>, v1: FloatTensor<Self>, v2: FloatTensor<Self>, bias: FloatTensor<Self>,
        read: LinkedRead,
    ) -> FloatTensor<Self>;

    /// The cross-entropy of `[rows, classes]`, `[1]`.
    fn sab_cross_entropy(scores: FloatTensor<Self>, answers: Answers) -> FloatTensor<Self>;
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
