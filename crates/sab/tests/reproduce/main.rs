//! `sab reproduce`: tables of experiments that are run once, resumed, and shown as they were measured.
#![cfg(unix)]

#[path = "../common/mod.rs"]
mod common;

mod committed;
mod record_file;
mod records;
mod refusals;
mod running;
mod showing;

use common::{Place, everything, stderr, weights};
use sab::reproduce::{Budget, Catalogue, Results};
use std::path::Path;

const TABLE: &str = r#"
title = "Small copies"
source = "Table 9"
about = "For a test."

[[metrics]]
name = "accuracy"
heading = "accuracy, %"
factor = 100.0

[[metrics]]
name = "ce_last10"
heading = "CE_10"

[[groups]]
heading = "T = 3"

[[groups.rows]]
label = "SAB | 2"
experiment = "small/sab"
paper = ["99.5", "0.01"]

[[groups.rows]]
label = "LSTM"
experiment = "small/lstm"
paper = ["12.5"]
"#;

fn experiment(model: &str, train: &str) -> String {
    format!(
        "[task]\nname = \"copy\"\nlength = 3\nvalidation = 8\ntest = 40\n\n[model]\nhidden = 8\n{model}\n\n[train]\n\
         batch = 4\nvalidate_every = 20\ncheckpoint_every = 20\nlog_every = 2\n{train}\n"
    )
}

/// A folder with one table of two rows.
fn small() -> Place {
    let place = Place::new();
    place.write("mine/small/table.toml", TABLE);
    place.write("mine/small/sab.toml", experiment("k_top = 2", "updates = 60"));
    place.write("mine/small/lstm.toml", experiment("k_top = 0", "updates = 40"));
    place
}

const REPRODUCE: [&str; 8] = ["reproduce", "small", "--experiments", "mine", "--results", "out", "--threads", "1"];

fn reproduce<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&REPRODUCE[..], &["--quiet"], more].concat()
}
