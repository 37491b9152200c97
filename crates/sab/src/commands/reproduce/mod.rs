//! `sab reproduce`

use super::print;
use super::transfer::{self, Meters};
use crate::display::{Style, duration};
use crate::error::{LabError, Result};
use crate::reproduce::{Budget, Catalogue, Event, Format, Results, RunOptions, State, Table, TimeLeft, Wanted, Work};
use crate::run_dir::atomic;
use crate::runs::{At, Judging};
use crate::train::Stop;
use clap::Args;
use std::path::{Path, PathBuf};

/// Run the experiments of a table of the paper and make the table
///
/// Finished runs are skipped, interrupted runs continue, missing runs begin. The table and a record of each run are
/// written to --results. `sab train RECORD.json` runs the experiment of a record again.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ReproduceArguments {
    /// The table, or `all`; without it, the tables are listed
    #[arg(value_name = "TABLE")]
    table: Option<String>,

    #[command(flatten)]
    options: RunOptions,

    /// Run nothing and write nothing: list the runs, done or missing, and estimate the time left
    #[arg(long, requires = "table")]
    dry_run: bool,

    /// Run nothing: make the table from existing records
    #[arg(long, conflicts_with = "dry_run", requires = "table")]
    table_only: bool,

    /// The formats to write a table in, separated by commas
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "md,png",
        requires = "table",
        value_name = "FORMAT,..."
    )]
    formats: Vec<Format>,

    /// Fill the table blocks of a Markdown page from the records; repeat for more pages
    #[arg(long, value_name = "PAGE", conflicts_with = "table")]
    fill: Vec<PathBuf>,

    /// Write all records of --results again in the present format
    #[arg(long, conflicts_with_all = ["table", "fill"])]
    rewrite_records: bool,

    #[command(flatten)]
    kept: Kept,

    /// Show only the start of each run
    #[arg(long, short)]
    quiet: bool,
}

/// The experiments, and the folders of results.
#[derive(Args, Debug)]
pub(super) struct Kept {
    /// How much to spend on a row
    #[arg(long, value_enum, default_value = "cpu")]
    budget: Budget,

    /// The folder of tables and records
    #[arg(long, value_name = "DIR", default_value = "reproduced")]
    results: PathBuf,

    /// The folder of run directories [default: RESULTS/runs]
    #[arg(long, value_name = "DIR")]
    runs: Option<PathBuf>,

    /// A folder of tables and experiments of your own, instead of those built into the program
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
  sab reproduce                                   list the tables
  sab reproduce copy --only 100- --dry-run        list the runs for copying at T=100, and their time
  sab reproduce copy --only 100-sab --seeds 3
  sab reproduce pmnist --data-dir data --budget paper
  sab reproduce all --results results --table-only                   make all tables from records
  sab reproduce copy --results results --table-only --formats csv,tex,json,svg";

pub(super) fn run(arguments: &ReproduceArguments) -> Result<()> {
    let results = arguments.kept.open()?;
    if arguments.rewrite_records {
        return print(&format!("{} records written\n", results.rewrite_records()?));
    }
    if !arguments.fill.is_empty() {
        return arguments.fill.iter().try_for_each(|page| fill(&results, page));
    }
    let names: Vec<String> = match arguments.table.as_deref() {
        None => return list(&results),
        Some("all") if arguments.table_only => results.names()?,
        Some("all") => results.catalogue.names().into_iter().map(String::from).collect(),
        Some(name) => vec![name.to_string()],
    };
    let tables: Vec<Table> = names.iter().map(|name| results.table(name)).collect::<Result<_>>()?;
    if let Some(table) = tables.iter().find(|table| table.of_records && !arguments.table_only) {
        return Err(LabError::Config(format!(
            "the table {} shows records and has no experiments: add --table-only, or run one with `sab train \
             RECORD.json`",
            table.name
        )));
    }
    let stop = if arguments.dry_run || arguments.table_only { Stop::default() } else { Stop::on_signals()? };
    let style = if arguments.quiet { Style::Quiet } else { Style::Auto };
    let options = RunOptions { style, stop, ..arguments.options.clone() };
    let work = Work { results: &results, options: &options };
    let (of_records, to_run): (Vec<Table>, Vec<Table>) = tables.iter().cloned().partition(|table| table.of_records);
    let wanted = work.runs(&to_run)?;
    if arguments.dry_run {
        return plan(&work, &wanted);
    }
    if arguments.table_only {
        if work.collect(&wanted)? == 0 && of_records.is_empty() {
            return Err(results.nothing_of(arguments.table.as_deref().unwrap_or("all")));
        }
    } else {
        tables.iter().try_for_each(|table| results.check_attention(table))?;
        let mut meters = Meters::new(style);
        let mut tell = |event: Event| tell(event, &mut meters);
        work.train(&wanted, &mut tell)?;
        work.judge(&wanted, &mut tell)?;
    }
    tables.iter().try_for_each(|table| write(&results, table, &arguments.formats))
}

fn named(run: &Wanted) -> String {
    format!("{}, seed {}", run.name, run.experiment.train.seed)
}

/// Reports progress on stderr.
fn tell(event: Event, meters: &mut Meters) {
    match event {
        Event::Training { run, done, of, seconds_left } => {
            let left = seconds_left.map_or(String::new(), |left| format!(", about {} left", duration(left)));
            eprintln!("run {} of {of}: {} ({done} done{left})", done + 1, named(run));
        }
        Event::Judging(run) => eprintln!("{}, at other lengths", named(run)),
        Event::Judged(report) => {
            meters.follow(&report);
            if let Judging::Done(at) = report {
                eprint!("{}", transfer::line(at));
            }
        }
    }
}

/// Prints a table and the names of its files.
fn write(results: &Results, table: &Table, formats: &[Format]) -> Result<()> {
    let written = results.write(table, formats)?;
    if let Some(why) = &written.no_attention {
        eprintln!("the attention figure of {} is not drawn: {why}", table.name);
    }
    let files: Vec<String> = written.files.iter().map(|path| path.display().to_string()).collect();
    print(&format!("{}\nwritten to {}\n", written.table.to_markdown(), files.join(", ")))
}

fn fill(results: &Results, page: &Path) -> Result<()> {
    let text = std::fs::read_to_string(page).map_err(|why| LabError::file("read", page, &why))?;
    let filled = results.fill(&text, &page.display().to_string())?;
    atomic::write(page, filled.as_bytes())?;
    print(&format!("{}\n", page.display()))
}

/// Lists the tables.
fn list(results: &Results) -> Result<()> {
    let mut text = String::from("Tables (`sab reproduce TABLE` runs one):\n");
    for name in results.catalogue.names() {
        let table = results.table(name)?;
        let rows = table.rows().count();
        let s = if rows == 1 { "" } else { "s" };
        text += &format!("  {name:<14} {} ({}), {rows} row{s}\n", table.title, table.source);
    }
    print(&text)
}

/// Lists the runs, done or missing.
fn plan(work: &Work, wanted: &[Wanted]) -> Result<()> {
    let (states, left) = work.plan(wanted)?;
    let in_words = |state: &State| match state {
        State::Failed => "failed".to_string(),
        State::Interrupted(updates) => format!("interrupted after {updates} updates"),
        State::Missing => "missing".to_string(),
        State::Done { seconds, lengths_left } => {
            let time = seconds.map_or(String::new(), |seconds| format!(" in {}", duration(seconds)));
            let lengths: Vec<String> = lengths_left.iter().map(At::to_string).collect();
            let judged = match lengths.is_empty() {
                true => String::new(),
                false => format!(", not evaluated at {} yet", lengths.join(", ")),
            };
            format!("done{time}{judged}")
        }
    };
    let line = |(wanted, state): (&Wanted, &State)| {
        format!("{:<40} seed {}  {}\n", wanted.name, wanted.experiment.train.seed, in_words(state))
    };
    let lines: String = wanted.iter().zip(&states).map(line).collect();
    let left = match left {
        TimeLeft::Nothing => String::new(),
        TimeLeft::Seconds(seconds) => format!(", about {} left", duration(seconds)),
        TimeLeft::Unknown => "; the remaining time is unknown until a row has run".into(),
        TimeLeft::WithoutData => "; the remaining time is unknown without the data of the others (--data-dir)".into(),
    };
    let done = states.iter().filter(|state| matches!(state, State::Failed | State::Done { .. })).count();
    print(&format!("{lines}{done} of {} runs done{left}\n", wanted.len()))
}
