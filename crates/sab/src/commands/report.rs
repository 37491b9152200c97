//! `sab report`

use super::print;
use super::reproduce::Kept;
use crate::error::{LabError, Result};
use crate::experiment::nearest;
use crate::report::{self, RunView};
use crate::reproduce::{Results, Table};
use crate::run_dir::{CONFIG, files};
use clap::Args;
use std::path::PathBuf;

/// Write runs or a table as one HTML page: learning curves, attention over the course of training, settings
#[derive(Args, Debug)]
#[command(after_help = "\
The page needs no network: open it, mail it, keep it. You can report a run that is still training.

Examples:
  sab report runs/copy
  sab report runs/copy-seed* --out seeds.html
  sab report copy --results results --runs reproduced/runs")]
pub struct ReportArguments {
    /// Run directories, or one table of `sab reproduce`
    #[arg(required = true, value_name = "RUN|TABLE")]
    what: Vec<PathBuf>,

    /// The file to write [default: report.html, in the run directory of a single run or here for several]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    #[command(flatten)]
    kept: Kept,
}

const FILE: &str = "report.html";

pub(super) fn run(arguments: &ReportArguments) -> Result<()> {
    let results = arguments.kept.open()?;
    let (page, usual_place) = match table_of(arguments, &results)? {
        Some(table) => {
            let rendered = results.render(&table)?;
            let views = views_of(&table, &results)?;
            if views.is_empty() {
                return Err(results.nothing_of(&table.name));
            }
            let page = report::page(&rendered.title, Some(&rendered), &views);
            (page, results.folder.join(format!("{}.html", table.stem)))
        }
        None => {
            let mut views = arguments.what.iter().map(|path| RunView::of_run(path)).collect::<Result<Vec<_>>>()?;
            tell_apart(&mut views, &arguments.what);
            match (&views[..], &arguments.what[..]) {
                ([view], [path]) => (report::page(&view.name, None, &views), path.join(FILE)),
                _ => (report::page(&format!("{} runs", views.len()), None, &views), PathBuf::from(FILE)),
            }
        }
    };
    let out = arguments.out.clone().unwrap_or(usual_place);
    if out.is_dir() {
        return Err(LabError::Config(format!("`--out` is {}, a folder: name the file to write", out.display())));
    }
    files::write_below(&out, page.as_bytes())?;
    print(&format!("{}\n", out.display()))
}

/// The runs of a table. Rows may share an experiment; each run appears once.
fn views_of(table: &Table, results: &Results) -> Result<Vec<RunView>> {
    let mut views: Vec<RunView> = Vec::new();
    for group in &table.groups {
        for row in &group.rows {
            let (name, records) = results.of_row(row)?;
            // Rows of several groups may have the same label.
            let parts = [group.heading.as_str(), &row.label];
            let label = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ");
            for mut record in records {
                if table.validation
                    && let Some(summary) = record.summary.as_mut().and_then(|summary| summary.as_object_mut())
                {
                    summary.remove("test");
                }
                let attention = results.attention(&name, record.config.train.seed)?;
                let view = RunView::of_record(&record, &label, attention)?;
                if views.iter().all(|known| known.name != view.name) {
                    views.push(view);
                }
            }
        }
    }
    Ok(views)
}

/// The table that the arguments name, if they name one instead of run directories.
fn table_of(arguments: &ReportArguments, results: &Results) -> Result<Option<Table>> {
    let tables = results.names()?;
    // A folder may have the name of a table.
    let is_table =
        |path: &&PathBuf| tables.iter().any(|table| path.as_os_str() == table.as_str()) && !path.join(CONFIG).exists();
    if let Some(table) = arguments.what.iter().find(is_table) {
        return match arguments.what.len() {
            1 => results.table(&table.to_string_lossy()).map(Some),
            _ => Err(LabError::Config(format!(
                "`{}` is a table, and a page shows one table or any number of runs: write one page for each",
                table.display()
            ))),
        };
    }
    if let [one] = &arguments.what[..]
        && !one.exists()
    {
        let name = one.to_string_lossy();
        let hint = match nearest(&name, tables.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("`sab train` writes run directories, and the tables are {}", tables.join(", ")),
        };
        return Err(LabError::Run(format!("`{name}` is neither a run directory nor a table; {hint}")));
    }
    Ok(None)
}

/// Names runs by their paths if their folders have the same name.
fn tell_apart(views: &mut [RunView], paths: &[PathBuf]) {
    let names: Vec<String> = views.iter().map(|view| view.name.clone()).collect();
    for (view, path) in views.iter_mut().zip(paths) {
        if names.iter().filter(|name| **name == view.name).count() > 1 {
            view.name = path.display().to_string();
        }
    }
}
