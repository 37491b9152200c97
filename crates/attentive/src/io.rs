//! What goes into a layer and what comes out: sequences and single steps.

use crate::state::SabState;
use attentive_engine::Reminders;
use burn::tensor::{Int, Tensor};

/// What a sequence is: dense vectors or tokens.
#[derive(Clone, Debug)]
pub enum SabInput {
    /// `[batch, time, input]`
    Dense(Tensor<3>),
    /// `[batch, time]`, each a number below `input`: a row of the input weights.
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

/// What one step of a stream is.
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

/// What [`SabLstm::forward`](crate::SabLstm::forward) returns.
#[derive(Clone, Debug)]
pub struct SabOutput {
    /// `h(t)` of every step, `[batch, time, hidden]` (R7).
    pub hidden: Tensor<3>,
    /// `s(t)` of every step, `[batch, time, hidden]` (R7).
    pub summary: Tensor<3>,
    /// What the next call goes on from.
    pub state: SabState,
    /// What each step was reminded of, if [`ForwardOptions::with_reminders`](crate::ForwardOptions::with_reminders) asked for it and the layer attends.
    pub reminders: Option<Reminders>,
    #[cfg(feature = "flex")]
    pub(crate) link: Option<crate::engine::OutputLink>,
}

/// What [`SabLstm::step`](crate::SabLstm::step) returns.
#[derive(Clone, Debug)]
pub struct SabStepOutput {
    /// `h(t)`, `[batch, hidden]`.
    pub hidden: Tensor<2>,
    /// `s(t)`, `[batch, hidden]`.
    pub summary: Tensor<2>,
    /// What the next step goes on from.
    pub state: SabState,
    /// What the step was reminded of, if it was asked for.
    pub reminders: Option<Reminders>,
}
