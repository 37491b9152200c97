//! What tables ask for, and the training of what is missing.

use super::super::{eval::How, print, transfer};
use super::Laboratory;
use crate::device::DeviceName;
use crate::display::{Style, duration};
use crate::error::{LabError, Result};
use crate::experiment::Experiment;
use crate::reproduce::{OpenTasks, Pace, Record, Row, Table, same};
use crate::run_dir::{RunDir, atomic};
use crate::runs;
use crate::tasks::{Tally, Task};
use crate::train::{MEMORIES, Session, checkpoint};
use std::path::PathBuf;

/// What goes on after an interruption.
const AGAIN: &str = "the same `sab reproduce`";

/// A run that a table asks for.
pub(super) struct Wanted {
    /// The file of the experiment, without its ending.
    name: String,
    experiment: Experiment,
    /// What its row reports.
    metrics: Vec<String>,
    /// The lengths at which its table judges it besides.
    pub(super) lengths: Vec<usize>,
    pub(super) record: PathBuf,
    run: PathBuf,
}

impl Wanted {
    /// Updates that an interrupted run has behind it.
    fn made(&self) -> Result<u64> {
        if !self.run.exists() {
            return Ok(0);
        }
        Ok(checkpoint::list(&RunDir::open(&self.run)?)?.into_iter().map(|(update, _)| update).max().unwrap_or(0))
    }

    /// That the task has what the row reports.
    fn check_metrics(&self, task: &dyn Task) -> Result<()> {
        let mut known: Vec<&str> = task.metrics(&Tally::default()).into_iter().map(|(name, _)| name).collect();
        if !self.lengths.is_empty() {
            known.push(MEMORIES);
        }
        match self.metrics.iter().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => Err(LabError::Config(format!(
                "the table of {} reports `{name}`, but its task has {}",
                self.name,
                known.join(", ")
            ))),
        }
    }
}

/// Runs that are not done, with the work that is in each and the work that is left of it; and how fast those were that are done.
struct Missing<'a> {
    runs: Vec<(&'a Wanted, f64, f64)>,
    pace: Pace,
}

impl Missing<'_> {
    /// Seconds that the runs from `place` on take, in words, if anything is known.
    fn time_left(&self, place: usize) -> Option<String> {
        self.pace.seconds(self.runs[place..].iter().map(|(_, _, left)| left).sum()).map(duration)
    }
}

impl Laboratory<'_> {
    fn rows<'t>(&self, table: &'t Table) -> impl Iterator<Item = (&'t Row, Vec<String>)> {
        let only = &self.arguments.only;
        let asked = move |row: &Row| only.is_empty() || only.iter().any(|text| row.experiment.contains(text));
        table.groups.iter().flat_map(move |group| {
            let metrics: Vec<String> = table.columns(group).iter().map(|column| column.metric.name.clone()).collect();
            group.rows.iter().filter(move |row| asked(row)).map(move |row| (row, metrics.clone()))
        })
    }

    /// The runs that a table asks for.
    pub(super) fn wanted(&self, table: &Table) -> Result<Vec<Wanted>> {
        let mut all = Vec::new();
        for (row, metrics) in self.rows(table) {
            let name = self.results.catalogue.variant(row, self.results.budget);
            for seed in 1..=self.arguments.seeds.unwrap_or(row.seeds) {
                let mut experiment = self.results.catalogue.experiment(&name, seed)?;
                if let Some(data_dir) = &self.arguments.data_dir {
                    experiment.data_dir.clone_from(data_dir);
                }
                let (record, run) = (self.results.record(&name, seed), self.results.run(&name, seed));
                let (name, metrics, lengths) = (name.clone(), metrics.clone(), table.lengths.clone());
                all.push(Wanted { name, experiment, metrics, lengths, record, run });
            }
        }
        Ok(all)
    }

    /// The record of a run, if it is done: the one that is kept, or what its run directory says.
    fn found(&self, wanted: &Wanted) -> Result<Option<Record>> {
        if let Some(record) = Record::load(&wanted.record)? {
            same(&wanted.experiment, &record.config, &wanted.record)?;
            return Ok(Some(record));
        }
        if !wanted.run.exists() {
            return Ok(None);
        }
        let run = RunDir::open(&wanted.run)?;
        same(&wanted.experiment, &run.experiment()?, run.path())?;
        self.record_of(wanted, &run, None)
    }

    /// The record of a run, if it is done. A run directory that has ended gets its record here.
    pub(super) fn done(&self, wanted: &Wanted) -> Result<Option<Record>> {
        let record = self.found(wanted)?;
        match &record {
            Some(record) if !wanted.record.exists() => record.save(&wanted.record)?,
            _ => (),
        }
        Ok(record)
    }

    fn record_of(&self, wanted: &Wanted, run: &RunDir, failure: Option<String>) -> Result<Option<Record>> {
        Record::of_run(run, &wanted.name, &self.results.catalogue.path_of(&wanted.name), failure)
    }

    /// Keeps what has come of a run, if it has ended.
    fn keep(&self, wanted: &Wanted, failure: Option<String>) -> Result<Option<Record>> {
        let record = self.record_of(wanted, &RunDir::open(&wanted.run)?, failure)?;
        if let Some(record) = &record {
            record.save(&wanted.record)?;
        }
        Ok(record)
    }

    /// Says what is done and what is missing, and writes nothing.
    pub(super) fn plan(&self, wanted: &[Wanted]) -> Result<()> {
        let found: Vec<Option<Record>> = wanted.iter().map(|wanted| self.found(wanted)).collect::<Result<_>>()?;
        let mut text = String::new();
        for (wanted, record) in wanted.iter().zip(&found) {
            let state = match (record, wanted.run.exists()) {
                (Some(Record { failure: Some(_), .. }), _) => "failed".to_string(),
                (Some(record), _) => {
                    let time =
                        record.effort().map_or(String::new(), |(_, seconds)| format!(" in {}", duration(seconds)));
                    let left = record.lengths_left(&wanted.lengths);
                    let lengths: Vec<String> = left.iter().map(usize::to_string).collect();
                    let judged = match lengths.is_empty() {
                        true => String::new(),
                        false => format!(", not judged at T={} yet", lengths.join(", ")),
                    };
                    format!("done{time}{judged}")
                }
                (None, true) => format!("interrupted after {} updates", wanted.made()?),
                (None, false) => "missing".to_string(),
            };
            text += &format!("{:<40} seed {}  {state}\n", wanted.name, wanted.experiment.train.seed);
        }
        let left = match self.missing(wanted, &found) {
            Ok(missing) if missing.runs.is_empty() => String::new(),
            Ok(missing) => match missing.time_left(0) {
                Some(left) => format!(", about {left} left"),
                None => ", time left unknown: none of these rows has been run here".into(),
            },
            // Data that is not there is a matter of the run, not of the plan.
            Err(LabError::Data(_)) => ", time left unknown without the data of the others (--data-dir)".into(),
            Err(why) => return Err(why),
        };
        let done = found.iter().flatten().count();
        print(&format!("{text}{done} of {} runs done{left}\n", wanted.len()))
    }

    /// What is not done, its data found and its metrics known.
    fn missing<'a>(&self, wanted: &'a [Wanted], found: &[Option<Record>]) -> Result<Missing<'a>> {
        let mut missing = Missing { runs: Vec::new(), pace: Pace::default() };
        let mut tasks = OpenTasks::default();
        for (wanted, _) in wanted.iter().zip(found).filter(|(_, record)| record.is_none()) {
            let task = tasks.of(&wanted.experiment)?;
            wanted.check_metrics(task)?;
            let work = |made| Pace::work(&wanted.experiment, task, made);
            missing.runs.push((wanted, work(0)?, work(wanted.made()?)?));
        }
        if missing.runs.is_empty() {
            return Ok(missing);
        }
        for (wanted, record) in wanted.iter().zip(found) {
            // A row that is done needs no data any more: without it, it tells nothing of the pace.
            if let (Some(record), Ok(task)) = (record, tasks.of(&wanted.experiment)) {
                missing.pace.add(Pace::work(&wanted.experiment, task, 0)?, record);
            }
        }
        Ok(missing)
    }

    /// Runs what is not done. All that can be wrong with data and places is found before hours are spent.
    pub(super) fn run_all(&self, wanted: &[Wanted]) -> Result<()> {
        let found: Vec<Option<Record>> = wanted.iter().map(|wanted| self.done(wanted)).collect::<Result<_>>()?;
        let mut missing = self.missing(wanted, &found)?;
        if !missing.runs.is_empty() {
            self.check_results()?;
        }
        let before = wanted.len() - missing.runs.len();
        for place in 0..missing.runs.len() {
            let (wanted_now, work, _) = missing.runs[place];
            let left = missing.time_left(place).map_or(String::new(), |left| format!(", about {left} left"));
            let (name, seed, done) = (&wanted_now.name, wanted_now.experiment.train.seed, before + place);
            eprintln!("run {} of {}: {name}, seed {seed} ({done} done{left})", done + 1, wanted.len());
            let record = self.train(wanted_now)?;
            missing.pace.add(work, &record);
        }
        Ok(())
    }

    /// That records can be written.
    fn check_results(&self) -> Result<()> {
        let folder = &self.results.folder;
        std::fs::create_dir_all(folder).map_err(|why| LabError::file("create", folder, &why))?;
        let probe = folder.join(".writable");
        atomic::write(&probe, b"")?;
        std::fs::remove_file(&probe).map_err(|why| LabError::file("remove", &probe, &why))
    }

    fn train(&self, wanted: &Wanted) -> Result<Record> {
        let session = Session { threads: self.arguments.threads.map(usize::from), max_seconds: None, device: None };
        let style = if self.arguments.quiet { Style::Quiet } else { Style::Auto };
        let finished = match wanted.run.exists() {
            true => runs::resume(&wanted.run, self.arguments.data_dir.as_deref(), session, style, self.stop.clone()),
            false => runs::begin(&wanted.run, &wanted.experiment, session, style, self.stop.clone()),
        };
        let record = match finished {
            Ok(_) => self.keep(wanted, None)?,
            // A model that cannot be trained is a result.
            Err(LabError::Diverged(why)) => self.keep(wanted, Some(why))?,
            Err(LabError::Interrupted { signal, update, .. }) => {
                return Err(LabError::Interrupted { signal, again: AGAIN.into(), update });
            }
            Err(why) => return Err(why),
        };
        record.ok_or_else(|| LabError::Run(format!("{} has ended without a summary", wanted.run.display())))
    }

    /// Judges the models of a table at its lengths, where that is not done.
    pub(super) fn transfer(&self, table: &Table) -> Result<()> {
        if table.lengths.is_empty() {
            return Ok(());
        }
        for wanted in self.wanted(table)? {
            // An interrupted call has left some lengths in the run directory.
            let record = match wanted.run.exists() {
                true => self.keep(&wanted, None)?,
                false => Record::load(&wanted.record)?,
            };
            let Some(record) = record else { continue };
            let missing = record.lengths_left(&wanted.lengths);
            if missing.is_empty() {
                continue;
            }
            if !wanted.run.exists() {
                return Err(LabError::Run(format!(
                    "the model of {} is needed for {missing:?} steps, but {} is not there: say where with --runs, or remove {} \
                     to train it again",
                    wanted.name,
                    wanted.run.display(),
                    wanted.record.display()
                )));
            }
            eprintln!("{}, seed {}, at other lengths", wanted.name, wanted.experiment.train.seed);
            let how = How {
                data_dir: self.arguments.data_dir.clone(),
                threads: self.arguments.threads,
                device: DeviceName::Cpu,
                json: false,
            };
            let shown = |line: &str| {
                eprint!("{line}");
                match self.stop.asked() {
                    Some(signal) => Err(LabError::Interrupted { signal, again: AGAIN.into(), update: 0 }),
                    None => Ok(()),
                }
            };
            transfer::measure(&wanted.run, &missing, None, &how, &shown)?;
            self.keep(&wanted, None)?;
        }
        Ok(())
    }
}
