//! [`Work`]: the runs that tables need, their states, and the training and judging of those that are not done.

use super::pace::Missing;
use super::record::Record;
use super::results::Results;
use super::table::{Row, Table};
use super::wanted::Wanted;
use crate::display::Style;
use crate::error::{LabError, Result};
use crate::run_dir::{atomic, files};
use crate::runs::{self, At, JudgeOptions, Judging, judge_lengths};
use crate::suggest::nearest_few;
use crate::train::{Session, Stop};
use std::path::{Path, PathBuf};

/// The command that continues after an interruption.
const AGAIN: &str = "the same `sab reproduce`";

/// More would be a slip of the hand.
const MOST_SEEDS: u64 = 1_000_000;

/// How tables are run: flags of `sab reproduce`, whose argument `table` some of them need.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct RunOptions {
    /// Seeds per row, from 1 [default: as the table says]
    #[arg(long, value_name = "N", requires = "table", value_parser = clap::value_parser!(u64).range(1..=MOST_SEEDS))]
    pub seeds: Option<u64>,

    /// Run only rows with this in the name of their experiment; repeat for more rows
    #[arg(long, value_name = "TEXT", requires = "table")]
    pub only: Vec<String>,

    /// The folder of the data sets
    #[arg(long, value_name = "DIR", env = "SAB_DATA_DIR")]
    pub data_dir: Option<PathBuf>,

    /// Number of threads; the result does not depend on it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,

    /// How a training is shown.
    #[arg(skip)]
    pub style: Style,

    /// Asked after each update whether to stop.
    #[arg(skip)]
    pub stop: Stop,
}

/// A step in the running of tables.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The training of a run begins or is resumed.
    Training {
        /// The run.
        run: &'a Wanted,
        /// Runs that are done.
        done: usize,
        /// Runs in all.
        of: usize,
        /// Estimated seconds for all that is left.
        seconds_left: Option<f64>,
    },
    /// The model of a run is about to be judged at other lengths.
    Judging(&'a Wanted),
    /// How far that is, or a length that is judged.
    Judged(Judging<'a>),
}

/// The state of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// There is a record, or the run in the run directory has ended.
    Done {
        /// The training time in seconds.
        seconds: Option<f64>,
        /// The lengths of its tables at which the model has not been judged.
        lengths_left: Vec<At>,
    },
    /// Training failed, which is a result.
    Failed,
    /// The latest checkpoint is of this update.
    Interrupted(u64),
    /// There is neither a record nor a run directory.
    Missing,
}

/// How long the missing runs take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TimeLeft {
    /// Nothing is missing.
    Nothing,
    /// An estimate in seconds.
    Seconds(f64),
    /// Unknown: none of the rows has been run here.
    Unknown,
    /// Unknown: the data of the missing runs was not found.
    WithoutData,
}

/// The runs of tables, in a folder of results.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    /// Tables, records and run directories.
    pub results: &'a Results,
    /// How the tables are run.
    pub options: &'a RunOptions,
}

impl Work<'_> {
    /// The runs that some tables need, each once.
    pub fn runs(&self, tables: &[Table]) -> Result<Vec<Wanted>> {
        let mut all: Vec<Wanted> = Vec::new();
        for table in tables {
            for run in self.runs_of(table)? {
                // Tables share rows.
                match all.iter_mut().find(|known| known.record == run.record) {
                    Some(known) => {
                        let new = run.lengths.into_iter().filter(|at| !known.lengths.contains(at)).collect::<Vec<_>>();
                        known.lengths.extend(new);
                        known.lengths.sort_by_key(|at| at.length);
                    }
                    None => all.push(run),
                }
            }
        }
        match all.is_empty() && !self.options.only.is_empty() {
            true => Err(self.no_row(tables)),
            false => Ok(all),
        }
    }

    /// The error if `--only` matches no row.
    fn no_row(&self, tables: &[Table]) -> LabError {
        let rows = || tables.iter().flat_map(Table::rows).map(|row| row.experiment.as_str());
        let mut near: Vec<&str> = Vec::new();
        for name in self.options.only.iter().flat_map(|text| nearest_few(text, rows())) {
            if !near.contains(&name) {
                near.push(name);
            }
        }
        let (only, near) = (self.options.only.join(" or "), near.join(", "));
        LabError::Config(format!("no row has {only} in its name; the nearest rows are {near}"))
    }

    fn runs_of(&self, table: &Table) -> Result<Vec<Wanted>> {
        let (results, options) = (self.results, self.options);
        let asked =
            |row: &&Row| options.only.is_empty() || options.only.iter().any(|text| row.experiment.contains(text));
        let mut all = Vec::new();
        for group in &table.groups {
            let metrics: Vec<String> = table.columns(group).iter().map(|column| column.metric.name.clone()).collect();
            for row in group.rows.iter().filter(asked) {
                let name = results.catalogue.variant(&row.experiment, results.budget);
                for seed in 1..=options.seeds.unwrap_or(row.seeds) {
                    let mut experiment = results.catalogue.experiment(&name, seed)?;
                    if let Some(data_dir) = &options.data_dir {
                        experiment.data_dir.clone_from(data_dir);
                    }
                    let (record, run) = (results.record(&name, seed), results.run(&name, seed));
                    let (name, metrics, lengths) = (name.clone(), metrics.clone(), table.lengths.clone());
                    all.push(Wanted { name, experiment, metrics, lengths, record, run });
                }
            }
        }
        Ok(all)
    }

    /// The state of each run, and how long the missing ones take. Writes nothing.
    pub fn plan(&self, wanted: &[Wanted]) -> Result<(Vec<State>, TimeLeft)> {
        let found: Vec<Option<Record>> = wanted.iter().map(Wanted::found).collect::<Result<_>>()?;
        let state = |(wanted, record): (&Wanted, &Option<Record>)| match record {
            Some(Record { failure: Some(_), .. }) => Ok(State::Failed),
            Some(record) => Ok(State::Done {
                seconds: record.effort().map(|(_, seconds)| seconds),
                lengths_left: record.lengths_left(&wanted.lengths),
            }),
            None if wanted.run.exists() => Ok(State::Interrupted(wanted.made()?)),
            None => Ok(State::Missing),
        };
        let states = wanted.iter().zip(&found).map(state).collect::<Result<_>>()?;
        let left = match Missing::of(wanted, &found) {
            Ok(missing) if missing.runs.is_empty() => TimeLeft::Nothing,
            Ok(missing) => missing.seconds_left(0).map_or(TimeLeft::Unknown, TimeLeft::Seconds),
            // Data that is not there stops a run, not a plan.
            Err(LabError::Data(_)) => TimeLeft::WithoutData,
            Err(why) => return Err(why),
        };
        Ok((states, left))
    }

    /// Saves records of run directories that have ended. Returns how many of the runs are done.
    pub fn collect(&self, wanted: &[Wanted]) -> Result<usize> {
        wanted.iter().try_fold(0, |count, wanted| Ok(count + usize::from(wanted.done()?.is_some())))
    }

    /// Trains the runs that are not done. Reports wrong data and folders that cannot be written before it spends hours.
    pub fn train(&self, wanted: &[Wanted], tell: &mut dyn FnMut(Event)) -> Result<()> {
        let found: Vec<Option<Record>> = wanted.iter().map(Wanted::done).collect::<Result<_>>()?;
        let mut missing = Missing::of(wanted, &found)?;
        if !missing.runs.is_empty() {
            check_writable(&self.results.folder)?;
        }
        let before = wanted.len() - missing.runs.len();
        for place in 0..missing.runs.len() {
            let (run, work, _) = missing.runs[place];
            let (done, seconds_left) = (before + place, missing.seconds_left(place));
            tell(Event::Training { run, done, of: wanted.len(), seconds_left });
            let record = self.train_one(run)?;
            missing.add(work, &record);
        }
        Ok(())
    }

    fn train_one(&self, wanted: &Wanted) -> Result<Record> {
        let RunOptions { data_dir, threads, style, stop, .. } = self.options;
        let session = Session { threads: threads.map(usize::from), ..Session::default() };
        let finished = match wanted.run.exists() {
            true => runs::resume(&wanted.run, data_dir.as_deref(), session, *style, stop.clone()),
            false => runs::begin(&wanted.run, &wanted.experiment, session, *style, stop.clone()),
        };
        let record = match finished {
            Ok(_) => wanted.keep(None)?,
            // A model that cannot be trained is a result.
            Err(LabError::Diverged(why)) => wanted.keep(Some(why))?,
            Err(LabError::Interrupted { signal, update, .. }) => {
                return Err(LabError::Interrupted { signal, again: AGAIN.into(), update });
            }
            Err(why) => return Err(why),
        };
        record.ok_or_else(|| LabError::Run(format!("{} ended without a summary", wanted.run.display())))
    }

    /// Judges models at those lengths of their tables at which they have not been judged.
    pub fn judge(&self, wanted: &[Wanted], tell: &mut dyn FnMut(Event)) -> Result<()> {
        for wanted in wanted.iter().filter(|wanted| !wanted.lengths.is_empty()) {
            // An interrupted call has left some lengths in the run directory.
            let record = match wanted.run.exists() {
                true => wanted.keep(None)?,
                false => Record::load(&wanted.record)?,
            };
            let Some(record) = record else { continue };
            let missing = record.lengths_left(&wanted.lengths);
            if missing.is_empty() {
                continue;
            }
            let lengths = || missing.iter().map(At::to_string).collect::<Vec<_>>().join(", ");
            if !wanted.run.exists() {
                return Err(LabError::Run(format!(
                    "evaluating {} at {} needs its model, but {} does not exist: name its place with \
                     --runs, or remove {} to train it again",
                    wanted.name,
                    lengths(),
                    wanted.run.display(),
                    wanted.record.display()
                )));
            }
            tell(Event::Judging(wanted));
            let RunOptions { data_dir, threads, .. } = self.options.clone();
            let options = JudgeOptions { data_dir, threads, ..JudgeOptions::default() };
            let judged = judge_lengths(&wanted.run, &missing, &options, &mut |report| {
                tell(Event::Judged(report));
                match self.options.stop.asked() {
                    Some(signal) => {
                        let left = format!("{AGAIN} continues with the lengths that are not done");
                        Err(LabError::Stopped { signal, left })
                    }
                    None => Ok(()),
                }
            });
            // Also after an interruption: some lengths may be done.
            wanted.keep(None)?;
            judged?;
        }
        Ok(())
    }
}

/// Checks that records can be written.
fn check_writable(folder: &Path) -> Result<()> {
    files::create_folder(folder)?;
    let probe = folder.join(".writable");
    atomic::write(&probe, b"")?;
    std::fs::remove_file(&probe).map_err(|why| LabError::file("remove", &probe, &why))
}
