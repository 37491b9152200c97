//! [`Exchange`]: values that the nodes of one call pass to each other outside Burn's graph.
//!
//! A call has two outputs of size `[batch, time, hidden]`, but a node of Burn's graph has only one. The call's node is
//! therefore a *carrier* of a single float, and the outputs are its children:
//!
//! ```text
//!  parameters, input ──> carrier ──┬──> hidden  ──> ...          forward: values are left in the Exchange
//!                                  ├──> summary ──> ...
//!                                  └──> linked readout ──> y
//!
//!  gradients <── carrier <──┬── hidden: d_hidden                 backward: adjoints are left in the Exchange,
//!                  sweep    ├── summary: d_summary               then the carrier's step runs the sweep
//!                           └── readout: d_y, V1, V2
//! ```
//!
//! Burn runs the backward steps of the children before that of the carrier. An output that the loss does not use leaves
//! no adjoint, and nothing is copied or filled with zeros on the way. A readout that is linked to the call leaves the
//! adjoint of its own few outputs, and the sweep turns it into the adjoints of h and s step by step.

use super::carried::Carried;
use super::tensors::carrier;
use crate::drift::DriftReport;
use crate::error::SabError;
use attentive_engine::Reminders;
use burn::backend::flex::FlexTensor;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The values that pass between the nodes of one call, and back to the caller.
#[derive(Debug)]
pub(crate) struct Exchange(Mutex<Exchanged>);

#[derive(Debug, Default)]
pub(super) struct Exchanged {
    pub(super) hidden: Option<FlexTensor>,
    pub(super) summary: Option<FlexTensor>,
    /// The state before the call, then the one after it.
    pub(super) state: Option<Carried>,
    pub(super) reminders: Option<Reminders>,
    /// Left by the sweep for the caller (R21).
    pub(super) drift: DriftReport,
    pub(super) error: Option<SabError>,
    pub(super) d_hidden: Option<FlexTensor>,
    pub(super) d_summary: Option<FlexTensor>,
    pub(super) readouts: Vec<LinkedAdjoint>,
}

/// A readout's derivative on its way to the sweep.
#[derive(Debug)]
pub(super) struct LinkedAdjoint {
    pub(super) d_y: FlexTensor,
    pub(super) v1: FlexTensor,
    pub(super) v2: FlexTensor,
    pub(super) last_step: bool,
}

impl Exchange {
    pub(super) fn new(state: Carried) -> Self {
        Self(Mutex::new(Exchanged { state: Some(state), ..Exchanged::default() }))
    }

    /// The adjoints left by the backward steps of the outputs: of h, of s, and through readouts.
    pub(super) fn take_adjoints(&self) -> (Option<FlexTensor>, Option<FlexTensor>, Vec<LinkedAdjoint>) {
        let mut exchanged = self.lock();
        (exchanged.d_hidden.take(), exchanged.d_summary.take(), std::mem::take(&mut exchanged.readouts))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Exchanged> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of the outputs of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Output {
    Hidden,
    Summary,
}

impl Output {
    pub(super) fn value(self, exchange: &Exchange) -> FlexTensor {
        let mut exchanged = exchange.lock();
        let value = match self {
            Output::Hidden => exchanged.hidden.take(),
            Output::Summary => exchanged.summary.take(),
        };
        // Empty only after an error, which the caller reports instead of using the outputs.
        value.unwrap_or_else(carrier)
    }

    pub(super) fn set_adjoint(self, exchange: &Exchange, adjoint: FlexTensor) {
        let mut exchanged = exchange.lock();
        match self {
            Output::Hidden => exchanged.d_hidden = Some(adjoint),
            Output::Summary => exchanged.d_summary = Some(adjoint),
        }
    }
}
