//! The files of a table: text in several formats, and its figures.

use super::render::Rendered;
use super::results::Results;
use super::table::Table;
use crate::error::Result;
use crate::run_dir::files;
use std::path::PathBuf;

/// A kind of file that shows a table or a picture of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Markdown
    Md,
    /// The learning curves and the attention figure, as PNG
    Png,
    /// The same figures, as SVG
    Svg,
    /// One metric per line, in full precision
    Csv,
    /// LaTeX with booktabs
    Tex,
    /// The table and every metric in full precision
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
        let pictures = formats.iter().any(|format| matches!(format, Format::Png | Format::Svg));
        let (mut figures, mut no_attention) = (Vec::new(), None);
        if pictures && let Some(curves) = self.learning_curves(table)? {
            figures.push(("", curves.draw()?));
        }
        if let Some(asked) = &table.attention {
            match self.attention_figure(asked)? {
                Some(maps) if pictures => figures.push(("-focus", maps.draw()?)),
                Some(_) => (),
                None => {
                    let (runs, name) = (self.runs.display(), &asked.experiment);
                    no_attention = Some(format!("{runs} holds no attention of {name} yet"));
                }
            }
        }
        let mut written = Vec::new();
        let mut write = |ending: &str, bytes: &[u8]| {
            let path = self.folder.join(format!("{}{ending}", table.stem));
            files::write_below(&path, bytes).map(|()| written.push(path))
        };
        for format in formats {
            match format {
                Format::Md => write(".md", rendered.to_markdown().as_bytes())?,
                Format::Csv => write(".csv", rendered.to_csv().as_bytes())?,
                Format::Tex => write(".tex", rendered.to_latex().as_bytes())?,
                Format::Json => write(".json", rendered.to_json()?.as_bytes())?,
                Format::Png => {
                    figures.iter().try_for_each(|(name, it)| write(&format!("{name}.png"), &it.to_png()?))?
                }
                Format::Svg => {
                    figures.iter().try_for_each(|(name, it)| write(&format!("{name}.svg"), it.to_svg().as_bytes()))?;
                }
            }
        }
        Ok(Written { table: rendered, files: written, no_attention })
    }
}
