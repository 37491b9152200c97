//! The fused path: one operation over the whole sequence on the CPU, forward and backward written by hand.
//!
//! ```text
//! parameters -> weights (packed) --+
//! inputs, carried state -----------+-> forward -> outputs, tape
//! outputs' adjoints, tape -> backward: one sweep (R13), weight_gradients on the way
//! ```
//!
//! [`burn`] makes it an operation of Burn's CPU backend. Everything is `f32`, and bit for bit the same for any
//! number of threads.

mod backward;
pub(crate) mod burn;
mod forward;
mod kernels;
mod keys;
mod pool;
mod problem;
mod readout;
mod scores;
mod sweep;
mod tape;
mod team;
mod weight_gradients;
mod weights;
