//! The picture.

use super::case::{LossOn, Subject};
use super::measure::Measurement;
use super::survey::{Document, Point};
use crate::line_chart::{Figure, LineChart, Scale, Series};

/// What a panel shows of a point, if it is known.
type Value = fn(&Measurement) -> Option<f64>;

/// Draws a panel each for forward, backward with both losses, and memory; `None` where nothing was measured.
pub fn figure(document: &Document) -> Option<Figure> {
    let forward: Value = |m| Some(m.forward_ms);
    let backward: Value = |m| Some(m.backward_ms);
    let mebibytes: Value = |m| Some(m.peak_bytes? as f64 / f64::from(1 << 20));
    let panels = [
        ("Forward", "ms", LossOn::All, forward),
        ("Backward, loss on every step", "ms", LossOn::All, backward),
        ("Backward, loss on the last step alone", "ms", LossOn::Last, backward),
        ("Peak memory, loss on every step", "MiB", LossOn::All, mebibytes),
    ];
    let chart = |(title, unit, loss, value): (&str, &str, LossOn, Value)| LineChart {
        title: title.to_owned(),
        x_label: "steps of a sequence, T".to_owned(),
        y_label: unit.to_owned(),
        x_scale: Scale::Log,
        y_scale: Scale::Log,
        series: Subject::ALL.iter().filter_map(|model| series(document, *model, loss, value)).collect(),
    };
    // A panel or a line without a point would be an error.
    let charts: Vec<LineChart> = panels.into_iter().map(chart).filter(|chart| !chart.series.is_empty()).collect();
    let settings = document.settings;
    let title = format!("Time and memory of a batch of {}, {} hidden units", settings.batch, settings.hidden);
    (!charts.is_empty()).then_some(Figure { title, columns: 2, charts })
}

fn series(document: &Document, model: Subject, loss: LossOn, value: Value) -> Option<Series> {
    let point = |point: &Point| Some((point.case.length as f64, value(point.measured()?)?));
    let points = document.points.iter().filter(|point| point.case.model == model && point.case.loss == loss);
    // A peak of 0 has no place on a log axis.
    let points: Vec<(f64, f64)> = points.filter_map(point).filter(|(_, value)| *value > 0.0).collect();
    let dashed = matches!(model, Subject::Lstm | Subject::SelfAttention);
    (!points.is_empty()).then(|| Series { name: model.name().to_owned(), points, dashed })
}
