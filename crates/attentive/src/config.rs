//! [`SabLstmConfig`]: every choice the model family offers, with its default and its limits.

use crate::error::{Result, SabError};
use attentive_engine::{
    Cell, Evict, Hops, KTop, KTrunc, MOST_HIDDEN, MOST_INPUT, Model, Parameter, ScoreGradient, Scorer, Sparsifier,
    Store, StoreRule, TruncPhase,
};
use burn::config::Config;
use serde::{Deserialize, Serialize};

/// How the parameters start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Initialization {
    /// All weights are uniform in `±bound`; `None` takes `1 / sqrt(hidden)`.
    pub bound: Option<f64>,
    /// The input weights are multiplied by this: the square root of `hidden` makes one token as strong as all hidden units
    /// together.
    pub input_gain: f64,
    /// W1 and W2 are multiplied by this.
    pub attention_gain: f64,
    /// W3, or the temperature of the cosine, is multiplied by this.
    pub score_gain: f64,
    /// Added to the bias of the gate that keeps the state: the LSTM's forget gate, the GRU's update gate.
    pub forget_bias: f64,
}

impl Default for Initialization {
    fn default() -> Self {
        Self { bound: None, input_gain: 1.0, attention_gain: 1.0, score_gain: 1.0, forget_bias: 0.0 }
    }
}

/// Configuration of a [`SabLstm`](crate::SabLstm), made like those of Burn's own layers.
///
/// ```
/// use attentive::{Hops, KTop, SabLstmConfig};
/// let config = SabLstmConfig::new(10, 128).with_k_top(KTop::All).with_k_trunc(None).with_hops(Hops::One);
/// assert!(config.validate().is_ok());
/// assert!(config.with_k_att(0).validate().unwrap_err().to_string().contains("`k_att` is 0"));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SabLstmConfig {
    /// Size of a dense input, or number of different tokens.
    pub input: usize,
    /// Size of the hidden state.
    pub hidden: usize,
    /// The recurrent cell (R1, R15).
    #[serde(default)]
    pub cell: Cell,
    /// How memories are scored (R3, R16).
    #[serde(default)]
    pub scorer: Scorer,
    /// How scores become weights (R4-R6, R17).
    #[serde(default)]
    pub sparsifier: Sparsifier,
    /// Which states are stored (R2, R18).
    #[serde(default)]
    pub store: Store,
    /// How much a state must differ from the last stored one, as a part of its own norm; for [`Store::Novelty`] (R18).
    #[serde(default = "defaults::novelty")]
    pub novelty: f64,
    /// How many memories are kept at most, besides the null slot (R18).
    #[serde(default)]
    pub capacity: Option<usize>,
    /// Which memory makes room where the capacity is reached (R18).
    #[serde(default)]
    pub evict: Evict,
    /// How many memories a step may be reminded of (R4, R6).
    #[serde(default = "defaults::k_top")]
    pub k_top: KTop,
    /// Only every `k_att`-th hidden state can be stored (R2).
    #[serde(default = "defaults::k_att")]
    pub k_att: usize,
    /// How many steps the sequential gradient runs (R9).
    #[serde(default = "defaults::k_trunc")]
    pub k_trunc: KTrunc,
    /// Where the truncation points lie (R9).
    #[serde(default = "defaults::trunc_phase")]
    pub trunc_phase: TruncPhase,
    /// Whether gradient enters a memory and the steps before it (R11).
    #[serde(default = "defaults::mental_updates")]
    pub mental_updates: bool,
    /// What the gradient of the scores reaches (R10).
    #[serde(default = "defaults::score_gradient")]
    pub score_gradient: ScoreGradient,
    /// How often gradient may skip (R12).
    #[serde(default = "defaults::hops")]
    pub hops: Hops,
    /// How the parameters start.
    #[serde(default)]
    pub initialization: Initialization,
}

mod defaults {
    use super::{Hops, KTop, KTrunc, ScoreGradient, StoreRule, TruncPhase};

    pub(super) fn novelty() -> f64 {
        StoreRule::default().novelty
    }
    pub(super) fn k_top() -> KTop {
        KTop::Count(5)
    }
    pub(super) fn k_att() -> usize {
        1
    }
    pub(super) fn k_trunc() -> KTrunc {
        KTrunc::Every(5)
    }
    pub(super) fn trunc_phase() -> TruncPhase {
        TruncPhase::Random
    }
    pub(super) fn mental_updates() -> bool {
        true
    }
    pub(super) fn score_gradient() -> ScoreGradient {
        ScoreGradient::Weights
    }
    pub(super) fn hops() -> Hops {
        Hops::All
    }
}

impl Config for SabLstmConfig {}

impl SabLstmConfig {
    /// SAB with `k_top` 5, `k_att` 1, `k_trunc` 5 and a random phase; change the rest with the `with_` methods.
    pub fn new(input: usize, hidden: usize) -> Self {
        Self {
            input,
            hidden,
            cell: Cell::default(),
            scorer: Scorer::default(),
            sparsifier: Sparsifier::default(),
            store: Store::default(),
            novelty: defaults::novelty(),
            capacity: None,
            evict: Evict::default(),
            k_top: defaults::k_top(),
            k_att: defaults::k_att(),
            k_trunc: defaults::k_trunc(),
            trunc_phase: defaults::trunc_phase(),
            mental_updates: defaults::mental_updates(),
            score_gradient: defaults::score_gradient(),
            hops: defaults::hops(),
            initialization: Initialization::default(),
        }
    }

    /// The recurrent cell.
    pub fn with_cell(mut self, cell: Cell) -> Self {
        self.cell = cell;
        self
    }

    /// How memories are scored.
    pub fn with_scorer(mut self, scorer: Scorer) -> Self {
        self.scorer = scorer;
        self
    }

    /// How scores become weights.
    pub fn with_sparsifier(mut self, sparsifier: Sparsifier) -> Self {
        self.sparsifier = sparsifier;
        self
    }

    /// Which states are stored.
    pub fn with_store(mut self, store: Store) -> Self {
        self.store = store;
        self
    }

    /// Store by content: a state that differs from the last stored one by more than this part of its own norm.
    pub fn with_novelty(mut self, novelty: f64) -> Self {
        (self.store, self.novelty) = (Store::Novelty, novelty);
        self
    }

    /// Keep at most so many memories besides the null slot; `None` keeps all.
    pub fn with_capacity(mut self, capacity: impl Into<Option<usize>>) -> Self {
        self.capacity = capacity.into();
        self
    }

    /// Which memory makes room where the capacity is reached.
    pub fn with_evict(mut self, evict: Evict) -> Self {
        self.evict = evict;
        self
    }

    /// How many memories a step may be reminded of: a number (0 is a plain LSTM) or [`KTop::All`].
    pub fn with_k_top(mut self, k_top: impl Into<KTop>) -> Self {
        self.k_top = k_top.into();
        self
    }

    /// Store every `k_att`-th hidden state.
    pub fn with_k_att(mut self, k_att: usize) -> Self {
        self.k_att = k_att;
        self
    }

    /// Cut the sequential gradient every `k_trunc` steps: a number, or `None` for full BPTT.
    pub fn with_k_trunc(mut self, k_trunc: impl Into<KTrunc>) -> Self {
        self.k_trunc = k_trunc.into();
        self
    }

    /// Where the truncation points lie: a number or [`TruncPhase::Random`].
    pub fn with_trunc_phase(mut self, trunc_phase: impl Into<TruncPhase>) -> Self {
        self.trunc_phase = trunc_phase.into();
        self
    }

    /// Whether gradient enters memories.
    pub fn with_mental_updates(mut self, mental_updates: bool) -> Self {
        self.mental_updates = mental_updates;
        self
    }

    /// What the gradient of the scores reaches.
    pub fn with_score_gradient(mut self, score_gradient: ScoreGradient) -> Self {
        self.score_gradient = score_gradient;
        self
    }

    /// How often gradient may skip.
    pub fn with_hops(mut self, hops: Hops) -> Self {
        self.hops = hops;
        self
    }

    /// How the parameters start.
    pub fn with_initialization(mut self, initialization: Initialization) -> Self {
        self.initialization = initialization;
        self
    }

    /// Whether a layer of these sizes can exist.
    pub(crate) fn sizes_are_possible(&self) -> bool {
        (1..=MOST_INPUT).contains(&self.input) && (1..=MOST_HIDDEN).contains(&self.hidden)
    }

    /// What the engine and the portable path compute, with the truncation phase of one batch. Every field has its place
    /// here, so a new one cannot be forgotten.
    pub(crate) fn model(&self, phase: usize) -> Model {
        let Self {
            input,
            hidden,
            cell,
            scorer,
            sparsifier,
            store,
            novelty,
            capacity,
            evict,
            k_top,
            k_att,
            k_trunc,
            trunc_phase: _,
            mental_updates,
            score_gradient,
            hops,
            initialization: _,
        } = *self;
        let store = StoreRule { store, k_att, novelty, capacity, evict };
        Model {
            input,
            hidden,
            cell,
            scorer,
            sparsifier,
            store,
            k_top,
            k_trunc,
            phase,
            mental_updates,
            score_gradient,
            hops,
        }
    }

    /// The parameters of such a layer: names, shapes, which part they belong to, how they start.
    pub fn parameters(&self) -> Vec<Parameter> {
        self.model(0).parameters()
    }

    /// Checks every field; the error names the first that is wrong and what would be right.
    pub fn validate(&self) -> Result<()> {
        self.model(0).check()?;
        let start = &self.initialization;
        let numbers = [
            ("initialization.bound", start.bound.unwrap_or(1.0), true),
            ("initialization.input_gain", start.input_gain, true),
            ("initialization.attention_gain", start.attention_gain, true),
            ("initialization.score_gain", start.score_gain, true),
            ("initialization.forget_bias", start.forget_bias, false),
        ];
        for (field, value, must_not_be_negative) in numbers {
            if !value.is_finite() || (must_not_be_negative && value < 0.0) {
                let hint = if must_not_be_negative { "a finite number, at least 0" } else { "a finite number" };
                return Err(SabError::Config { field, value: value.to_string(), hint: hint.into() });
            }
        }
        // Weights are drawn in single precision.
        let bound = start.bound.unwrap_or(1.0);
        let drawn = [
            ("initialization.bound", bound, 1.0),
            ("initialization.input_gain", start.input_gain, bound),
            ("initialization.attention_gain", start.attention_gain, bound),
            ("initialization.score_gain", start.score_gain, bound),
        ];
        if let Some((field, value, _)) = drawn.into_iter().find(|(_, value, by)| value * by > f64::from(f32::MAX)) {
            let hint = "bound and gains must stay finite in single precision".to_string();
            return Err(SabError::Config { field, value: value.to_string(), hint });
        }
        Ok(())
    }
}
