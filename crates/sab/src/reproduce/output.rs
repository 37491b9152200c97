//! The files of a table: text in several formats, and its pictures.

use super::pictures;
use super::record::Record;
use super::render::Rendered;
use super::results::Results;
use super::table::{AttentionFigure, Group, Row, Table};
use crate::error::{LabError, Result};
use crate::run_dir::atomic;
use std::collections::HashMap;
use std::fmt::Display;
use std::path::PathBuf;

/// A kind of file that shows a table or a picture of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Markdown
    Md,
    /// The learning curves, and how attention forms, as pictures of pixels
    Png,
    /// The same pictures as lines and text
    Svg,
    /// One metric per line, with all digits
    Csv,
    /// LaTeX with booktabs
    Tex,
    /// The table and every metric with all digits
    Json,
}

/// The files that were written for a table.
#[derive(Clone, Debug)]
pub struct Written {
    /// The table.
    pub table: Rendered,
    /// The files.
    pub files: Vec<PathBuf>,
    /// Why the attention figure was not drawn, if the table has one and it was not.
    pub no_attention: Option<String>,
}

impl Results {
    /// Fills a table from the records and writes it in some formats.
    pub fn write(&self, table: &Table, formats: &[Format]) -> Result<Written> {
        let rendered = self.render(table)?;
        std::fs::create_dir_all(&self.folder).map_err(|why| LabError::file("create", &self.folder, &why))?;
        let mut written = Written { table: rendered, files: Vec::new(), no_attention: None };
        let curves = self.learning_curves(table)?;
        let attention = self.attention_figure(table)?;
        for format in formats {
            let mut write = |ending: &str, bytes: Vec<u8>| {
                let path = self.folder.join(format!("{}{ending}", table.stem));
                atomic::write(&path, &bytes)?;
                written.files.push(path);
                Ok::<_, LabError>(())
            };
            let rendered = &written.table;
            match format {
                Format::Md => write(".md", rendered.to_markdown().into_bytes())?,
                Format::Csv => write(".csv", rendered.to_csv().into_bytes())?,
                Format::Tex => write(".tex", rendered.to_latex().into_bytes())?,
                Format::Json => write(".json", rendered.to_json()?.into_bytes())?,
                Format::Png | Format::Svg => {
                    let png = *format == Format::Png;
                    let (curve_ending, focus_ending) =
                        if png { (".png", "-focus.png") } else { (".svg", "-focus.svg") };
                    if let Some(figure) = &curves {
                        let bytes = if png { figure.to_png() } else { figure.to_svg().map(String::into_bytes) };
                        write(curve_ending, bytes.map_err(|why| cannot_draw("learning curves", &why))?)?;
                    }
                    if let Some(Ok(figure)) = &attention {
                        let bytes = if png { figure.to_png() } else { figure.to_svg().map(String::into_bytes) };
                        write(focus_ending, bytes.map_err(|why| cannot_draw("the attention", &why))?)?;
                    }
                }
            }
        }
        written.no_attention = attention.and_then(std::result::Result::err);
        Ok(written)
    }

    /// How the rows of a table learn; the first seed stands for its row.
    fn learning_curves(&self, table: &Table) -> Result<Option<crate::line_chart::Figure>> {
        // Dozens of unlike runs in one picture tell nothing; the report has their curves.
        if table.validation {
            return Ok(None);
        }
        let mut records: HashMap<&String, Option<Record>> = HashMap::new();
        for row in table.rows() {
            records.insert(&row.experiment, self.of_row(row)?.1.into_iter().next());
        }
        let of_group = |group: &Group| {
            let first = |row: &Row| Some((row.label.clone(), records.get(&row.experiment)?.clone()?));
            group.rows.iter().filter(|row| !row.alternative).filter_map(first).collect()
        };
        Ok(pictures::learning_curves(table, &of_group))
    }

    /// How attention forms in the run that the table asks for, if it asks: the figure, or why there is none yet.
    fn attention_figure(
        &self, table: &Table,
    ) -> Result<Option<std::result::Result<crate::heat_map::HeatMaps, String>>> {
        let Some(asked) = &table.attention else { return Ok(None) };
        let (name, run) = self.attention_run(asked);
        let Some(shown) = pictures::chosen(asked, &self.attention(&name, 1)?, &run)? else {
            return Ok(Some(Err(format!("{} holds no attention of {name} yet", run.display()))));
        };
        self.keep_attention(&name, 1, &shown)?;
        pictures::attention(asked, &shown).map(|maps| Some(Ok(maps)))
    }

    fn attention_run(&self, asked: &AttentionFigure) -> (String, PathBuf) {
        let name = self.catalogue.variant_of(&asked.experiment, self.budget);
        let run = self.run(&name, 1);
        (name, run)
    }

    /// Checks that a run records its attention at the updates that the table's figure shows.
    pub fn check_attention(&self, table: &Table) -> Result<()> {
        let Some(asked) = &table.attention else { return Ok(()) };
        let (name, _) = self.attention_run(asked);
        let train = self.catalogue.experiment(&name, 1)?.train;
        let recorded = |update: &&u64| train.attention_every.is_some_and(|every| update.is_multiple_of(every));
        match asked.updates.iter().find(|update| !recorded(update)) {
            None => Ok(()),
            Some(update) => Err(LabError::Config(format!(
                "the table {} shows the attention of update {update}, but {name} records it {}",
                table.name,
                train.attention_every.map_or("never".to_string(), |every| format!("every {every} updates"))
            ))),
        }
    }
}

fn cannot_draw(what: &str, why: &dyn Display) -> LabError {
    LabError::Run(format!("cannot draw {what}: {why}"))
}
