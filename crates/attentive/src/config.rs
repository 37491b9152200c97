//! [`SabLstmConfig`]: every choice the model family offers, with its default and its limits.

use crate::error::{Result, SabError};
use attentive_engine::{
    Cell, Evict, Hops, KTop, KTrunc, MOST_HIDDEN, MOST_INPUT, Model, Parameter, ScoreGradient, Scorer, Sparsifier,
    Store, StoreRule, TruncPhase, number_or,
};
use burn::config::Config;
use serde::{Deserialize, Serialize};

/// How the parameters start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Initialization {
    /// All weights are uniform in `±bound`; `None` (`"auto"` in a file) takes `1 / sqrt(hidden)`.
    #[serde(with = "number_or::auto")]
    pub bound: Option<f64>,
    /// The input weights are multiplied by this: the square root of `hidden` makes one token as strong as all hidden
    /// units together.
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
    /// Size of a dense input, or number of different tokens. A file need not name it where the data decides: it is 0
    /// then, and no layer can be made before it is set.
    #[serde(default, skip_serializing_if = "is_zero")]
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
    /// How much a state must differ from the last stored one, as a fraction of its own norm; for [`Store::Novelty`]
    /// (R18).
    #[serde(default = "defaults::novelty")]
    pub novelty: f64,
    /// The most memories that are kept besides the null slot; `None` (`"none"` in a file) keeps all (R18).
    #[serde(default, with = "number_or::none")]
    pub capacity: Option<usize>,
    /// Which memory makes room when the capacity is reached (R18).
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
    /// The position of the truncation points (R9).
    #[serde(default = "defaults::trunc_phase")]
    pub trunc_phase: TruncPhase,
    /// Whether gradient enters a memory and the steps before it (R11).
    #[serde(default = "defaults::mental_updates")]
    pub mental_updates: bool,
    /// The reach of the gradient of the scores (R10).
    #[serde(default = "defaults::score_gradient")]
    pub score_gradient: ScoreGradient,
    /// How often gradient may skip (R12).
    #[serde(default = "defaults::hops")]
    pub hops: Hops,
    /// Whether a carried state keeps the steps that led to each memory, so that gradient reaches them from a later call
    /// (R21).
    #[serde(default)]
    pub credit_across_calls: bool,
    /// How the parameters start; `start` in a file.
    #[serde(default, rename = "start", alias = "initialization")]
    pub initialization: Initialization,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The values of keys that a file leaves out.
mod defaults {
    use super::{Hops, KTop, KTrunc, ScoreGradient, StoreRule, TruncPhase};

    macro_rules! values {
        ($($key:ident: $type:ty = $value:expr;)+) => {$(
            pub(super) fn $key() -> $type {
                $value
            }
        )+};
    }

    values! {
        novelty: f64 = StoreRule::default().novelty;
        k_top: KTop = KTop::Count(5);
        k_att: usize = 1;
        k_trunc: KTrunc = KTrunc::Every(5);
        trunc_phase: TruncPhase = TruncPhase::Random;
        mental_updates: bool = true;
        score_gradient: ScoreGradient = ScoreGradient::Weights;
        hops: Hops = Hops::All;
    }
}

impl Config for SabLstmConfig {}

/// Methods that set one field each.
macro_rules! setters {
    ($($(#[$doc:meta])* $method:ident($field:ident: $type:ty);)+) => {$(
        $(#[$doc])*
        pub fn $method(mut self, $field: $type) -> Self {
            self.$field = $field.into();
            self
        }
    )+};
}

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
            credit_across_calls: false,
            initialization: Initialization::default(),
        }
    }

    setters! {
        /// Sets the recurrent cell.
        with_cell(cell: Cell);
        /// Sets how memories are scored.
        with_scorer(scorer: Scorer);
        /// Sets how scores become weights.
        with_sparsifier(sparsifier: Sparsifier);
        /// Sets which states are stored.
        with_store(store: Store);
        /// Keeps at most this many memories besides the null slot; `None` keeps all.
        with_capacity(capacity: impl Into<Option<usize>>);
        /// Sets which memory makes room when the capacity is reached.
        with_evict(evict: Evict);
        /// Sets how many memories a step may be reminded of: a number (0 is a plain LSTM) or [`KTop::All`].
        with_k_top(k_top: impl Into<KTop>);
        /// Stores every `k_att`-th hidden state.
        with_k_att(k_att: usize);
        /// Cuts the sequential gradient every `k_trunc` steps: a number, or `None` for full BPTT.
        with_k_trunc(k_trunc: impl Into<KTrunc>);
        /// Sets where the truncation points lie: a number or [`TruncPhase::Random`].
        with_trunc_phase(trunc_phase: impl Into<TruncPhase>);
        /// Sets whether gradient enters memories.
        with_mental_updates(mental_updates: bool);
        /// Sets what the gradient of the scores reaches.
        with_score_gradient(score_gradient: ScoreGradient);
        /// Sets how often gradient may skip.
        with_hops(hops: Hops);
        /// Sets whether gradient reaches memories of earlier calls.
        with_credit_across_calls(credit_across_calls: bool);
        /// Sets how the parameters start.
        with_initialization(initialization: Initialization);
    }

    /// Stores by content: a state that differs from the last stored one by more than this fraction of its own norm.
    pub fn with_novelty(mut self, novelty: f64) -> Self {
        (self.store, self.novelty) = (Store::Novelty, novelty);
        self
    }

    /// Whether a layer of these sizes can exist.
    pub(crate) fn sizes_are_possible(&self) -> bool {
        (1..=MOST_INPUT).contains(&self.input) && (1..=MOST_HIDDEN).contains(&self.hidden)
    }

    /// The model that the engine and the portable path compute, with the truncation phase of one batch. Every field
    /// has its place here, so a new one cannot be forgotten.
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
            credit_across_calls,
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
            credit_across_calls,
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
                let hint = if must_not_be_negative {
                    "it must be a finite number, at least 0"
                } else {
                    "it must be a finite number"
                };
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
