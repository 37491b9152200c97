//! Records hold what was run, and nothing else is taken for them.

use super::*;
use sab::display::Style;
use sab::reproduce::{Event, RunOptions, State, TimeLeft, Work};
use sab::runs::Judging;

#[test]
fn a_record_of_another_experiment_is_not_taken_for_this_one() {
    let place = small();
    place.ok(&reproduce(&["--only", "lstm"]));
    let before = everything(&place.path("out"));
    place.write("mine/small/lstm.toml", experiment("k_top = 0", "updates = 50"));
    let message = place.fails(4, &reproduce(&["--only", "lstm"]));
    assert!(message.contains("`train.updates` is 40, not 50"), "{message}");
    assert!(message.contains("out/records/small/lstm/seed1.json"), "{message}");
    // Neither is a run directory without a record.
    std::fs::remove_dir_all(place.path("out/records")).expect("removed");
    let message = place.fails(4, &reproduce(&["--only", "lstm"]));
    assert!(message.contains("out/runs/small/lstm/seed1 belongs to another experiment"), "{message}");
    // How often something is written does not make another experiment of it.
    let other = experiment("k_top = 0", "updates = 40").replace("log_every = 2", "log_every = 10");
    place.write("mine/small/lstm.toml", other);
    place.ok(&reproduce(&["--only", "lstm"]));
    assert!(everything(&place.path("out")) == before);
}

#[test]
fn records_say_what_was_run_and_nothing_of_where() {
    let place = small();
    place.ok(&reproduce(&["--only", "sab"]));
    let text = std::fs::read_to_string(place.path("out/records/small/sab/seed1.json")).expect("it is there");
    assert!(!text.contains(&*place.path("").to_string_lossy()), "{text}");
    let record = place.json("out/records/small/sab/seed1.json");
    // Points stand under a row of names.
    let points = |kind: &str| record["curve"][kind].as_array().expect("points").len() - 1;
    assert_eq!((points("validation"), points("train")), (3, 15));
    assert_eq!(record["config"]["train"]["updates"], 60);
    assert!(record["environment"]["cores"].as_u64().is_some());
}

#[test]
fn damaged_records_are_named_with_what_to_do() {
    let place = small();
    place.ok(&reproduce(&[]));
    for text in ["[1]", "3", "{}", "{\"config\": 1}"] {
        std::fs::write(place.path("out/records/small/sab/seed1.json"), text).expect("written");
        for command in [reproduce(&["--table-only"]), reproduce(&["--dry-run"])] {
            let message = place.fails(4, &command);
            assert!(message.contains("small/sab/seed1.json is not a record of a run"), "{message}");
            assert!(message.contains("remove it"), "{message}");
        }
    }
    std::fs::remove_file(place.path("out/records/small/sab/seed1.json")).expect("removed");
    place.ok(&reproduce(&[]));
    assert!(place.path("out/records/small/sab/seed1.json").exists(), "made anew from its run directory");
}

#[test]
fn a_record_without_the_metric_of_the_table_is_not_called_not_run() {
    let place = small();
    place.ok(&reproduce(&["--only", "sab"]));
    place.write("mine/small/table.toml", TABLE.replace("name = \"accuracy\"", "name = \"acuracy\""));
    let message = place.fails(4, &reproduce(&["--table-only"]));
    assert!(message.contains("the table reports `acuracy`") && message.contains("\"accuracy\""), "{message}");
}

#[test]
fn a_record_can_be_run_again_and_gives_the_same_model() {
    let place = small();
    place.ok(&reproduce(&["--only", "sab"]));
    let path = "out/records/small/sab/seed1.json";
    place.ok(&["train", path, "--run", "again", "--threads", "1", "--quiet"]);
    assert!(weights(&place.path("again")) == weights(&place.path("out/runs/small/sab/seed1")), "another model");
    let (record, summary) = (place.json(path), place.json("again/summary.json"));
    assert_eq!(
        (&record["summary"]["test"], &record["summary"]["validation"]),
        (&summary["test"], &summary["validation"])
    );
    let asked = place.ok(&["train", path, "--dry-run"]);
    let before = std::fs::read_to_string(place.path("out/runs/small/sab/seed1/config.toml")).expect("a configuration");
    assert_eq!(asked, before);
    // Flags change it as they change any experiment.
    assert!(place.ok(&["train", path, "--dry-run", "--seed", "7"]).contains("seed = 7"));
    let message = place.fails(4, &["train", "out/records/none.json"]);
    assert!(message.contains("out/records/none.json does not exist"), "{message}");
    place.write("other.json", "{}");
    assert!(place.fails(4, &["train", "other.json"]).contains("other.json is not a record of a run"));
}

#[test]
fn records_of_earlier_versions_load_and_can_be_written_again() {
    let place = small();
    let first = place.ok(&reproduce(&["--only", "sab"]));
    let path = place.path("out/records/small/sab/seed1.json");
    let present = std::fs::read(&path).expect("a record");
    let mut record = place.json("out/records/small/sab/seed1.json");
    // As it was: lines for the curve, the command, the ending, the folder of the data, another name.
    let run = place.path("out/runs/small/sab/seed1");
    let lines = std::fs::read_to_string(run.join("metrics.jsonl")).expect("lines");
    record["curve"] =
        lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON")).collect();
    record["command"] = "sab train /somewhere/sab.toml --seed 1".into();
    record["config"]["data_dir"] = "/somewhere".into();
    record["experiment"] = "levers/sab".into();
    let reason = record["summary"]["stop_reason"].take();
    record["summary"].as_object_mut().expect("a summary").remove("stop_reason");
    record["summary"]["ending"] = reason;
    std::fs::write(&path, record.to_string()).expect("written");
    std::fs::remove_dir_all(place.path("out/runs")).expect("removed");
    assert_eq!(place.ok(&reproduce(&["--only", "sab"])), first);
    assert_eq!(place.ok(&["reproduce", "--rewrite-records", "--results", "out"]), "1 records written\n");
    assert!(std::fs::read(&path).expect("a record") == present, "the record has changed");
}

#[test]
fn the_library_runs_a_table_and_reports_to_a_callback() {
    let place = small();
    place.write("mine/small/table.toml", TABLE.replace("about =", "lengths = [3, 6]\nabout ="));
    let catalogue = Catalogue::of_folder(&place.path("mine")).expect("tables");
    let results = Results { catalogue, budget: Budget::Cpu, folder: place.path("out"), runs: place.path("out/runs") };
    let options =
        RunOptions { only: vec!["sab".into()], threads: Some(1), style: Style::Quiet, ..RunOptions::default() };
    let work = Work { results: &results, options: &options };
    let wanted = work.runs(&[results.table("small").expect("a table")]).expect("runs");
    assert_eq!(work.plan(&wanted).expect("a plan"), (vec![State::Missing], TimeLeft::Unknown));
    let mut told = Vec::new();
    let mut tell = |event: Event| {
        told.push(match event {
            Event::Training { run, done, of, .. } => format!("train {} {done}/{of}", run.name),
            Event::Judging(run) => format!("judge {} {}", run.name, run.experiment.train.seed),
            Event::Judged(Judging::Share(..)) => return,
            Event::Judged(Judging::Done(done)) => done.at.to_string(),
        });
    };
    work.train(&wanted, &mut tell).expect("trained");
    work.judge(&wanted, &mut tell).expect("judged");
    assert_eq!(told, ["train small/sab 0/1", "judge small/sab 1", "T=3", "T=6"]);
    let (states, left) = work.plan(&wanted).expect("a plan");
    assert!(matches!(&states[..], [State::Done { lengths_left, .. }] if lengths_left.is_empty()), "{states:?}");
    assert_eq!(left, TimeLeft::Nothing);
}
