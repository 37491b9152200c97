//! Tables and pictures show what the runs reached.

use super::*;

#[test]
fn the_table_shows_mean_and_spread_of_what_the_runs_reached() {
    let place = small();
    let shown = place.ok(&reproduce(&["--seeds", "3", "--only", "sab", "--formats", "csv,json,md,tex"]));
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
    place.ok(&reproduce(&["--only", "sab", "--formats", "json,png"]));
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
fn pictures_show_how_rows_learn_and_how_attention_forms() {
    let place = small();
    let attention = "[attention]\nexperiment = \"small/sab\"\nupdates = [0, 60]\nlast = 10\n\n[[groups]]";
    place.write("mine/small/table.toml", TABLE.replacen("[[groups]]", attention, 1));
    place.write("mine/small/sab.toml", experiment("k_top = 2", "updates = 60\nattention_every = 30"));
    place.ok(&reproduce(&["--formats", "svg,png"]));
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
fn alternative_settings_are_in_the_table_and_not_in_the_picture() {
    let place = small();
    // The key was called a remedy in earlier versions.
    place.write("mine/small/table.toml", format!("{TABLE}remedy = true\n"));
    place.ok(&reproduce(&["--formats", "md"]));
    let earlier = std::fs::read(place.path("out/small.md")).expect("a table");
    place.write("mine/small/table.toml", format!("{TABLE}alternative = true\n"));
    let shown = place.ok(&reproduce(&["--formats", "svg,md"]));
    assert!(std::fs::read(place.path("out/small.md")).expect("a table") == earlier);
    assert!(shown.contains("| LSTM | 12.5 |"), "{shown}");
    let picture = std::fs::read_to_string(place.path("out/small.svg")).expect("a picture");
    assert!(picture.contains("SAB | 2") && !picture.contains("LSTM"), "{picture}");
}

#[test]
fn a_table_of_the_papers_size_stands_beside_that_of_a_cpu() {
    let place = small();
    place.write("mine/small/table.toml", format!("{TABLE}alternative = true\n"));
    place.write("mine/small/sab.cpu.toml", experiment("k_top = 2", "updates = 20"));
    place.ok(&reproduce(&[]));
    let of_a_cpu = std::fs::read(place.path("out/small.md")).expect("a table");
    place.ok(&reproduce(&["--budget", "paper"]));
    assert_eq!(std::fs::read(place.path("out/small.md")).expect("a table"), of_a_cpu);
    let of_the_paper = std::fs::read_to_string(place.path("out/small.paper.md")).expect("another");
    assert!(of_the_paper.starts_with("# Small copies, the paper's size (Table 9)"), "{of_the_paper}");
    assert!(of_the_paper.contains("| 60 |") && !of_the_paper.contains("LSTM"), "{of_the_paper}");
    // If all rows have one size, there is one table.
    std::fs::remove_file(place.path("mine/small/sab.cpu.toml")).expect("removed");
    let shown = place.ok(&reproduce(&["--budget", "paper"]));
    assert!(shown.contains("small.md") && shown.contains("LSTM"), "{shown}");
}

#[test]
fn the_attention_of_a_picture_is_kept_with_the_record() {
    let place = small();
    let attention = "[attention]\nexperiment = \"small/sab\"\nupdates = [0, 60]\nlast = 10\n\n[[groups]]";
    place.write("mine/small/table.toml", TABLE.replacen("[[groups]]", attention, 1));
    place.write("mine/small/sab.toml", experiment("k_top = 2", "updates = 60\nattention_every = 30"));
    let other = place.sab(&reproduce(&["--only", "lstm"]));
    assert!(other.status.success());
    assert!(stderr(&other).contains("the attention figure of small is not drawn"), "{}", stderr(&other));
    place.ok(&reproduce(&["--formats", "svg"]));
    let drawn = std::fs::read(place.path("out/small-focus.svg")).expect("a picture");
    std::fs::remove_dir_all(place.path("out/runs")).expect("removed");
    std::fs::remove_file(place.path("out/small-focus.svg")).expect("removed");
    place.ok(&reproduce(&["--formats", "svg"]));
    assert!(std::fs::read(place.path("out/small-focus.svg")).expect("a picture") == drawn, "another picture");
    let kept = std::fs::read_to_string(place.path("out/records/small/sab/seed1.attention.jsonl")).expect("kept");
    assert_eq!(kept.lines().count(), 2);
    // A run that is still training has no attention of its last update yet.
    place.write("out/runs/small/sab/seed1/attention.jsonl", kept.lines().next().expect("a line"));
    let early = stderr(&place.sab(&reproduce(&["--table-only"])));
    assert!(early.contains("the attention figure of small is not drawn"), "{early}");
    place.write("out/runs/small/sab/seed1/summary.json", "{}");
    let message = place.fails(2, &reproduce(&["--table-only"]));
    assert!(message.contains("the attention of update 60 is asked for"), "{message}");
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
fn only_the_files_that_are_asked_for_are_made() {
    let place = small();
    let files = || {
        let mut names: Vec<String> = std::fs::read_dir(place.path("out"))
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    };
    place.ok(&reproduce(&[]));
    assert_eq!(files(), ["records", "runs", "small.md", "small.png"]);
    let shown = place.ok(&reproduce(&["--table-only", "--formats", "csv,tex"]));
    assert!(shown.ends_with("written to out/small.csv, out/small.tex\n"), "{shown}");
    assert_eq!(files(), ["records", "runs", "small.csv", "small.md", "small.png", "small.tex"]);
    place.fails(2, &reproduce(&["--formats", "pdf"]));
}

#[test]
fn a_folder_of_results_can_describe_tables_of_its_records() {
    let place = small();
    place.ok(&reproduce(&["--only", "sab"]));
    let mine = TABLE.replace("Small copies", "My sweep").replace("small/lstm", "small/sab");
    place.write("out/mine.toml", &mine);
    let of_mine = |more: &[&'static str]| [&["reproduce", "mine", "--results", "out"][..], more].concat();
    let shown = place.ok(&of_mine(&["--table-only"]));
    assert!(shown.starts_with("# My sweep") && !shown.contains("not run"), "{shown}");
    // It is one of all tables, and there is nothing to run.
    let all = ["reproduce", "all", "--experiments", "mine", "--results", "out", "--table-only"];
    assert!(place.ok(&all).contains("# My sweep"));
    for more in [&[][..], &["--dry-run"]] {
        let message = place.fails(2, &of_mine(more));
        assert!(message.contains("add --table-only") && message.contains("sab train RECORD.json"), "{message}");
    }
    // A row without a record is a mistake of the table.
    place.write("out/mine.toml", mine.replace("small/sab", "small/gone"));
    let message = place.fails(2, &of_mine(&["--table-only"]));
    assert!(message.contains("has no record in out/records/small/gone"), "{message}");
}

#[test]
fn blocks_of_a_page_are_filled_from_the_records() {
    let place = small();
    let alternative = "[[groups.rows]]\nlabel = \"SAB | 2, more\"\nexperiment = \"small/lstm\"\npaper = [\"99.5\"]\n\
                       alternative = true\n";
    let table = TABLE.replacen(
        "[[groups.rows]]\nlabel = \"LSTM\"",
        &format!("{alternative}\n[[groups.rows]]\nlabel = \"LSTM\""),
        1,
    );
    place.write("mine/small/table.toml", table);
    place.ok(&reproduce(&[]));
    let page =
        "# Page\n\n<!-- table: small, T = 3 -->\nold\n<!-- end -->\n\nText.\n\n<!-- short: small -->\n<!-- end -->\n";
    place.write("page.md", page);
    let fill = ["reproduce", "--fill", "page.md", "--experiments", "mine", "--results", "out"];
    place.ok(&fill);
    let filled = std::fs::read_to_string(place.path("page.md")).expect("a page");
    let accuracy = |name: &str| {
        let summary = place.json(&format!("out/records/small/{name}/seed1.json"))["summary"].clone();
        format!("{:.2}", 100.0 * summary["test"]["accuracy"].as_f64().expect("a number"))
    };
    assert!(filled.starts_with("# Page\n\n<!-- table: small, T = 3 -->\n\n| model | accuracy, %: paper |"), "{filled}");
    assert!(filled.contains(&format!("| SAB \\| 2 | 99.5 | {} | 0.01 |", accuracy("sab"))), "{filled}");
    assert!(!filled.contains("old") && filled.contains("\n<!-- end -->\n\nText.\n"), "{filled}");
    // An untrained SAB falls short of the paper; the row behind it has other settings.
    let short = format!("| small, T = 3 | SAB \\| 2 | 99.5 | {} | more | {} |", accuracy("sab"), accuracy("lstm"));
    assert!(filled.contains(&short), "{short} is not in {filled}");
    place.ok(&fill);
    assert_eq!(std::fs::read_to_string(place.path("page.md")).expect("a page"), filled);
    for (page, why) in
        [("<!-- table: small, T = 4 -->\n<!-- end -->\n", "has no part `T = 4`"), ("<!-- index -->\n", "does not end")]
    {
        place.write("page.md", page);
        let message = place.fails(2, &fill);
        assert!(message.contains("page.md: `<!-- ") && message.contains(why), "{message}");
        assert_eq!(std::fs::read_to_string(place.path("page.md")).expect("a page"), page, "it was overwritten");
    }
}
