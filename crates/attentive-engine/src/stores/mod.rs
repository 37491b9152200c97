//! Stores (R2, R18). A store decides which states become memories and which memories are evicted.

mod every;
mod evict;
mod novelty;

pub use evict::{Evict, RECEIVED_DECAY};

use crate::error::{EngineError, Result};
use crate::registry::registry;

/// The largest `k_att`; `capacity` must be smaller. Step numbers must not overflow, and slot numbers have 32 bits.
pub const MOST_K_ATT: usize = u32::MAX as usize;

registry! {
    /// Which states are stored (R18).
    Store ("store"): dyn MemoryStore {
        /// R2: every `k_att`-th state.
        Every = "every" => every::Every,
        /// Every `k_att`-th state, if it differs enough from the last stored one.
        Novelty = "novelty" => novelty::Novelty,
    }
}

/// A store with its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StoreRule {
    /// Which states are stored.
    pub store: Store,
    /// Only every `k_att`-th state is considered (R2).
    pub k_att: usize,
    /// For [`Store::Novelty`]: how much a state must differ from the last stored one, as a fraction of its own norm.
    pub novelty: f64,
    /// The largest number of memories besides the null slot; `None` means no limit.
    pub capacity: Option<usize>,
    /// Which memory makes room when `capacity` is reached.
    pub evict: Evict,
}

impl Default for StoreRule {
    fn default() -> Self {
        Self { store: Store::default(), k_att: 1, novelty: 0.1, capacity: None, evict: Evict::default() }
    }
}

impl StoreRule {
    /// Checks every field.
    pub fn check(&self) -> Result<()> {
        let wrong = |field, value: String, hint: String| Err(EngineError::Model { field, value, hint });
        if !(1..=MOST_K_ATT).contains(&self.k_att) {
            let hint = match self.k_att {
                0 => "it must be at least 1".to_string(),
                _ => format!("it must be at most {MOST_K_ATT}"),
            };
            return wrong("k_att", self.k_att.to_string(), hint);
        }
        if !(self.novelty.is_finite() && self.novelty >= 0.0) {
            return wrong("novelty", self.novelty.to_string(), "it must be a finite number, at least 0".into());
        }
        match self.capacity {
            Some(capacity) if !(1..MOST_K_ATT).contains(&capacity) => {
                let hint =
                    format!("it must be at least 1 memory besides the null slot and less than {MOST_K_ATT}, or none");
                wrong("capacity", capacity.to_string(), hint)
            }
            _ => Ok(()),
        }
    }

    /// Whether the state after this step of a row, counted from 1, is considered for storing (R2).
    pub fn considers(&self, step: u64) -> bool {
        step.is_multiple_of(self.k_att as u64)
    }

    /// Whether the decision depends on states, not on step numbers alone.
    pub(crate) fn reads_states(&self) -> bool {
        self.store.part().reads_states()
    }

    /// Whether the state after this step is stored. `last` is the newest memory, or the null slot if there is no other.
    /// Both slices may be empty unless [`reads_states`](StoreRule::reads_states) is true.
    pub(crate) fn stores(&self, step: u64, state: &[f32], last: &[f32]) -> bool {
        self.considers(step) && self.store.part().stores(self, state, last)
    }

    /// The largest number of states that a row can store in the `time` steps after `steps`.
    pub(crate) fn most_stored(&self, steps: u64, time: usize) -> usize {
        let considered = |steps: u64| steps / self.k_att as u64;
        (considered(steps + time as u64) - considered(steps)) as usize
    }
}

/// Decides which of the considered states are stored.
pub(crate) trait MemoryStore: Sync {
    /// Whether the decision depends on the states.
    fn reads_states(&self) -> bool;

    /// No gradient runs through the decision.
    fn stores(&self, rule: &StoreRule, state: &[f32], last: &[f32]) -> bool;
}
