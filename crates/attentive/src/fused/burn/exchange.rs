//! What passes between the nodes of one call.

use super::carrier;
use crate::error::SabError;
use crate::reminders::Reminders;
use burn::backend::flex::FlexTensor;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What passes between the nodes of one call, and back to the caller.
#[derive(Debug, Default)]
pub(crate) struct Exchange(Mutex<Exchanged>);

#[derive(Debug, Default)]
pub(super) struct Exchanged {
    pub(super) hidden: Option<FlexTensor>,
    pub(super) summary: Option<FlexTensor>,
    pub(super) last_cell: Vec<f32>,
    pub(super) reminders: Option<Reminders>,
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
    pub(super) fn lock(&self) -> MutexGuard<'_, Exchanged> {
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
