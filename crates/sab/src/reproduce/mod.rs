//! The tables of the paper: their rows, the paper's metrics, and ours.
//!
//! ```text
//! experiments/TABLE/table.toml  --rows-->  experiments (TOML)  --[Work]-->  run directories
//!                                                                                 |
//!                           tables and pictures  <--[Results]--  records  <-------+
//! ```
//!
//! A [`Record`] keeps a run in brief: its settings, final metrics and learning curve. It is enough to draw the curve,
//! to tell whether it is the experiment that a table asks for, and to run it again.

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
mod work;

pub use catalogue::Catalogue;
pub use output::{Format, Written};
pub use record::Record;
pub use render::{Rendered, Section};
pub use results::Results;
pub use table::{AttentionFigure, Budget, Column, Group, Metric, Row, Table};
pub use work::{Event, RunOptions, State, TimeLeft, Wanted, Work};
