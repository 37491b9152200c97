//! [`Model`]: the parts of a model and the limits of its gradient (R1-R18), for one call.

use crate::cells::Cell;
use crate::error::{EngineError, Result};
use crate::options::{Hops, KTop, KTrunc, ScoreGradient};
use crate::parameters::Parameter;
use crate::scorers::Scorer;
use crate::sparsifiers::Sparsifier;
use crate::stores::StoreRule;

/// The largest `input`. A larger value is taken for a mistake.
pub const MOST_INPUT: usize = 1 << 24;
/// The largest `hidden`. A larger value is taken for a mistake.
pub const MOST_HIDDEN: usize = 1 << 16;

/// A model, and the truncation phase of one batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// Size of a dense input, or number of different tokens.
    pub input: usize,
    /// Size of the hidden state.
    pub hidden: usize,
    /// The recurrent cell (R1, R15).
    pub cell: Cell,
    /// How memories are scored (R3, R16).
    pub scorer: Scorer,
    /// How scores become weights (R4-R6, R17).
    pub sparsifier: Sparsifier,
    /// Which states are stored and which are evicted (R2, R18).
    pub store: StoreRule,
    /// How many memories a step may be reminded of (R4, R6).
    pub k_top: KTop,
    /// How many steps the sequential gradient runs (R9).
    pub k_trunc: KTrunc,
    /// The phase of this batch's truncation points (R9).
    pub phase: usize,
    /// Whether gradient enters a memory and the steps before it (R11).
    pub mental_updates: bool,
    /// The destination of the scores' gradient (R10).
    pub score_gradient: ScoreGradient,
    /// How often gradient may skip (R12).
    pub hops: Hops,
    /// Whether a state keeps the steps that led to each memory, so that a later call can pass gradient to them (R21).
    pub credit_across_calls: bool,
}

impl Model {
    /// An LSTM of these sizes with SAB's default parts and options.
    pub fn new(input: usize, hidden: usize) -> Self {
        Self {
            input,
            hidden,
            cell: Cell::default(),
            scorer: Scorer::default(),
            sparsifier: Sparsifier::default(),
            store: StoreRule::default(),
            k_top: KTop::Count(5),
            k_trunc: KTrunc::Every(5),
            phase: 0,
            mental_updates: true,
            score_gradient: ScoreGradient::Weights,
            hops: Hops::All,
            credit_across_calls: false,
        }
    }

    /// Checks every field. The error names the first invalid one and hints at valid values.
    pub fn check(&self) -> Result<()> {
        let wrong = |field, value: usize, hint: &str| {
            Err(EngineError::Model { field, value: value.to_string(), hint: hint.into() })
        };
        match (self.input, self.hidden) {
            (0, _) => {
                return wrong("input", 0, "the size of a dense input, or the number of tokens, must be at least 1");
            }
            (_, 0) => return wrong("hidden", 0, "the number of hidden units must be at least 1"),
            (input, _) if input > MOST_INPUT => {
                return wrong("input", input, &format!("it must be at most {MOST_INPUT}"));
            }
            (_, hidden) if hidden > MOST_HIDDEN => {
                return wrong("hidden", hidden, &format!("it must be at most {MOST_HIDDEN}"));
            }
            _ => {}
        }
        self.store.check()?;
        if self.k_trunc == KTrunc::Every(0) {
            return wrong("k_trunc", 0, "it must be at least 1 step, or none for full backpropagation through time");
        }
        let without = [
            (self.k_trunc == KTrunc::None, "a number for k_trunc, which bounds what is kept for each memory"),
            (!self.attends(), "a k_top of at least 1"),
            (!self.mental_updates, "mental_updates"),
        ];
        match without.into_iter().find(|(missing, _)| self.credit_across_calls && *missing) {
            Some((_, needed)) => {
                let (value, hint) = ("true".into(), format!("it needs {needed}"));
                Err(EngineError::Model { field: "credit_across_calls", value, hint })
            }
            None => Ok(()),
        }
    }

    /// The model's parameters: the cell's, then the scorer's.
    pub fn parameters(&self) -> Vec<Parameter> {
        let mut all = self.cell.part().parameters(self.input, self.hidden);
        all.extend(self.scorer.part().parameters(self.hidden));
        all
    }

    /// Whether the model uses attention at all (R6).
    pub fn attends(&self) -> bool {
        self.k_top != KTop::Count(0)
    }

    /// Whether the sequential gradient is cut between `step` and the step after it (R9).
    pub fn cut_after(&self, step: u64) -> bool {
        match self.k_trunc {
            // Reduce the phase first: it may be a number of any size.
            KTrunc::Every(k) => (step + self.phase as u64 % k as u64).is_multiple_of(k as u64),
            KTrunc::None => false,
        }
    }

    /// `k_top` in the form that a sparsifier takes; `None` means all.
    pub fn most_chosen(&self) -> Option<usize> {
        match self.k_top {
            KTop::Count(count) => Some(count),
            KTop::All => None,
        }
    }

    /// The largest number of reminders of a step, at most `asked`.
    pub fn most_reminders(&self, asked: usize, slots: usize) -> usize {
        asked.min(slots).min(self.most_chosen().unwrap_or(slots))
    }

    /// Whether the gradient of the scores enters the query's state (R10).
    pub fn scores_reach_queries(&self) -> bool {
        self.attends() && self.score_gradient == ScoreGradient::Full
    }

    /// Whether the gradient of the scores enters memories (R10, R11).
    pub fn scores_reach_memories(&self) -> bool {
        self.scores_reach_queries() && self.mental_updates
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Evict, Store};

    #[test]
    fn r9_cuts_lie_right_after_multiples_of_k_trunc_shifted_by_the_phase() {
        let cuts = |k: usize, phase| {
            let model = Model { k_trunc: KTrunc::Every(k), phase, ..Model::new(1, 1) };
            (1..=10).filter(|step| model.cut_after(*step)).collect::<Vec<_>>()
        };
        assert_eq!(cuts(5, 0), [5, 10]);
        assert_eq!(cuts(5, 1), [4, 9]);
        assert_eq!(cuts(3, 2), [1, 4, 7, 10]);
        assert!(!Model { k_trunc: KTrunc::None, ..Model::new(1, 1) }.cut_after(5));
    }

    #[test]
    fn a_model_that_cannot_be_is_refused() {
        let good = Model::new(3, 4);
        good.check().expect("a good model");
        let store = good.store;
        let bad = [
            ("input", Model { input: 0, ..good }),
            ("hidden", Model { hidden: 0, ..good }),
            ("hidden", Model { hidden: MOST_HIDDEN + 1, ..good }),
            ("k_trunc", Model { k_trunc: KTrunc::Every(0), ..good }),
            ("k_att", Model { store: StoreRule { k_att: 0, ..store }, ..good }),
            ("capacity", Model { store: StoreRule { capacity: Some(0), ..store }, ..good }),
            ("novelty", Model { store: StoreRule { store: Store::Novelty, novelty: -0.1, ..store }, ..good }),
            ("novelty", Model { store: StoreRule { novelty: f64::NAN, evict: Evict::Oldest, ..store }, ..good }),
        ];
        for (name, model) in bad {
            match model.check() {
                Err(EngineError::Model { field, .. }) => assert_eq!(field, name),
                other => panic!("{name}: {other:?}"),
            }
        }
    }
}
