//! Which memory makes room where the capacity is reached (R18).

use crate::registry::registry;

/// At each step what a memory has received counts so much less.
pub const RECEIVED_DECAY: f32 = 0.999;

registry! {
    /// Which memory makes room (R18). The null slot always stays.
    Evict ("eviction rule"): dyn Eviction {
        /// The oldest.
        Oldest = "oldest" => Oldest,
        /// The one that has received the least weight, old weights counting less; the older of two equals.
        LeastAttended = "least-attended" => LeastAttended,
    }
}

impl Evict {
    /// Whether it needs to know what memories have received.
    pub fn counts_received(self) -> bool {
        self == Evict::LeastAttended
    }
}

/// Names the memory that makes room.
pub(crate) trait Eviction: Sync {
    /// The place of the victim among the memories of a row, the null slot first, oldest first. `received` has what each
    /// has received, and is empty where the rule does not count it.
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
        // `min_by` returns the first of equals: the older.
        let least = received.iter().enumerate().skip(1).min_by(|a, b| a.1.total_cmp(b.1));
        least.map_or(1, |(place, _)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r18_the_least_attended_goes_the_older_of_equals_and_never_the_null_slot() {
        let victim = |received: &[f32]| Evict::LeastAttended.part().victim(received);
        assert_eq!(victim(&[0.0, 0.5, 0.25, 0.75]), 2);
        assert_eq!(victim(&[0.0, 0.5, 0.25, 0.25]), 2);
        assert_eq!(victim(&[0.0, 9.0]), 1);
        assert_eq!(Evict::Oldest.part().victim(&[]), 1);
    }
}
