//! Tables are run once, resumed after an interruption, and planned before.

use super::*;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn what_is_done_is_not_run_again() {
    let place = small();
    let first = place.sab(&reproduce(&[]));
    assert!(first.status.success(), "{}", stderr(&first));
    assert!(stderr(&first).contains("run 1 of 2: small/sab, seed 1"), "{}", stderr(&first));
    assert!(stderr(&first).contains("run 2 of 2: small/lstm, seed 1 (1 done, about 0:0"), "{}", stderr(&first));
    let before = everything(&place.path("out"));
    let second = place.sab(&reproduce(&[]));
    assert!(second.status.success());
    assert!(!stderr(&second).contains("run "), "{}", stderr(&second));
    assert_eq!(first.stdout, second.stdout);
    assert!(everything(&place.path("out")) == before, "something was written anew");
    // The records are enough: nobody needs the run directories to make the table.
    std::fs::remove_dir_all(place.path("out/runs")).expect("removed");
    assert_eq!(place.sab(&reproduce(&[])).stdout, first.stdout);
    assert!(!place.path("out/runs").exists());
}

#[test]
fn an_interrupted_run_goes_on_as_if_nothing_had_happened() {
    let place = small();
    place.write("mine/small/sab.toml", experiment("k_top = 2", "updates = 6000"));
    place.ok(&[&reproduce(&["--only", "sab"])[..], &["--runs", "whole"]].concat());
    std::fs::remove_dir_all(place.path("out")).expect("removed");
    let child =
        place.command(&reproduce(&["--only", "sab"])).stderr(std::process::Stdio::piped()).spawn().expect("starts");
    let began = Instant::now();
    while !place.path("out/runs/small/sab/seed1/metrics.jsonl").exists() {
        assert!(began.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(Duration::from_millis(30));
    Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().expect("kill runs");
    let out = child.wait_with_output().expect("it ends");
    assert_eq!(out.status.code(), Some(130), "{}", stderr(&out));
    assert!(stderr(&out).contains("the same `sab reproduce` continues from update"), "{}", stderr(&out));
    assert!(!place.path("out/records").exists(), "a run that has not ended has no record");
    let plan = place.ok(&reproduce(&["--only", "sab", "--dry-run"]));
    assert!(plan.contains("interrupted after ") && plan.contains("\n0 of 1 runs done"), "{plan}");
    place.ok(&reproduce(&["--only", "sab"]));
    let of = |folder: &str| weights(&place.path(folder).join("small/sab/seed1"));
    assert!(of("out/runs") == of("whole"), "other weights");
}

#[test]
fn a_row_that_cannot_be_trained_is_a_result() {
    let place = small();
    let train = "updates = 40\nlearning_rate = 3e38\nclip = \"none\"\nrefusals = 3";
    place.write("mine/small/lstm.toml", experiment("k_top = 0", train));
    let shown = place.ok(&reproduce(&[]));
    assert!(shown.contains("| LSTM | 12.5 | diverged | – | diverged |"), "{shown}");
    let record = place.json("out/records/small/lstm/seed1.json");
    assert!(record["failure"].as_str().expect("a reason").contains("not a finite number"), "{record}");
    assert!(record["summary"].is_null());
    let again = place.sab(&reproduce(&[]));
    assert!(again.status.success() && !stderr(&again).contains("run "), "{}", stderr(&again));
}

#[test]
fn models_are_judged_at_other_lengths_once() {
    let place = small();
    place.write("mine/small/table.toml", TABLE.replace("about =", "lengths = [3, 6]\nabout ="));
    let first = place.sab(&reproduce(&["--formats", "md,json"]));
    assert!(first.status.success(), "{}", stderr(&first));
    assert!(stderr(&first).contains("T       6"), "{}", stderr(&first));
    let transfer = &place.json("out/runs/small/sab/seed1/transfer.json")["lengths"];
    let accuracy = transfer[1]["metrics"]["accuracy"].as_f64().expect("a number");
    let metrics = &place.json("out/small.json")["metrics"];
    assert_eq!(metrics[2]["metric"], "accuracy, % at T=6");
    assert!((metrics[2]["mean"].as_f64().expect("a number") - 100.0 * accuracy).abs() < 1e-9);
    let shown = String::from_utf8(first.stdout).expect("UTF-8");
    assert!(shown.contains("| metric | SAB \\| 2: paper | ours | LSTM: paper | ours |"), "{shown}");
    assert!(shown.contains(&format!("| accuracy, % at T=6 | – | {:.2} | – |", 100.0 * accuracy)), "{shown}");
    let again = place.sab(&reproduce(&[]));
    assert!(again.status.success() && !stderr(&again).contains("T       6"), "{}", stderr(&again));
    // A model that was trained well and overflows at one length has not diverged.
    let record = "out/records/small/lstm/seed1.json";
    let measured = place.json(record);
    let mut overflowed = measured.clone();
    let failure = "the states of the model overflow";
    overflowed["transfer"]["lengths"][1] =
        serde_json::json!({ "length": 6, "failure": failure, "metrics": {}, "seconds": 0.1 });
    place.write(record, overflowed.to_string());
    let shown = place.ok(&reproduce(&["--table-only"]));
    let row = shown.lines().find(|line| line.starts_with("| accuracy, % at T=6 |")).expect("a row for the length");
    assert!(row.ends_with("| overflow |") && !shown.contains("diverged"), "{shown}");
    place.write(record, measured.to_string());
    // A length that the table has learned since is no less missing than a run.
    assert!(!place.ok(&reproduce(&["--dry-run"])).contains("evaluated"));
    place.write("mine/small/table.toml", TABLE.replace("about =", "lengths = [3, 6, 9]\nabout ="));
    let plan = place.ok(&reproduce(&["--dry-run"]));
    assert_eq!(plan.matches(", not evaluated at T=9 yet").count(), 2, "{plan}");
}

#[test]
fn a_table_judges_changed_models_apart() {
    let place = small();
    let lengths = "lengths = [6, { length = 6, sequences = 4, set = { \"model.capacity\" = 3 } }, \
        { length = 9, set = { \"model.k_top\" = 2 } }]\nabout =";
    let beside = "[[metrics]]\nname = \"memories\"\nheading = \"memories\"\n\n[[metrics]]\nname = \"seconds\"\n\
        heading = \"seconds\"\n\n[[groups]]";
    let (head, rows) = TABLE.split_once("[[groups]]").expect("groups");
    // One model, which the paper does not have: a row for each length.
    let row = rows.split("[[groups.rows]]").nth(1).expect("a row").replace("paper = [\"99.5\", \"0.01\"]", "");
    let table = format!("{}{beside}\n\n[[groups.rows]]{row}", head.replace("about =", lengths));
    place.write("mine/small/table.toml", table);
    let shown = place.ok(&reproduce(&["--formats", "md,json"]));
    assert!(shown.contains("| length | accuracy, % | CE_10 | memories | seconds |"), "{shown}");
    let cells = |head: &str| -> Vec<String> {
        let line =
            shown.lines().find(|line| line.starts_with(&format!("| {head} |"))).unwrap_or_else(|| panic!("{shown}"));
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_string()).collect()
    };
    assert_eq!((cells("T=6")[3].as_str(), cells("T=6 with model.capacity=3")[3].as_str()), ("26.000", "3.0000"));
    assert!(cells("T=9 with model.k_top=2")[4].parse::<f64>().is_ok_and(|seconds| seconds > 0.0), "{shown}");
    // The third change is none: the model has that k_top.
    let transfer = &place.json("out/records/small/sab/seed1.json")["transfer"];
    assert_eq!(transfer["changed"].as_array().map(Vec::len), Some(1));
    assert_eq!(transfer["changed"][0]["lengths"][0]["sequences"], 4);
    assert_eq!(transfer["lengths"].as_array().map(Vec::len), Some(2));
    let again = place.sab(&reproduce(&[]));
    assert!(again.status.success() && !stderr(&again).contains("T  "), "{}", stderr(&again));
    // A length with changes can be missing like any other.
    let table = std::fs::read_to_string(place.path("mine/small/table.toml")).expect("a table");
    place.write("mine/small/table.toml", table.replace("\"model.capacity\" = 3", "\"model.capacity\" = 4"));
    let plan = place.ok(&reproduce(&["--dry-run"]));
    assert!(plan.contains("not evaluated at T=6 with model.capacity=4 yet"), "{plan}");
    place.write("mine/small/table.toml", table.replace("sequences = 4", "rows = 4"));
    assert!(place.fails(2, &reproduce(&["--dry-run"])).contains("expected a length or {"));
}

#[test]
fn rows_that_are_done_need_neither_data_nor_the_run() {
    let place = small();
    let first = place.ok(&reproduce(&[]));
    // A plan writes nothing, also where a run has ended without a record.
    std::fs::remove_dir_all(place.path("out/records")).expect("removed");
    let plan = place.ok(&reproduce(&["--dry-run"]));
    assert!(plan.contains("2 of 2 runs done") && !place.path("out/records").exists(), "{plan}");
    place.ok(&reproduce(&["--table-only"]));
    // A record of a task whose data is gone.
    let path = place.path("out/records/small/lstm/seed1.json");
    let mut record = place.json("out/records/small/lstm/seed1.json");
    let of_images = experiment("k_top = 0", "updates = 40")
        .replace("name = \"copy\"\nlength = 3\nvalidation = 8\ntest = 40", "name = \"cifar10\"");
    place.write("mine/small/lstm.toml", of_images);
    let catalogue = Catalogue::of_folder(&place.path("mine")).expect("tables");
    let config = catalogue.experiment("small/lstm", 1).expect("an experiment");
    record["config"] = serde_json::to_value(config).expect("JSON");
    std::fs::write(&path, record.to_string()).expect("written");
    assert_eq!(place.ok(&reproduce(&["--data-dir", "nowhere"])), first);
    // Only missing rows need data: it is checked before anything is trained.
    std::fs::remove_file(&path).expect("removed");
    std::fs::remove_dir_all(place.path("out/runs/small/lstm")).expect("removed");
    place.fails(3, &reproduce(&["--data-dir", "nowhere"]));
    let plan = place.ok(&reproduce(&["--data-dir", "nowhere", "--dry-run"]));
    assert!(
        plan.contains("missing")
            && plan.ends_with(
                "1 of 2 runs done; the remaining time is unknown without the data of the others (--data-dir)\n"
            ),
        "{plan}"
    );
}

#[test]
fn what_is_left_is_estimated_from_what_is_done() {
    let place = small();
    let plan = place.ok(&reproduce(&["--dry-run"]));
    assert!(plan.ends_with("0 of 2 runs done; the remaining time is unknown until a row has run\n"), "{plan}");
    place.ok(&reproduce(&["--only", "sab"]));
    let plan = place.ok(&reproduce(&["--dry-run"]));
    assert!(plan.contains("1 of 2 runs done, about 0:0"), "{plan}");
}
