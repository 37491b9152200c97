//! `sab complexity` measures every point once, says what it did not measure, and refuses what makes no sense.

mod common;

use common::{Place, stderr};
use serde_json::{Value, json};
use std::fs;

/// A survey that takes a second or two, with more arguments.
fn tiny<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let settings = ["--hidden", "4", "--batch", "2", "--rounds", "1", "--threads", "1", "--out", "out"];
    ["complexity"].into_iter().chain(settings).chain(more.iter().copied()).collect()
}

fn survey(place: &Place, more: &[&str]) -> Value {
    serde_json::from_str(&place.ok(&tiny(&[&["--json"], more].concat()))).expect("JSON")
}

fn points(document: &Value) -> &Vec<Value> {
    document["points"].as_array().expect("points")
}

fn point<'a>(document: &'a Value, model: &str, loss: &str, length: u64) -> &'a Value {
    let same = |point: &&Value| point["model"] == model && point["loss"] == loss && point["length"] == length;
    points(document).iter().find(same).unwrap_or_else(|| panic!("{model}, {loss}, {length} is missing"))
}

const MODELS: [&str; 4] = ["sab", "sab-sparse", "lstm", "self-attention"];

#[test]
fn every_point_is_measured_and_all_files_are_written() {
    let place = Place::new();
    let printed = place.ok(&tiny(&["--lengths", "12,6,12"]));
    let document = place.json("out/complexity.json");
    assert_eq!(points(&document).len(), 4 * 2 * 2, "each length once");
    for model in MODELS {
        for (loss, length) in [("all", 6), ("all", 12), ("last", 6), ("last", 12)] {
            let point = point(&document, model, loss, length);
            assert!(point["forward_ms"].as_f64() > Some(0.0) && point["backward_ms"].as_f64() > Some(0.0), "{point}");
            assert_eq!(point["rounds"], 1);
            assert_eq!(point["peak_bytes"].is_u64(), cfg!(target_os = "linux"), "{point}");
            assert!(point.get("peak_bytes").is_some(), "unknown is said: {point}");
            let reached = point["reached"].as_u64().expect("a count");
            match (model, loss) {
                // Two rows; nothing is cut where there is no truncation.
                (_, "all") | ("lstm" | "self-attention", _) => assert_eq!(reached, 2 * length, "{point}"),
                // The last step of each row at least.
                _ => assert!((2..=2 * length).contains(&reached), "{point}"),
            }
        }
    }
    // Stored are steps 0 and 10 of 12, segments end at multiples of 5: 11 and 12, and 6 to 10 if 10 was recalled.
    let sparse = point(&document, "sab-sparse", "last", 12)["reached"].as_u64().expect("a count");
    assert!([4, 9, 14].contains(&sparse), "{sparse}");

    let growth = document["growth"].as_array().expect("growth");
    assert_eq!(growth.len(), 4 * 2);
    assert!(growth.iter().all(|line| line["from"] == 6 && line["to"] == 12 && line["backward"].is_f64()));
    let at = |length| point(&document, "lstm", "all", length)["forward_ms"].as_f64().expect("a time");
    let exponent = (at(12) / at(6)).log2();
    let lstm = growth.iter().find(|line| line["model"] == "lstm" && line["loss"] == "all").expect("a line");
    assert!((lstm["forward"].as_f64().expect("an exponent") - exponent).abs() < 1e-9);

    assert_eq!(document["settings"], json!({ "hidden": 4, "batch": 2, "rounds": 1, "threads": 1 }));
    assert!(document["environment"]["cpu"].is_string());
    let read = |name: &str| fs::read_to_string(place.path(name)).expect(name);
    assert_eq!(read("out/complexity.csv").lines().count(), 1 + 16);
    let markdown = read("out/complexity.md");
    for part in ["| SAB, k_att 10 | last step | 12 |", "(complexity.png)", "Growth", "square of T"] {
        assert!(markdown.contains(part), "{part} is not in {markdown}");
    }
    assert!(!markdown.contains("Not measured"), "{markdown}");
    let svg = read("out/complexity.svg");
    for panel in [">Forward<", ">Backward, loss on every step<", ">Backward, loss on the last step alone<"] {
        assert_eq!(svg.matches(panel).count(), 1, "{panel}");
    }
    assert_eq!(svg.contains(">Peak memory"), cfg!(target_os = "linux"));
    assert!(fs::read(place.path("out/complexity.png")).expect("a picture").starts_with(b"\x89PNG"));
    for part in ["full self-attention", "16 points are new, 0 were there already", "complexity.svg"] {
        assert!(printed.contains(part), "{part} is not in {printed}");
    }
}

#[test]
fn a_second_call_measures_only_what_is_missing() {
    let place = Place::new();
    survey(&place, &["--lengths", "5"]);
    // A figure that no measurement gives shows what was kept.
    let mut document = place.json("out/complexity.json");
    let all = document["points"].as_array_mut().expect("points");
    all.retain(|point| !(point["model"] == "lstm" && point["loss"] == "last"));
    all.iter_mut().for_each(|point| point["forward_ms"] = json!(12345.5));
    place.write("out/complexity.json", document.to_string());

    let again = survey(&place, &["--lengths", "5"]);
    assert_eq!((again["new_points"].as_u64(), points(&again).len()), (Some(1), 8));
    assert!(point(&again, "lstm", "last", 5)["forward_ms"].as_f64() < Some(12345.0));
    assert_eq!(points(&again).iter().filter(|point| point["forward_ms"] == 12345.5).count(), 7);

    // What only draws anew leaves the machine that measured as it is written.
    let mut document = place.json("out/complexity.json");
    document["environment"]["memory"] = json!(12345);
    place.write("out/complexity.json", document.to_string());
    let drawn = survey(&place, &["--lengths", "5"]);
    assert_eq!((&drawn["new_points"], &drawn["environment"]["memory"]), (&json!(0), &json!(12345)));
    assert_eq!(place.json("out/complexity.json")["environment"], document["environment"]);

    let longer = survey(&place, &["--lengths", "7"]);
    assert_eq!((longer["new_points"].as_u64(), points(&longer).len()), (Some(8), 16), "other lengths stay");
    assert_ne!(longer["environment"]["memory"], 12345);
    assert_eq!(place.json("out/complexity.json")["points"], longer["points"]);
}

#[test]
fn points_of_other_settings_are_not_mixed_and_not_lost() {
    let place = Place::new();
    survey(&place, &["--lengths", "5"]);
    let before = fs::read(place.path("out/complexity.json")).expect("a file");
    let other = ["complexity", "--hidden", "5", "--batch", "2", "--rounds", "1", "--threads", "1", "--out", "out"];
    let message = place.fails(2, &other);
    assert!(message.contains("4 hidden units") && message.contains("5 hidden units"), "{message}");
    assert!(message.contains("--out"), "{message}");
    assert_eq!(fs::read(place.path("out/complexity.json")).expect("a file"), before);

    let mut document = place.json("out/complexity.json");
    document["environment"]["cpu"] = json!("another");
    place.write("out/complexity.json", document.to_string());
    assert!(place.fails(2, &tiny(&["--lengths", "5"])).contains("another"));

    place.write("out/complexity.json", "{ \"points\": [");
    assert!(place.fails(4, &tiny(&["--lengths", "5"])).contains("complexity.json"));
    assert_eq!(fs::read(place.path("out/complexity.json")).expect("a file"), b"{ \"points\": [");
}

#[test]
fn what_takes_too_long_is_said_and_tried_again_with_more_time() {
    let place = Place::new();
    let out = place.sab(&tiny(&["--lengths", "3000,6000", "--max-seconds-per-point", "0.001"]));
    assert!(out.status.success(), "{}", stderr(&out));
    let printed = String::from_utf8_lossy(&out.stdout);
    assert!(printed.contains("not measured: SAB, loss on every step, T 3000: it was ended after 0.001 s"), "{printed}");
    let second = "not measured: full self-attention, loss on the last step, T 6000: 3000 steps were too many already";
    assert!(printed.contains(second), "{printed}");
    let document = place.json("out/complexity.json");
    assert_eq!(points(&document).len(), 16);
    assert!(points(&document).iter().all(|point| point["not_measured"].is_string() && point["forward_ms"].is_null()));
    assert!(!place.path("out/complexity.png").exists(), "there is nothing to draw");
    assert!(!fs::read_to_string(place.path("out/complexity.md")).expect("a file").contains(".png"));

    let again = survey(&place, &["--lengths", "3000,6000", "--max-seconds-per-point", "0.001"]);
    assert_eq!(again["new_points"], 0, "the same limit would stop it again");
    let longer = survey(&place, &["--lengths", "3000", "--max-seconds-per-point", "60"]);
    assert_eq!(longer["new_points"], 8);
    assert!(points(&longer).iter().all(|point| (point["length"] == 3000) == point["forward_ms"].is_number()));
}

#[test]
#[cfg(target_os = "linux")]
fn what_takes_too_much_memory_is_said() {
    let place = Place::new();
    let large = ["--hidden", "64", "--batch", "8", "--rounds", "1", "--threads", "1", "--lengths", "300,600"];
    let limit = ["complexity", "--max-memory-mib", "1", "--out", "out"];
    let printed = place.ok(&[&limit[..], &large].concat());
    let document = place.json("out/complexity.json");
    for model in MODELS {
        let point = point(&document, model, "all", 600);
        assert!(point["limit"]["bytes"] == 1 << 20, "{point}");
    }
    assert!(printed.contains("not measured: SAB, loss on every step, T 600: "), "{printed}");
}

#[test]
fn wrong_flags_are_named() {
    let place = Place::new();
    for (arguments, part) in [
        (&["--lengths", "0"][..], "--lengths"),
        (&["--lengths", "5,x"], "--lengths"),
        (&["--lengths", ""], "--lengths"),
        (&["--lengths", "5,,6"], "--lengths"),
        (&["--hidden", "0"], "--hidden"),
        (&["--batch", "0"], "--batch"),
        (&["--rounds", "0"], "--rounds"),
        (&["--threads", "0"], "--threads"),
        (&["--max-seconds-per-point", "0"], "--max-seconds-per-point"),
        (&["--max-seconds-per-point", "NaN"], "--max-seconds-per-point"),
        (&["--max-seconds-per-point", "inf"], "--max-seconds-per-point"),
        (&["--max-memory-mib", "0"], "--max-memory-mib"),
        (&["--lenghts", "5"], "--lengths"),
    ] {
        let message = place.fails(2, &[&["complexity", "--out", "out"], arguments].concat());
        assert!(message.contains(part), "{arguments:?}: {message}");
    }
    assert!(!place.path("out").exists());
    place.write("taken", "a file");
    let message = place.fails(4, &["complexity", "--lengths", "5", "--out", "taken"]);
    assert!(message.contains("taken"), "{message}");
    let help = place.ok(&["--help"]);
    assert!(help.contains("complexity") && !help.contains("complexity-point"), "{help}");
}

#[test]
#[cfg(unix)]
fn a_process_that_fails_is_an_error_with_its_message() {
    use sab::complexity::{Settings, Survey};
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let run = |name: &str, script: &str| {
        let program = place.write(name, format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
        let settings = Settings { hidden: 4, batch: 2, rounds: 1, threads: 1 };
        let file = place.path("complexity.json");
        let survey = Survey { settings, lengths: vec![5], max_seconds: 60.0, max_bytes: None, file, program };
        survey.run(|_| ()).expect_err("it fails").to_string()
    };
    let message = run("fails", "echo 'the sky fell' >&2; exit 3");
    assert!(message.contains("the sky fell") && message.contains("SAB, loss on every step, T 5"), "{message}");
    assert!(run("babbles", "echo hello").contains("something else than a measurement"));
    assert!(run("dies", "kill -9 $$").contains("signal"));
    assert!(!place.path("complexity.json").exists(), "nothing was measured");
}
