//! The example `complexity` measures every point once, says which points it did not measure, and refuses bad input.
#![allow(dead_code, reason = "the example has a `main`")]
#![allow(clippy::print_stdout, reason = "a process of the survey answers on stdout")]

#[path = "../examples/complexity/main.rs"]
mod complexity;

use clap::Parser;
use complexity::{
    Arguments, Case, Document, LossOn, Measurement, Outcome, Point, Settings, Subject, figure, to_markdown,
};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// The process of a point: the survey starts this test program with this test alone. On its own it has nothing to
/// measure.
#[test]
fn a_process_of_the_survey() {
    if let Some(said) = complexity::answer() {
        println!("{}", said.expect("measured"));
    }
}

fn process() -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "a_process_of_the_survey", "--nocapture"]);
    command
}

fn arguments(out: &Path, more: &[&str]) -> Result<Arguments, clap::Error> {
    let out = out.to_str().expect("a plain name");
    let tiny = ["complexity", "--hidden", "4", "--batch", "2", "--rounds", "1", "--threads", "1", "--out", out];
    Arguments::try_parse_from(tiny.iter().chain(more))
}

fn survey(folder: &TempDir, more: &[&str]) -> Result<String, String> {
    let arguments = arguments(folder.path(), more).map_err(|why| why.to_string())?;
    complexity::run(&arguments, &process).map_err(|why| why.to_string())
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn document(folder: &TempDir) -> Value {
    let text = fs::read_to_string(folder.path().join("complexity.json")).expect("a file");
    serde_json::from_str(&text).expect("JSON")
}

fn points(document: &Value) -> &Vec<Value> {
    document["points"].as_array().expect("points")
}

fn point<'a>(document: &'a Value, model: &str, loss: &str, length: u64) -> &'a Value {
    let same = |point: &&Value| point["model"] == model && point["loss"] == loss && point["length"] == length;
    points(document).iter().find(same).unwrap_or_else(|| panic!("{model}, {loss}, {length} is missing"))
}

#[test]
fn every_point_is_measured_and_all_files_are_written() {
    let folder = folder();
    let page = survey(&folder, &["--lengths", "12,6,12"]).expect("measured");
    let document = document(&folder);
    assert_eq!(points(&document).len(), 4 * 2 * 2, "each length once");
    for model in ["sab", "sab-sparse", "lstm", "self-attention"] {
        for (loss, length) in [("all", 6), ("all", 12), ("last", 6), ("last", 12)] {
            let point = point(&document, model, loss, length);
            assert!(point["forward_ms"].as_f64() > Some(0.0) && point["backward_ms"].as_f64() > Some(0.0), "{point}");
            assert_eq!(point["rounds"], 1);
            assert_eq!(point["peak_bytes"].is_u64(), cfg!(target_os = "linux"), "{point}");
            let reached = point["reached"].as_u64().expect("a count");
            match (model, loss) {
                // Two rows; nothing is cut where there is no truncation.
                (_, "all") | ("lstm" | "self-attention", _) => assert_eq!(reached, 2 * length, "{point}"),
                // At least the last step of each row.
                _ => assert!((2..=2 * length).contains(&reached), "{point}"),
            }
        }
    }
    // Stored are steps 0 and 10 of 12, segments end at multiples of 5: 11 and 12, and 6 to 10 if 10 was recalled.
    let sparse = point(&document, "sab-sparse", "last", 12)["reached"].as_u64().expect("a count");
    assert!([4, 9, 14].contains(&sparse), "{sparse}");

    assert_eq!(document["settings"], json!({ "hidden": 4, "batch": 2, "rounds": 1, "threads": 1 }));
    assert!(document["environment"]["cpu"].is_string());
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect(name);
    let markdown = read("complexity.md");
    assert!(page.contains(&markdown) && page.contains("16 points are new"), "{page}");
    for part in ["| SAB, k_att 10 | last step | 12 |", "(complexity.png)", "Growth", "square of T", "| 6 to 12 |"] {
        assert!(markdown.contains(part), "{part} is not in {markdown}");
    }
    let at = |length| point(&document, "lstm", "all", length)["forward_ms"].as_f64().expect("a time");
    let exponent = format!("| LSTM, full BPTT | every step | 6 to 12 | T^{:.2} |", (at(12) / at(6)).log2());
    assert!(markdown.contains(&exponent), "{exponent} is not in {markdown}");
    assert!(!markdown.contains("Not measured"), "{markdown}");
    let svg = read("complexity.svg");
    for panel in [">Forward<", ">Backward, loss on every step<", ">Backward, loss on the last step alone<"] {
        assert_eq!(svg.matches(panel).count(), 1, "{panel}");
    }
    assert_eq!(svg.contains(">Peak memory"), cfg!(target_os = "linux"));
    assert!(fs::read(folder.path().join("complexity.png")).expect("a picture").starts_with(b"\x89PNG"));
}

#[test]
fn a_second_call_measures_only_what_is_missing() {
    let folder = folder();
    let file = folder.path().join("complexity.json");
    survey(&folder, &["--lengths", "5"]).expect("measured");
    // A time that no measurement gives shows which points were kept.
    let mut changed = document(&folder);
    let all = changed["points"].as_array_mut().expect("points");
    all.retain(|point| !(point["model"] == "lstm" && point["loss"] == "last"));
    all.iter_mut().for_each(|point| point["forward_ms"] = json!(12345.5));
    fs::write(&file, changed.to_string()).expect("written");
    assert!(survey(&folder, &["--lengths", "5"]).expect("measured").contains("\n1 points are new"));
    let again = document(&folder);
    assert!(point(&again, "lstm", "last", 5)["forward_ms"].as_f64() < Some(12345.0));
    assert_eq!(points(&again).iter().filter(|point| point["forward_ms"] == 12345.5).count(), 7);

    // A call that measures nothing leaves the file as it is.
    let before = fs::read(&file).expect("a file");
    assert!(survey(&folder, &["--lengths", "5"]).expect("drawn").contains("\n0 points are new"));
    assert_eq!(fs::read(&file).expect("a file"), before);
    survey(&folder, &["--lengths", "7"]).expect("measured");
    assert_eq!(points(&document(&folder)).len(), 16, "other lengths stay");
}

#[test]
fn points_of_other_settings_are_not_mixed_and_not_lost() {
    let folder = folder();
    let file = folder.path().join("complexity.json");
    survey(&folder, &["--lengths", "5"]).expect("measured");
    let before = fs::read(&file).expect("a file");
    let out = folder.path().to_str().expect("a plain name");
    let other = ["complexity", "--hidden", "5", "--batch", "2", "--rounds", "1", "--threads", "1", "--out", out];
    let other = Arguments::try_parse_from(other).expect("arguments");
    let message = complexity::run(&other, &process).expect_err("other settings").to_string();
    for part in ["4 hidden units", "5 hidden units", "--out"] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(fs::read(&file).expect("a file"), before);

    let mut changed = document(&folder);
    changed["environment"]["cpu"] = json!("another");
    fs::write(&file, changed.to_string()).expect("written");
    assert!(survey(&folder, &["--lengths", "5"]).expect_err("another machine").contains("another"));
    fs::write(&file, "{ \"points\": [").expect("written");
    assert!(survey(&folder, &["--lengths", "5"]).expect_err("damaged").contains("complexity.json"));
    assert_eq!(fs::read(&file).expect("a file"), b"{ \"points\": [");
}

#[test]
fn what_takes_too_long_is_said_and_tried_again_with_more_time() {
    let folder = folder();
    let page = survey(&folder, &["--lengths", "3000,6000", "--max-seconds-per-point", "0.001"]).expect("a page");
    assert!(page.contains("not measured: SAB, loss on every step, T 3000: it was ended after 0.001 s"), "{page}");
    let second = "not measured: full self-attention, loss on the last step, T 6000: 3000 steps were too many already";
    assert!(page.contains(second), "{page}");
    assert!(points(&document(&folder)).iter().all(|point| point["not_measured"].is_string()));
    assert!(!folder.path().join("complexity.png").exists() && !page.contains(".png"), "there is nothing to draw");
    survey(&folder, &["--lengths", "3000", "--max-seconds-per-point", "60"]).expect("measured");
    assert!(points(&document(&folder)).iter().all(|point| point["forward_ms"].is_number()));
    // A longer one than fits, as its shorter neighbour shows.
    let page = survey(&folder, &["--lengths", "3000000", "--max-seconds-per-point", "0.01"]).expect("a page");
    assert!(page.contains("T 3000000: it would take "), "{page}");
}

#[test]
#[cfg(target_os = "linux")]
fn what_takes_too_much_memory_is_said() {
    let folder = folder();
    let page = survey(&folder, &["--lengths", "300,600", "--max-memory-mib", "1"]).expect("a page");
    assert!(
        page.contains("not measured: SAB, loss on every step, T 600: ") && page.contains("may take 1 MiB"),
        "{page}"
    );
    let before = complexity::memory("self", "VmHWM").expect("Linux tells it");
    drop(std::hint::black_box(vec![1_u8; 64 << 20]));
    let peak = complexity::memory("self", "VmHWM").expect("Linux tells it");
    assert!(peak >= before && peak > 64 << 20, "{before} {peak}");
}

#[test]
fn wrong_flags_are_named() {
    let folder = folder();
    for (flag, values) in [
        ("--lengths", &["0", "5,x", "", "5,,6"][..]),
        ("--max-seconds-per-point", &["0", "NaN", "inf"]),
        ("--max-memory-mib", &["0"]),
    ] {
        for value in values {
            let message = arguments(folder.path(), &[flag, value]).expect_err("refused").to_string();
            assert!(message.contains(flag), "{flag} {value}: {message}");
        }
    }
    assert!(arguments(folder.path(), &["--lenghts", "5"]).expect_err("refused").to_string().contains("--lengths"));
    fs::write(folder.path().join("taken"), "a file").expect("written");
    let taken = arguments(&folder.path().join("taken"), &["--lengths", "5"]).expect("arguments");
    assert!(complexity::run(&taken, &process).expect_err("a file").to_string().contains("taken"));
}

#[test]
#[cfg(unix)]
fn a_process_that_fails_is_an_error_with_its_message() {
    let folder = folder();
    let arguments = arguments(folder.path(), &["--lengths", "5"]).expect("arguments");
    let run = |script: &'static str| {
        let shell = move || {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        complexity::run(&arguments, &shell).expect_err("it fails").to_string()
    };
    let message = run("echo 'the sky fell' >&2; exit 3");
    assert!(message.contains("the sky fell") && message.contains("SAB, loss on every step, T 5"), "{message}");
    assert!(run("echo hello").contains("printed no measurement"));
    assert!(run("kill -9 $$").contains("signal"));
    assert!(!folder.path().join("complexity.json").exists(), "nothing was measured");
}

#[test]
fn a_loss_on_every_step_reaches_every_step_and_one_on_the_last_what_the_rules_allow() {
    let settings = Settings { hidden: 8, batch: 2, rounds: 1000, threads: 1 };
    // Without time there is one round.
    let reached = |model, loss, length| {
        let measured = complexity::measure(Case { model, loss, length }, settings, 0.0).expect("measured");
        assert_eq!(measured.rounds, 1);
        measured.reached
    };
    for model in Subject::ALL {
        assert_eq!(reached(model, LossOn::All, 40), 80, "{model:?}");
    }
    // Nothing is cut: all steps, also many of them (a gradient that fades to zero would be cheaper).
    assert_eq!(reached(Subject::Lstm, LossOn::Last, 5000), 10_000);
    assert_eq!(reached(Subject::SelfAttention, LossOn::Last, 500), 1000);
    // With every tenth state stored there are at most 10 segments of 5 steps in 103, and the last one.
    let sparse = reached(Subject::SabSparse, LossOn::Last, 103);
    assert!((3..=2 * (10 * 5 + 3)).contains(&sparse), "{sparse}");
}

#[test]
fn the_page_has_shares_and_exponents_and_names_missing_numbers() {
    let case = |length: usize| Case { model: Subject::Sab, loss: LossOn::Last, length };
    let measured = |length: usize, forward_ms: f64, backward_ms: f64| Point {
        case: case(length),
        outcome: Outcome::Measured(Measurement { forward_ms, backward_ms, peak_bytes: None, reached: 5, rounds: 1 }),
    };
    let missing = Outcome::NotMeasured { not_measured: "it would take long".into() };
    let document = Document {
        settings: Settings { hidden: 8, batch: 2, rounds: 1, threads: 1 },
        environment: Value::Null,
        points: vec![
            measured(100, 9.0, 3.0),
            measured(200, 4.0, 2.0),
            measured(400, 16.0, 4.0),
            Point { case: case(800), outcome: missing },
        ],
    };
    let page = to_markdown(&document, None);
    for part in [
        "| SAB | last step | 100 | 9.00 | 3.00 | 25.0 % | - | 2.5 % | 1 |",
        "| SAB | last step | 200 to 400 | T^2.00 | T^1.00 | - |",
        "not measured: SAB, loss on the last step, T 800: it would take long",
        "peak memory, which this system does not tell",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert_eq!(figure(&document).expect("a figure").charts.len(), 1, "panels without points are left out");
}
