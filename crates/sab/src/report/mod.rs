//! The report of runs: one HTML page that needs nothing but itself.
//!
//! ```text
//! run directories --of_run--> [RunView] --data--> JSON --page--> HTML, CSS, JavaScript and JSON in one file
//! ```
//!
//! The page fetches nothing, and its content security policy forbids it to. Data from runs enters the page as JSON
//! only: it is never part of the markup, and scripts show it as text. [uPlot](https://github.com/leeoniya/uPlot), a
//! copy of which is in `page/vendor`, draws the curves.

mod data;
mod read;

use crate::reproduce::Rendered;
use serde_json::Value;

/// A run as the page shows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunView {
    /// Its name; several runs may have the same.
    pub name: String,
    /// Its row or section; may be empty. Runs of a group share a colour.
    pub group: String,
    /// `config.toml`.
    pub config: Value,
    /// `environment.json`, or null.
    pub environment: Value,
    /// `summary.json`, or null while the run is training.
    pub summary: Value,
    /// Why training failed, if it did and that is known.
    pub failure: Option<String>,
    /// The lines of `metrics.jsonl`.
    pub curve: Vec<Value>,
    /// The lines of `attention.jsonl`.
    pub attention: Vec<Value>,
}

const STYLE: &str = concat!(
    include_str!("page/vendor/uPlot.min.css"),
    "\n",
    include_str!("page/page.css"),
    include_str!("page/parts.css")
);
/// Each script needs those before it.
const SCRIPT: &str = concat!(
    "/*! uPlot, npm package `uplot` 1.6.32\n\n",
    include_str!("page/vendor/LICENSE"),
    "*/\n",
    include_str!("page/vendor/uPlot.iife.min.js"),
    "\n",
    include_str!("page/words.js"),
    include_str!("page/tables.js"),
    include_str!("page/chart.js"),
    include_str!("page/curves.js"),
    include_str!("page/matrix.js"),
    include_str!("page/arcs.js"),
    include_str!("page/attention.js"),
    include_str!("page/selftest.js"),
    include_str!("page/page.js"),
);

/// The page as HTML.
pub fn page(title: &str, table: Option<&Rendered>, runs: &[RunView]) -> String {
    let data = data::of_page(title, table, runs).to_string();
    // A script ends at the first `</script`, also within a JSON string.
    format!(
        include_str!("page/page.html"),
        title = escaped(title),
        style = STYLE,
        script = SCRIPT,
        data = data.replace('<', "\\u003c")
    )
}

/// Text as HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_cannot_end_itself() {
        assert!(!SCRIPT.contains("</script") && !SCRIPT.contains("<!--"));
        assert!(!STYLE.contains("</style"));
    }
}
