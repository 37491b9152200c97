//! All points, one after the other, each model up to the length at which it takes too much.

use super::case::{Case, LossOn, Settings, Subject};
use super::child::{self, Limits};
use super::measure::Measurement;
use crate::device::{DeviceName, cpu};
use crate::error::{LabError, Result};
use crate::run_dir::{DeviceUse, Environment, atomic, available_memory};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::ErrorKind;
use std::path::PathBuf;

/// The part of the free memory that a point may take: the rest of the machine must live.
const PART_OF_MEMORY: f64 = 0.8;
/// A point runs at least this many steps: one to find its memory, one that is measured, one to count.
const LEAST_STEPS: f64 = 3.0;

/// Which limit a point would have passed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// Seconds.
    Seconds(f64),
    /// Bytes of memory.
    Bytes(u64),
}

/// What became of a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Outcome {
    /// It was measured.
    Measured(Measurement),
    /// It would have taken too much, or has.
    NotMeasured {
        /// Why.
        not_measured: String,
        /// The limit that stood in the way.
        limit: Limit,
    },
}

impl Outcome {
    pub(super) fn not_measured(not_measured: String, limit: Limit) -> Self {
        Self::NotMeasured { not_measured, limit }
    }
}

/// A point and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The point.
    #[serde(flatten)]
    pub case: Case,
    /// What became of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl Point {
    /// The measurement, if it was measured.
    pub fn measured(&self) -> Option<&Measurement> {
        match &self.outcome {
            Outcome::Measured(measured) => Some(measured),
            Outcome::NotMeasured { .. } => None,
        }
    }
}

/// `complexity.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Document {
    /// What all points have in common.
    pub settings: Settings,
    /// Programs and machine.
    pub environment: Value,
    /// The points, by model, loss and length.
    pub points: Vec<Point>,
}

/// What is to be measured, and where it is kept.
#[derive(Clone, Debug)]
pub struct Survey {
    /// What all points have in common.
    pub settings: Settings,
    /// The lengths.
    pub lengths: Vec<usize>,
    /// Seconds that a point may take.
    pub max_seconds: f64,
    /// Bytes that a point may take; without a number most of what is free.
    pub max_bytes: Option<u64>,
    /// `complexity.json`
    pub file: PathBuf,
    /// The program that measures a point, this one.
    pub program: PathBuf,
}

impl Survey {
    /// Measures what is not in the file yet and writes it after each point. `report` is told each new point.
    pub fn run(&self, mut report: impl FnMut(&Point)) -> Result<Document> {
        let device = DeviceUse::new(DeviceName::Cpu, &cpu(), 0);
        let environment = serde_json::to_value(Environment::here(self.settings.threads, 0, device))
            .map_err(|why| LabError::Run(format!("cannot write JSON: {why}")))?;
        let mut document = self.earlier(&environment)?;
        let mut lengths = self.lengths.clone();
        lengths.sort_unstable();
        lengths.dedup();
        // The longest last for all models: what is stopped has the same lengths of each.
        for length in lengths {
            for model in Subject::ALL {
                for loss in LossOn::BOTH {
                    let case = Case { model, loss, length };
                    if self.has(&document, case) {
                        continue;
                    }
                    let point = Point { case, outcome: self.outcome(&document, case)? };
                    document.points.retain(|point| point.case != case);
                    report(&point);
                    document.points.push(point);
                    // Of what was measured last; a call that measures nothing leaves it.
                    document.environment.clone_from(&environment);
                    document.points.sort_by_key(|point| order(point.case));
                    atomic::write_json(&self.file, &document)?;
                }
            }
        }
        Ok(document)
    }

    /// What an earlier call has left. Points of other settings cannot stand in one file with these.
    fn earlier(&self, environment: &Value) -> Result<Document> {
        let text = match std::fs::read_to_string(&self.file) {
            Ok(text) => text,
            Err(why) if why.kind() == ErrorKind::NotFound => {
                return Ok(Document { settings: self.settings, environment: Value::Null, points: Vec::new() });
            }
            Err(why) => return Err(LabError::file("read", &self.file, &why)),
        };
        let file = self.file.display();
        let found: Document = serde_json::from_str(&text)
            .map_err(|why| LabError::Run(format!("{file} is not what `sab complexity` has written: {why}")))?;
        let elsewhere = |what: String| Err(LabError::Config(format!("{file} has {what}; choose another --out DIR")));
        if found.settings != self.settings {
            return elsewhere(format!("points with {}, not with {}", found.settings, self.settings));
        }
        for key in ["sab", "cpu"] {
            let (then, now) = (&found.environment[key], &environment[key]);
            if then != now {
                return elsewhere(format!("points of another machine or version (`{key}` was {then} and is {now})"));
            }
        }
        Ok(found)
    }

    /// Whether a point needs no new measurement: it was measured, or a limit that was no tighter stopped it.
    fn has(&self, document: &Document, case: Case) -> bool {
        let Some(point) = document.points.iter().find(|point| point.case == case) else { return false };
        match &point.outcome {
            Outcome::Measured(_) => true,
            Outcome::NotMeasured { limit: Limit::Seconds(then), .. } => self.max_seconds <= *then,
            Outcome::NotMeasured { limit: Limit::Bytes(then), .. } => self.max_bytes.is_some_and(|now| now <= *then),
        }
    }

    fn outcome(&self, document: &Document, case: Case) -> Result<Outcome> {
        let bytes = self.max_bytes.or_else(|| available_memory().map(|free| (free as f64 * PART_OF_MEMORY) as u64));
        let limits = Limits { seconds: self.max_seconds, bytes };
        match shorter(document, case).and_then(|point| too_much(point, case, limits)) {
            Some(outcome) => Ok(outcome),
            None => child::run(&self.program, case, self.settings, limits),
        }
    }
}

/// By model, loss and length.
fn order(case: Case) -> (Option<usize>, bool, usize) {
    (Subject::ALL.iter().position(|model| *model == case.model), case.loss == LossOn::Last, case.length)
}

/// The point of the same model and loss at the next shorter length.
fn shorter(document: &Document, case: Case) -> Option<&Point> {
    let same = |point: &&Point| point.case.model == case.model && point.case.loss == case.loss;
    let before = document.points.iter().filter(same).filter(|point| point.case.length < case.length);
    before.max_by_key(|point| point.case.length)
}

/// Why a point need not be tried: a shorter one took too much, or would at this length even if time and memory grew no
/// faster than the length does. They may grow faster, so nothing is refused that could have been measured.
fn too_much(shorter: &Point, case: Case, limits: Limits) -> Option<Outcome> {
    let length = shorter.case.length;
    let measured = match &shorter.outcome {
        // An earlier call gave it less time.
        Outcome::NotMeasured { limit: Limit::Seconds(then), .. } if limits.seconds > *then => return None,
        Outcome::NotMeasured { limit, .. } => {
            return Some(Outcome::not_measured(format!("{length} steps were too many already"), *limit));
        }
        Outcome::Measured(measured) => measured,
    };
    let times = case.length as f64 / length as f64;
    let seconds = LEAST_STEPS * (measured.forward_ms + measured.backward_ms) / 1e3 * times;
    if seconds > limits.seconds {
        let reason = format!("it would take {seconds:.1} s or more, and may take {} s", limits.seconds);
        return Some(Outcome::not_measured(reason, Limit::Seconds(limits.seconds)));
    }
    let (most, bytes) = limits.bytes.zip(measured.peak_bytes.map(|bytes| (bytes as f64 * times) as u64))?;
    (bytes > most).then(|| {
        let reason = format!("it would take {} MiB or more, and may take {} MiB", bytes >> 20, most >> 20);
        Outcome::not_measured(reason, Limit::Bytes(most))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_refused_only_if_it_must_take_too_much() {
        let case = |length: usize| Case { model: Subject::Sab, loss: LossOn::All, length };
        let (forward_ms, backward_ms, peak_bytes) = (4e3, 6e3, Some(1 << 20));
        let measured = Measurement { forward_ms, backward_ms, peak_bytes, reached: 1, rounds: 1 };
        let shorter = Point { case: case(100), outcome: Outcome::Measured(measured) };
        let limit = |seconds: f64, bytes: Option<u64>| match too_much(&shorter, case(200), Limits { seconds, bytes }) {
            Some(Outcome::NotMeasured { limit, .. }) => Some(limit),
            _ => None,
        };
        // Three steps of 10 s, at twice the length.
        assert_eq!(limit(59.0, None), Some(Limit::Seconds(59.0)));
        assert_eq!(limit(61.0, None), None);
        assert_eq!(limit(61.0, Some(2 << 20)), None);
        assert_eq!(limit(61.0, Some((2 << 20) - 1)), Some(Limit::Bytes((2 << 20) - 1)));
        let stopped = Point { case: case(100), outcome: Outcome::not_measured(String::new(), Limit::Seconds(5.0)) };
        let after = |seconds: f64| too_much(&stopped, case(101), Limits { seconds, bytes: None });
        let refused = Outcome::not_measured("100 steps were too many already".into(), Limit::Seconds(5.0));
        assert_eq!((after(5.0), after(5.5)), (Some(refused), None));
    }
}
