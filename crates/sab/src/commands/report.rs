//! `sab report`

use super::print;
use super::reproduce::Kept;
use crate::error::{LabError, Result};
use crate::experiment::nearest;
use crate::report::{self, RunView};
use crate::reproduce::{Results, Table};
use crate::run_dir::atomic;
use clap::Args;
use std::path::{Path, PathBuf};

/// Make one HTML page of runs or of a table: learning curves, what was reminded of what while it learned, settings
#[derive(Args, Debug)]
#[command(after_help = "\
The page holds all it needs: it can be opened without a network, mailed and kept. A run that goes on can be reported too.

Examples:
  sab report runs/copy
  sab report runs/copy-seed* --out seeds.html
  sab report copy --results results --runs reproduced/runs")]
pub struct ReportArguments {
    /// Run directories, or one table of `sab reproduce`
    #[arg(required = true, value_name = "RUN|TABLE")]
    what: Vec<PathBuf>,

    /// The file to write; report.html in the run directory of one run, or here for several, if not said
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    #[command(flatten)]
    kept: Kept,
}

const FILE: &str = "report.html";

pub(super) fn run(arguments: &ReportArguments) -> Result<()> {
    let (page, usual_place) = match table_of(arguments)? {
        Some((results, table)) => {
            let rendered = results.render(&table)?;
            let mut views = Vec::new();
            for row in table.rows() {
                let (name, records) = results.of_row(row)?;
                for record in records {
                    let run = results.run(&name, record.config.train.seed);
                    let view = RunView::of_record(&record, &row.label, &run)?;
                    // Rows of a table may share an experiment.
                    if views.iter().all(|known: &RunView| known.name != view.name) {
                        views.push(view);
                    }
                }
            }
            let page = report::page(&rendered.title, Some(&rendered), &views)?;
            (page, results.folder.join(format!("{}.html", table.name)))
        }
        None => {
            let mut views = arguments.what.iter().map(|path| RunView::of_run(path)).collect::<Result<Vec<_>>>()?;
            tell_apart(&mut views, &arguments.what);
            match (&views[..], &arguments.what[..]) {
                ([view], [path]) => (report::page(&view.name, None, &views)?, path.join(FILE)),
                _ => (report::page(&format!("{} runs", views.len()), None, &views)?, PathBuf::from(FILE)),
            }
        }
    };
    let out = arguments.out.clone().unwrap_or(usual_place);
    if out.is_dir() {
        return Err(LabError::Config(format!("`--out` is {}, a folder: name the file to write", out.display())));
    }
    write(&out, &page)?;
    print(&format!("{}\n", out.display()))
}

/// The table that is asked for, if it is one: a name that is no path.
fn table_of(arguments: &ReportArguments) -> Result<Option<(Results, Table)>> {
    let [one] = &arguments.what[..] else { return Ok(None) };
    if one.exists() {
        return Ok(None);
    }
    let results = arguments.kept.open()?;
    let name = one.to_string_lossy();
    match results.catalogue.names().contains(&&*name) {
        true => {
            let table = results.catalogue.table(&name)?;
            Ok(Some((results, table)))
        }
        false => match nearest(&name, results.catalogue.names()) {
            Some(near) => {
                Err(LabError::Run(format!("`{name}` is neither a run directory nor a table; did you mean `{near}`?")))
            }
            None => Ok(None),
        },
    }
}

fn write(out: &Path, page: &str) -> Result<()> {
    if let Some(folder) = out.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(|why| LabError::file("create", folder, &why))?;
    }
    atomic::write(out, page.as_bytes())
}

/// Runs whose folders have the same name are called by their paths.
fn tell_apart(views: &mut [RunView], paths: &[PathBuf]) {
    let names: Vec<String> = views.iter().map(|view| view.name.clone()).collect();
    for (view, path) in views.iter_mut().zip(paths) {
        if names.iter().filter(|name| **name == view.name).count() > 1 {
            view.name = path.display().to_string();
        }
    }
}
