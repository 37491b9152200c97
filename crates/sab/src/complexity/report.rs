//! What was measured, in words and tables.

use super::case::{LossOn, Subject};
use super::measure::Measurement;
use super::survey::{Document, Outcome, Point};
use super::table::Table;
use crate::error::{LabError, Result};
use serde::Serialize;

/// How to read the figures.
const READING: &str = "\
Times are the best of all rounds. Forward is as in training, with its tape, the readout and the loss; backward's share is of
forward and backward together. Every model with attention compares each step with all memories, so forward takes the
square of T in the long run for all of them; what SAB saves is backward time, because a step without gradient costs nothing
(R13). Peak memory is what the process of a point took beyond what it had before its first batch. Reached are the pairs of a
row and a step whose gradient is not zero; weights and inputs are random, and a trained model is reminded of other steps.
The LSTM begins with open forget gates and small weights: else its gradient fades to exactly zero in long sequences, and
full backpropagation from the last step looks cheaper than it is.";

/// How a line grows: its exponents between its two longest lengths.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Growth {
    /// The model.
    pub model: Subject,
    /// Where the loss is.
    pub loss: LossOn,
    /// The last length but one that was measured.
    pub from: usize,
    /// The last one.
    pub to: usize,
    /// Forward takes T to this power.
    pub forward: Option<f64>,
    /// Backward takes T to this power.
    pub backward: Option<f64>,
    /// Memory takes T to this power; `None` where it is not known.
    pub memory: Option<f64>,
}

/// The document with what follows from it.
pub struct Report<'a> {
    document: &'a Document,
    /// How each line grows, where two of its points were measured.
    pub growth: Vec<Growth>,
}

impl<'a> Report<'a> {
    /// Works out the exponents.
    pub fn new(document: &'a Document) -> Self {
        let lines = Subject::ALL.into_iter().flat_map(|model| LossOn::BOTH.map(|loss| (model, loss)));
        Self { document, growth: lines.filter_map(|(model, loss)| growth(document, model, loss)).collect() }
    }

    /// Whether there is anything to draw.
    pub fn has_measurements(&self) -> bool {
        self.document.points.iter().any(|point| point.measured().is_some())
    }

    /// For the terminal.
    pub fn to_text(&self) -> String {
        let mut text = format!("{}\n\n{}", self.document.settings, self.points().to_text());
        if !self.growth.is_empty() {
            text.push_str(&format!("\nGrowth between the last two lengths\n{}", self.exponents().to_text()));
        }
        for line in self.notes() {
            text.push_str(&format!("\n{line}"));
        }
        if text.ends_with('\n') { text } else { text + "\n" }
    }

    /// `complexity.md`, with the picture that lies beside it if there is one.
    pub fn to_markdown(&self, picture: Option<&str>) -> String {
        let environment = &self.document.environment;
        let word = |key: &str| environment[key].as_str().unwrap_or("unknown").to_owned();
        let mut text = format!("# Time and memory against the length\n\n{}; {}", self.document.settings, word("cpu"));
        text.push_str(&format!(", {} cores, {}, sab {}.\n", environment["cores"], word("platform"), word("sab")));
        if let Some(picture) = picture {
            text.push_str(&format!("\n![Time and memory against the length]({picture})\n"));
        }
        text.push_str(&format!("\n{READING}\n\n{}", self.points().to_markdown()));
        if !self.growth.is_empty() {
            let exponents = self.exponents().to_markdown();
            text.push_str(&format!("\n## Growth between the last two lengths\n\n{exponents}"));
        }
        let notes = self.notes();
        if !notes.is_empty() {
            text.push_str("\n## Not measured\n\n");
            notes.iter().for_each(|note| text.push_str(&format!("- {note}\n")));
        }
        text
    }

    /// `complexity.csv`, with all digits.
    pub fn to_csv(&self) -> Result<String> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let wrong = |why: csv::Error| LabError::Run(format!("cannot write CSV: {why}"));
        let head = [
            "model",
            "loss",
            "length",
            "forward_ms",
            "backward_ms",
            "peak_bytes",
            "reached",
            "pairs",
            "rounds",
            "not_measured",
        ];
        writer.write_record(head).map_err(wrong)?;
        for Point { case, outcome } in &self.document.points {
            let (measured, why) = match outcome {
                Outcome::Measured(measured) => (Some(measured), ""),
                Outcome::NotMeasured { not_measured, .. } => (None, not_measured.as_str()),
            };
            let number = |value: &dyn Fn(&Measurement) -> Option<String>| measured.and_then(value).unwrap_or_default();
            let record = [
                case.model.name().to_owned(),
                case.loss.name().to_owned(),
                case.length.to_string(),
                number(&|m| Some(m.forward_ms.to_string())),
                number(&|m| Some(m.backward_ms.to_string())),
                number(&|m| m.peak_bytes.map(|bytes| bytes.to_string())),
                number(&|m| Some(m.reached.to_string())),
                (case.length * self.document.settings.batch).to_string(),
                number(&|m| Some(m.rounds.to_string())),
                why.to_owned(),
            ];
            writer.write_record(record).map_err(wrong)?;
        }
        let bytes = writer.into_inner().map_err(|why| LabError::Run(format!("cannot write CSV: {why}")))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn points(&self) -> Table {
        let row = |point: &Point| {
            let mut row = vec![
                point.case.model.name().to_owned(),
                point.case.loss.name().to_owned(),
                point.case.length.to_string(),
            ];
            match point.measured() {
                Some(measured) => row.extend(figures(measured, point.case.length * self.document.settings.batch)),
                None => row.extend(["-"; 6].map(str::to_owned)),
            }
            row
        };
        Table {
            words: 2,
            head: vec![
                "model",
                "loss on",
                "T",
                "forward ms",
                "backward ms",
                "backward's share",
                "peak MiB",
                "reached",
                "rounds",
            ],
            rows: self.document.points.iter().map(row).collect(),
        }
    }

    fn exponents(&self) -> Table {
        let power = |exponent: Option<f64>| exponent.map_or("-".to_owned(), |exponent| format!("T^{exponent:.2}"));
        let row = |growth: &Growth| {
            let Growth { model, loss, from, to, forward, backward, memory } = growth;
            let lengths = format!("{from} to {to}");
            let words = [model.name().to_owned(), loss.name().to_owned(), lengths];
            words.into_iter().chain([*forward, *backward, *memory].map(power)).collect()
        };
        Table {
            words: 3,
            head: vec!["model", "loss on", "T", "forward", "backward", "peak memory"],
            rows: self.growth.iter().map(row).collect(),
        }
    }

    /// What is missing, and why.
    fn notes(&self) -> Vec<String> {
        let note = |point: &Point| match &point.outcome {
            Outcome::NotMeasured { not_measured, .. } => Some(format!("not measured: {}: {not_measured}", point.case)),
            Outcome::Measured(_) => None,
        };
        let mut notes: Vec<String> = self.document.points.iter().filter_map(note).collect();
        let unknown = |point: &Point| point.measured().is_some_and(|measured| measured.peak_bytes.is_none());
        if self.document.points.iter().any(unknown) {
            notes.push("not measured: peak memory, which this system does not tell".to_owned());
        }
        notes
    }
}

/// The numbers of a row.
fn figures(measured: &Measurement, pairs: usize) -> [String; 6] {
    let mebibytes = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
    [
        milliseconds(measured.forward_ms),
        milliseconds(measured.backward_ms),
        crate::display::percent(measured.backward_ms / (measured.forward_ms + measured.backward_ms)),
        measured.peak_bytes.map_or("-".to_owned(), mebibytes),
        crate::display::percent(measured.reached as f64 / pairs.max(1) as f64),
        measured.rounds.to_string(),
    ]
}

/// Three digits or more.
fn milliseconds(value: f64) -> String {
    match value {
        ..10.0 => format!("{value:.2}"),
        ..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn growth(document: &Document, model: Subject, loss: LossOn) -> Option<Growth> {
    let same = |point: &&Point| point.case.model == model && point.case.loss == loss;
    let measured = |point: &Point| Some((point.case.length, *point.measured()?));
    let mut points: Vec<(usize, Measurement)> = document.points.iter().filter(same).filter_map(measured).collect();
    points.sort_by_key(|(length, _)| *length);
    let [.., (from, before), (to, after)] = points.as_slice() else { return None };
    let power = |before: f64, after: f64| {
        let exponent = (after / before).ln() / (*to as f64 / *from as f64).ln();
        exponent.is_finite().then_some(exponent)
    };
    Some(Growth {
        model,
        loss,
        from: *from,
        to: *to,
        forward: power(before.forward_ms, after.forward_ms),
        backward: power(before.backward_ms, after.backward_ms),
        memory: before.peak_bytes.zip(after.peak_bytes).and_then(|(a, b)| power(a as f64, b as f64)),
    })
}

#[cfg(test)]
mod tests {
    use super::super::case::{Case, Settings};
    use super::super::survey::Limit;
    use super::*;

    fn document(points: &[(usize, Option<f64>)]) -> Document {
        let outcome = |time: &Option<f64>| match time {
            Some(time) => Outcome::Measured(Measurement {
                forward_ms: time * time,
                backward_ms: *time,
                peak_bytes: None,
                reached: 5,
                rounds: 1,
            }),
            None => Outcome::not_measured("it would take long".into(), Limit::Seconds(60.0)),
        };
        let case = |length: usize| Case { model: Subject::Sab, loss: LossOn::Last, length };
        Document {
            settings: Settings { hidden: 8, batch: 2, rounds: 1, threads: 1 },
            environment: serde_json::Value::Null,
            points: points.iter().map(|(length, time)| Point { case: case(*length), outcome: outcome(time) }).collect(),
        }
    }

    #[test]
    fn exponents_are_those_of_the_last_two_points_that_were_measured() {
        let document = document(&[(100, Some(9.0)), (200, Some(2.0)), (400, Some(4.0)), (800, None)]);
        let growth = Report::new(&document).growth;
        assert_eq!((growth.len(), growth[0].from, growth[0].to, growth[0].memory), (1, 200, 400, None));
        assert!((growth[0].forward.unwrap_or(0.0) - 2.0).abs() < 1e-12);
        assert!((growth[0].backward.unwrap_or(0.0) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_share_of_backward_is_that_of_both_directions_together() {
        // Forward takes 9 ms and backward 3.
        let text = Report::new(&document(&[(100, Some(3.0))])).to_markdown(None);
        assert!(text.contains("| SAB | last step | 100 | 9.00 | 3.00 | 25.0 % |"), "{text}");
    }

    #[test]
    fn what_was_not_measured_is_said_everywhere() {
        let document = document(&[(10, Some(1.0)), (800, None)]);
        let report = Report::new(&document);
        let said = "not measured: SAB, loss on the last step, T 800: it would take long";
        assert!(report.to_text().contains(said) && report.to_markdown(None).contains(said));
        assert!(report.to_text().contains("peak memory, which this system does not tell"));
        let csv = report.to_csv().unwrap_or_default();
        assert!(csv.ends_with("SAB,last step,800,,,,,1600,,it would take long\n"), "{csv}");
        assert!(csv.contains("SAB,last step,10,1,1,,5,20,1,\n"), "{csv}");
    }
}
