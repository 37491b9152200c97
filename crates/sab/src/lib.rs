//! The laboratory of [`attentive`]: tasks, models, a trainer and what it leaves behind, and the `sab` command.
//!
//! ```text
//! experiment (TOML)
//!     |
//!     v
//! task --batches--> model --loss--> trainer --files--> run directory --> pictures, reports
//! ```

pub mod attention;
pub mod commands;
pub mod data;
pub mod device;
pub mod display;
pub mod drawing;
mod error;
pub mod experiment;
pub mod heat_map;
pub mod line_chart;
pub mod models;
pub mod predict;
pub mod report;
pub mod reproduce;
pub mod rng;
pub mod run_dir;
pub mod runs;
pub mod settings;
mod suggest;
pub mod tasks;
pub mod tensorboard;
pub mod train;

pub use error::{LabError, Result};
