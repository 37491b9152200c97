//! The table and the figure.

use super::case::{LossOn, Subject};
use super::measure::Measurement;
use super::survey::{Document, Outcome, Point};
use sab::display::percent;
use sab::line_chart::{Figure, LineChart, Scale, Series};

/// How to read the numbers.
const READING: &str = "\
Times are the best of all rounds. Forward is as in training, with its tape, the readout and the loss. Backward's share
is of forward and backward together. Every model with attention compares each step with all memories, so for long
sequences its forward time grows with the square of T. SAB saves backward time, because a step without gradient costs
nothing (R13). Peak memory is the memory that the process of a point took beyond what it used before its first batch.
*Reached* is the share of pairs of a row and a step whose gradient is not zero; weights and inputs are random, and a
trained model is reminded of other steps. The LSTM begins with open forget gates and small weights. Otherwise its
gradient would fade to exactly zero in long sequences, and full backpropagation from the last step would look cheaper
than it is.";

/// A number of a point, if it is known.
type Value = fn(&Measurement) -> Option<f64>;

const FORWARD: Value = |m| Some(m.forward_ms);
const BACKWARD: Value = |m| Some(m.backward_ms);
const MEBIBYTES: Value = |m| Some(m.peak_bytes? as f64 / f64::from(1 << 20));

/// `complexity.md`, with the picture that lies beside it if there is one.
pub fn to_markdown(document: &Document, picture: Option<&str>) -> String {
    let environment = &document.environment;
    let word = |key: &str| environment[key].as_str().unwrap_or("unknown").to_owned();
    let mut text = format!("# Time and memory against the length\n\n{}; {}", document.settings, word("cpu"));
    text += &format!(", {} cores, {}, sab {}.\n", environment["cores"], word("platform"), word("sab"));
    if let Some(picture) = picture {
        text += &format!("\n![Time and memory against the length]({picture})\n");
    }
    let head =
        ["model", "loss on", "T", "forward ms", "backward ms", "backward's share", "peak MiB", "reached", "rounds"];
    let rows = document.points.iter().map(|point| row(point, document.settings.batch));
    text += &format!("\n{READING}\n\n{}", table(&head, 2, rows));
    let growth: Vec<Vec<String>> =
        lines(document).filter_map(|(model, loss, points)| growth(model, loss, &points)).collect();
    if !growth.is_empty() {
        let head = ["model", "loss on", "T", "forward", "backward", "peak memory"];
        text += &format!("\n## Growth between the last two lengths\n\n{}", table(&head, 3, growth.into_iter()));
    }
    let notes = notes(document);
    if !notes.is_empty() {
        text += &format!("\n## Not measured\n\n{}", notes.concat());
    }
    text
}

/// Rows below a head; the first columns are words, the rest are numbers.
fn table(head: &[&str], words: usize, rows: impl Iterator<Item = Vec<String>>) -> String {
    let rules: String = (0..head.len()).map(|column| if column < words { "---|" } else { "---:|" }).collect();
    let body: String = rows.map(|row| format!("| {} |\n", row.join(" | "))).collect();
    format!("| {} |\n|{rules}\n{body}", head.join(" | "))
}

fn row(point: &Point, batch: usize) -> Vec<String> {
    let case = point.case;
    let mut row = vec![case.model.name().to_owned(), case.loss.name().to_owned(), case.length.to_string()];
    match point.measured() {
        None => row.extend(["-"; 6].map(str::to_owned)),
        Some(measured) => row.extend([
            milliseconds(measured.forward_ms),
            milliseconds(measured.backward_ms),
            percent(measured.backward_ms / (measured.forward_ms + measured.backward_ms)),
            MEBIBYTES(measured).map_or("-".to_owned(), |mebibytes| format!("{mebibytes:.1}")),
            percent(measured.reached as f64 / (case.length * batch) as f64),
            measured.rounds.to_string(),
        ]),
    }
    row
}

/// Three digits or more.
fn milliseconds(value: f64) -> String {
    match value {
        ..10.0 => format!("{value:.2}"),
        ..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// The measured points of each model and loss, from short to long.
fn lines(document: &Document) -> impl Iterator<Item = (Subject, LossOn, Vec<(usize, Measurement)>)> {
    Subject::ALL.into_iter().flat_map(|model| LossOn::BOTH.map(|loss| (model, loss))).map(move |(model, loss)| {
        let same = |point: &&Point| point.case.model == model && point.case.loss == loss;
        let measured = |point: &Point| Some((point.case.length, *point.measured()?));
        (model, loss, document.points.iter().filter(same).filter_map(measured).collect())
    })
}

/// The exponents between the two longest lengths.
fn growth(model: Subject, loss: LossOn, points: &[(usize, Measurement)]) -> Option<Vec<String>> {
    let [.., (from, before), (to, after)] = points else { return None };
    let power = |value: Value| {
        let exponent = (value(after)? / value(before)?).ln() / (*to as f64 / *from as f64).ln();
        exponent.is_finite().then(|| format!("T^{exponent:.2}"))
    };
    let words = [model.name().to_owned(), loss.name().to_owned(), format!("{from} to {to}")];
    let powers = [FORWARD, BACKWARD, MEBIBYTES].map(|value| power(value).unwrap_or("-".to_owned()));
    Some(words.into_iter().chain(powers).collect())
}

/// The missing numbers, and why they are missing.
fn notes(document: &Document) -> Vec<String> {
    let note = |point: &Point| match &point.outcome {
        Outcome::NotMeasured { not_measured } => Some(format!("- not measured: {}: {not_measured}\n", point.case)),
        Outcome::Measured(_) => None,
    };
    let mut notes: Vec<String> = document.points.iter().filter_map(note).collect();
    let unknown = |point: &Point| point.measured().is_some_and(|measured| measured.peak_bytes.is_none());
    if document.points.iter().any(unknown) {
        notes.push("- not measured: peak memory, which this system does not tell\n".to_owned());
    }
    notes
}

/// Forward, backward with both losses, and memory; `None` where nothing was measured.
pub fn figure(document: &Document) -> Option<Figure> {
    let panels = [
        ("Forward", "ms", LossOn::All, FORWARD),
        ("Backward, loss on every step", "ms", LossOn::All, BACKWARD),
        ("Backward, loss on the last step alone", "ms", LossOn::Last, BACKWARD),
        ("Peak memory, loss on every step", "MiB", LossOn::All, MEBIBYTES),
    ];
    let chart = |(title, unit, loss, value): (&str, &str, LossOn, Value)| LineChart {
        title: title.to_owned(),
        x_label: "steps of a sequence, T".to_owned(),
        y_label: unit.to_owned(),
        x_scale: Scale::Log,
        y_scale: Scale::Log,
        series: lines(document)
            .filter(|line| line.1 == loss)
            .filter_map(|line| series(line.0, &line.2, value))
            .collect(),
    };
    // A panel or a line without a point would be an error.
    let charts: Vec<LineChart> = panels.into_iter().map(chart).filter(|chart| !chart.series.is_empty()).collect();
    let settings = document.settings;
    let title = format!("Time and memory of a batch of {}, {} hidden units", settings.batch, settings.hidden);
    (!charts.is_empty()).then_some(Figure { title, columns: 2, charts })
}

fn series(model: Subject, points: &[(usize, Measurement)], value: Value) -> Option<Series> {
    // A peak of 0 has no place on a log axis.
    let point =
        |(length, measured): &(usize, Measurement)| Some((*length as f64, value(measured).filter(|v| *v > 0.0)?));
    let points: Vec<(f64, f64)> = points.iter().filter_map(point).collect();
    let dashed = matches!(model, Subject::Lstm | Subject::SelfAttention);
    (!points.is_empty()).then(|| Series { name: model.name().to_owned(), points, dashed })
}
