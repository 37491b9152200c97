//! The engine as an operation of Burn's CPU backend (Flex), with and without autodiff.
//!
//! This file has the entry points on Burn tensors. The operation has two large outputs, but a node of Burn's graph has
//! one: [`exchange`] explains how adjoints travel beside the graph.

mod backend;
mod carried;
mod exchange;
mod loss;
mod pooled;
mod readout;
mod sequence;
mod tensors;

use crate::drift::DriftReport;
use crate::error::{Result, SabError};
use crate::parameters::{Value, Weights};
use attentive_engine::{Call, Reminders};
use backend::SabBackend;
use burn::backend::{Dispatch, DispatchTensor, Flex};
use burn::tensor::Tensor;
use exchange::{Exchange, Output};
use loss::Answers;
use readout::LinkedRead;
use sequence::{MOST_PARAMETERS, SequenceCall};
use std::sync::Arc;
use tensors::carrier;

pub(crate) use carried::Carried;
pub(crate) use readout::OutputLink;
pub(crate) use sequence::PreparedWeights;

/// The result of a call of the operation.
pub(crate) struct FusedOutput {
    /// `[batch, time, hidden]`
    pub(crate) hidden: Tensor<3>,
    /// `[batch, time, hidden]`
    pub(crate) summary: Tensor<3>,
    /// The state for the next call.
    pub(crate) state: Carried,
    pub(crate) reminders: Option<Reminders>,
    pub(crate) drift: DriftReport,
    pub(crate) link: OutputLink,
}

/// Runs the operation on Burn tensors of type `f32` on a Flex device.
pub(crate) fn sequence(
    weights: Weights, input: Option<Tensor<3>>, call: Call, state: Carried, prepared: Arc<PreparedWeights>,
) -> Result<FusedOutput> {
    let exchange = Arc::new(Exchange::new(state));
    let (attends, threads) = (call.model.attends(), call.threads);
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
            "the model has {parameters} parameters, but the operation takes at most {MOST_PARAMETERS}"
        )));
    };
    let input = input.map_or_else(nothing, |input| input.into_dispatch());
    let call = SequenceCall { call, parameters, prepared, exchange: exchange.clone() };
    let carrier = Dispatch::sab_sequence(p0, p1, p2, p3, p4, p5, input, call);
    let (state, reminders, drift, link) = {
        let mut exchanged = exchange.lock();
        if let Some(error) = exchanged.error.take() {
            return Err(error);
        }
        let outputs = (exchanged.hidden.clone(), exchanged.summary.clone(), exchanged.state.take());
        let (Some(hidden), Some(summary), Some(state)) = outputs else {
            return Err(SabError::NoFusedPath("the operation returned nothing".into()));
        };
        let link = OutputLink::new(carrier.clone(), exchange.clone(), [hidden, summary], attends, threads);
        (state, exchanged.reminders.take(), exchanged.drift.clone(), link)
    };
    let hidden_states = Dispatch::sab_output(carrier.clone(), exchange.clone(), Output::Hidden);
    let summary = Dispatch::sab_output(carrier, exchange, Output::Summary);
    Ok(FusedOutput {
        hidden: Tensor::from_dispatch(hidden_states),
        summary: Tensor::from_dispatch(summary),
        state,
        reminders,
        drift,
        link,
    })
}

impl OutputLink {
    /// The readout of all steps, `[batch * time, output]`, or of the last step of each row, `[batch, output]`.
    pub(crate) fn read(&self, v1: Tensor<2>, v2: Tensor<2>, bias: Tensor<1>, last_step: bool) -> Tensor<2> {
        let (exchange, hidden) = (self.exchange.clone(), self.hidden.clone());
        let summary = self.attends.then(|| self.summary.clone());
        Tensor::from_dispatch(Dispatch::sab_linked_readout(
            self.carrier.clone(),
            v1.into_dispatch(),
            v2.into_dispatch(),
            bias.into_dispatch(),
            LinkedRead { exchange, hidden, summary, last_step, threads: self.threads },
        ))
    }
}

/// The readout of Burn tensors of type `f32` on a Flex device. The caller checks the shapes.
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

/// The loss of `[rows, classes]` of type `f32` on a Flex device. The caller checks shapes and classes.
pub(crate) fn cross_entropy(scores: Tensor<2>, classes: Vec<u32>, weights: Option<Tensor<1>>) -> Result<Tensor<1>> {
    let on_cpu = |weights: Tensor<1>| match weights.inner().try_into_primitive::<Flex>() {
        Ok(weights) => Ok(weights.to_contiguous()),
        Err(_) => Err(SabError::NoFusedPath("the weights are on another device than the scores".into())),
    };
    let answers = Answers { classes: Arc::new(classes), weights: weights.map(on_cpu).transpose()? };
    Ok(Tensor::from_dispatch(Dispatch::sab_cross_entropy(scores.into_dispatch(), answers)))
}
