//! The file of a [`Record`]: JSON that is short and whose differences are readable.
//!
//! Each setting and each point of a curve has a line of its own, and keys that the settings already hold are left out.
//! Metrics keep all digits; the curve keeps those that a picture shows.

use super::record::Record;
use crate::error::{LabError, Result};
use crate::experiment::Experiment;
use crate::run_dir::metrics::Kind;
use serde_json::{Map, Value, json};

/// At most this many points of training are kept; validations are all kept.
const TRAINING_POINTS: usize = 20;

/// The metrics of a point of training that are kept.
const TRAINING_KEYS: [&str; 5] = ["update", "seconds", "loss", "gradient_norm", "learning_rate"];

/// Significant digits of a curve's numbers.
const DIGITS: usize = 4;

/// Keys of a summary that the configuration holds too.
const IN_SETTINGS: [&str; 5] = ["task", "length", "model", "batch", "seed"];

/// Keys of `environment.json` that say nothing about the machine or the versions.
const NOT_OF_THE_MACHINE: [&str; 3] = ["command", "began", "seed"];

/// The folder of sweeps, and its name in earlier versions.
const SWEEPS: &str = "sweeps/";
const OLD_SWEEPS: &str = "levers/";

/// Leaves out what nobody needs later: repeated keys, the places of data and run directory, most points of training.
pub(super) fn tidy(record: &mut Record) {
    record.config.data_dir = "data".into();
    without(Some(&mut record.environment), &NOT_OF_THE_MACHINE);
    without(record.transfer.as_mut(), &["run"]);
    without(record.summary.as_mut(), &IN_SETTINGS);
    if let Some(Value::Object(summary)) = &mut record.summary {
        // The reason why training stopped was called its ending in earlier versions.
        if let Some(reason) = summary.remove("ending") {
            summary.insert("stop_reason".into(), reason);
        }
        summary.retain(|_, value| !value.is_null());
    }
    for at_length in record.transfer.iter_mut().filter_map(|found| found["lengths"].as_array_mut()).flatten() {
        if let Some((at, metrics)) = at_length.as_object_mut().and_then(|at| at.remove("figures").map(|old| (at, old)))
        {
            at.insert("metrics".into(), metrics);
        }
    }
    // The rest of the message is advice that names the run directory.
    if let Some(failure) = &mut record.failure {
        *failure = failure.split(". ").next().unwrap_or_default().to_string();
    }
    record.curve = thinned(&record.curve);
}

fn without(value: Option<&mut Value>, keys: &[&str]) {
    if let Some(Value::Object(entries)) = value {
        entries.retain(|key, _| !keys.contains(&key.as_str()));
    }
}

/// Points of training, then validations.
fn thinned(lines: &[Value]) -> Vec<Value> {
    let of_kind = |kind: Kind| lines.iter().filter(move |line| line["kind"] == kind.name()).collect::<Vec<_>>();
    let training = of_kind(Kind::Train);
    let windows = training.chunks(training.len().div_ceil(TRAINING_POINTS).max(1)).map(joined);
    windows.chain(of_kind(Kind::Validation).into_iter().cloned()).map(shortened).collect()
}

/// One point for some neighbouring points of training: the mean loss, the largest norm of the gradient, and the last
/// value of everything else.
fn joined(window: &[&Value]) -> Value {
    let numbers = |key: &str| window.iter().filter_map(|line| line[key].as_f64()).collect::<Vec<f64>>();
    let mut point = window.last().map_or(Value::Null, |line| (*line).clone());
    let (losses, norms) = (numbers("loss"), numbers("gradient_norm"));
    if let Some(line) = point.as_object_mut() {
        line.retain(|key, _| key == "kind" || TRAINING_KEYS.contains(&key.as_str()));
        if window.len() > 1 && !losses.is_empty() {
            line.insert("loss".into(), json!(losses.iter().sum::<f64>() / losses.len() as f64));
        }
        if let Some(largest) = norms.into_iter().reduce(f64::max) {
            line.insert("gradient_norm".into(), json!(largest));
        }
    }
    point
}

/// A point without its date, its numbers rounded.
fn shortened(mut line: Value) -> Value {
    let Some(entries) = line.as_object_mut() else { return line };
    entries.remove("time");
    for (key, value) in entries.iter_mut().filter(|(_, value)| value.is_f64()) {
        let number = value.as_f64().unwrap_or_default();
        let short = if key == "seconds" { format!("{number:.1}") } else { format!("{number:.*e}", DIGITS - 1) };
        *value = json!(short.parse::<f64>().unwrap_or(number));
    }
    line
}

/// The record in the JSON of any version.
pub(super) fn parse(mut value: Value, origin: &str) -> Result<Record> {
    let wrong = |why: String| LabError::Run(why);
    let Some(entries) = value.as_object_mut() else { return Err(wrong("it is not a JSON object".into())) };
    let mut take = |key: &str| entries.remove(key).filter(|value| !value.is_null());
    let text = |value: Option<Value>| value.and_then(|value| value.as_str().map(String::from));
    let Some(config @ Value::Object(_)) = take("config") else { return Err(wrong("it has no settings".into())) };
    let Some(experiment) = text(take("experiment")) else { return Err(wrong("it names no experiment".into())) };
    // Through TOML: keys that the program has learned since have their defaults.
    let config: toml::Table = serde_json::from_value(config).map_err(|why| wrong(why.to_string()))?;
    let config = toml::to_string(&config).map_err(|why| wrong(why.to_string()))?;
    let mut record = Record {
        experiment: match experiment.strip_prefix(OLD_SWEEPS) {
            Some(rest) => format!("{SWEEPS}{rest}"),
            None => experiment,
        },
        config: Experiment::of_text(&config, origin, &[])?,
        environment: take("environment").unwrap_or_default(),
        summary: take("summary"),
        failure: text(take("failure")),
        transfer: take("transfer"),
        curve: match take("curve") {
            Some(Value::Array(lines)) => lines,
            Some(Value::Object(kinds)) => kinds.iter().flat_map(|(kind, rows)| of_rows(kind, rows)).collect(),
            _ => Vec::new(),
        },
    };
    tidy(&mut record);
    Ok(record)
}

/// The text of a record.
pub(super) fn text(record: &Record) -> Result<String> {
    let Record { experiment, config, environment, summary, failure, transfer, curve } = record;
    let mut config = serde_json::to_value(config).map_err(|why| LabError::Run(format!("cannot write JSON: {why}")))?;
    without(Some(&mut config), &["data_dir"]);
    let entries = [
        ("experiment", json!(experiment), 0),
        ("config", config, 2),
        ("summary", json!(summary), 1),
        ("failure", json!(failure), 0),
        ("transfer", json!(transfer), 2),
        ("environment", environment.clone(), 0),
        ("curve", json!({ "train": rows(curve, Kind::Train), "validation": rows(curve, Kind::Validation) }), 2),
    ];
    let lines = entries.iter().filter(|(_, value, _)| !value.is_null());
    let lines: Vec<String> =
        lines.map(|(key, value, levels)| format!(" {}: {}", json!(key), laid_out(value, *levels, 1))).collect();
    Ok(format!("{{\n{}\n}}\n", lines.join(",\n")))
}

/// JSON with one entry per line down to some level, and on one line below it.
fn laid_out(value: &Value, levels: usize, depth: usize) -> String {
    let inner = |value: &Value| laid_out(value, levels - 1, depth + 1);
    let (open, entries, close): (_, Vec<String>, _) = match value {
        Value::Array(items) if levels > 0 && !items.is_empty() => ('[', items.iter().map(inner).collect(), ']'),
        Value::Object(map) if levels > 0 && !map.is_empty() => {
            ('{', map.iter().map(|(key, value)| format!("{}: {}", json!(key), inner(value))).collect(), '}')
        }
        value => return value.to_string(),
    };
    let (indent, outer) = (" ".repeat(depth + 1), " ".repeat(depth));
    format!("{open}\n{indent}{}\n{outer}{close}", entries.join(&format!(",\n{indent}")))
}

/// The points of a kind as rows under a row of names.
fn rows(curve: &[Value], kind: Kind) -> Vec<Vec<Value>> {
    let points: Vec<&Map<String, Value>> =
        curve.iter().filter(|line| line["kind"] == kind.name()).filter_map(Value::as_object).collect();
    let mut names: Vec<&String> = points.iter().flat_map(|point| point.keys()).filter(|name| *name != "kind").collect();
    let first = |name: &str| ["update", "seconds"].iter().position(|first| *first == name).unwrap_or(2);
    names.sort_by_key(|name| (first(name), *name));
    names.dedup();
    if points.is_empty() {
        return Vec::new();
    }
    let of_point = |point: &&Map<String, Value>| {
        names.iter().map(|name| point.get(*name).cloned().unwrap_or_default()).collect::<Vec<_>>()
    };
    std::iter::once(names.iter().map(|name| json!(name)).collect()).chain(points.iter().map(of_point)).collect()
}

/// The points that rows represent.
fn of_rows(kind: &str, rows: &Value) -> Vec<Value> {
    let rows = rows.as_array().map(Vec::as_slice).unwrap_or_default();
    let Some((names, points)) = rows.split_first() else { return Vec::new() };
    let names = names.as_array().map(Vec::as_slice).unwrap_or_default();
    let of_row = |row: &Value| {
        let named =
            names.iter().enumerate().filter_map(|(place, name)| Some((name.as_str()?.to_string(), row[place].clone())));
        Value::Object(std::iter::once(("kind".to_string(), json!(kind))).chain(named).collect())
    };
    points.iter().map(of_row).collect()
}
