//! [`DriftReport`]: how far memories of earlier calls have drifted (R21).

use attentive_engine::Drift;
use std::sync::{Arc, Mutex, PoisonError};

/// The drift of the memories of earlier calls through which gradient ran. Only the backward pass replays them, so the
/// report is empty before.
#[derive(Clone, Debug, Default)]
pub struct DriftReport(Arc<Mutex<Option<Drift>>>);

impl DriftReport {
    /// The drift; `None` before the backward pass, or if it replayed nothing.
    pub fn get(&self) -> Option<Drift> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, drift: Option<Drift>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = drift;
    }
}
