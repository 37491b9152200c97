//! [`Results`]: where the records of a table are.

use super::catalogue::Catalogue;
use super::record::Record;
use super::render::{Rendered, render};
use super::table::{Budget, Row, Table};
use crate::error::{LabError, Result};
use crate::experiment::Experiment;
use crate::run_dir::{atomic, attention_trace, files};
use serde_json::Value;
use std::collections::HashMap;
use std::io::ErrorKind;
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
    /// A table within the budget. One that has rows of a CPU's size has a title and files of its own at the paper's size, and no
    /// remedies: those are of a CPU's size.
    pub fn table(&self, name: &str) -> Result<Table> {
        let mut table = self.catalogue.table(name)?;
        let sized = |row: &Row| self.catalogue.variant(row, Budget::Cpu) != row.experiment;
        if self.budget == Budget::Paper && table.rows().any(sized) {
            table.title += ", the paper's size";
            table.stem += ".paper";
            table.groups.iter_mut().for_each(|group| group.rows.retain(|row| !row.remedy));
        }
        Ok(table)
    }

    /// What is said where nothing of a table has been run.
    pub fn nothing_of(&self, table: &str) -> LabError {
        LabError::Run(format!(
            "nothing of the table {table} is in {}: run it with `sab reproduce {table}`, or say with --results where it is",
            self.folder.display()
        ))
    }

    /// Where the record of an experiment is.
    pub fn record(&self, name: &str, seed: u64) -> PathBuf {
        self.folder.join("records").join(name).join(format!("seed{seed}.json"))
    }

    /// Where its run directory is.
    pub fn run(&self, name: &str, seed: u64) -> PathBuf {
        self.runs.join(name).join(format!("seed{seed}"))
    }

    /// The name of the experiment of a row, and its records in the order of their seeds.
    pub fn of_row(&self, row: &Row) -> Result<(String, Vec<Record>)> {
        let name = self.catalogue.variant(row, self.budget);
        let mut records = Vec::new();
        for seed in self.seeds(&name)? {
            let path = self.record(&name, seed);
            let Some(record) = Record::load(&path)? else { continue };
            same(&self.catalogue.experiment(&name, seed)?, &record.config, &path)?;
            records.push(record);
        }
        Ok((name, records))
    }

    /// The seeds of which there are records, smallest first.
    fn seeds(&self, name: &str) -> Result<Vec<u64>> {
        let folder = self.folder.join("records").join(name);
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(why) if why.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(why) => return Err(LabError::file("read", &folder, &why)),
        };
        let seed_of = |name: &str| name.strip_prefix("seed")?.strip_suffix(".json")?.parse().ok();
        let mut seeds: Vec<u64> = entries.flatten().filter_map(|entry| seed_of(entry.file_name().to_str()?)).collect();
        seeds.sort_unstable();
        Ok(seeds)
    }

    /// What the network of a run was reminded of while it learned: all that its run directory has, or what is kept beside its
    /// record.
    pub fn attention(&self, name: &str, seed: u64) -> Result<Vec<Value>> {
        let lines = files::read_lines(&self.run(name, seed).join(attention_trace::FILE))?;
        if lines.is_empty() { files::read_lines(&self.kept_attention(name, seed)) } else { Ok(lines) }
    }

    /// Keeps some of it beside the record, if it is not there.
    pub fn keep_attention(&self, name: &str, seed: u64, lines: &[Value]) -> Result<()> {
        let path = self.kept_attention(name, seed);
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        if !self.record(name, seed).exists() || std::fs::read(&path).is_ok_and(|kept| kept == text.as_bytes()) {
            return Ok(());
        }
        atomic::write(&path, text.as_bytes())
    }

    fn kept_attention(&self, name: &str, seed: u64) -> PathBuf {
        self.record(name, seed).with_extension(attention_trace::FILE)
    }

    /// A table filled with what is there.
    pub fn render(&self, table: &Table) -> Result<Rendered> {
        let mut found = HashMap::new();
        for group in &table.groups {
            let columns = table.columns(group);
            for row in &group.rows {
                let (name, records) = self.of_row(row)?;
                for record in &records {
                    columns
                        .iter()
                        .try_for_each(|column| record.check(column, &self.record(&name, record.config.train.seed)))?;
                }
                found.insert(&row.experiment, (name, records));
            }
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
