//! Eviction rules (R18): which memory makes room when the memory is full.

use crate::registry::registry;

/// The factor by which the received weights of a memory decay at each step.
pub const RECEIVED_DECAY: f32 = 0.999;

registry! {
    /// Which memory makes room (R18). The null slot always stays.
    Evict ("eviction rule"): dyn Eviction {
        /// The oldest memory.
        Oldest = "oldest" => Oldest,
        /// The memory with the smallest decayed sum of received weights; the older of two equal ones.
        LeastAttended = "least-attended" => LeastAttended,
    }
}

impl Evict {
    /// Whether the rule uses the received weights.
    pub fn counts_received(self) -> bool {
        self == Evict::LeastAttended
    }
}

/// Chooses the memory that makes room.
pub(crate) trait Eviction: Sync {
    /// The position of the victim among the memories of a row, which start with the null slot and are ordered oldest
    /// first. `received` holds their received weights; it is empty if the rule does not use them.
    fn victim(&self, received: &[f32]) -> usize;
}

struct Oldest;

impl Eviction for Oldest {
    fn victim(&self, _: &[f32]) -> usize {
        1
    }
}

struct LeastAttended;

impl Eviction for LeastAttended {
    fn victim(&self, received: &[f32]) -> usize {
        // `min_by` returns the first of equal elements: the older one.
        let least = received.iter().enumerate().skip(1).min_by(|a, b| a.1.total_cmp(b.1));
        least.map_or(1, |(place, _)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r18_the_least_attended_memory_is_evicted_the_older_of_equals_and_never_the_null_slot() {
        let victim = |received: &[f32]| Evict::LeastAttended.part().victim(received);
        assert_eq!(victim(&[0.0, 0.5, 0.25, 0.75]), 2);
        assert_eq!(victim(&[0.0, 0.5, 0.25, 0.25]), 2);
        assert_eq!(victim(&[0.0, 9.0]), 1);
        assert_eq!(Evict::Oldest.part().victim(&[]), 1);
    }
}
