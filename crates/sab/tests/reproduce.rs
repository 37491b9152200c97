//! `sab reproduce`: tables of experiments that are run once, resumed, and shown as they were measured.
#![cfg(unix)]

mod common;

use common::{Place, everything, stderr, weights};
use sab::reproduce::{Budget, Catalogue, Results};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const TABLE: &str = r#"
title = "Small copies"
source = "Table 9"
about = "For a test."

[[metrics]]
name = "accuracy"
heading = "accuracy, %"
factor = 100.0

[[metrics]]
name = "ce_last10"
heading = "CE_10"

[[groups]]
heading = "T = 3"

[[groups.rows]]
label = "SAB | 2"
experiment = "small/sab"
paper = ["99.5", "0.01"]

[[groups.rows]]
label = "LSTM"
experiment = "small/lstm"
paper = ["12.5"]
"#;

fn experiment(model: &str, train: &str) -> String {
    format!(
        "[task]\nname = \"copy\"\nlength = 3\nvalidation = 8\ntest = 40\n\n[model]\nhidden = 8\n{model}\n\n[train]\n\
         batch = 4\nvalidate_every = 20\ncheckpoint_every = 20\nlog_every = 2\n{train}\n"
    )
}

/// A folder with one table of two rows.
fn small() -> Place {
    let place = Place::new();
    place.write("mine/small/table.toml", TABLE);
    place.write("mine/small/sab.toml", experiment("k_top = 2", "updates = 60"));
    place.write("mine/small/lstm.toml", experiment("k_top = 0", "updates = 40"));
    place
}

const REPRODUCE: [&str; 8] = ["reproduce", "small", "--experiments", "mine", "--results", "out", "--threads", "1"];

fn reproduce<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&REPRODUCE[..], &["--quiet"], more].concat()
}

#[test]
fn every_row_of_the_paper_is_an_experiment_and_every_experiment_is_a_row() {
    let catalogue = Catalogue::built_in();
    let names = catalogue.names();
    for table in
        ["copy", "transfer", "adding", "ablation", "attention", "clipping", "ptb", "text8", "pmnist", "cifar10"]
    {
        assert!(names.contains(&table), "{table} is missing");
    }
    let mut used = BTreeSet::new();
    for name in names {
        let table = catalogue.table(name).expect(name);
        for row in table.rows() {
            for budget in [Budget::Cpu, Budget::Paper] {
                let variant = catalogue.variant(row, budget);
                catalogue.experiment(&variant, 7).unwrap_or_else(|why| panic!("{variant}: {why}"));
                used.insert(variant);
            }
        }
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
    let ends = |path: &Path| path.extension().is_some_and(|kind| kind == "toml") && !path.ends_with("table.toml");
    let there: BTreeSet<String> = everything(&folder)
        .into_iter()
        .filter(|(path, _)| ends(path))
        .map(|(path, _)| path.strip_prefix(&folder).expect("below").with_extension("").to_string_lossy().into_owned())
        .collect();
    assert_eq!(used, there);
}

#[test]
fn the_list_of_experiments_and_the_tables_are_those_of_the_records() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let results = repository.join("results");
    if !results.join("records").is_dir() {
        eprintln!("skipped: this is a package, without results");
        return;
    }
    let place = Place::new();
    let index = place.ok(&["reproduce", "--index", "--results", &results.to_string_lossy()]);
    let readme = std::fs::read_to_string(repository.join("experiments/README.md")).expect("it is there");
    assert!(
        readme.ends_with(&index),
        "experiments/README.md is not what `sab reproduce --index --results results` prints"
    );
    let catalogue = Catalogue::built_in();
    let results = Results { catalogue, budget: Budget::Cpu, runs: results.join("runs"), folder: results.clone() };
    for name in results.catalogue.names() {
        let table = results.catalogue.table(name).expect(name);
        let rendered = results.render(&table).expect(name);
        let mut json = serde_json::to_string_pretty(&rendered).expect(name);
        json.push('\n');
        let kinds =
            [("md", rendered.to_markdown()), ("csv", rendered.to_csv()), ("tex", rendered.to_latex()), ("json", json)];
        for (kind, text) in kinds {
            let committed = std::fs::read_to_string(results.folder.join(format!("{name}.{kind}"))).expect(name);
            assert!(committed == text, "results/{name}.{kind} is not what its records say");
        }
    }
}

#[test]
fn rows_of_a_text_table_have_the_same_size() {
    let catalogue = Catalogue::built_in();
    for name in ["ptb", "text8"] {
        for budget in [Budget::Cpu, Budget::Paper] {
            let size = |row: &sab::reproduce::Row| {
                let experiment = catalogue.experiment(&catalogue.variant(row, budget), 1).expect("an experiment");
                let sab::experiment::ModelSettings::Sab(model) = &experiment.model else { panic!("not recurrent") };
                (model.hidden, experiment.task.clone(), experiment.train.clone())
            };
            let table = catalogue.table(name).expect(name);
            let sizes: Vec<_> = table.rows().map(size).collect();
            assert!(sizes.windows(2).all(|pair| pair[0] == pair[1]), "{name}, {budget:?}");
        }
    }
}

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
fn the_table_shows_mean_and_spread_of_what_the_runs_reached() {
    let place = small();
    let shown = place.ok(&reproduce(&["--seeds", "3", "--only", "sab"]));
    let accuracy = |seed: u64| {
        let summary = place.json(&format!("out/runs/small/sab/seed{seed}/summary.json"));
        assert_eq!(summary["seed"], seed);
        100.0 * summary["test"]["accuracy"].as_f64().expect("a number")
    };
    let values = [accuracy(1), accuracy(2), accuracy(3)];
    let mean = values.iter().sum::<f64>() / 3.0;
    let spread = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 2.0).sqrt();
    let cell = format!("| SAB \\| 2 | 99.5 | {mean:.2} ± {spread:.2} | 0.01 |");
    assert!(shown.contains(&cell), "{cell} is not in {shown}");
    assert!(shown.contains("| LSTM | 12.5 | not run | – | not run | – | – | – |"), "{shown}");
    let metrics = &place.json("out/small.json")["metrics"];
    assert!((metrics[0]["mean"].as_f64().expect("a number") - mean).abs() < 1e-9);
    assert!((metrics[0]["spread"].as_f64().expect("a number") - spread).abs() < 1e-9);
    assert_eq!(metrics[0]["seeds"], 3);
    assert!(metrics[2]["mean"].is_null(), "the LSTM was not run");
    let csv = std::fs::read_to_string(place.path("out/small.csv")).expect("it is there");
    assert!(
        csv.starts_with("group,row,experiment,metric,paper,mean,spread,seeds,updates,seconds,threads,failure\n"),
        "{csv}"
    );
    assert_eq!(csv.lines().count(), 5);
    let tex = std::fs::read_to_string(place.path("out/small.tex")).expect("it is there");
    assert!(tex.contains("accuracy, \\%: paper") && tex.contains("CE\\_10") && tex.contains("$\\pm$"), "{tex}");
    assert!(std::fs::read_to_string(place.path("out/small.md")).expect("it is there").contains(&cell));
}

#[test]
fn a_table_that_chooses_settings_shows_validation() {
    let place = small();
    place.write("mine/small/table.toml", TABLE.replace("about =", "validation = true\nabout ="));
    place.ok(&reproduce(&["--only", "sab"]));
    let validation = &place.json("out/runs/small/sab/seed1/summary.json")["validation"]["ce_last10"];
    let metric = &place.json("out/small.json")["metrics"][1];
    assert_eq!((&metric["metric"], &metric["mean"]), (&"validation CE_10".into(), validation));
    assert!(!place.path("out/small.png").exists(), "such a table has no picture");
}

#[test]
fn a_group_of_which_the_paper_says_nothing_has_no_column_for_it() {
    let place = small();
    place.write(
        "mine/small/table.toml",
        TABLE.replace("paper = [\"99.5\", \"0.01\"]", "").replace("paper = [\"12.5\"]", ""),
    );
    let shown = place.ok(&reproduce(&["--only", "sab"]));
    assert!(shown.contains("| model | accuracy, % | CE_10 | seeds | updates | time |\n"), "{shown}");
    assert!(shown.contains("| LSTM | not run | not run | – | – | – |\n"), "{shown}");
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
    assert!(message.contains("out/runs/small/lstm/seed1 is of another experiment"), "{message}");
    // How often something is written does not make another experiment of it.
    let other = experiment("k_top = 0", "updates = 40").replace("log_every = 2", "log_every = 10");
    place.write("mine/small/lstm.toml", other);
    place.ok(&reproduce(&["--only", "lstm"]));
    assert!(everything(&place.path("out")) == before);
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
    let first = place.sab(&reproduce(&[]));
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
    // A length that the table has learned since is no less missing than a run.
    assert!(!place.ok(&reproduce(&["--dry-run"])).contains("judged"));
    place.write("mine/small/table.toml", TABLE.replace("about =", "lengths = [3, 6, 9]\nabout ="));
    let plan = place.ok(&reproduce(&["--dry-run"]));
    assert_eq!(plan.matches(", not judged at T=9 yet").count(), 2, "{plan}");
}

#[test]
fn records_say_what_was_run_and_nothing_of_where() {
    let place = small();
    place.ok(&reproduce(&["--only", "sab"]));
    let text = std::fs::read_to_string(place.path("out/records/small/sab/seed1.json")).expect("it is there");
    assert!(!text.contains(&*place.path("").to_string_lossy()), "{text}");
    let record = place.json("out/records/small/sab/seed1.json");
    assert_eq!(record["command"], "sab train mine/small/sab.toml --seed 1");
    let kinds = |kind: &str| {
        let curve = record["curve"].as_array().expect("lines");
        curve.iter().filter(|line| line["kind"] == kind).count()
    };
    assert_eq!((kinds("validation"), kinds("train")), (3, 30));
    assert_eq!(record["config"]["train"]["updates"], 60);
    assert!(record["environment"]["cores"].as_u64().is_some());
}

#[test]
fn pictures_show_how_rows_learn_and_how_attention_forms() {
    let place = small();
    let attention = "[attention]\nexperiment = \"small/sab\"\nupdates = [0, 60]\nlast = 10\n\n[[groups]]";
    place.write("mine/small/table.toml", TABLE.replacen("[[groups]]", attention, 1));
    place.write("mine/small/sab.toml", experiment("k_top = 2", "updates = 60\nattention_every = 30"));
    place.ok(&reproduce(&[]));
    let picture = |name: &str| std::fs::read_to_string(place.path(name)).expect("a picture");
    let curves = picture("out/small.svg");
    for text in ["SAB | 2", "LSTM", "validation accuracy, %", "T = 3"] {
        assert!(curves.contains(text), "{text} is not in the picture");
    }
    let attention = picture("out/small-focus.svg");
    assert!(attention.contains("(a) after 0 updates") && attention.contains("(b) after 60 updates"), "{attention}");
    for name in ["out/small.png", "out/small-focus.png"] {
        assert!(std::fs::read(place.path(name)).expect("a picture").starts_with(b"\x89PNG"));
    }
    let table = std::fs::read_to_string(place.path("mine/small/table.toml")).expect("it is there");
    place.write("mine/small/table.toml", table.replace("[0, 60]", "[7]"));
    let message = place.fails(2, &reproduce(&["--table-only"]));
    assert!(message.contains("update 7 is asked for") && message.contains("0, 30, 60"), "{message}");
}

#[test]
fn wrong_names_are_explained() {
    let place = small();
    let message = place.fails(2, &["reproduce", "coppy"]);
    assert!(message.contains("did you mean `copy`?"), "{message}");
    let message = place.fails(2, &reproduce(&["--only", "gru"]));
    assert!(message.contains("no row has gru in its name"), "{message}");
    place.write("mine/small/table.toml", TABLE.replace("small/lstm", "small/lstn"));
    let message = place.fails(2, &reproduce(&[]));
    assert!(message.contains("there is no experiment mine/small/lstn.toml; did you mean `small/lstm`?"), "{message}");
    place.write("mine/small/table.toml", TABLE.replace("paper = [\"12.5\"]", "paper = [\"1\", \"2\", \"3\"]"));
    let message = place.fails(2, &reproduce(&[]));
    assert!(message.contains("3 metrics of the paper for 2 columns"), "{message}");
    place.write("mine/small/table.toml", TABLE.replace("label = \"LSTM\"", "label = \"SAB | 2\""));
    let message = place.fails(2, &reproduce(&[]));
    assert!(message.contains("two rows of a group have the label \"SAB | 2\""), "{message}");
    place.write("mine/small/table.toml", TABLE.replacen("paper =", "remedy = true\npaper =", 1));
    let message = place.fails(2, &reproduce(&[]));
    assert!(message.contains("the row \"SAB | 2\" is a remedy, but no row stands above it"), "{message}");
    assert!(!place.path("out").exists(), "nothing is trained for a table that is refused");
    place.write("empty/readme.txt", "");
    let message = place.fails(2, &["reproduce", "small", "--experiments", "empty"]);
    assert!(message.contains("empty has no tables"), "{message}");
    assert!(place.ok(&["reproduce"]).contains("copy"), "the tables are listed");
}

#[test]
fn a_remedy_stands_in_the_table_and_not_in_the_picture() {
    let place = small();
    place.write("mine/small/table.toml", format!("{TABLE}remedy = true\n"));
    let shown = place.ok(&reproduce(&[]));
    assert!(shown.contains("| LSTM | 12.5 |"), "{shown}");
    let picture = std::fs::read_to_string(place.path("out/small.svg")).expect("a picture");
    assert!(picture.contains("SAB | 2") && !picture.contains("LSTM"), "{picture}");
}

#[test]
fn a_table_of_the_papers_size_stands_beside_that_of_a_cpu() {
    let place = small();
    place.write("mine/small/table.toml", format!("{TABLE}remedy = true\n"));
    place.write("mine/small/sab.cpu.toml", experiment("k_top = 2", "updates = 20"));
    place.ok(&reproduce(&[]));
    let of_a_cpu = std::fs::read(place.path("out/small.md")).expect("a table");
    place.ok(&reproduce(&["--budget", "paper"]));
    assert_eq!(std::fs::read(place.path("out/small.md")).expect("a table"), of_a_cpu);
    let of_the_paper = std::fs::read_to_string(place.path("out/small.paper.md")).expect("another");
    assert!(of_the_paper.starts_with("# Small copies, the paper's size (Table 9)"), "{of_the_paper}");
    assert!(of_the_paper.contains("| 60 |") && !of_the_paper.contains("LSTM"), "{of_the_paper}");
    // Where all rows have one size there is one table.
    std::fs::remove_file(place.path("mine/small/sab.cpu.toml")).expect("removed");
    let shown = place.ok(&reproduce(&["--budget", "paper"]));
    assert!(shown.contains("small.md") && shown.contains("LSTM"), "{shown}");
}

#[test]
fn a_table_of_nothing_is_not_made() {
    let place = small();
    let message = place.fails(4, &reproduce(&["--table-only"]));
    assert!(message.contains("nothing of the table small is in out"), "{message}");
    assert!(!place.path("out").exists());
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
    // What is missing is another matter: then the data is looked for first.
    std::fs::remove_file(&path).expect("removed");
    std::fs::remove_dir_all(place.path("out/runs/small/lstm")).expect("removed");
    place.fails(3, &reproduce(&["--data-dir", "nowhere"]));
    let plan = place.ok(&reproduce(&["--data-dir", "nowhere", "--dry-run"]));
    assert!(
        plan.contains("missing")
            && plan.ends_with("1 of 2 runs done, time left unknown without the data of the others (--data-dir)\n"),
        "{plan}"
    );
}

#[test]
fn what_is_left_is_estimated_from_what_is_done() {
    let place = small();
    let plan = place.ok(&reproduce(&["--dry-run"]));
    assert!(plan.ends_with("0 of 2 runs done, time left unknown: none of these rows has been run here\n"), "{plan}");
    place.ok(&reproduce(&["--only", "sab"]));
    let plan = place.ok(&reproduce(&["--dry-run"]));
    assert!(plan.contains("1 of 2 runs done, about 0:0"), "{plan}");
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
fn every_seed_that_was_run_counts() {
    let place = small();
    place.ok(&reproduce(&["--seeds", "3", "--only", "sab"]));
    std::fs::remove_file(place.path("out/records/small/sab/seed1.json")).expect("removed");
    std::fs::remove_dir_all(place.path("out/runs/small/sab/seed1")).expect("removed");
    let results = Results {
        catalogue: Catalogue::of_folder(&place.path("mine")).expect("tables"),
        budget: Budget::Cpu,
        folder: place.path("out"),
        runs: place.path("out/runs"),
    };
    let table = results.catalogue.table("small").expect("a table");
    let (_, records) = results.of_row(table.rows().next().expect("a row")).expect("records");
    assert_eq!(records.iter().map(|record| record.config.train.seed).collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn what_cannot_work_is_said_before_anything_is_trained() {
    let place = small();
    let refused = |code: i32, arguments: &[&str], words: &str| {
        let message = place.fails(code, &reproduce(arguments));
        assert!(message.contains(words), "{message}");
        assert!(!place.path("runs").exists() && !place.path("out/runs").exists(), "something was trained");
    };
    // A metric that the task does not have.
    place.write("mine/small/table.toml", TABLE.replace("name = \"accuracy\"", "name = \"acuracy\""));
    for arguments in [&[][..], &["--dry-run"]] {
        refused(2, arguments, "reports `acuracy`, but its task has ce_last10, accuracy, ce");
    }
    // A picture of a row that is not there, and of an update that is not recorded.
    let attention = |experiment: &str| {
        let lines =
            format!("[attention]\nexperiment = \"small/{experiment}\"\nupdates = [0, 7]\nlast = 10\n\n[[groups]]");
        place.write("mine/small/table.toml", TABLE.replacen("[[groups]]", &lines, 1));
    };
    attention("sap");
    refused(2, &[], "the picture of attention is of `small/sap`, which is no row");
    attention("sab");
    refused(2, &[], "the attention of update 7, but small/sab records it every 500 updates");
    // A value that does not fit is named with its file.
    place.write("mine/small/table.toml", TABLE);
    place.write("mine/small/lstm.toml", experiment("k_top = 0", "updates = \"many\""));
    refused(2, &[], "mine/small/lstm.toml: `train.updates` is \"many\"");
    place.write("mine/small/lstm.toml", experiment("k_top = 0", "updates = 40"));
    // A place for results that cannot be one.
    let elsewhere =
        ["reproduce", "small", "--experiments", "mine", "--results", "/proc/none", "--runs", "runs", "--quiet"];
    let message = place.fails(4, &elsewhere);
    assert!(message.contains("cannot create /proc/none"), "{message}");
    assert!(!place.path("runs").exists(), "something was trained");
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
fn the_attention_of_a_picture_is_kept_with_the_record() {
    let place = small();
    let attention = "[attention]\nexperiment = \"small/sab\"\nupdates = [0, 60]\nlast = 10\n\n[[groups]]";
    place.write("mine/small/table.toml", TABLE.replacen("[[groups]]", attention, 1));
    place.write("mine/small/sab.toml", experiment("k_top = 2", "updates = 60\nattention_every = 30"));
    let other = place.sab(&reproduce(&["--only", "lstm"]));
    assert!(other.status.success());
    assert!(stderr(&other).contains("out/small-focus.png is not drawn"), "{}", stderr(&other));
    place.ok(&reproduce(&[]));
    let drawn = std::fs::read(place.path("out/small-focus.svg")).expect("a picture");
    std::fs::remove_dir_all(place.path("out/runs")).expect("removed");
    std::fs::remove_file(place.path("out/small-focus.svg")).expect("removed");
    place.ok(&reproduce(&[]));
    assert!(std::fs::read(place.path("out/small-focus.svg")).expect("a picture") == drawn, "another picture");
    let kept = std::fs::read_to_string(place.path("out/records/small/sab/seed1.attention.jsonl")).expect("kept");
    assert_eq!(kept.lines().count(), 2);
}

#[test]
fn options_that_need_a_table_ask_for_one() {
    let place = Place::new();
    for option in [&["--seeds", "3"][..], &["--dry-run"], &["--table-only"], &["--only", "sab"]] {
        let message = place.fails(2, &[&["reproduce"], option].concat());
        assert!(message.contains("<TABLE>") || message.contains("TABLE"), "{message}");
    }
}

#[test]
fn the_table_says_what_its_data_is() {
    let place = small();
    place.ok(&reproduce(&["--only", "sab"]));
    let mut record = place.json("out/records/small/sab/seed1.json");
    record["summary"]["note"] = "a part of the whole".into();
    std::fs::write(place.path("out/records/small/sab/seed1.json"), record.to_string()).expect("written");
    let shown = place.ok(&reproduce(&["--table-only"]));
    assert!(shown.contains("For a test.\n\nData: a part of the whole.\n"), "{shown}");
}
