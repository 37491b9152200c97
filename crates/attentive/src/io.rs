//! The inputs and outputs of a layer, for sequences and single steps.

use crate::drift::DriftReport;
use crate::state::SabState;
use attentive_engine::Reminders;
use burn::tensor::{Int, Tensor};

/// The input of a sequence: dense vectors or tokens.
#[derive(Clone, Debug)]
pub enum SabInput {
    /// `[batch, time, input]`
    Dense(Tensor<3>),
    /// `[batch, time]`. Each token is a number below `input` and selects a row of the input weights.
    Tokens(Tensor<2, Int>),
}

impl From<Tensor<3>> for SabInput {
    fn from(dense: Tensor<3>) -> Self {
        SabInput::Dense(dense)
    }
}

impl From<Tensor<2, Int>> for SabInput {
    fn from(tokens: Tensor<2, Int>) -> Self {
        SabInput::Tokens(tokens)
    }
}

/// The input of one step of a stream.
#[derive(Clone, Debug)]
pub enum SabStepInput {
    /// `[batch, input]`
    Dense(Tensor<2>),
    /// `[batch]`
    Tokens(Tensor<1, Int>),
}

impl From<Tensor<2>> for SabStepInput {
    fn from(dense: Tensor<2>) -> Self {
        SabStepInput::Dense(dense)
    }
}

impl From<Tensor<1, Int>> for SabStepInput {
    fn from(tokens: Tensor<1, Int>) -> Self {
        SabStepInput::Tokens(tokens)
    }
}

/// The output of [`SabLstm::forward`](crate::SabLstm::forward).
#[derive(Clone, Debug)]
pub struct SabOutput {
    /// `h(t)` of every step, `[batch, time, hidden]` (R7).
    pub hidden: Tensor<3>,
    /// `s(t)` of every step, `[batch, time, hidden]` (R7).
    pub summary: Tensor<3>,
    /// The state for the next call.
    pub state: SabState,
    /// The reminders of each step, if [`ForwardOptions::with_reminders`](crate::ForwardOptions::with_reminders)
    /// requested them and the layer uses attention.
    pub reminders: Option<Reminders>,
    /// After the backward pass: how far replayed memories of earlier calls have drifted (R21).
    pub drift: DriftReport,
    #[cfg(feature = "flex")]
    pub(crate) link: Option<crate::engine::OutputLink>,
}

/// The output of [`SabLstm::step`](crate::SabLstm::step).
#[derive(Clone, Debug)]
pub struct SabStepOutput {
    /// `h(t)`, `[batch, hidden]`.
    pub hidden: Tensor<2>,
    /// `s(t)`, `[batch, hidden]`.
    pub summary: Tensor<2>,
    /// The state for the next step.
    pub state: SabState,
    /// The reminders of the step, if they were requested.
    pub reminders: Option<Reminders>,
}
