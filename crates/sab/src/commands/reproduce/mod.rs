//! `sab reproduce`

mod output;
mod work;

use super::print;
use crate::error::{LabError, Result};
use crate::reproduce::{Budget, Catalogue, Results, Table};
use crate::train::Stop;
use clap::Args;
use std::path::PathBuf;
use work::Wanted;

/// Run the experiments of a table of the paper and make the table
///
/// What is done is skipped, what was interrupted goes on, what is missing is run. The table (Markdown, CSV, LaTeX, JSON)
/// and a record of each run go into --results.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ReproduceArguments {
    /// The table, or `all`; without one the tables are listed
    #[arg(value_name = "TABLE")]
    table: Option<String>,

    /// Seeds a row, from 1; by default as the table says
    #[arg(long, value_name = "N", requires = "table", value_parser = clap::value_parser!(u64).range(1..=MOST_SEEDS))]
    seeds: Option<u64>,

    /// Only rows whose experiment has this in its name; can be given again
    #[arg(long, value_name = "TEXT", requires = "table")]
    only: Vec<String>,

    /// Run nothing and write nothing: say what is done, what is missing and about how long that takes
    #[arg(long, requires = "table")]
    dry_run: bool,

    /// Run nothing: make the table of what is there
    #[arg(long, conflicts_with = "dry_run", requires = "table")]
    table_only: bool,

    /// Print a list of all experiments in Markdown: the command, the metric to expect and the time it takes
    #[arg(long, conflicts_with_all = ["table", "dry_run", "table_only"])]
    index: bool,

    #[command(flatten)]
    kept: Kept,

    /// Where data sets are
    #[arg(long, value_name = "DIR", env = "SAB_DATA_DIR")]
    data_dir: Option<PathBuf>,

    /// Threads; the result does not depend on it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,

    /// Show only which run begins and which ends
    #[arg(long, short)]
    quiet: bool,
}

/// Which experiments, and where what was measured is kept.
#[derive(Args, Debug)]
pub(super) struct Kept {
    /// How much to spend on a row
    #[arg(long, value_enum, default_value = "cpu")]
    budget: Budget,

    /// Where tables and records are
    #[arg(long, value_name = "DIR", default_value = "reproduced")]
    results: PathBuf,

    /// Where the run directories are; RESULTS/runs if not said
    #[arg(long, value_name = "DIR")]
    runs: Option<PathBuf>,

    /// A folder of tables and experiments of your own, in place of those in the program
    #[arg(long, value_name = "DIR")]
    experiments: Option<PathBuf>,
}

impl Kept {
    pub(super) fn open(&self) -> Result<Results> {
        let catalogue = match &self.experiments {
            Some(folder) => Catalogue::of_folder(folder)?,
            None => Catalogue::built_in(),
        };
        let runs = self.runs.clone().unwrap_or_else(|| self.results.join("runs"));
        Ok(Results { catalogue, budget: self.budget, folder: self.results.clone(), runs })
    }
}

const EXAMPLES: &str = "\
Examples:
  sab reproduce                                   the tables
  sab reproduce copy --only 100- --dry-run        what copying at T=100 takes
  sab reproduce copy --only 100-sab --seeds 3
  sab reproduce pmnist --data-dir data --budget paper
  sab reproduce all --results results --table-only    tables of what was measured";

/// More would be a slip of the hand.
const MOST_SEEDS: u64 = 1_000_000;

pub(super) fn run(arguments: &ReproduceArguments) -> Result<()> {
    let stop = if arguments.dry_run || arguments.table_only { Stop::default() } else { Stop::on_signals()? };
    let lab = Laboratory { arguments, results: arguments.kept.open()?, stop };
    let names: Vec<&str> = match arguments.table.as_deref() {
        None if arguments.index => return lab.index(),
        None => return lab.list(),
        Some("all") => lab.results.catalogue.names(),
        Some(name) => vec![name],
    };
    let tables: Vec<Table> = names.into_iter().map(|name| lab.results.table(name)).collect::<Result<_>>()?;
    let mut wanted = Vec::new();
    for table in &tables {
        for run in lab.wanted(table)? {
            // Tables share rows.
            match wanted.iter_mut().find(|known: &&mut Wanted| known.record == run.record) {
                Some(known) => {
                    known.lengths.extend(run.lengths);
                    known.lengths.sort_unstable();
                    known.lengths.dedup();
                }
                None => wanted.push(run),
            }
        }
    }
    if wanted.is_empty() {
        return Err(LabError::Config(format!("no row has {} in its name", arguments.only.join(" or "))));
    }
    match (arguments.dry_run, arguments.table_only) {
        (true, _) => return lab.plan(&wanted),
        // A run directory whose run has ended gets its record.
        (_, true) => {
            let found: Vec<_> = wanted.iter().map(|wanted| lab.done(wanted)).collect::<Result<_>>()?;
            if found.iter().all(Option::is_none) {
                return Err(lab.results.nothing_of(arguments.table.as_deref().unwrap_or("all")));
            }
        }
        _ => {
            tables.iter().try_for_each(|table| lab.check_attention(table))?;
            lab.run_all(&wanted)?;
        }
    }
    for table in &tables {
        if !arguments.table_only {
            lab.transfer(table)?;
        }
        lab.write(table)?;
    }
    Ok(())
}

/// The arguments and what they are about.
struct Laboratory<'a> {
    arguments: &'a ReproduceArguments,
    results: Results,
    stop: Stop,
}

impl Laboratory<'_> {
    /// The tables there are.
    fn list(&self) -> Result<()> {
        let mut text = String::from("Tables (`sab reproduce TABLE` runs one):\n");
        for name in self.results.catalogue.names() {
            let table = self.results.table(name)?;
            let rows = table.rows().count();
            let s = if rows == 1 { "" } else { "s" };
            text += &format!("  {name:<14} {} ({}), {rows} row{s}\n", table.title, table.source);
        }
        print(&text)
    }

    /// All experiments of all tables with what was measured.
    fn index(&self) -> Result<()> {
        let mut text = String::new();
        for name in self.results.catalogue.names() {
            let table = self.results.table(name)?;
            let rendered = self.results.render(&table)?;
            text += &rendered.to_index(&|experiment| self.results.catalogue.path_of(experiment));
        }
        print(&text)
    }
}
