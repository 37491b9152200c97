//! The runs as compact JSON for the page's scripts.
//!
//! Curves are columns, so that no key is repeated thousands of times, and numbers keep the digits that can be seen.

use super::RunView;
use crate::reproduce::Rendered;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Digits of a curve's numbers and of attention's weights.
const DIGITS: usize = 6;
/// Stands for NaN and the infinities, which JSON does not have.
const NOT_A_NUMBER: &str = "nan";
/// Keys of a curve's line that are not metrics; they are not shown.
const NO_METRICS: [&str; 2] = ["kind", "time"];

/// All data of the page.
pub fn of_page(title: &str, table: Option<&Rendered>, runs: &[RunView]) -> Value {
    json!({
        "title": title,
        "table": table.map(|Rendered { title, about, notes, sections, .. }| {
            json!({ "title": title, "about": about, "notes": notes, "sections": sections })
        }),
        "runs": runs.iter().map(of_run).collect::<Vec<_>>(),
    })
}

fn of_run(run: &RunView) -> Value {
    json!({
        "name": run.name,
        "group": run.group,
        "config": run.config,
        "environment": run.environment,
        "summary": run.summary,
        "failure": run.failure,
        "train": columns(&run.curve, "train"),
        "validation": columns(&run.curve, "validation"),
        "attention": run.attention.iter().map(shortened).collect::<Vec<_>>(),
    })
}

/// The lines of a kind as one list for each key.
fn columns(lines: &[Value], kind: &str) -> Value {
    let lines: Vec<&Map<String, Value>> =
        lines.iter().filter(|line| line["kind"] == kind).filter_map(Value::as_object).collect();
    let keys: BTreeSet<&String> =
        lines.iter().flat_map(|line| line.keys()).filter(|key| !NO_METRICS.contains(&key.as_str())).collect();
    let column = |key: &String| -> Value { lines.iter().map(|line| of_value(line.get(key))).collect() };
    Value::Object(keys.into_iter().map(|key| (key.clone(), column(key))).collect())
}

/// Null where a line does not have the key.
fn of_value(value: Option<&Value>) -> Value {
    match value {
        None => Value::Null,
        Some(Value::Number(number)) if number.is_u64() => Value::Number(number.clone()),
        Some(value) => value.as_f64().map_or_else(|| NOT_A_NUMBER.into(), |value| rounded(value).into()),
    }
}

/// A value with the weights in it rounded, at any depth; whole numbers stay.
fn shortened(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => number.as_f64().map_or(Value::Null, |value| rounded(value).into()),
        Value::Array(values) => values.iter().map(shortened).collect(),
        Value::Object(entries) => {
            Value::Object(entries.iter().map(|(key, value)| (key.clone(), shortened(value))).collect())
        }
        other => other.clone(),
    }
}

fn rounded(value: f64) -> f64 {
    format!("{value:.*e}", DIGITS - 1).parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_columns_and_nan_is_named() {
        let lines = [
            json!({ "kind": "train", "update": 1, "loss": 0.123_456_789, "time": 5.0 }),
            json!({ "kind": "train", "update": 2, "loss": null }),
            json!({ "kind": "validation", "update": 2, "ce": 1.0 }),
            json!({ "kind": "train", "update": 3 }),
        ];
        assert_eq!(columns(&lines, "train"), json!({ "loss": [0.123457, "nan", null], "update": [1, 2, 3] }));
        assert_eq!(columns(&lines, "test"), json!({}));
    }

    #[test]
    fn weights_keep_the_digits_that_can_be_seen() {
        let line = json!({ "update": 5, "inputs": ["0.123456789", null], "reminded_of": [[[3, 0.544_221_997]]] });
        let short = json!({ "update": 5, "inputs": ["0.123456789", null], "reminded_of": [[[3, 0.544222]]] });
        assert_eq!(shortened(&line), short);
        assert_eq!(rounded(1e-300), 1e-300);
    }
}
