//! Where gradient stops (R9-R12): the rules that the backward passes of both paths obey.

use crate::config::{Hops, KTop, KTrunc, SabLstmConfig, ScoreGradient, TruncPhase};

/// The configuration as one call sees it, with the phase of this batch drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) k_top: KTop,
    pub(crate) k_att: usize,
    pub(crate) k_trunc: KTrunc,
    pub(crate) phase: usize,
    pub(crate) mental_updates: bool,
    pub(crate) score_gradient: ScoreGradient,
    pub(crate) hops: Hops,
}

impl Rules {
    pub(crate) fn new(config: &SabLstmConfig, phase: usize) -> Self {
        Self {
            k_top: config.k_top,
            k_att: config.k_att,
            k_trunc: config.k_trunc,
            phase,
            mental_updates: config.mental_updates,
            score_gradient: config.score_gradient,
            hops: config.hops,
        }
    }

    /// Whether the model has an attention at all (R6).
    pub(crate) fn attends(&self) -> bool {
        self.k_top != KTop::Count(0)
    }

    /// Whether (h, c) pass no gradient from the step after `step` back to `step` (R9).
    pub(crate) fn cut_after(&self, step: u64) -> bool {
        match self.k_trunc {
            // The phase first: a number of any size is a phase.
            KTrunc::Every(k) => (step + self.phase as u64 % k as u64).is_multiple_of(k as u64),
            KTrunc::None => false,
        }
    }

    /// How many reminders a step can have, of those that were asked for.
    pub(crate) fn most_reminders(&self, asked: usize, slots: usize) -> usize {
        match self.k_top {
            KTop::Count(k_top) => asked.min(slots).min(k_top),
            KTop::All => asked.min(slots),
        }
    }

    /// Whether the gradient of the scores enters memories (R10, R11).
    pub(crate) fn scores_reach_memories(&self) -> bool {
        self.mental_updates && self.score_gradient == ScoreGradient::Full
    }
}

/// The phase of one batch (R9): a fixed one, or one drawn from (seed, batch).
pub(crate) fn draw_phase(config: &SabLstmConfig, seed: u64, batch: u64) -> usize {
    match (config.trunc_phase, config.k_trunc) {
        (TruncPhase::Fixed(phase), _) => phase,
        (TruncPhase::Random, KTrunc::Every(k)) if k > 0 => (mix(mix(seed) ^ batch) % k as u64) as usize,
        (TruncPhase::Random, _) => 0,
    }
}

/// SplitMix64's finaliser: neighbouring batches get unrelated phases.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r9_cuts_lie_right_after_multiples_of_k_trunc_shifted_by_the_phase() {
        let cuts = |k: usize, phase| {
            let config = SabLstmConfig::new(1, 1).with_k_trunc(k);
            let rules = Rules::new(&config, phase);
            (1..=10).filter(|step| rules.cut_after(*step)).collect::<Vec<_>>()
        };
        assert_eq!(cuts(5, 0), [5, 10]);
        assert_eq!(cuts(5, 1), [4, 9]);
        assert_eq!(cuts(3, 2), [1, 4, 7, 10]);
        assert!(!Rules::new(&SabLstmConfig::new(1, 1).with_k_trunc(None), 0).cut_after(5));
    }

    #[test]
    fn r9_random_phases_depend_on_seed_and_batch_alone_and_cover_the_grid() {
        let config = SabLstmConfig::new(1, 1).with_k_trunc(5);
        let phases = |seed| (0..200).map(|batch| draw_phase(&config, seed, batch)).collect::<Vec<_>>();
        assert_eq!(phases(1), phases(1));
        assert_ne!(phases(1), phases(2));
        for phase in 0..5 {
            let times = phases(1).iter().filter(|p| **p == phase).count();
            assert!((20..=60).contains(&times), "phase {phase} drawn {times} times of 200");
        }
        assert_eq!(draw_phase(&config.with_trunc_phase(3), 1, 7), 3);
    }
}
