//! What time and memory the models of the paper take at different lengths.
//!
//! ```text
//! survey --a process for each point--> measure --JSON--> survey --> complexity.json, .csv, .md, .svg, .png
//! ```
//!
//! Every point is measured in a process of its own, so that its peak of memory is its own too.

mod case;
mod chart;
mod child;
mod measure;
mod memory;
mod report;
mod survey;
mod table;

pub use case::{Case, LossOn, Settings, Subject};
pub use chart::figure;
pub use child::Limits;
pub use measure::{Measurement, measure};
pub use report::{Growth, Report};
pub use survey::{Document, Limit, Outcome, Point, Survey};
