//! Tables within pages of Markdown: blocks that are filled from the records, so that no number in a page can drift.
//!
//! A block begins with a comment that says what fills it and ends with `<!-- end -->`:
//!
//! ```text
//! <!-- table: copy, T = 100 -->       the part of a table with this heading, without updates and times
//! <!-- short: copy, adding -->        the rows of these tables that fall short of the paper
//! <!-- index -->                      all experiments of all tables
//! ```

use super::render::{Measured, Rendered, Section};
use super::results::Results;
use super::table::Table;
use crate::error::{LabError, Result};

const END: &str = "<!-- end -->";

impl Results {
    /// Replaces the content of the blocks of a page. `origin` names the page in errors.
    pub fn fill(&self, page: &str, origin: &str) -> Result<String> {
        let (mut filled, mut lines) = (String::new(), page.lines());
        while let Some(line) = lines.next() {
            filled += line;
            filled.push('\n');
            let Some(block) = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")) else { continue };
            let (kind, asked) = block.split_once(": ").unwrap_or((block, ""));
            let content = match kind {
                "table" => self.part(asked),
                "short" => self.short_of_the_paper(asked),
                "index" => self.index(),
                _ => continue,
            };
            let wrong = |why: String| LabError::Config(format!("{origin}: `{line}`: {why}"));
            filled += &format!("\n{}\n\n{END}\n", content.map_err(|why| wrong(why.to_string()))?.trim());
            if !lines.by_ref().any(|line| line == END) {
                return Err(wrong(format!("the block does not end with `{END}`")));
            }
        }
        Ok(filled)
    }

    /// One part of a table.
    fn part(&self, asked: &str) -> Result<String> {
        let (name, heading) = asked.split_once(", ").unwrap_or((asked, ""));
        let rendered = self.render(&self.table(name)?)?;
        let found = rendered.sections.iter().find(|section| section.heading == heading);
        found.map(|section| section.brief().to_markdown()).ok_or_else(|| {
            let headings: Vec<&str> = rendered.sections.iter().map(|section| section.heading.as_str()).collect();
            LabError::Config(format!("the table {name} has no part `{heading}`; its parts are {headings:?}"))
        })
    }

    /// The rows that fall short of the paper in their first metric, each with the alternative settings that were tried.
    fn short_of_the_paper(&self, tables: &str) -> Result<String> {
        let columns = ["task", "model", "paper", "here", "alternative settings", "with these"].map(String::from);
        let mut rows = Vec::new();
        for name in tables.split(", ") {
            let table = self.table(name)?;
            let rendered = self.render(&table)?;
            rows.extend(short_rows(&table, &rendered.metrics));
        }
        Ok(Section { heading: String::new(), columns: columns.into(), rows }.to_markdown())
    }

    /// All experiments of all tables that can be run: command, metric to expect, time.
    fn index(&self) -> Result<String> {
        let mut text = String::new();
        for name in self.catalogue.names() {
            let Rendered { title, transfer, metrics, .. } = self.render(&self.table(name)?)?;
            text += &format!("\n## {title}\n\n`sab reproduce {name}`\n\n");
            text += "| command | metric | paper | expect | updates | time |\n|---|---|---|---|---|---|\n";
            let mut last = (String::new(), String::new());
            for found in &metrics {
                // The first metric of a row is enough; at other lengths there is one per length.
                let row = (found.group.clone(), found.experiment.clone());
                if std::mem::replace(&mut last, row.clone()) == row && !transfer {
                    continue;
                }
                let command = match transfer {
                    true => format!("sab reproduce {name} --only {}", found.experiment),
                    false => format!("sab train {}", self.catalogue.path_of(&found.experiment)),
                };
                let cells = [&found.metric, &found.paper(), &found.ours("diverges"), &found.updates(), &found.time()];
                text += &format!("| `{command}` | {} |\n", cells.map(String::as_str).join(" | "));
            }
        }
        Ok(text)
    }
}

fn short_rows(table: &Table, metrics: &[Measured]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for group in &table.groups {
        let first = |label: &str| metrics.iter().find(|found| found.group == group.heading && found.row == label);
        let task = [table.name.as_str(), &group.heading].into_iter().filter(|part| !part.is_empty());
        let task = task.collect::<Vec<_>>().join(", ");
        for (place, row) in group.rows.iter().enumerate().filter(|(_, row)| !row.alternative) {
            let Some(base) = first(&row.label).filter(|found| found.falls_short()) else { continue };
            let others: Vec<_> = group.rows[place + 1..].iter().take_while(|row| row.alternative).collect();
            let shared = [task.clone(), row.label.clone(), base.paper.clone(), base.ours("diverged")];
            if others.is_empty() {
                rows.push([&shared[..], &["–".into(), "–".into()]].concat());
            }
            for other in others {
                let settings = other.label.strip_prefix(&format!("{}, ", row.label)).unwrap_or(&other.label);
                let reached = first(&other.label).map_or_else(String::new, |found| found.ours("diverged"));
                rows.push([&shared[..], &[settings.to_string(), reached]].concat());
            }
        }
    }
    rows
}
