//! A trained model meets new tables and texts: it answers them, and is judged on them.

mod common;

use common::{Place, TINY, everything, tiny_copy};
use sab::data::{AnswerOn, TableSplit, load_text};
use sab::predict::{Answer, Predictor};
use std::fmt::Write;

/// Steps of a sequence.
fn steps_of(id: usize) -> usize {
    4 + id % 5
}

/// The label of a step: a class, or a number far from zero.
fn label(id: usize, step: usize, kind: &str) -> String {
    match kind {
        "class" => ["mild", "strong"][(id + step) % 2].to_string(),
        _ => format!("{:.1}", 1000.0 + 50.0 * ((id * 7 + step) % 9) as f64),
    }
}

fn features(id: usize, step: usize) -> [f64; 2] {
    [(id % 7) as f64 * 10.0 + step as f64, ((id * 3 + step) % 11) as f64 / 7.0 - 40.0]
}

/// `batch,minute,acid,heat,result` of some sequences.
fn table(ids: impl IntoIterator<Item = usize>, kind: &str) -> String {
    let mut text = String::from("batch,minute,acid,heat,result\n");
    for id in ids {
        for step in 0..steps_of(id) {
            let [acid, heat] = features(id, step);
            writeln!(text, "b{id},0{step},{acid},{heat:.4},{}", label(id, step, kind)).expect("room");
        }
    }
    text
}

/// A tiny run on a table of 40 sequences.
fn train(place: &Place, run: &str, kind: &str, on: &str) {
    let file = format!("{kind}.csv");
    place.write(&file, table(0..40, kind));
    let (answers, on) = (format!("task.answers={kind}"), format!("task.on={on}"));
    let what = ["train", "csv", "--file", &file, "--run", run, "--steps", "40", "--set", &answers, "--set", &on];
    place.ok(&[&what[..], TINY].concat());
}

fn cells(text: &str) -> Vec<Vec<String>> {
    text.lines().map(|line| line.split(',').map(String::from).collect()).collect()
}

#[test]
fn a_sequence_is_answered_with_a_class_and_how_sure_the_model_is() {
    let place = Place::new();
    train(&place, "run", "class", "last");
    let printed = place.ok(&["predict", "run", "class.csv", "--probabilities"]);
    let lines = cells(&printed);
    assert_eq!(lines[0].join(","), "batch,result,confidence,p_mild,p_strong");
    let ids: Vec<&str> = lines[1..].iter().map(|line| line[0].as_str()).collect();
    assert_eq!(ids, (0..40).map(|id| format!("b{id}")).collect::<Vec<_>>());
    for line in &lines[1..] {
        let [confidence, mild, strong] = [2, 3, 4].map(|at| line[at].parse::<f64>().expect("a number"));
        assert!((mild + strong - 1.0).abs() < 1e-5, "{line:?}");
        assert_eq!(line[1], if strong > mild { "strong" } else { "mild" });
        assert_eq!(confidence, mild.max(strong));
    }
    let plain: Vec<String> = lines.iter().map(|line| line[..3].join(",")).collect();
    assert_eq!(place.ok(&["predict", "run", "class.csv", "--threads", "1"]), plain.join("\n") + "\n");
}

#[test]
fn columns_are_found_by_name_and_a_sequence_has_the_same_answer_alone() {
    let place = Place::new();
    train(&place, "run", "class", "last");
    let all = place.ok(&["predict", "run", "class.csv"]);
    // No label, other columns, other order of columns and of rows.
    let mut text = String::from("note,heat,minute,who,batch,acid\n");
    for id in [17, 5] {
        for step in (0..steps_of(id)).rev() {
            let [acid, heat] = features(id, step);
            writeln!(text, "\"a, b\",{heat:.4},{step},x,b{id},{acid}").expect("room");
        }
    }
    place.write("new.csv", text);
    let right = |id: &str| all.lines().find(|line| line.starts_with(id)).expect("it was answered");
    let expected = format!("batch,result,confidence\n{}\n{}\n", right("b17,"), right("b5,"));
    assert_eq!(place.ok(&["predict", "run", "new.csv"]), expected);
    // A label that is there is not looked at.
    place.write("odd.csv", table([17, 5], "class").replace("mild", "").replace("strong", "unheard of"));
    assert_eq!(place.ok(&["predict", "run", "odd.csv"]), expected);
}

#[test]
fn each_step_is_answered_if_the_model_learned_that() {
    let place = Place::new();
    train(&place, "run", "class", "each");
    let lines = cells(&place.ok(&["predict", "run", "class.csv"]));
    assert_eq!(lines[0].join(","), "batch,minute,result,confidence");
    let asked: Vec<String> =
        (0..40).flat_map(|id| (0..steps_of(id)).map(move |step| format!("b{id},0{step}"))).collect();
    assert_eq!(lines[1..].iter().map(|line| line[..2].join(",")).collect::<Vec<_>>(), asked);
}

#[test]
fn numbers_are_in_the_units_of_the_table() {
    let place = Place::new();
    train(&place, "run", "value", "last");
    let lines = cells(&place.ok(&["predict", "run", "value.csv"]));
    assert_eq!(lines[0].join(","), "batch,result");
    let numbers: Vec<f64> = lines[1..].iter().map(|line| line[1].parse().expect("a number")).collect();
    assert!(numbers.len() == 40 && numbers.iter().all(|number| (900.0..1500.0).contains(number)), "{numbers:?}");
    assert!(place.fails(2, &["predict", "run", "value.csv", "--probabilities"]).contains("numbers"));
}

#[test]
fn a_file_is_written_whole_or_not_at_all() {
    let place = Place::new();
    train(&place, "run", "class", "last");
    let printed = place.ok(&["predict", "run", "class.csv"]);
    place.write("out/answers.csv", "old");
    assert_eq!(place.ok(&["predict", "run", "class.csv", "--out", "out/answers.csv"]), "");
    assert_eq!(std::fs::read_to_string(place.path("out/answers.csv")).expect("written"), printed);
    place.write("bad.csv", table([1], "class").replace("b1,02,12", "b1,02,NaN"));
    place.fails(3, &["predict", "run", "bad.csv", "--out", "out/answers.csv"]);
    let left = everything(&place.path("out"));
    assert!(left.len() == 1 && left[0].1 == printed.as_bytes(), "{left:?}");
    let message = place.fails(2, &["predict", "run", "class.csv", "--out", "./class.csv"]);
    assert!(message.contains("the table itself"), "{message}");
    assert!(place.fails(4, &["predict", "run", "class.csv", "--out", "no/where.csv"]).contains("no/where.csv"));
}

#[test]
fn a_model_folder_of_an_older_version_is_enough() {
    let place = Place::new();
    train(&place, "run", "class", "each");
    let right = place.ok(&["predict", "run", "class.csv"]);
    let metrics = judged(&place, &["--file", "class.csv"]);
    let folder = |name: &str, config: &serde_json::Value| {
        place.write(&format!("{name}/config.json"), config.to_string());
        std::fs::copy(place.path("run/model.safetensors"), place.path(name).join("model.safetensors")).expect("copied");
    };
    let mut config = place.json("run/config.json");
    folder("plain", &config);
    assert_eq!(place.ok(&["predict", "plain", "class.csv"]), right);

    let facts = config["facts"].as_object_mut().expect("facts");
    for key in ["sequence", "step", "label", "on"] {
        assert!(facts.remove(key).is_some(), "{key}");
    }
    // Columns are guessed, and that the last step is asked.
    folder("old", &config);
    let guessed = place.ok(&["predict", "old", "class.csv"]);
    assert!(guessed.starts_with("batch,answer,confidence\n") && guessed.lines().count() == 41, "{guessed}");
    // The settings of a run know more; and it can still be resumed.
    place.write("run/config.json", config.to_string());
    let settled = place.ok(&["predict", "run", "class.csv"]);
    assert_eq!(settled, right.replacen("result", "answer", 1));
    assert_eq!(judged(&place, &["--file", "class.csv"]), metrics);
    place.ok(&["train", "--resume", "run", "--quiet"]);
}

#[test]
fn what_cannot_be_answered_is_said() {
    let place = Place::new();
    train(&place, "run", "class", "last");
    let good = table([1, 2], "class");
    for (name, text, parts) in [
        ("nan", good.replace("b2,03,23", "b2,03,NaN"), &["nan.csv, line 10, column `acid`", "not a finite number"][..]),
        ("hole", good.replace("b2,03,23", "b2,03,"), &["line 10, column `acid`: a number is missing"]),
        ("less", good.replace("acid", "acids"), &["has no column `acid`", "`acids`", "learned from"]),
        ("stepless", good.replace("minute", "hour"), &["has no column `minute`"]),
        ("empty", String::new(), &["empty.csv is empty"]),
        ("header", "batch,minute,acid,heat\n".into(), &["no rows"]),
        ("twice", good.replace("b2,03", "b2,02"), &["already in line"]),
    ] {
        let file = format!("{name}.csv");
        place.write(&file, text);
        let message = place.fails(3, &["predict", "run", &file]);
        assert!(parts.iter().all(|part| message.contains(part)), "{name}: {message}");
    }
    assert!(place.fails(3, &["predict", "run", "nowhere.csv"]).contains("nowhere.csv"));
    place.fails(4, &["predict", "nowhere", "class.csv"]);
    place.write("half/config.json", place.json("run/config.json").to_string());
    assert!(place.fails(4, &["predict", "half", "class.csv"]).contains("no model yet"));
}

#[test]
fn models_of_other_tasks_say_what_can_be_done_with_them() {
    let place = Place::new();
    place.ok(&tiny_copy("copy", "20", &[]));
    assert!(place.fails(2, &["predict", "copy", "x.csv"]).contains("`sab eval copy`"));
    place.write("book.txt", "abc abd ".repeat(400));
    place
        .ok(&[&["train", "text", "--file", "book.txt", "--length", "8", "--steps", "20", "--run", "text"], TINY]
            .concat());
    let message = place.fails(2, &["predict", "text", "x.csv"]);
    assert!(message.contains("`sab sample text`") && message.contains("`sab eval text --file FILE`"), "{message}");
}

#[test]
fn the_library_answers_as_the_command_does() {
    let place = Place::new();
    train(&place, "run", "class", "last");
    let predictor = Predictor::open(&place.path("run")).expect("a model");
    assert_eq!((predictor.on(), predictor.classes()), (AnswerOn::Last, &["mild".to_string(), "strong".into()][..]));
    let mut questions = predictor.load(&place.path("class.csv")).expect("a table");
    let mut text = String::from("batch,result,confidence\n");
    let taken = predictor.answer(&questions, 2, |prediction| {
        let Answer::Class { name, probability, .. } = prediction.answer else { panic!("a class was expected") };
        writeln!(text, "{},{name},{probability:.6}", prediction.sequence).expect("room");
        Ok(())
    });
    taken.expect("answers");
    assert_eq!(text, place.ok(&["predict", "run", "class.csv"]));
    // A table that does not fit the model is an error.
    questions.sequences[3].features.pop();
    let why = predictor.answer(&questions, 1, |_| Ok(())).expect_err("a number is missing").to_string();
    assert!(why.contains("`b3`"), "{why}");
    questions.feature_names.swap(0, 1);
    assert!(predictor.answer(&questions, 1, |_| Ok(())).is_err());
}

fn judged(place: &Place, arguments: &[&str]) -> serde_json::Value {
    let printed = place.ok(&[&["eval", "run", "--json"], arguments].concat());
    serde_json::from_str(&printed).expect("JSON")
}

#[test]
fn the_test_part_as_a_file_of_its_own_has_the_metrics_of_the_test() {
    for (kind, on) in [("class", "last"), ("class", "each"), ("value", "last"), ("value", "each")] {
        let place = Place::new();
        train(&place, "run", kind, on);
        let test = TableSplit::new(40, 1).expect("parts").test;
        // In other columns, beside one that was not there before.
        let moved = |line: &str| {
            let cells: Vec<&str> = line.split(',').collect();
            format!("{},{},{},{},{},other\n", cells[4], cells[3], cells[0], cells[2], cells[1])
        };
        place.write("new.csv", table(test, kind).lines().map(moved).collect::<String>());
        let (own, new) = (judged(&place, &[]), judged(&place, &["--file", "new.csv"]));
        assert_eq!(own["metrics"], new["metrics"], "{kind}, {on}");
        assert_eq!((&new["sequences"], &new["file"], &own["split"]), (&4.into(), &"new.csv".into(), &"test".into()));
        let readable = place.ok(&["eval", "run", "--file", "new.csv"]);
        assert!(readable.starts_with("new.csv: ") && readable.ends_with("(4 sequences)\n"), "{readable}");
    }
}

#[test]
fn metrics_on_a_file_are_those_of_the_answers_to_it() {
    let place = Place::new();
    train(&place, "run", "class", "last");
    let lines = cells(&place.ok(&["predict", "run", "class.csv"]));
    let right = (0..40).filter(|id| lines[id + 1][1] == label(*id, steps_of(*id) - 1, "class")).count();
    let found = judged(&place, &["--file", "class.csv"]);
    assert_eq!(found["metrics"]["accuracy"], right as f64 / 40.0);

    let place = Place::new();
    train(&place, "run", "value", "last");
    let lines = cells(&place.ok(&["predict", "run", "value.csv"]));
    let number = |text: &str| text.parse::<f64>().expect("a number");
    let error = |id: usize| (number(&lines[id + 1][1]) - number(&label(id, steps_of(id) - 1, "value"))).abs();
    let mae = (0..40).map(error).sum::<f64>() / 40.0;
    let found = judged(&place, &["--file", "value.csv"])["metrics"]["mae"].as_f64().expect("a metric");
    assert!((found / mae - 1.0).abs() < 1e-4, "{found} and {mae}");
}

#[test]
fn another_text_is_judged_in_the_symbols_of_the_model() {
    let place = Place::new();
    let file = place.write("book.txt", "abc abd\nbca ".repeat(300));
    place
        .ok(&[&["train", "text", "--file", "book.txt", "--length", "8", "--steps", "20", "--run", "run"], TINY]
            .concat());
    // As many sequences as the test of the tiny run has, and a rest.
    let split = load_text(&file).expect("a text");
    place.write("new.txt", split.alphabet.decode(&split.test[..8 * 8 + 1 + 5]));
    let (own, new) = (judged(&place, &[]), judged(&place, &["--file", "new.txt"]));
    assert_eq!(own["metrics"], new["metrics"]);
    assert_eq!(new["sequences"], 8);

    place.write("odd.txt", "abc abd\nabc\nabx abc");
    let message = place.fails(3, &["eval", "run", "--file", "odd.txt"]);
    assert!(message.contains("odd.txt has 'x' in line 3") && message.contains("symbols"), "{message}");
    place.write("short.txt", "abc");
    assert!(place.fails(3, &["eval", "run", "--file", "short.txt"]).contains("has 3 characters"));
}

#[test]
fn files_that_cannot_be_judged_on_are_errors() {
    let place = Place::new();
    train(&place, "run", "class", "last");
    let good = table([1, 2], "class");
    let last = good.trim_end().rfind(',').expect("a comma");
    place.write("odd.csv", format!("{},odd\n", &good[..last]));
    let message = place.fails(3, &["eval", "run", "--file", "odd.csv"]);
    let parts = ["odd.csv, line 12, column `result`", "class `odd`", "`mild`, `strong`"];
    assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    place.write("unlabelled.csv", good.replace("result", "other"));
    assert!(place.fails(3, &["eval", "run", "--file", "unlabelled.csv"]).contains("has no column `result`"));
    assert!(place.fails(3, &["eval", "run", "--file", "nowhere.csv"]).contains("nowhere.csv"));
    place.fails(2, &["eval", "run", "--file", "odd.csv", "--split", "test"]);
    place.ok(&tiny_copy("copy", "20", &[]));
    assert!(place.fails(2, &["eval", "copy", "--file", "odd.csv"]).contains("table or a text"));
}
