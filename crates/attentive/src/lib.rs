//! Sparse Attentive Backtracking for [Burn](burn): a recurrent layer whose gradient reaches arbitrarily far into the
//! past without replaying every step in between.
//!
//! ```text
//!             SabLstmConfig --init--> SabLstm (a Burn module)
//!                                        |
//!  tokens [batch, time]            forward / step            SabOutput
//!  or dense [batch, time, input] ------>-+----------------> hidden, summary [batch, time, hidden]
//!  SabState (optional) ----------------->|                  state -> the next call
//!                                        |                  reminders (on request)
//!                          +-------------+-------------+
//!                       fused                       portable
//!           one operation on the CPU       tensor operations, any backend
//! ```
//!
//! | paper | here | |
//! |---|---|---|
//! | h-hat | `h_hat` | provisional hidden state (R1) |
//! | h | `hidden` | final hidden state, `h_hat + summary` (R7) |
//! | s | `summary` | weighted sum of the chosen memories (R7) |
//! | M, m | memory, slots | every `k_att`-th hidden state; slot 0 is the initial one (R2) |
//! | a | scores | `W3 . tanh(W1 m + W2 h_hat)` (R3), or another [`Scorer`] (R16) |
//! | ã | weights | prominence over the (k_top+1)-th score (R4), or another [`Sparsifier`] (R17) |
//! | k_top, k_att, k_trunc | the same | [`SabLstmConfig`] |
//! | V1, V2, b | [`SabReadout`] | the output (R8) |
//!
//! `docs/model.md` states the rules R1 to R21. Each rule has tests that carry its number.
//!
//! # Devices
//!
//! The feature `flex`, on by default, enables Burn's CPU backend and the fused engine. The features `wgpu` and `cuda`
//! enable Burn's features of the same names. A layer created on such a device takes the portable path.
//!
//! # A tiny model, trained
//!
//! The network sees a symbol and must name it ten steps later.
//!
//! ```
//! use attentive::{SabLstm, SabLstmConfig, SabReadout, SabReadoutConfig, cross_entropy};
//! use burn::module::Module;
//! use burn::optim::{AdamConfig, GradientsParams};
//! use burn::tensor::{Device, Int, Tensor};
//!
//! #[derive(Module, Debug)]
//! struct Recall {
//!     lstm: SabLstm,
//!     readout: SabReadout,
//! }
//!
//! let device = Device::flex().autodiff();
//! device.seed(1);
//! let mut model = Recall {
//!     lstm: SabLstmConfig::new(4, 16).with_k_top(3).with_k_att(1).with_k_trunc(3).init(&device),
//!     readout: SabReadoutConfig::new(16, 3).init(&device),
//! };
//! // Three sequences: a symbol of 0..3, then ten times the blank 3.
//! let tokens: Vec<Vec<i32>> = (0..3).map(|symbol| [vec![symbol], vec![3; 10]].concat()).collect();
//! let tokens = Tensor::<1, Int>::from_ints(tokens.concat().as_slice(), &device).reshape([3, 11]);
//! let targets = Tensor::<1, Int>::from_ints([0, 1, 2], &device);
//! let mut optimizer = AdamConfig::new().init();
//! let mut losses = Vec::new();
//! for _ in 0..60 {
//!     let out = model.lstm.forward(tokens.clone(), None)?;
//!     let y = model.readout.read_last(&out)?;
//!     let loss = cross_entropy(y, targets.clone(), None)?;
//!     losses.push(loss.clone().into_scalar::<f32>());
//!     let gradients = GradientsParams::from_grads(loss.backward(), &model);
//!     model = optimizer.step(0.02, model, gradients);
//! }
//! assert!(losses[59] < 0.2 * losses[0], "{losses:?}");
//! # Ok::<(), attentive::SabError>(())
//! ```

mod config;
mod drift;
#[cfg(feature = "flex")]
mod engine;
mod error;
mod io;
mod loss;
mod lstm;
mod options;
mod parameters;
mod portable;
mod readout;
mod segments;
mod state;

pub use attentive_engine::{
    Cell, Drift, EngineError, Evict, Gain, Hops, InstructionSet, KTop, KTrunc, Owner, Parameter, Reminder, Reminders,
    Replay, Retrieval, ScoreGradient, Scorer, Sparsifier, Start, Store, TruncPhase, arithmetic_limit,
    keep_freed_memory, number_or, release_freed_memory,
};
pub use config::{Initialization, SabLstmConfig};
pub use drift::DriftReport;
pub use error::{Result, SabError};
pub use io::{SabInput, SabOutput, SabStepInput, SabStepOutput};
pub use loss::{cross_entropy, cross_entropy_by};
pub use lstm::SabLstm;
pub use options::{ForwardOptions, Path};
pub use readout::{SabReadout, SabReadoutConfig};
pub use segments::{SegmentRecord, SegmentsRecord};
pub use state::{SabState, SabStateRecord};

/// The README's program, compiled and run with the documentation's tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
