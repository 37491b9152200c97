//! The paper's store (R2): every `k_att`-th state.

use super::{MemoryStore, StoreRule};

/// R2.
pub(crate) struct Every;

impl MemoryStore for Every {
    fn reads_states(&self) -> bool {
        false
    }

    fn stores(&self, _: &StoreRule, _: &[f32], _: &[f32]) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r2_every_k_att_th_state_is_stored() {
        for k_att in 1..5 {
            let rule = StoreRule { k_att, ..StoreRule::default() };
            for before in 0..7 {
                let stored = (before + 1..=before + 20).filter(|step| rule.stores(*step, &[1.0], &[1.0])).count();
                assert_eq!(rule.most_stored(before, 20), stored);
            }
            assert!((1..20).all(|step| rule.stores(step, &[0.0], &[0.0]) == (step % k_att as u64 == 0)));
        }
    }
}
