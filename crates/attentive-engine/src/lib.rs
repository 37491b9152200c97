//! The CPU engine of Sparse Attentive Backtracking: the forward and backward pass of a recurrent network that is
//! reminded of its own past, on plain slices of `f32`.
//!
//! ```text
//! Model (parts and options) --parameters()--> names, shapes, initialisation
//! parameters -> PackedWeights --+
//! Call, State, dense input -----+-> forward -> hidden, summary, State, Tape
//! Tape, OutputAdjoints -> backward -> Gradients: one sweep over time in reverse (R13)
//! ```
//!
//! A model consists of four parts. Each part has one file and one line in a registry:
//!
//! | part | | files |
//! |---|---|---|
//! | [`Cell`] | `lstm`, `gru` (R1, R15) | `cells/` |
//! | [`Scorer`] | `additive`, `dot`, `cosine` (R3, R16) | `scorers/` |
//! | [`Sparsifier`] | `prominence`, `softmax` (R4-R6, R17) | `sparsifiers/` |
//! | [`Store`] | `every`, `novelty`, each with a capacity (R2, R18) | `stores/` |
//!
//! `docs/model.md` states the rules R1 to R21. The results are the same bits for any number of threads, and the same
//! bits step by step as over a whole sequence (R14). A model or call that the engine cannot compute is an
//! [`EngineError`]: the engine never computes something else instead.
//!
//! ```
//! use attentive_engine::{Call, Inputs, InstructionSet, Model, PackedWeights, Replay, Retrieval, State, forward};
//! use std::sync::Arc;
//!
//! let model = Model::new(3, 8); // three tokens, eight units
//! let values: Vec<Vec<f32>> = model.parameters().iter().map(|parameter| vec![0.1; parameter.len()]).collect();
//! let values: Vec<&[f32]> = values.iter().map(Vec::as_slice).collect();
//! let weights = Arc::new(PackedWeights::new(&model, &values, false, 1)?);
//! let call = Call {
//!     model,
//!     time: 4,
//!     inputs: Inputs::Tokens(Arc::new(vec![0, 1, 2, 0])),
//!     tracked: false,
//!     replay: Replay::Auto,
//!     retrieval: Retrieval::Auto,
//!     threads: 1,
//!     instructions: InstructionSet::Detect,
//!     reminders: None,
//! };
//! let mut out = forward(call, State::fresh(&model, 1), weights, &[])?;
//! assert_eq!(out.hidden.as_slice()[..4 * 8].len(), 32); // [batch, time, hidden]
//! assert_eq!(out.state.rows()[0].slot_steps, [0, 1, 2, 3, 4]);
//! out.state.settle(&out.hidden.as_slice()[..32])?; // ready for the next call
//! # Ok::<(), attentive_engine::EngineError>(())
//! ```

mod aligned;
mod allocation;
mod backward;
mod cells;
mod error;
mod forward;
mod index;
mod kernels;
mod limit;
mod loss;
mod memory;
mod model;
mod options;
mod parameters;
mod pool;
mod problem;
mod projections;
mod readout;
mod registry;
mod reminders;
mod scorers;
mod segments;
mod sparsifiers;
mod state;
mod step;
mod stores;
mod tape;
mod team;
mod weights;

pub use allocation::{keep_freed_memory, release_freed_memory};
pub use backward::{Drift, Gradients, OutputAdjoints, ReadoutAdjoint, TapeInputs, backward};
pub use cells::Cell;
pub use error::{EngineError, Result, all_finite};
pub use forward::{Forward, forward};
pub use kernels::InstructionSet;
pub use limit::arithmetic_limit;
pub use loss::cross_entropy;
pub use memory::{MOST_STEPS, RowStart};
pub use model::{MOST_HIDDEN, MOST_INPUT, Model};
#[cfg(feature = "serde")]
pub use options::number_or;
pub use options::{Hops, KTop, KTrunc, LARGE_TAPE, Replay, Retrieval, ScoreGradient, TruncPhase};
pub use parameters::{Gain, Owner, Parameter, Start};
pub use pool::Buffer;
pub use problem::{Call, Inputs};
pub use readout::{Readout, ReadoutGradients};
pub use reminders::{Reminder, Reminders, keep_largest};
pub use scorers::Scorer;
pub use segments::{Led, RowSegments, Segment, SegmentInputs, Segments};
pub use sparsifiers::Sparsifier;
pub use state::State;
pub use stores::{Evict, MOST_K_ATT, RECEIVED_DECAY, Store, StoreRule};
pub use tape::Tape;
pub use weights::PackedWeights;

#[cfg(test)]
mod tests;
