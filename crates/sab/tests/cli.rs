//! The command as a user meets it.

mod common;

use common::{Place, TINY, stderr, tiny_copy};

#[test]
fn help_and_version_are_printed() {
    let place = Place::new();
    let help = place.ok(&["--help"]);
    for part in ["train", "transfer", "Examples:", "Exit codes:"] {
        assert!(help.contains(part), "{help}");
    }
    assert_eq!(place.ok(&["--version"]), concat!("sab ", env!("CARGO_PKG_VERSION"), "\n"));
    for command in ["train", "eval", "predict", "transfer", "sample", "attention", "info", "data", "completions"] {
        assert!(place.ok(&[command, "--help"]).contains("Usage: sab"), "{command}");
    }
}

#[test]
fn misspelt_words_are_answered_with_the_nearest_right_one() {
    let place = Place::new();
    for (arguments, right) in [
        (&["trian"][..], "train"),
        (&["train", "cpoy"], "copy"),
        (&["train", "copy", "--lenght", "5"], "--length"),
        (&["train", "copy", "--set", "model.ktop=5"], "model.k_top"),
        (&["train", "copy", "--set", "train.sede=5"], "train.seed"),
        (&["data", "fetch", "minst"], "mnist"),
    ] {
        let message = place.fails(2, arguments);
        assert!(message.contains(right), "{arguments:?}: {message}");
    }
}

#[test]
fn a_dry_run_prints_every_key_and_makes_nothing() {
    let place = Place::new();
    let printed = place.ok(&["train", "copy", "--length", "30", "--k-top", "all", "--k-trunc", "none", "--dry-run"]);
    for line in ["name = \"copy\"", "length = 30", "k_top = \"all\"", "k_trunc = \"none\"", "seed = 1", "[train]"] {
        assert!(printed.contains(line), "{line} is not in {printed}");
    }
    assert!(!place.path("runs").exists());
    // The output is an experiment itself.
    place.write("again.toml", &printed);
    assert_eq!(place.ok(&["train", "again.toml", "--dry-run"]), printed);
    let changed = place.ok(&["train", "again.toml", "--set", "train.clip=none", "--lr", "0.01", "--dry-run"]);
    assert!(changed.contains("clip = \"none\"") && changed.contains("learning_rate = 0.01"), "{changed}");
}

#[test]
fn wrong_values_name_their_key_and_make_nothing() {
    let place = Place::new();
    for (arguments, part) in [
        (&["train", "copy", "--length", "0"][..], "task.length"),
        (&["train", "copy", "--k-att", "0"], "k_att"),
        (&["train", "copy", "--k-top", "some"], "k_top"),
        (&["train", "copy", "--lr=-1"], "train.learning_rate"),
        (&["train", "copy", "--batch", "0"], "train.batch"),
        (&["train", "copy", "--max-time", "soon"], "90s"),
        (&["train", "copy", "--epochs", "2"], "train.epochs"),
        (&["train", "copy", "--set", "train.seed"], "key=value"),
        (&["train", "text"], "--file"),
        (&["train", "nothing.toml"], "nothing.toml"),
        (&["train", "copy", "--resume", "x"], "--resume"),
        (&["train"], "TASK"),
        (&["transfer", "x"], "--lengths"),
    ] {
        let out = place.sab(arguments);
        let message = stderr(&out);
        assert!(matches!(out.status.code(), Some(2 | 4)), "{arguments:?}: {message}");
        assert!(message.contains(part) && !message.contains("panicked"), "{arguments:?}: {message}");
    }
}

#[test]
fn a_budget_that_the_task_cannot_have_leaves_the_name_of_the_run_free() {
    let place = Place::new();
    let message = place.fails(2, &["train", "copy", "--epochs", "3", "--run", "run"]);
    assert!(message.contains("`train.epochs` is 3") && message.contains("set `train.updates`"), "{message}");
    assert!(!place.path("run").exists(), "the run directory is not created");
    place.ok(&tiny_copy("run", "10", &[]));
}

#[test]
fn a_missing_file_gets_the_same_answer_whatever_its_kind() {
    let place = Place::new();
    for name in ["x.toml", "x.json"] {
        let message = place.fails(4, &["train", name]);
        assert!(message.contains(&format!("{name} does not exist: name a task, an experiment")), "{message}");
    }
}

#[test]
fn limits_are_named_in_sentences() {
    let place = Place::new();
    for (flag, message) in [
        ("--length", "`task.length` is 0: it must be between 1 and 1000000000"),
        ("--batch", "`train.batch` is 0: it must be at least 1"),
        ("--k-att", "`model.k_att` is 0: it must be at least 1"),
    ] {
        let found = place.fails(2, &["train", "copy", flag, "0"]);
        assert_eq!(found, format!("error: {message}\n"));
    }
}

#[test]
fn a_run_leaves_everything_it_promises_and_says_where() {
    let place = Place::new();
    let arguments: Vec<&str> = tiny_copy("run", "60", &[]).into_iter().filter(|word| *word != "--quiet").collect();
    let out = place.sab(&arguments);
    assert!(out.status.success(), "{}", stderr(&out));
    let printed = String::from_utf8_lossy(&out.stdout).into_owned();
    for name in ["summary.json", "model.safetensors", "config.json", "metrics.jsonl", "attention.png"] {
        assert!(place.path("run").join(name).is_file(), "{name}");
        assert!(printed.contains(name), "{name}: {printed}");
    }
    for name in ["config.toml", "environment.json", "attention.svg", "attention.json", "checkpoints"] {
        assert!(place.path("run").join(name).exists(), "{name}");
    }
    let events = std::fs::read_dir(place.path("run")).expect("a folder").flatten();
    assert!(events.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with("events.out.tfevents")));
    let summary = place.json("run/summary.json");
    assert_eq!((summary["task"].as_str(), summary["length"].as_u64()), (Some("copy"), Some(3)));
    assert_eq!((summary["seed"].as_u64(), summary["updates"].as_u64()), (Some(1), Some(60)));
    assert!(summary["wall_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0));
    assert_eq!(summary["model"]["hidden"].as_u64(), Some(8));
    for metric in ["accuracy", "ce_last10", "ce"] {
        assert!(summary["test"][metric].is_f64(), "{metric}: {summary}");
    }
    let environment = place.json("run/environment.json");
    for key in ["sab", "burn", "rustc", "cpu", "threads", "seed"] {
        assert!(!environment[key].is_null(), "{key}");
    }
    let lines = stderr(&out);
    let place_of = |part: &str| lines.find(part).unwrap_or_else(|| panic!("{part} is not in {lines}"));
    assert!(place_of("update 60/60") < place_of("testing the best model"), "{lines}");
    // Lines off a terminal: readable, with what matters.
    assert!(stderr(&out).contains("loss") && stderr(&out).contains("accuracy"), "{}", stderr(&out));
}

#[test]
fn a_trained_model_can_be_judged_drawn_and_described() {
    let place = Place::new();
    place.ok(&tiny_copy("run", "40", &[]));
    let summary = place.json("run/summary.json");
    let judged: serde_json::Value = serde_json::from_str(&place.ok(&["eval", "run", "--json"])).expect("JSON");
    assert_eq!(judged["metrics"], summary["test"]);
    assert!(place.ok(&["eval", "run", "--split", "validation"]).contains("accuracy"));

    let table = place.ok(&["transfer", "run", "--lengths", "3,50", "--sequences", "7"]);
    assert!(table.contains(" memories per sequence, ") && !table.contains(".0 memories"), "{table}");
    assert!(table.contains("T       3") && table.contains("T      50") && table.contains("7 sequences"), "{table}");
    assert_eq!(place.json("run/transfer.json")["lengths"].as_array().map(Vec::len), Some(2));

    let files = place.ok(&["attention", "run", "--sequence", "1", "--length", "6", "--out", "pictures"]);
    assert_eq!(files.lines().count(), 3);
    assert!(std::fs::read(place.path("pictures/attention.png")).expect("a picture").starts_with(b"\x89PNG"));
    let numbers = place.json("pictures/attention.json");
    assert_eq!(numbers["steps"].as_array().map(Vec::len), Some(26));

    let described = place.ok(&["info", "run"]);
    assert!(described.lines().all(|line| line == line.trim_end()), "blanks at the end of a line: {described:?}");
    for part in ["copy-3-sab-trunc5-top5-seed1", "lstm.weight_ih [32, 10]", "attention.w3 [8]", "output.v2 [9, 8]"] {
        assert!(described.contains(part), "{part}: {described}");
    }
    let message = place.fails(2, &["sample", "run"]);
    assert!(message.contains("model of text"), "{message}");
}

#[test]
fn info_says_why_training_has_ended() {
    let place = Place::new();
    let updates = |run: &str| {
        let described = place.ok(&["info", run]);
        let line = described.lines().find(|line| line.starts_with("updates")).expect("a line");
        line.trim_start_matches("updates").trim().to_string()
    };
    place.ok(&tiny_copy("all", "20", &[]));
    assert_eq!(updates("all"), "20 of 20; training has ended: the budget of updates is spent");
    // Weights that do not move are as good at the second validation as at the first.
    place.ok(&tiny_copy("early", "400", &["--lr", "1e-30", "--set", "train.patience=1"]));
    assert_eq!(updates("early"), "80 of 400; training has ended: validation has stopped improving");
    place.ok(&tiny_copy("short", "400000", &["--max-time", "0.05s"]));
    assert!(updates("short").contains(" of 400000; the time is up"), "{}", updates("short"));
    assert!(place.ok(&["info", "short"]).contains("\nresult      test accuracy "));

    // A summary of before training went on is not the result.
    let mut summary = place.json("short/summary.json");
    summary["updates"] = 0.into();
    place.write("short/summary.json", summary.to_string());
    assert!(!updates("short").contains("time"), "{}", updates("short"));
    assert!(place.ok(&["info", "short"]).contains("not finished"));
    // One of an older version does not say why.
    let mut summary = place.json("early/summary.json");
    summary.as_object_mut().expect("an object").remove("stop_reason");
    place.write("early/summary.json", summary.to_string());
    assert_eq!(updates("early"), "80 of 400; training has ended");
}

#[test]
fn a_plain_lstm_has_no_attention_to_draw() {
    let place = Place::new();
    place.ok(&tiny_copy("run", "20", &["--k-top", "0", "--k-trunc", "none"]));
    assert!(!place.path("run/attention.png").exists());
    assert!(place.fails(2, &["attention", "run"]).contains("plain LSTM"));
}

#[test]
fn a_model_of_text_writes() {
    let place = Place::new();
    place.write("book.txt", "abc abd ".repeat(400));
    let more = [
        "--set",
        "model.hidden=16",
        "--lr",
        "0.01",
        "--threads",
        "1",
        "--quiet",
        "--set",
        "train.validation_batches=2",
    ];
    let base = ["train", "text", "--file", "book.txt", "--length", "16", "--steps", "150", "--run", "run"];
    place.ok(&[&base[..], &more].concat());
    assert!(place.json("run/summary.json")["test"]["bpc"].as_f64().is_some_and(|bpc| bpc < 1.0));
    let text = place.ok(&["sample", "run", "--prompt", "abc", "--length", "60"]);
    assert!(text.starts_with("abc") && text.chars().count() == 64, "{text:?}");
    assert!(text.matches("ab").count() > 8, "{text:?}");
    assert_eq!(text, place.ok(&["sample", "run", "--prompt", "abc", "--length", "60"]));
    assert_ne!(text, place.ok(&["sample", "run", "--prompt", "abc", "--length", "60", "--seed", "2"]));
    let message = place.fails(2, &["sample", "run", "--prompt", "abcx"]);
    assert!(message.contains("'x'"), "{message}");
}

#[test]
fn json_lines_are_json() {
    let place = Place::new();
    let arguments: Vec<&str> =
        tiny_copy("run", "60", &["--json"]).into_iter().filter(|word| *word != "--quiet").collect();
    let printed = place.ok(&arguments);
    let lines: Vec<serde_json::Value> =
        printed.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|why| panic!("{line}: {why}"))).collect();
    assert!(lines.len() > 2 && lines.last().is_some_and(|summary| summary["test"].is_object()), "{printed}");
}

#[test]
fn quiet_is_quiet() {
    let place = Place::new();
    let out = place.sab(&tiny_copy("run", "20", &[]));
    assert!(out.status.success() && out.stdout.is_empty() && out.stderr.is_empty(), "{out:?}");
}

#[test]
fn completions_are_made_for_every_shell() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(place.ok(&["completions", shell]).contains("transfer"), "{shell}");
    }
}

#[test]
fn manual_pages_are_made_for_every_command() {
    let place = Place::new();
    let first = place.ok(&["man", "pages/man1"]);
    assert!(first.trim().ends_with("sab.1"), "{first}");
    let read = |name: &str| std::fs::read_to_string(place.path("pages/man1").join(name)).expect(name);
    for name in ["sab.1", "sab-train.1", "sab-data-fetch.1"] {
        assert!(read(name).contains(".TH"), "{name}");
    }
    assert!(read("sab-train.1").contains("k\\-top"));
    // A file is in the way.
    place.write("file", "");
    assert!(place.fails(4, &["man", "file"]).contains("cannot create file"));
}

#[test]
fn the_benchmark_measures_both() {
    let place = Place::new();
    let small = ["--set", "task.length=5", "--set", "model.hidden=8", "--set", "train.batch=4"];
    let arguments = ["bench", "--updates", "5", "--rounds", "1", "--json"];
    let printed = place.ok(&[&arguments[..], &small].concat());
    let result: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    assert!(result["ratio"].as_f64().is_some_and(|ratio| ratio > 0.0), "{printed}");
}

#[test]
fn missing_data_says_how_to_get_it() {
    let place = Place::new();
    for (task, set) in [("pmnist", "mnist"), ("cifar10", "cifar10"), ("ptb", "ptb"), ("text8", "text8")] {
        let message = place.fails(3, &["train", task, "--data-dir", "nowhere"]);
        assert!(message.contains(&format!("sab data fetch {set}")), "{message}");
    }
    let message = place.fails(3, &["train", "csv", "--file", "nowhere.csv"]);
    assert!(message.contains("nowhere.csv"), "{message}");
    assert!(!place.path("runs").exists());
}

#[test]
fn what_cannot_fit_into_memory_is_refused_before_anything_is_made() {
    let place = Place::new();
    for size in [["--batch", "1000000"], ["--length", "9000000"], ["--hidden", "65536"]] {
        let message = place.fails(2, &[&["train", "copy", "--run", "run"][..], &size].concat());
        assert!(message.contains("GiB") && message.contains("--batch"), "{message}");
        assert!(!place.path("run").exists());
    }
}

#[test]
fn a_file_that_is_no_experiment_is_answered_with_how_to_learn_from_it() {
    let place = Place::new();
    place.write("book.txt", "a text");
    place.write("table.csv", "a,table");
    assert!(place.fails(2, &["train", "book.txt"]).contains("sab train text --file book.txt"));
    assert!(place.fails(2, &["train", "table.csv"]).contains("sab train csv --file table.csv"));
}

#[test]
fn a_run_on_a_file_goes_on_from_any_folder() {
    let place = Place::new();
    place.write("here/book.txt", "abc abd ".repeat(400));
    let mut command = vec!["train", "text", "--file", "book.txt", "--length", "8", "--steps", "40", "--run", "run"];
    command.extend(TINY);
    let inside = |arguments: &[&str]| {
        let out = place.command(arguments).current_dir(place.path("here")).output().expect("the binary runs");
        assert!(out.status.success(), "{}", stderr(&out));
        String::from_utf8(out.stdout).expect("UTF-8")
    };
    // A configuration that is only printed is for other folders too.
    assert!(inside(&[&command[..], &["--dry-run"]].concat()).contains("file = \"book.txt\""));
    inside(&command);
    let config = std::fs::read_to_string(place.path("here/run/config.toml")).expect("readable");
    assert!(config.contains(&format!("file = \"{}\"", place.path("here/book.txt").display())), "{config}");
    let judged = inside(&["eval", "run"]);
    assert_eq!(place.ok(&["eval", "here/run"]), judged);
    std::fs::remove_file(place.path("here/run/summary.json")).expect("removed");
    place.ok(&["train", "--resume", "here/run", "--quiet"]);
    assert!(place.path("here/run/summary.json").is_file());
}

#[cfg(unix)]
#[test]
fn a_link_to_a_file_stays_a_link() {
    let place = Place::new();
    place.write("book.txt", "abc abd ".repeat(400));
    std::os::unix::fs::symlink("book.txt", place.path("latest.txt")).expect("a link");
    let what = ["train", "text", "--file", "./latest.txt", "--length", "8", "--steps", "20", "--run", "run"];
    place.ok(&[&what[..], TINY].concat());
    let config = std::fs::read_to_string(place.path("run/config.toml")).expect("readable");
    assert!(config.contains(&format!("\"{}\"", place.path("latest.txt").display())), "{config}");
}

#[test]
fn transfer_keeps_what_it_found_before_and_looks_at_all_lengths_first() {
    let place = Place::new();
    place.ok(&tiny_copy("run", "20", &[]));
    place.ok(&["transfer", "run", "--lengths", "5,9", "--sequences", "3"]);
    place.ok(&["transfer", "run", "--lengths", "7", "--sequences", "4"]);
    let found = place.json("run/transfer.json");
    let lengths: Vec<_> =
        found["lengths"].as_array().expect("a list").iter().map(|one| one["length"].clone()).collect();
    assert_eq!(lengths, [5, 7, 9]);
    assert_eq!(found["lengths"][1]["sequences"], 4);
    let out = place.sab(&["transfer", "run", "--lengths", "11,0"]);
    assert!(out.status.code() == Some(2) && out.stdout.is_empty(), "{}", stderr(&out));

    // A file that cannot be read is not overwritten.
    std::fs::write(place.path("run/transfer.json"), "{ \"lengths\": [").expect("written");
    let out = place.sab(&["transfer", "run", "--lengths", "5"]);
    assert!(!out.status.success() && stderr(&out).contains("transfer.json is damaged"), "{}", stderr(&out));
    assert_eq!(std::fs::read_to_string(place.path("run/transfer.json")).expect("still there"), "{ \"lengths\": [");
}

#[test]
fn results_of_a_changed_model_stand_apart() {
    let place = Place::new();
    place.ok(&tiny_copy("run", "40", &[]));
    let plain = ["transfer", "run", "--lengths", "5,60", "--sequences", "3"];
    let changed = [&plain[..], &["--set", "model.capacity=7", "--set", "model.k_top=2"]].concat();
    let (first, second) = (place.ok(&plain), place.ok(&changed));
    assert!(first.contains("80 memories") && second.contains(" 7 memories"), "{first}{second}");
    assert!(second.contains("T      60  model.capacity=7, model.k_top=2  ce_last10"), "{second}");
    let found = place.json("run/transfer.json");
    let set = serde_json::json!({ "model.capacity": 7, "model.k_top": 2 });
    assert_eq!(found["changed"].as_array().map(Vec::len), Some(1));
    assert_eq!(found["changed"][0]["set"], set);
    let memories = |lengths: &serde_json::Value| lengths[1]["metrics"]["memories"].as_f64();
    assert_eq!((memories(&found["lengths"]), memories(&found["changed"][0]["lengths"])), (Some(80.0), Some(7.0)));
    assert_eq!(found["lengths"][1]["threads"].as_u64(), Some(sab::run_dir::cores() as u64));
    if cfg!(target_os = "linux") {
        assert!(first.contains(" s, peak ") && found["lengths"][0]["peak_mib"].as_f64().is_some_and(|mib| mib > 1.0));
    }
    // A further call adds to either and touches nothing else; a change that changes nothing is none.
    place.ok(&["transfer", "run", "--lengths", "9", "--sequences", "3", "--set", "model.store=every"]);
    place.ok(&["transfer", "run", "--lengths", "9", "--sequences", "3", "--set", "model.store=novelty"]);
    let after = place.json("run/transfer.json");
    assert_eq!(after["changed"].as_array().map(Vec::len), Some(2));
    assert_eq!(after["lengths"].as_array().map(Vec::len), Some(3));
    assert_eq!((&after["lengths"][0], &after["lengths"][2]), (&found["lengths"][0], &found["lengths"][1]));

    let of = |more: &[&str]| -> serde_json::Value {
        serde_json::from_str(&place.ok(&[&["eval", "run", "--json"], more].concat())).expect("JSON")
    };
    let (plain, same, other) = (of(&[]), of(&["--set", "model.k_top=5"]), of(&["--set", "model.k_top=1"]));
    assert_eq!(plain, same);
    assert!(plain["set"].is_null() && other["set"] == serde_json::json!({ "model.k_top": 1 }));
    assert_ne!(plain["metrics"], other["metrics"]);
    assert!(place.ok(&["eval", "run", "--set", "model.k_top=1"]).starts_with("test with model.k_top=1: ce_last10"));
}

#[test]
fn what_cannot_be_changed_in_a_trained_model_is_refused_before_anything_is_judged() {
    let place = Place::new();
    place.ok(&tiny_copy("run", "20", &[]));
    for command in [&["eval", "run"][..], &["transfer", "run", "--lengths", "5"]] {
        for (set, part) in [
            ("model.hidden=9", "`--set model.hidden` cannot change a trained model: it decides the parameters"),
            ("model.k_trunc=9", "matters in training only"),
            ("train.batch=9", "does not belong to the model"),
            ("model.stor=novelty", "did you mean `model.store`?"),
            ("model.store=somewhere", "`model.store` is \"somewhere\""),
            ("model.capacity=0", "`model.capacity` is 0"),
            ("store", "write --set key=value"),
        ] {
            let message = place.fails(2, &[command, &["--set", set]].concat());
            assert!(message.contains(part), "{set}: {message}");
        }
    }
    assert!(!place.path("run/transfer.json").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_an_error() {
    let place = Place::new();
    let full = std::fs::File::create("/dev/full").expect("Linux has it");
    let out = place.command(&["train", "copy", "--dry-run"]).stdout(full).output().expect("it runs");
    assert_eq!(out.status.code(), Some(4), "{}", stderr(&out));
}
