//! The tables of the paper: which experiments are their rows, what the paper reports, what was measured here.
//!
//! ```text
//! experiments/TABLE/table.toml  --rows-->  experiments (TOML)  --sab train-->  run directories
//!                                                                                    |
//!                              table (Markdown, CSV, LaTeX, JSON)  <--  records  <---+
//! ```
//!
//! A [`Record`] is what is kept of a run: small, and enough to draw its curves and to tell whether it is the experiment that
//! the table asks for.

mod catalogue;
mod pace;
pub mod pictures;
mod record;
mod render;
mod results;
mod statistics;
mod table;

pub use catalogue::Catalogue;
pub use pace::{OpenTasks, Pace};
pub use record::Record;
pub use render::{Rendered, Section};
pub use results::{Results, same};
pub use table::{AttentionFigure, Budget, Column, Group, Metric, Row, Table};
