//! Figures of a table: learning curves, and how attention forms.

use super::record::Record;
use super::results::Results;
use super::table::{AttentionFigure, Metric, Table};
use crate::attention::Attention;
use crate::error::{LabError, Result};
use crate::heat_map::HeatMaps;
use crate::line_chart::{Figure, LineChart, Scale, Series};
use crate::run_dir::SUMMARY;
use serde_json::Value;

impl Results {
    /// The learning curves of a table: one chart per group, with the first validation metric against updates, from the
    /// first seed of each row. `None` if there are no records.
    pub(super) fn learning_curves(&self, table: &Table) -> Result<Option<Figure>> {
        // Dozens of different runs in one figure are unreadable; the report shows their curves.
        if table.validation {
            return Ok(None);
        }
        let mut charts = Vec::new();
        for group in &table.groups {
            let columns = table.columns(group);
            let Some(metric) = columns.first().map(|column| column.metric) else { continue };
            let mut series = Vec::new();
            for row in group.rows.iter().filter(|row| !row.alternative) {
                let (_, records) = self.of_row(row)?;
                let points = records.first().map_or_else(Vec::new, |record| validations(record, metric));
                if !points.is_empty() {
                    series.push(Series { name: row.label.clone(), points, dashed: false });
                }
            }
            if series.is_empty() {
                continue;
            }
            charts.push(LineChart {
                title: group.heading.clone(),
                x_label: "updates".into(),
                y_label: format!("validation {}", metric.heading),
                x_scale: Scale::Linear,
                // Errors fall by orders of magnitude; percentages do not.
                y_scale: if metric.factor == 100.0 { Scale::Linear } else { Scale::Log },
                series,
            });
        }
        Ok((!charts.is_empty()).then(|| Figure { title: table.title.clone(), columns: charts.len().min(2), charts }))
    }

    /// Draws attention at several points of a run's training, one heat map below the other, and saves it next to the
    /// record. `None` if no attention is recorded, or while the run is still training.
    pub(super) fn attention_figure(&self, figure: &AttentionFigure) -> Result<Option<HeatMaps>> {
        let name = self.catalogue.variant(&figure.experiment, self.budget);
        let (lines, run) = (self.attention(&name, 1)?, self.run(&name, 1));
        let known: Vec<u64> = lines.iter().filter_map(|line| line["update"].as_u64()).collect();
        let under_way = known.iter().max() < figure.updates.iter().max() && run.exists() && !run.join(SUMMARY).exists();
        if lines.is_empty() || under_way {
            return Ok(None);
        }
        let (mut chosen, mut maps) = (Vec::new(), Vec::new());
        for (place, update) in ('a'..).zip(&figure.updates) {
            let Some(line) = lines.iter().find(|line| line["update"].as_u64() == Some(*update)) else {
                return Err(LabError::Config(format!(
                    "the attention of update {update} is asked for, but {name} recorded it at {known:?}"
                )));
            };
            let attention: Attention = serde_json::from_value(line.clone()).map_err(|why| {
                LabError::Run(format!("the attention of {name} after {update} updates is damaged: {why}"))
            })?;
            maps.push(attention.heat_map(format!("({place}) after {update} updates"), Some(figure.last)));
            chosen.push(line.clone());
        }
        self.keep_attention(&name, 1, &chosen)?;
        Ok(Some(HeatMaps(maps)))
    }

    /// Checks that a run records its attention at the updates that the table's figure shows.
    pub fn check_attention(&self, table: &Table) -> Result<()> {
        let Some(figure) = &table.attention else { return Ok(()) };
        let name = self.catalogue.variant(&figure.experiment, self.budget);
        let every = self.catalogue.experiment(&name, 1)?.train.attention_every;
        let recorded = |update: &&u64| every.is_some_and(|every| update.is_multiple_of(every));
        match figure.updates.iter().find(|update| !recorded(update)) {
            None => Ok(()),
            Some(update) => Err(LabError::Config(format!(
                "the table {} shows the attention of update {update}, but {name} records it {}",
                table.name,
                every.map_or("never".to_string(), |every| format!("every {every} updates"))
            ))),
        }
    }
}

fn validations(record: &Record, metric: &Metric) -> Vec<(f64, f64)> {
    let point = |line: &Value| Some((line["update"].as_f64()?, metric.factor * line[&metric.name].as_f64()?));
    record.curve.iter().filter(|line| line["kind"] == "validation").filter_map(point).collect()
}
