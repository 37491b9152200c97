//! What is made of records: tables and pictures.

use super::super::print;
use super::Laboratory;
use crate::error::{LabError, Result};
use crate::heat_map::HeatMapError;
use crate::line_chart::LineChartError;
use crate::reproduce::{Group, Row, Table, pictures};
use crate::run_dir::atomic;
use std::collections::HashMap;

impl Laboratory<'_> {
    /// Fills a table with what is there, prints it and writes it.
    pub(super) fn write(&self, table: &Table) -> Result<()> {
        let rendered = self.results.render(table)?;
        let folder = &self.results.folder;
        std::fs::create_dir_all(folder).map_err(|why| LabError::file("create", folder, &why))?;
        let file = |kind: &str| folder.join(format!("{}.{kind}", table.stem));
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
        let file = |what: &str| self.results.folder.join(format!("{}{what}", table.stem));
        let mut records = HashMap::new();
        for row in table.rows() {
            records.insert(&row.experiment, self.results.of_row(row)?.1);
        }
        // The first seed stands for its row.
        let of_group = |group: &Group| {
            let first = |row: &Row| Some((row.label.clone(), records.get(&row.experiment)?.first()?.clone()));
            group.rows.iter().filter(|row| !row.remedy).filter_map(first).collect()
        };
        // Dozens of unlike runs in one picture tell nothing; the report has their curves.
        let curves = if table.validation { None } else { pictures::learning_curves(table, &of_group) };
        if let Some(figure) = curves {
            let wrong = |why: LineChartError| LabError::Run(format!("cannot draw learning curves: {why}"));
            atomic::write(&file(".svg"), figure.to_svg().map_err(wrong)?.as_bytes())?;
            atomic::write(&file(".png"), &figure.to_png().map_err(wrong)?)?;
        }
        let Some(asked) = &table.attention else { return Ok(()) };
        let name = self.results.catalogue.variant_of(&asked.experiment, self.results.budget);
        let lines = self.results.attention(&name, 1)?;
        let Some(shown) = pictures::chosen(asked, &lines, &self.results.run(&name, 1))? else {
            eprintln!(
                "{} is not drawn: {} has no attention of {name} yet",
                file("-focus.png").display(),
                self.results.run(&name, 1).display()
            );
            return Ok(());
        };
        let maps = pictures::attention(asked, &shown)?;
        let wrong = |why: HeatMapError| LabError::Run(format!("cannot draw the attention: {why}"));
        atomic::write(&file("-focus.svg"), maps.to_svg().map_err(wrong)?.as_bytes())?;
        atomic::write(&file("-focus.png"), &maps.to_png().map_err(wrong)?)?;
        self.results.keep_attention(&name, 1, &shown)
    }

    /// That a run records its attention at the updates that the table's picture shows.
    pub(super) fn check_attention(&self, table: &Table) -> Result<()> {
        let Some(asked) = &table.attention else { return Ok(()) };
        let name = self.results.catalogue.variant_of(&asked.experiment, self.results.budget);
        let train = self.results.catalogue.experiment(&name, 1)?.train;
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
