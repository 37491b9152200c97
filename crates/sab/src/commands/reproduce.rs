//! `sab reproduce`

use super::eval::How;
use super::{print, transfer};
use crate::device::DeviceName;
use crate::display::{Style, duration};
use crate::error::{LabError, Result};
use crate::experiment::Experiment;
use crate::heat_map::HeatMapError;
use crate::line_chart::LineChartError;
use crate::reproduce::{Budget, Catalogue, Group, Pace, Record, Results, Row, Table, pictures, same};
use crate::run_dir::{RunDir, atomic};
use crate::runs;
use crate::train::{Session, Stop};
use clap::Args;
use std::collections::HashMap;
use std::path::PathBuf;

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
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,

    /// Only rows whose experiment has this in its name; can be given again
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,

    /// Run nothing: say what is done and what is missing
    #[arg(long)]
    dry_run: bool,

    /// Run nothing: make the table of what is there
    #[arg(long, conflicts_with = "dry_run")]
    table_only: bool,

    /// Print a list of all experiments in Markdown: the command, the figure to expect and the time it takes
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

/// What goes on after an interruption.
const AGAIN: &str = "the same `sab reproduce`";

/// A run that the table asks for.
struct Wanted {
    /// The file of the experiment, without its ending.
    name: String,
    experiment: Experiment,
    record: PathBuf,
    run: PathBuf,
}

pub(super) fn run(arguments: &ReproduceArguments) -> Result<()> {
    let stop = if arguments.dry_run || arguments.table_only { Stop::default() } else { Stop::on_signals()? };
    let lab = Laboratory { arguments, results: arguments.kept.open()?, stop };
    let names: Vec<&str> = match arguments.table.as_deref() {
        None if arguments.index => return lab.index(),
        None => return lab.list(),
        Some("all") => lab.results.catalogue.names(),
        Some(name) => vec![name],
    };
    let tables: Vec<Table> = names.into_iter().map(|name| lab.results.catalogue.table(name)).collect::<Result<_>>()?;
    let mut wanted = Vec::new();
    for table in &tables {
        for run in lab.wanted(table)? {
            // Tables share rows.
            if wanted.iter().all(|known: &Wanted| known.record != run.record) {
                wanted.push(run);
            }
        }
    }
    if wanted.is_empty() {
        return Err(LabError::Config(format!("no row has {} in its name", arguments.only.join(" or "))));
    }
    match (arguments.dry_run, arguments.table_only) {
        (true, _) => return lab.plan(&wanted),
        // A run directory whose run has ended gets its record.
        (_, true) => wanted.iter().try_for_each(|wanted| lab.done(wanted).map(|_| ()))?,
        _ => lab.run_all(&wanted)?,
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
            let table = self.results.catalogue.table(name)?;
            let rows = table.rows().count();
            text += &format!("  {name:<14} {} ({}), {rows} rows\n", table.title, table.source);
        }
        print(&text)
    }

    /// All experiments of all tables with what was measured.
    fn index(&self) -> Result<()> {
        let mut text = String::new();
        for name in self.results.catalogue.names() {
            let table = self.results.catalogue.table(name)?;
            let rendered = self.results.render(&table)?;
            text += &rendered.to_index(&|experiment| self.results.catalogue.path_of(experiment));
        }
        print(&text)
    }

    fn rows<'t>(&self, table: &'t Table) -> impl Iterator<Item = &'t Row> {
        let only = &self.arguments.only;
        table.rows().filter(move |row| only.is_empty() || only.iter().any(|text| row.experiment.contains(text)))
    }

    /// The runs that a table asks for.
    fn wanted(&self, table: &Table) -> Result<Vec<Wanted>> {
        let mut all = Vec::new();
        for row in self.rows(table) {
            let name = self.results.catalogue.variant(row, self.results.budget);
            for seed in 1..=self.arguments.seeds.unwrap_or(row.seeds) {
                let mut experiment = self.results.catalogue.experiment(&name, seed)?;
                if let Some(data_dir) = &self.arguments.data_dir {
                    experiment.data_dir.clone_from(data_dir);
                }
                let (record, run) = (self.results.record(&name, seed), self.results.run(&name, seed));
                all.push(Wanted { name: name.clone(), experiment, record, run });
            }
        }
        Ok(all)
    }

    /// The record of a run, if it is done. A run directory that has ended gets its record here.
    fn done(&self, wanted: &Wanted) -> Result<Option<Record>> {
        if let Some(record) = Record::load(&wanted.record)? {
            same(&wanted.experiment, &record.config, &wanted.record)?;
            return Ok(Some(record));
        }
        if !wanted.run.exists() {
            return Ok(None);
        }
        let run = RunDir::open(&wanted.run)?;
        same(&wanted.experiment, &run.experiment()?, run.path())?;
        self.record(wanted, &run, None)
    }

    fn record(&self, wanted: &Wanted, run: &RunDir, failure: Option<String>) -> Result<Option<Record>> {
        let record = Record::of_run(run, &wanted.name, &self.results.catalogue.path_of(&wanted.name), failure)?;
        if let Some(record) = &record {
            record.save(&wanted.record)?;
        }
        Ok(record)
    }

    /// Says what is done and what is missing.
    fn plan(&self, wanted: &[Wanted]) -> Result<()> {
        let mut text = String::new();
        for wanted in wanted {
            let state = match (self.done(wanted)?, wanted.run.exists()) {
                (Some(Record { failure: Some(_), .. }), _) => "failed".to_string(),
                (Some(record), _) => {
                    let time =
                        record.effort().map_or(String::new(), |(_, seconds)| format!(" in {}", duration(seconds)));
                    format!("done{time}")
                }
                (None, true) => "interrupted".to_string(),
                (None, false) => "missing".to_string(),
            };
            text += &format!("{:<40} seed {}  {state}\n", wanted.name, wanted.experiment.train.seed);
        }
        print(&text)
    }

    /// Runs what is not done.
    fn run_all(&self, wanted: &[Wanted]) -> Result<()> {
        let mut pace = Pace::default();
        let mut missing = Vec::new();
        // All data is looked for before hours are spent.
        let mut tasks = HashMap::new();
        for wanted in wanted {
            let work = Pace::work(&wanted.experiment, &mut tasks)?;
            match self.done(wanted)? {
                Some(record) => pace.add(work, &record),
                None => missing.push((wanted, work)),
            }
        }
        drop(tasks);
        let (count, skipped) = (missing.len(), wanted.len() - missing.len());
        for (place, (wanted, _)) in missing.iter().enumerate() {
            let left: f64 = missing[place..].iter().map(|(_, work)| work).sum();
            let left = pace.seconds(left).map_or(String::new(), |left| format!(", about {} left", duration(left)));
            let (name, seed) = (&wanted.name, wanted.experiment.train.seed);
            let done = skipped + place;
            eprintln!("run {} of {}: {name}, seed {seed} ({done} done{left})", done + 1, skipped + count);
            let record = self.train(wanted)?;
            pace.add(missing[place].1, &record);
        }
        Ok(())
    }

    fn train(&self, wanted: &Wanted) -> Result<Record> {
        let session = Session { threads: self.arguments.threads.map(usize::from), max_seconds: None, device: None };
        let style = if self.arguments.quiet { Style::Quiet } else { Style::Auto };
        let finished = match wanted.run.exists() {
            true => runs::resume(&wanted.run, self.arguments.data_dir.as_deref(), session, style, self.stop.clone()),
            false => runs::begin(&wanted.run, &wanted.experiment, session, style, self.stop.clone()),
        };
        let record = match finished {
            Ok(finished) => self.record(wanted, &finished.run, None)?,
            // A model that cannot be trained is a result.
            Err(LabError::Diverged(why)) => self.record(wanted, &RunDir::open(&wanted.run)?, Some(why))?,
            Err(LabError::Interrupted { signal, update, .. }) => {
                return Err(LabError::Interrupted { signal, again: AGAIN.into(), update });
            }
            Err(why) => return Err(why),
        };
        record.ok_or_else(|| LabError::Run(format!("{} has ended without a summary", wanted.run.display())))
    }

    /// Judges the models of a table at its lengths, where that is not done.
    fn transfer(&self, table: &Table) -> Result<()> {
        if table.lengths.is_empty() {
            return Ok(());
        }
        for wanted in self.wanted(table)? {
            // An interrupted call has left some lengths in the run directory.
            let record = match wanted.run.exists() {
                true => self.record(&wanted, &RunDir::open(&wanted.run)?, None)?,
                false => Record::load(&wanted.record)?,
            };
            let Some(record) = record else { continue };
            let known = |length: &usize| record.figures_at(Some(*length)).is_some();
            let missing: Vec<usize> = table.lengths.iter().copied().filter(|length| !known(length)).collect();
            if missing.is_empty() || record.summary.is_none() {
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
            self.record(&wanted, &RunDir::open(&wanted.run)?, None)?;
        }
        Ok(())
    }

    /// Fills a table with what is there, prints it and writes it.
    fn write(&self, table: &Table) -> Result<()> {
        let rendered = self.results.render(table)?;
        let folder = &self.results.folder;
        std::fs::create_dir_all(folder).map_err(|why| LabError::file("create", folder, &why))?;
        let file = |kind: &str| folder.join(format!("{}.{kind}", table.name));
        let markdown = rendered.to_markdown();
        atomic::write(&file("md"), markdown.as_bytes())?;
        atomic::write(&file("csv"), rendered.to_csv().as_bytes())?;
        atomic::write(&file("tex"), rendered.to_latex().as_bytes())?;
        atomic::write_json(&file("json"), &rendered)?;
        self.draw(table)?;
        print(&format!("{markdown}\nwritten to {}, .csv, .tex and .json\n", file("md").display()))
    }

    /// Draws how the rows learn and, where the table asks for it, how attention forms.
    fn draw(&self, table: &Table) -> Result<()> {
        let file = |what: &str| self.results.folder.join(format!("{}{what}", table.name));
        let mut records = HashMap::new();
        for row in table.rows() {
            records.insert(&row.experiment, self.results.of_row(row)?.1);
        }
        // The first seed stands for its row.
        let of_group = |group: &Group| {
            let first = |row: &Row| Some((row.label.clone(), records.get(&row.experiment)?.first()?.clone()));
            group.rows.iter().filter_map(first).collect()
        };
        if let Some(figure) = pictures::learning_curves(table, &of_group) {
            let wrong = |why: LineChartError| LabError::Run(format!("cannot draw learning curves: {why}"));
            atomic::write(&file(".svg"), figure.to_svg().map_err(wrong)?.as_bytes())?;
            atomic::write(&file(".png"), &figure.to_png().map_err(wrong)?)?;
        }
        let Some(asked) = &table.attention else { return Ok(()) };
        if let Some(maps) = pictures::attention(asked, &self.results.run(&asked.experiment, 1))? {
            let wrong = |why: HeatMapError| LabError::Run(format!("cannot draw the attention: {why}"));
            atomic::write(&file("-focus.svg"), maps.to_svg().map_err(wrong)?.as_bytes())?;
            atomic::write(&file("-focus.png"), &maps.to_png().map_err(wrong)?)?;
        }
        Ok(())
    }
}
