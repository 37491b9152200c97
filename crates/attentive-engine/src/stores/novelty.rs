//! The novelty store (R18): a state is stored if it differs enough from the last stored one.

use super::{MemoryStore, StoreRule};
use crate::kernels::vector::{square_distance, square_sum};

/// R18: `|h(t) - last stored| > novelty * |h(t)|`.
pub(crate) struct Novelty;

impl MemoryStore for Novelty {
    fn reads_states(&self) -> bool {
        true
    }

    fn stores(&self, rule: &StoreRule, state: &[f32], last: &[f32]) -> bool {
        square_distance(state, last) > rule.novelty * rule.novelty * square_sum(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;

    #[test]
    fn r18_a_state_that_differs_by_more_than_novelty_times_its_norm_is_stored() {
        let rule = |novelty| StoreRule { store: Store::Novelty, novelty, ..StoreRule::default() };
        let state = [3.0, 4.0];
        assert!(rule(0.19).stores(1, &state, &[3.0, 3.0]) && !rule(0.21).stores(1, &state, &[3.0, 3.0]));
        assert!(rule(0.0).stores(1, &state, &[3.0, 3.999]) && !rule(0.0).stores(1, &state, &state));
        assert!(!rule(1e300).stores(1, &state, &[0.0, 0.0]));
        assert!(!StoreRule { k_att: 2, ..rule(0.0) }.stores(3, &state, &[0.0, 0.0]));
    }
}
