//! The tables of the paper: their rows, the paper's metrics, and ours.
//!
//! ```text
//! experiments/TABLE/table.toml  --rows-->  experiments (TOML)  --[Work]-->  run directories
//!                                                                                 |
//!                           tables and pictures  <--[Results]--  records  <-------+
//! ```
//!
//! A [`Record`] holds the settings, final metrics and learning curve of a run: enough to draw the curve, to check that
//! it belongs to a table's experiment, and to run it again.

mod catalogue;
mod output;
mod pace;
mod pages;
mod pictures;
mod record;
mod record_file;
mod render;
mod results;
mod statistics;
mod table;
mod wanted;
mod work;

pub use catalogue::Catalogue;
pub use output::{Format, Written};
pub use record::Record;
pub use render::{Rendered, Section};
pub use results::Results;
pub use table::{AttentionFigure, Budget, Column, Group, Metric, Row, Table};
pub use wanted::Wanted;
pub use work::{Event, RunOptions, State, TimeLeft, Work};
