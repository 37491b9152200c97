//! All points, one after the other, each model up to the length at which it takes too much.
//!
//! Each point is measured in a process of its own, so that its memory peak is its own too.

use super::Result;
use super::case::{Case, LossOn, Settings, Subject};
use super::measure::{Measurement, measure, memory};
use sab::device::DeviceName;
use sab::run_dir::{DeviceUse, Environment, atomic, available_memory};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A process with this variable measures the point in it and says so on stdout, behind [`ANSWER`].
pub const POINT: &str = "SAB_COMPLEXITY_POINT";
const ANSWER: &str = "measurement: ";
/// Share of the free memory that a point may take, so that the rest of the machine keeps working.
const PART_OF_MEMORY: f64 = 0.8;
/// A point runs at least three steps: one to allocate its memory, one that is measured, one to count.
const LEAST_STEPS: f64 = 3.0;
/// How often the parent looks at a process.
const LOOK: Duration = Duration::from_millis(10);

/// The result of a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Outcome {
    /// It was measured.
    Measured(Measurement),
    /// It took too much, or would.
    NotMeasured {
        /// Why.
        not_measured: String,
    },
}

/// A point and its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The point.
    #[serde(flatten)]
    pub case: Case,
    /// Its result.
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl Point {
    /// The measurement, if there is one.
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
    /// The settings that all points share.
    pub settings: Settings,
    /// Programs and machine of the latest measurement.
    pub environment: Value,
    /// The points, by model, loss and length.
    pub points: Vec<Point>,
}

/// The points to measure, their limits, and the file that keeps them.
pub struct Survey<'a> {
    /// The settings that all points share.
    pub settings: Settings,
    /// The lengths.
    pub lengths: Vec<usize>,
    /// Seconds that a point may take.
    pub max_seconds: f64,
    /// Bytes that a point may take; without a number, most of the free memory.
    pub max_bytes: Option<u64>,
    /// `complexity.json`
    pub file: PathBuf,
    /// Makes a process that calls [`answer`].
    pub program: &'a dyn Fn() -> Command,
}

#[derive(Serialize, Deserialize)]
struct Question {
    case: Case,
    settings: Settings,
    seconds: f64,
}

/// Measures the point that the parent process asks for. Returns the text for stdout, or nothing if there is no such
/// point.
pub fn answer() -> Option<Result<String>> {
    let question = std::env::var(POINT).ok()?;
    let measured = || -> Result<String> {
        let Question { case, settings, seconds } = serde_json::from_str(&question)?;
        Ok(format!("{ANSWER}{}", serde_json::to_string(&measure(case, settings, seconds)?)?))
    };
    Some(measured())
}

impl Survey<'_> {
    /// Measures every point that is not in the file yet and writes the file after each one. `report` sees each new
    /// point.
    pub fn run(&self, mut report: impl FnMut(&Point)) -> Result<Document> {
        let device = DeviceUse::new(DeviceName::Cpu, &DeviceName::Cpu.open()?, 0);
        let environment = serde_json::to_value(Environment::here(self.settings.threads, 0, device))?;
        let mut document = self.earlier(&environment)?;
        let mut lengths = self.lengths.clone();
        lengths.sort_unstable();
        lengths.dedup();
        // Short lengths first for all models: a survey that is stopped has the same lengths of each.
        for length in lengths {
            for (model, loss) in Subject::ALL.into_iter().flat_map(|model| LossOn::BOTH.map(|loss| (model, loss))) {
                let case = Case { model, loss, length };
                if document.points.iter().any(|point| point.case == case) {
                    continue;
                }
                let point = Point { case, outcome: self.outcome(&document, case)? };
                report(&point);
                document.points.push(point);
                document.environment.clone_from(&environment);
                document.points.sort_by_key(|point| order(point.case));
                atomic::write_json(&self.file, &document)?;
            }
        }
        Ok(document)
    }

    /// The measurements of an earlier call. Points of other settings or machines cannot stand in one file with these.
    fn earlier(&self, environment: &Value) -> Result<Document> {
        let file = self.file.display();
        if !self.file.exists() {
            return Ok(Document { settings: self.settings, environment: Value::Null, points: Vec::new() });
        }
        let text = std::fs::read_to_string(&self.file).map_err(|why| format!("cannot read {file}: {why}"))?;
        let mut found: Document = serde_json::from_str(&text)
            .map_err(|why| format!("{file} was not written by this program: {why}; choose another --out DIR"))?;
        if found.settings != self.settings {
            let (then, now) = (found.settings, self.settings);
            return Err(format!("{file} has points with {then}, not with {now}; choose another --out DIR").into());
        }
        for key in ["sab", "cpu"] {
            let (then, now) = (&found.environment[key], &environment[key]);
            if !then.is_null() && then != now {
                let difference = format!("`{key}` was {then} and is {now}");
                return Err(
                    format!("{file} is of another machine or version: {difference}; choose another --out DIR").into()
                );
            }
        }
        // Limits may be other ones now: unmeasured points are tried again.
        found.points.retain(|point| point.measured().is_some());
        Ok(found)
    }

    fn outcome(&self, document: &Document, case: Case) -> Result<Outcome> {
        let most = self.max_bytes.or_else(|| available_memory().map(|free| (free as f64 * PART_OF_MEMORY) as u64));
        let same = |point: &&Point| point.case.model == case.model && point.case.loss == case.loss;
        let shorter = document.points.iter().filter(same).filter(|point| point.case.length < case.length);
        let shorter = shorter.max_by_key(|point| point.case.length);
        match shorter.and_then(|shorter| too_much(shorter, case, self.max_seconds, most)) {
            Some(not_measured) => Ok(Outcome::NotMeasured { not_measured }),
            None => self.measure(case, most),
        }
    }

    /// Runs the process of a point and ends it if it takes more than it may.
    fn measure(&self, case: Case, most: Option<u64>) -> Result<Outcome> {
        let question = Question { case, settings: self.settings, seconds: self.max_seconds };
        let mut command = (self.program)();
        // Burn's own operations take as many threads as the engine.
        command.env("RAYON_NUM_THREADS", self.settings.threads.to_string());
        command.env(POINT, serde_json::to_string(&question)?);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|why| format!("cannot start the process of a point: {why}"))?;
        if let Some(not_measured) = watch(&mut child, self.max_seconds, most)? {
            // It may have ended by itself in between, which is as well.
            let _ = child.kill();
            child.wait()?;
            return Ok(Outcome::NotMeasured { not_measured });
        }
        let Output { status, stdout, stderr } = child.wait_with_output()?;
        if !status.success() {
            let says = String::from_utf8_lossy(&stderr);
            let says = if says.trim().is_empty() { "no message; perhaps memory ran out" } else { says.trim() };
            return Err(format!("the process that measured {case} failed ({status}): {says}").into());
        }
        let text = String::from_utf8_lossy(&stdout);
        let json = text.split_once(ANSWER).and_then(|(_, rest)| rest.lines().next());
        let json = json.ok_or_else(|| format!("the process that measured {case} printed no measurement"))?;
        Ok(Outcome::Measured(serde_json::from_str(json)?))
    }
}

/// By model, loss and length.
fn order(case: Case) -> (Option<usize>, bool, usize) {
    (Subject::ALL.iter().position(|model| *model == case.model), case.loss == LossOn::Last, case.length)
}

/// Waits until the process ends by itself, or says why it must be ended.
fn watch(child: &mut Child, seconds: f64, most: Option<u64>) -> Result<Option<String>> {
    let began = Instant::now();
    while child.try_wait()?.is_none() {
        if began.elapsed().as_secs_f64() > seconds {
            return Ok(Some(format!("it was ended after {seconds} s")));
        }
        if let Some((taken, most)) =
            memory(&child.id().to_string(), "VmRSS").zip(most).filter(|(taken, most)| taken > most)
        {
            return Ok(Some(format!("it was ended at {} MiB, and may take {} MiB", taken >> 20, most >> 20)));
        }
        sleep(LOOK.min(Duration::from_secs_f64(seconds)));
    }
    Ok(None)
}

/// Why a point need not be tried: a shorter one took too much, or this one would even if time and memory grew no faster
/// than the length. They may grow faster, so nothing is refused that could have been measured.
fn too_much(shorter: &Point, case: Case, max_seconds: f64, most: Option<u64>) -> Option<String> {
    let length = shorter.case.length;
    let Some(measured) = shorter.measured() else { return Some(format!("{length} steps were too many already")) };
    let times = case.length as f64 / length as f64;
    let seconds = LEAST_STEPS * (measured.forward_ms + measured.backward_ms) / 1e3 * times;
    if seconds > max_seconds {
        return Some(format!("it would take {seconds:.1} s or more, and may take {max_seconds} s"));
    }
    let (most, bytes) = most.zip(measured.peak_bytes.map(|bytes| (bytes as f64 * times) as u64))?;
    let mebibytes = |bytes: u64| bytes >> 20;
    (bytes > most)
        .then(|| format!("it would take {} MiB or more, and may take {} MiB", mebibytes(bytes), mebibytes(most)))
}
