//! [`DriftReport`]: how far memories of earlier calls have drifted (R21).

use attentive_engine::Drift;
use std::sync::{Arc, Mutex, PoisonError};

/// The drift of the memories of earlier calls that were replayed. The engine replays, in the backward pass, those through
/// which gradient runs, so the report is empty before. The portable path replays all that have segments, in the forward
/// pass.
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
