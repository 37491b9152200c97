//! Stores (R2, R18): which states become memories, and which memories make room.

mod every;
mod evict;
mod novelty;

pub use evict::{Evict, RECEIVED_DECAY};

use crate::error::{EngineError, Result};
use crate::registry::registry;

/// The largest `k_att` and `capacity`: step numbers must not overflow, and slots are counted in 32 bits.
pub const MOST_K_ATT: usize = u32::MAX as usize;

registry! {
    /// Which states are stored (R18).
    Store ("store"): dyn MemoryStore {
        /// R2: every `k_att`-th.
        Every = "every" => every::Every,
        /// Of every `k_att`-th those that differ enough from the last stored one.
        Novelty = "novelty" => novelty::Novelty,
    }
}

/// A store with its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StoreRule {
    /// Which states are stored.
    pub store: Store,
    /// Only every `k_att`-th state is considered at all (R2).
    pub k_att: usize,
    /// How much a state must differ, as a part of its own norm; for [`Store::Novelty`].
    pub novelty: f64,
    /// How many memories are kept at most besides the null slot.
    pub capacity: Option<usize>,
    /// Which memory makes room where `capacity` is reached.
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
            let hint = format!("every k_att-th step can be stored, so it is at least 1 and at most {MOST_K_ATT}");
            return wrong("k_att", self.k_att.to_string(), hint);
        }
        if !(self.novelty.is_finite() && self.novelty >= 0.0) {
            return wrong("novelty", self.novelty.to_string(), "a finite number, at least 0".into());
        }
        match self.capacity {
            Some(capacity) if !(1..MOST_K_ATT).contains(&capacity) => {
                let hint = format!("at least 1 memory besides the null slot and less than {MOST_K_ATT}, or none");
                wrong("capacity", capacity.to_string(), hint)
            }
            _ => Ok(()),
        }
    }

    /// Whether the state after this step of a row, counted from 1, may be stored at all (R2).
    pub fn considers(&self, step: u64) -> bool {
        step.is_multiple_of(self.k_att as u64)
    }

    /// Whether the decision depends on states, not on step numbers alone.
    pub(crate) fn reads_states(&self) -> bool {
        self.store.part().reads_states()
    }

    /// Whether the state after this step is stored; `last` is the newest memory, the null slot if there is no other. Both
    /// may be empty unless [`reads_states`](StoreRule::reads_states).
    pub(crate) fn stores(&self, step: u64, state: &[f32], last: &[f32]) -> bool {
        self.considers(step) && self.store.part().stores(self, state, last)
    }

    /// How many states a row may store in `time` steps after `steps`.
    pub(crate) fn most_stored(&self, steps: u64, time: usize) -> usize {
        let considered = |steps: u64| steps / self.k_att as u64;
        (considered(steps + time as u64) - considered(steps)) as usize
    }
}

/// Decides which of the states that may be stored are.
pub(crate) trait MemoryStore: Sync {
    /// Whether the decision depends on the states.
    fn reads_states(&self) -> bool;

    /// No gradient runs through the decision.
    fn stores(&self, rule: &StoreRule, state: &[f32], last: &[f32]) -> bool;
}
