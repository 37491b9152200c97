//! [`Results`]: where the records of a table are.

use super::catalogue::Catalogue;
use super::record::Record;
use super::render::{Rendered, render};
use super::table::{Budget, Row, Table};
use crate::error::{LabError, Result};
use crate::experiment::Experiment;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Tables, and a folder with what was measured for them.
#[derive(Clone, Debug)]
pub struct Results {
    /// The tables and their experiments.
    pub catalogue: Catalogue,
    /// How much is spent on a row.
    pub budget: Budget,
    /// The folder of records.
    pub folder: PathBuf,
    /// The folder of run directories.
    pub runs: PathBuf,
}

impl Results {
    /// Where the record of an experiment is.
    pub fn record(&self, name: &str, seed: u64) -> PathBuf {
        self.folder.join("records").join(name).join(format!("seed{seed}.json"))
    }

    /// Where its run directory is.
    pub fn run(&self, name: &str, seed: u64) -> PathBuf {
        self.runs.join(name).join(format!("seed{seed}"))
    }

    /// The name of the experiment of a row, and its records, from seed 1 up to the first that is not there.
    pub fn of_row(&self, row: &Row) -> Result<(String, Vec<Record>)> {
        let name = self.catalogue.variant(row, self.budget);
        let mut records = Vec::new();
        for seed in 1.. {
            let path = self.record(&name, seed);
            let Some(record) = Record::load(&path)? else { break };
            same(&self.catalogue.experiment(&name, seed)?, &record.config, &path)?;
            records.push(record);
        }
        Ok((name, records))
    }

    /// A table filled with what is there.
    pub fn render(&self, table: &Table) -> Result<Rendered> {
        let mut found = HashMap::new();
        for row in table.rows() {
            found.insert(&row.experiment, self.of_row(row)?);
        }
        Ok(render(table, &|row| found.get(&row.experiment).cloned().unwrap_or_default()))
    }
}

/// That what was found is what is asked for.
pub fn same(asked: &Experiment, found: &Experiment, place: &Path) -> Result<()> {
    let differences = found.differences(asked)?;
    match differences.is_empty() {
        true => Ok(()),
        false => Err(LabError::Run(format!(
            "{} is of another experiment ({}): move it away, or give another --results and --runs",
            place.display(),
            differences.join("; ")
        ))),
    }
}
