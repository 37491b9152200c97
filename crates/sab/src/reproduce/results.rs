//! [`Results`]: tables, the records of their rows, and the folders of both.

use super::catalogue::Catalogue;
use super::record::Record;
use super::table::{Budget, Column, Row, Table};
use crate::error::{LabError, Result};
use crate::experiment::Experiment;
use crate::run_dir::{atomic, attention_trace, files};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The folder of records, in the folder of results.
const RECORDS: &str = "records";

/// Tables, and a folder with what was measured for them.
#[derive(Clone, Debug)]
pub struct Results {
    /// The tables and their experiments.
    pub catalogue: Catalogue,
    /// How much is spent on a row.
    pub budget: Budget,
    /// The folder of tables and records.
    pub folder: PathBuf,
    /// The folder of run directories.
    pub runs: PathBuf,
}

impl Results {
    /// The names of all tables: those of the catalogue, and those described by a `NAME.toml` in the folder of results.
    pub fn names(&self) -> Result<Vec<String>> {
        let mut names: Vec<String> = self.catalogue.names().into_iter().map(String::from).collect();
        let table = |path: &Path| Some(path.file_name()?.to_str()?.strip_suffix(".toml")?.to_string());
        names.extend(files::entries(&self.folder)?.iter().filter_map(|path| table(path)));
        names.sort();
        Ok(names)
    }

    /// A table within the budget.
    ///
    /// If a table has rows of a CPU's size, the same table at the paper's size has a title and files of its own, and it
    /// leaves out the alternative settings, which were only tried at a CPU's size. A table that is described in the
    /// folder of results shows records and has no experiments to run.
    pub fn table(&self, name: &str) -> Result<Table> {
        let description = self.folder.join(format!("{name}.toml"));
        if !self.catalogue.names().contains(&name) && description.exists() {
            let text =
                std::fs::read_to_string(&description).map_err(|why| LabError::file("read", &description, &why))?;
            let table = Table::of_text(name, &text, &description.display().to_string())?;
            return Ok(Table { of_records: true, ..table });
        }
        let mut table = self.catalogue.table(name)?;
        let sized = |row: &Row| self.catalogue.variant(&row.experiment, Budget::Cpu) != row.experiment;
        if self.budget == Budget::Paper && table.rows().any(sized) {
            table.title += ", the paper's size";
            table.stem += ".paper";
            table.groups.iter_mut().for_each(|group| group.rows.retain(|row| !row.alternative));
        }
        Ok(table)
    }

    /// The error for a table, or `all` tables, without any run.
    pub fn nothing_of(&self, table: &str) -> LabError {
        let records = match table {
            "all" => "records".to_string(),
            one => format!("records of the table {one}"),
        };
        LabError::Run(format!(
            "{} has no {records}; run `sab reproduce {table}`, or name the folder of the records with --results",
            self.folder.display()
        ))
    }

    /// The path of the record of an experiment.
    pub fn record(&self, name: &str, seed: u64) -> PathBuf {
        self.folder.join(RECORDS).join(name).join(format!("seed{seed}.json"))
    }

    /// The path of its run directory.
    pub fn run(&self, name: &str, seed: u64) -> PathBuf {
        self.runs.join(name).join(format!("seed{seed}"))
    }

    /// The name of the experiment of a row, and its records in the order of their seeds.
    pub fn of_row(&self, row: &Row) -> Result<(String, Vec<Record>)> {
        let name = self.catalogue.variant(&row.experiment, self.budget);
        let mut records = Vec::new();
        for path in files::entries(&self.folder.join(RECORDS).join(&name))? {
            let Some(seed) = seed_of(&path) else { continue };
            let Some(record) = Record::load(&path)? else { continue };
            // A row of a table of records may have no experiment.
            if self.catalogue.has(&name) {
                same(&self.catalogue.experiment(&name, seed)?, &record.config, &path)?;
            }
            records.push((seed, record));
        }
        records.sort_by_key(|(seed, _)| *seed);
        let records = records.into_iter().map(|(_, record)| record).collect();
        Ok((name, records))
    }

    /// Writes every record again in the present format, under the name of its folder. Returns their number.
    pub fn rewrite_records(&self) -> Result<usize> {
        let (root, mut count) = (self.folder.join(RECORDS), 0);
        for path in files::below(&root)?.iter().filter(|path| seed_of(path).is_some()) {
            if let (Some(mut record), Some(folder)) = (Record::load(path)?, path.parent()) {
                record.experiment = super::catalogue::name_below(&root, folder);
                record.save(path)?;
                count += 1;
            }
        }
        Ok(count)
    }

    /// The attention of a run at some points of training: all lines of its run directory, or those saved next to its
    /// record.
    pub fn attention(&self, name: &str, seed: u64) -> Result<Vec<Value>> {
        let lines = files::read_lines(&self.run(name, seed).join(attention_trace::FILE))?;
        if lines.is_empty() { files::read_lines(&self.kept_attention(name, seed)) } else { Ok(lines) }
    }

    /// Saves some lines of it next to the record, if there is a record.
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

    /// [`of_row`](Self::of_row), with a check that the records hold the metrics of the columns.
    pub(super) fn of_row_with(&self, row: &Row, columns: &[Column], table: &Table) -> Result<(String, Vec<Record>)> {
        let (name, records) = self.of_row(row)?;
        if table.of_records && records.is_empty() {
            return Err(LabError::Config(format!(
                "the row \"{}\" of the table {} has no record in {}",
                row.label,
                table.name,
                self.folder.join(RECORDS).join(&row.experiment).display()
            )));
        }
        for record in &records {
            let path = self.record(&name, record.config.train.seed);
            columns.iter().try_for_each(|column| record.check(column, &path))?;
        }
        Ok((name, records))
    }
}

/// The seed of `seedN.json`.
fn seed_of(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_prefix("seed")?.strip_suffix(".json")?.parse().ok()
}

/// Checks that a record or run directory belongs to the expected experiment.
pub(super) fn same(asked: &Experiment, found: &Experiment, place: &Path) -> Result<()> {
    let differences = found.differences(asked)?;
    match differences.is_empty() {
        true => Ok(()),
        false => Err(LabError::Run(format!(
            "{} belongs to another experiment ({}): move it away, or use another --results and --runs",
            place.display(),
            differences.join("; ")
        ))),
    }
}
