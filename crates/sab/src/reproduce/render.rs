//! A table as Markdown, CSV, LaTeX and JSON.

use super::record::Record;
use super::results::Results;
use super::statistics::Statistics;
use super::table::{Column, Row, Table};
use crate::display::duration;
use crate::error::{LabError, Result};
use serde::Serialize;
use std::collections::BTreeSet;

/// The cell of a metric that was not measured.
const NOT_RUN: &str = "not run";

/// The cell of a length at which the states of a trained model overflow.
const OVERFLOW: &str = "overflow";

/// The last columns of a table.
const EFFORT: [&str; 3] = ["seeds", "updates", "time"];

/// A table with the text of its cells.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Rendered {
    /// The folder of the table.
    pub name: String,
    /// Its title.
    pub title: String,
    /// How to read it.
    pub about: String,
    /// Notes about the data of its runs, such as that it is a part of something.
    pub notes: Vec<String>,
    /// Whether its models are judged at other lengths than they are trained at.
    pub transfer: bool,
    /// Its parts.
    pub sections: Vec<Section>,
    /// Every metric by itself, with all digits.
    pub metrics: Vec<Measured>,
}

/// A part of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Section {
    /// The settings that its rows share; may be empty.
    pub heading: String,
    /// The headings of the columns.
    pub columns: Vec<String>,
    /// The cells, row by row.
    pub rows: Vec<Vec<String>>,
}

/// One metric of one row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    pub(super) group: String,
    pub(super) row: String,
    pub(super) experiment: String,
    pub(super) metric: String,
    pub(super) paper: String,
    mean: Option<f64>,
    spread: Option<f64>,
    seeds: usize,
    updates: Option<f64>,
    seconds: Option<f64>,
    threads: Option<u64>,
    failure: Option<String>,
    /// Whether training was well and only this length failed.
    #[serde(skip)]
    overflowed: bool,
    /// Whether it is a percentage.
    #[serde(skip)]
    percent: bool,
}

impl Results {
    /// A table filled from the records.
    pub fn render(&self, table: &Table) -> Result<Rendered> {
        let (mut metrics, mut sections, mut notes) = (Vec::new(), Vec::new(), BTreeSet::new());
        for group in &table.groups {
            let columns = table.columns(group);
            // If the paper reports nothing for a whole group, it gets no column.
            let compared = group.rows.iter().any(|row| row.paper.iter().any(|metric| !metric.is_empty()));
            let (mut rows, mut by_model) = (Vec::new(), Vec::new());
            for row in &group.rows {
                let (experiment, found) = self.of_row_with(row, &columns, table)?;
                notes.extend(found.iter().filter_map(|it| Some(it.summary.as_ref()?["note"].as_str()?.to_string())));
                let measured: Vec<Measured> = (columns.iter().enumerate())
                    .map(|(place, column)| measure(&group.heading, row, &experiment, place, column, &found))
                    .collect();
                rows.push(cells(row, &measured, &found, compared));
                metrics.extend(measured.iter().cloned());
                by_model.push((row, measured));
            }
            let heading = group.heading.clone();
            sections.push(match (table.lengths.is_empty(), compared, &by_model[..]) {
                (false, true, _) => by_length(heading, &columns, &by_model),
                (false, false, [(_, measured)]) => of_one_model(heading, &columns, measured),
                _ => Section { heading, columns: headings(&columns, compared), rows },
            });
        }
        let (name, title) = (table.name.clone(), format!("{} ({})", table.title, table.source));
        let (about, transfer) = (table.about.trim().to_string(), !table.lengths.is_empty());
        Ok(Rendered { name, title, about, notes: notes.into_iter().collect(), transfer, sections, metrics })
    }
}

fn measure(group: &str, row: &Row, experiment: &str, place: usize, column: &Column, records: &[Record]) -> Measured {
    let values: Vec<f64> = records.iter().filter_map(|record| record.metric(column)).collect();
    let efforts: Vec<(f64, f64)> = records.iter().filter_map(Record::effort).collect();
    let mean_of = |pick: fn(&(f64, f64)) -> f64| {
        Statistics::of(&efforts.iter().map(pick).collect::<Vec<_>>()).map(|found| found.mean)
    };
    let found = Statistics::of(&values);
    Measured {
        group: group.to_string(),
        row: row.label.clone(),
        experiment: experiment.to_string(),
        metric: column.heading(),
        paper: row.paper.get(place).cloned().unwrap_or_default(),
        mean: found.map(|found| found.mean),
        spread: found.and_then(|found| found.spread),
        seeds: found.map_or(0, |found| found.count),
        updates: mean_of(|effort| effort.0),
        seconds: mean_of(|effort| effort.1),
        threads: threads_of(records),
        failure: records.iter().find_map(|record| record.failure_at(column.at)),
        overflowed: records.iter().all(|record| record.failure.is_none()),
        percent: column.metric.factor == 100.0,
    }
}

/// The threads of a row's runs, if all had the same.
fn threads_of(records: &[Record]) -> Option<u64> {
    let mut threads = records.iter().filter_map(|record| record.summary.as_ref()?["threads"].as_u64());
    let first = threads.next()?;
    threads.all(|other| other == first).then_some(first)
}

/// With many lengths and few models, one row per length is easier to read.
fn by_length(heading: String, columns: &[Column], models: &[(&Row, Vec<Measured>)]) -> Section {
    let of_model = |(row, _): &(&Row, Vec<Measured>)| [format!("{}: paper", row.label), "ours".into()];
    let of_column = |(place, column): (usize, &Column)| {
        let cells = models.iter().flat_map(|(_, measured)| of_metric(&measured[place]));
        std::iter::once(column.heading()).chain(cells).collect()
    };
    Section {
        heading,
        columns: std::iter::once("metric".to_string()).chain(models.iter().flat_map(of_model)).collect(),
        rows: columns.iter().enumerate().map(of_column).collect(),
    }
}

/// One model that the paper does not have: a row for each length, a column for each metric.
fn of_one_model(heading: String, columns: &[Column], measured: &[Measured]) -> Section {
    let (mut names, mut rows): (Vec<String>, Vec<Vec<String>>) = (vec!["length".into()], Vec::new());
    let mut last = None;
    for (column, measured) in columns.iter().zip(measured) {
        let Some(at) = column.at else { continue };
        if last != Some(at) {
            rows.push(vec![at.to_string()]);
            last = Some(at);
        }
        if rows.len() == 1 {
            names.push(column.metric.heading.clone());
        }
        rows.iter_mut().last().into_iter().for_each(|row| row.push(measured.ours("diverged")));
    }
    Section { heading, columns: names, rows }
}

fn dash() -> String {
    "–".into()
}

/// The paper's metric and ours.
fn of_metric(measured: &Measured) -> [String; 2] {
    [measured.paper(), measured.ours("diverged")]
}

impl Measured {
    /// The text of our cell: the metric, or why there is none; `failed` stands for a training that failed.
    pub(super) fn ours(&self, failed: &str) -> String {
        match (self.mean, &self.failure) {
            (Some(mean), _) => Statistics { mean, spread: self.spread, count: self.seeds }.write(self.percent),
            (None, Some(_)) if self.overflowed => OVERFLOW.into(),
            (None, Some(_)) => failed.into(),
            (None, None) => NOT_RUN.into(),
        }
    }

    /// The paper's metric as it prints it.
    pub(super) fn paper(&self) -> String {
        if self.paper.is_empty() { dash() } else { self.paper.clone() }
    }

    /// Whether it is worse than the paper's, to the digits that the paper prints.
    pub(super) fn falls_short(&self) -> bool {
        let (Some(mean), Ok(paper)) = (self.mean, self.paper.parse::<f64>()) else { return false };
        let digits = self.paper.split_once('.').map_or(0, |(_, digits)| digits.len());
        match self.percent {
            true => format!("{mean:.digits$}").parse().is_ok_and(|mean: f64| mean < paper),
            false => mean > paper,
        }
    }

    pub(super) fn updates(&self) -> String {
        self.updates.map_or_else(dash, |updates| format!("{updates:.0}"))
    }

    /// The time it took, and on how many threads.
    pub(super) fn time(&self) -> String {
        let threads = match self.threads {
            Some(count) => format!(", {count} thread{}", if count == 1 { "" } else { "s" }),
            None => String::new(),
        };
        self.seconds.map_or_else(dash, |seconds| duration(seconds) + &threads)
    }
}

fn headings(columns: &[Column], compared: bool) -> Vec<String> {
    let of_column = |column: &Column| match compared {
        true => vec![format!("{}: paper", column.heading()), "ours".to_string()],
        false => vec![column.heading()],
    };
    let rest = EFFORT.map(String::from);
    std::iter::once("model".to_string()).chain(columns.iter().flat_map(of_column)).chain(rest).collect()
}

fn cells(row: &Row, measured: &[Measured], records: &[Record], compared: bool) -> Vec<String> {
    let first = measured.first();
    let rest = [
        if records.is_empty() { dash() } else { records.len().to_string() },
        first.map_or_else(dash, Measured::updates),
        first.map_or_else(dash, Measured::time),
    ];
    let metrics = measured.iter().flat_map(|measured| of_metric(measured).into_iter().skip(usize::from(!compared)));
    std::iter::once(row.label.clone()).chain(metrics).chain(rest).collect()
}

impl Section {
    /// The table alone, in Markdown.
    pub fn to_markdown(&self) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        format!("{}|{}\n{rows}", line(&self.columns), "---|".repeat(self.columns.len()))
    }

    /// Without seeds, updates and times.
    pub(super) fn brief(&self) -> Self {
        let mut brief = self.clone();
        if self.columns.ends_with(&EFFORT.map(String::from)) {
            let kept = self.columns.len() - EFFORT.len();
            brief.rows.iter_mut().chain([&mut brief.columns]).for_each(|cells| cells.truncate(kept));
        }
        brief
    }
}

impl Rendered {
    /// A page of Markdown.
    pub fn to_markdown(&self) -> String {
        let mut text = format!("# {}\n\n{}\n", self.title, self.about);
        self.notes.iter().for_each(|note| text += &format!("\nData: {note}.\n"));
        for section in &self.sections {
            if !section.heading.is_empty() {
                text += &format!("\n## {}\n", section.heading);
            }
            text += &format!("\n{}", section.to_markdown());
        }
        text
    }

    /// JSON with everything in it.
    pub fn to_json(&self) -> Result<String> {
        let text = serde_json::to_string_pretty(self);
        text.map(|text| text + "\n").map_err(|why| LabError::Run(format!("cannot write JSON: {why}")))
    }

    /// CSV with one metric per line and all digits.
    pub fn to_csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        // Into memory: nothing can fail there.
        for measured in &self.metrics {
            let _ = writer.serialize(measured);
        }
        writer.into_inner().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// A LaTeX `table` with booktabs.
    pub fn to_latex(&self) -> String {
        let mut text = String::from("% needs \\usepackage{booktabs}\n");
        for section in &self.sections {
            let line = |cells: &[String]| {
                format!("{} \\\\\n", cells.iter().map(|cell| escape(cell)).collect::<Vec<_>>().join(" & "))
            };
            let caption = match section.heading.is_empty() {
                true => escape(&self.title),
                false => escape(&format!("{}: {}", self.title, section.heading)),
            };
            text += &format!(
                "\\begin{{table}}\n\\centering\n\\caption{{{caption}}}\n\\begin{{tabular}}{{l{}}}\n\
                 \\toprule\n{}\\midrule\n",
                "r".repeat(section.columns.len().saturating_sub(1)),
                line(&section.columns)
            );
            section.rows.iter().for_each(|row| text += &line(row));
            text += "\\bottomrule\n\\end{tabular}\n\\end{table}\n";
        }
        text
    }
}

fn escape(text: &str) -> String {
    let of_char = |letter: char| match letter {
        '%' | '&' | '_' | '#' | '$' | '{' | '}' => format!("\\{letter}"),
        '±' => "$\\pm$".into(),
        '–' => "--".into(),
        '~' => "\\textasciitilde{}".into(),
        '^' => "\\textasciicircum{}".into(),
        '\\' => "\\textbackslash{}".into(),
        letter => letter.to_string(),
    };
    text.chars().map(of_char).collect()
}
