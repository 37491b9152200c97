//! Figures of a table: learning curves, and how attention forms.

use super::record::Record;
use super::table::{AttentionFigure, Group, Table};
use crate::attention::Attention;
use crate::error::{LabError, Result};
use crate::heat_map::HeatMaps;
use crate::line_chart::{Figure, LineChart, Scale, Series};
use crate::run_dir::SUMMARY;
use serde_json::Value;
use std::path::Path;

/// The learning curves of a table: one chart per group, with the first validation metric against updates. `None` if there are
/// no records.
pub fn learning_curves(table: &Table, records: &dyn Fn(&Group) -> Vec<(String, Record)>) -> Option<Figure> {
    let charts: Vec<LineChart> = table.groups.iter().filter_map(|group| chart(table, group, &records(group))).collect();
    (!charts.is_empty()).then(|| Figure { title: table.title.clone(), columns: charts.len().min(2), charts })
}

fn chart(table: &Table, group: &Group, records: &[(String, Record)]) -> Option<LineChart> {
    let columns = table.columns(group);
    let metric = columns.first()?.metric;
    let series: Vec<Series> = records
        .iter()
        .map(|(name, record)| Series {
            name: name.clone(),
            points: validations(record, &metric.name, metric.factor),
            dashed: false,
        })
        .filter(|series| !series.points.is_empty())
        .collect();
    let percent = metric.factor == 100.0;
    (!series.is_empty()).then(|| LineChart {
        title: group.heading.clone(),
        x_label: "updates".into(),
        y_label: format!("validation {}", metric.heading),
        x_scale: Scale::Linear,
        // Errors fall by orders of magnitude.
        y_scale: if percent { Scale::Linear } else { Scale::Log },
        series,
    })
}

fn validations(record: &Record, metric: &str, factor: f64) -> Vec<(f64, f64)> {
    let point = |line: &Value| Some((line["update"].as_f64()?, factor * line[metric].as_f64()?));
    record.curve.iter().filter(|line| line["kind"] == "validation").filter_map(point).collect()
}

/// The lines of a run's attention that a figure shows. `None` without a record of it, or while the run is still training.
pub fn chosen(figure: &AttentionFigure, lines: &[Value], run: &Path) -> Result<Option<Vec<Value>>> {
    let latest = lines.iter().filter_map(|line| line["update"].as_u64()).max();
    let under_way = latest < figure.updates.iter().copied().max() && run.exists() && !run.join(SUMMARY).exists();
    if lines.is_empty() || under_way {
        return Ok(None);
    }
    let at = |update: &u64| {
        lines.iter().find(|line| line["update"].as_u64() == Some(*update)).cloned().ok_or_else(|| {
            let known: Vec<String> =
                lines.iter().filter_map(|line| Some(line["update"].as_u64()?.to_string())).collect();
            LabError::Config(format!(
                "the attention of update {update} is asked for, but {} has it for {}",
                figure.experiment,
                known.join(", ")
            ))
        })
    };
    figure.updates.iter().map(at).collect::<Result<_>>().map(Some)
}

/// Attention at several points of training, one heat map below the other.
pub fn attention(figure: &AttentionFigure, chosen: &[Value]) -> Result<HeatMaps> {
    let mut maps = Vec::new();
    for ((place, update), line) in ('a'..).zip(&figure.updates).zip(chosen) {
        let attention: Attention = serde_json::from_value(line.clone()).map_err(|why| {
            LabError::Run(format!("the attention of {} after {update} updates is damaged: {why}", figure.experiment))
        })?;
        maps.push(attention.heat_map(format!("({place}) after {update} updates")).last_rows(figure.last.max(1)));
    }
    Ok(HeatMaps(maps))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_is_still_training_has_no_attention_figure_yet() {
        let run = std::env::temp_dir().join(format!("sab-attention-figure-{}", std::process::id()));
        std::fs::create_dir_all(&run).expect("a temporary folder");
        let lines = [0, 500].map(|update| serde_json::json!({ "update": update }));
        let figure = AttentionFigure { experiment: "copy/200-sab-5-5".into(), updates: vec![1000], last: 10 };
        assert!(chosen(&figure, &lines, &run).expect("no mistake").is_none());
        // Once it has ended, an update that it does not have is a mistake.
        std::fs::write(run.join(SUMMARY), "{}").expect("a file");
        let why = chosen(&figure, &lines, &run).err().map(|why| why.to_string()).unwrap_or_default();
        assert!(why.contains("the attention of update 1000 is asked for"), "{why}");
        std::fs::remove_dir_all(&run).expect("a folder of the test's own");
    }
}
