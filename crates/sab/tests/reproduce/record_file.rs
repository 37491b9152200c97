//! The file of a record: short, readable, and the same after it was read.

use super::*;
use sab::reproduce::Record;
use serde_json::{Value, json};

/// A record as earlier versions wrote it.
fn old() -> Value {
    let train = |update: u64| {
        json!({ "kind": "train", "update": update, "seconds": 0.123_456, "time": 5.0, "loss": update as f64,
            "gradient_norm": 1000.0 - update as f64, "learning_rate": 0.005, "accuracy": 0.5 })
    };
    let mut curve: Vec<Value> = (1..=60).map(train).collect();
    curve.push(json!({ "kind": "validation", "update": 60, "seconds": 2.0, "time": 9.0, "ce": 0.123_456_789 }));
    curve.push(json!({ "kind": "validation", "update": 61, "seconds": 2.0, "time": 9.0, "ce": null }));
    json!({
        "experiment": "levers/mine",
        "command": "sab train /somewhere/mine.toml --seed 2",
        "config": { "data_dir": "/somewhere", "task": { "name": "copy", "length": 3 }, "train": { "seed": 2 } },
        "environment": { "cpu": "a", "began": 1, "seed": 2, "threads": 1 },
        "summary": { "ending": "budget", "updates": 60, "wall_seconds": 1.5, "note": null, "task": "copy",
            "test": { "accuracy": 0.123_456_789_012_345_67 } },
        "failure": null,
        "transfer": { "run": "/somewhere", "trained_at": 3, "update": 60,
            "lengths": [{ "length": 9, "figures": { "accuracy": 0.987_654_321_098_7 }, "sequences": 10 }] },
        "curve": curve,
    })
}

/// The record of an earlier version as it is read, and the text that it is written with.
fn read_and_written() -> (Record, String) {
    let place = Place::new();
    let record = Record::load(&place.write("old.json", old().to_string())).expect("a record").expect("it is there");
    record.save(&place.path("new.json")).expect("saved");
    let again = Record::load(&place.path("new.json")).expect("a record").expect("it is there");
    assert!(again == record, "a record that is written and read again has changed");
    (record, std::fs::read_to_string(place.path("new.json")).expect("text"))
}

#[test]
fn a_record_of_an_earlier_version_becomes_a_short_one_with_all_digits_of_its_metrics() {
    let (record, text) = read_and_written();
    assert!(!text.contains("somewhere") && !text.contains("figures") && !text.contains("ending"), "{text}");
    assert_eq!((record.experiment.as_str(), record.config.train.seed), ("sweeps/mine", 2));
    assert_eq!(record.metrics_at(None).map(|found| &found["accuracy"]), Some(&json!(0.123_456_789_012_345_67)));
    assert_eq!(record.metrics_at(Some(&9.into())).map(|found| &found["accuracy"]), Some(&json!(0.987_654_321_098_7)));
    assert_eq!(record.summary.as_ref().map(|summary| &summary["stop_reason"]), Some(&json!("budget")));
}

#[test]
fn a_curve_keeps_every_validation_and_the_mean_loss_and_largest_norm_of_its_windows() {
    let curve = read_and_written().0.curve;
    assert_eq!(curve.len(), 20 + 2);
    let first = json!({ "kind": "train", "update": 3, "seconds": 0.1, "loss": 2.0, "gradient_norm": 999.0,
        "learning_rate": 0.005 });
    assert_eq!(curve[0], first);
    assert_eq!(curve[20], json!({ "kind": "validation", "update": 60, "seconds": 2.0, "ce": 0.1235 }));
    assert!(curve[21]["ce"].is_null(), "NaN stays NaN");
}

#[test]
fn a_file_has_one_setting_and_one_point_per_line() {
    let (_, text) = read_and_written();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    assert!(lines.contains(&"\"length\": 3,") && lines.contains(&"[60,2.0,0.1235],"), "{text}");
}
