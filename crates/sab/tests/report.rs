//! The report: what is read, that the page needs and believes nothing but itself, and that it draws in a real browser.

mod common;

use common::{Place, tiny_copy};
use sab::report::{RunView, page};
use sab::reproduce::{Rendered, Section};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

const SVG: &str = "http://www.w3.org/2000/svg";
const CONFIG: &str = "[task]\nname = \"copy\"\nlength = 3\n\n[model]\nkind = \"sab\"\nhidden = 8\nk_top = 5\nk_att = 1\n\
                      k_trunc = 5\nmental_updates = true\n\n[train]\nseed = 1\nupdates = 400\n";

/// A run directory as training leaves it, with as many steps a sequence.
fn a_run(place: &Place, name: &str, steps: usize) -> PathBuf {
    place.write(&format!("{name}/config.toml"), CONFIG);
    place.write(&format!("{name}/environment.json"), r#"{"threads":2,"cpu":"a processor"}"#);
    let summary = json!({ "updates": 400, "wall_seconds": 61.5, "parameters": 1234, "seed": 1, "threads": 2,
        "validation": { "accuracy": 0.9996, "ce": 0.01 }, "test": { "accuracy": 1.0, "ce": 0.02 } });
    place.write(&format!("{name}/summary.json"), summary.to_string());
    place.write(&format!("{name}/metrics.jsonl"), lines(&curve()));
    place.write(&format!("{name}/attention.jsonl"), lines(&attention(steps)));
    place.path(name)
}

fn lines(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

/// Training every 10 updates, validation every 100; one loss is no number, and the last rate is zero.
fn curve() -> Vec<Value> {
    let mut curve = Vec::new();
    for update in (10..=400).step_by(10) {
        let (at, loss) = (f64::from(update), 2.0 * (-f64::from(update) / 60.0).exp());
        let shown = if update == 50 { Value::Null } else { loss.into() };
        curve.push(json!({ "kind": "train", "update": update, "seconds": at / 7.0, "time": 1e9 + at, "loss": shown,
            "accuracy": 1.0 - loss / 3.0, "ce": loss, "gradient_norm": 0.5 + loss, "learning_rate": 0.005 * (1.0 - at / 400.0) }));
        if update % 100 == 0 {
            curve.push(json!({ "kind": "validation", "update": update, "seconds": at / 7.0, "accuracy": 1.0 - loss / 3.0, "ce": loss }));
        }
    }
    curve
}

/// Four records; every step is reminded of the null slot and of two steps before it.
fn attention(steps: usize) -> Vec<Value> {
    let record = |update: usize| {
        let reminded = |step: usize| match step {
            0 => json!([[0, 1.0]]),
            1 => json!([[0, 0.75], [1, 0.25]]),
            _ => json!([[step / 2 + 1, 0.6], [step - 1, 0.3999], [0, 0.0001]]),
        };
        let inputs: Vec<String> = (0..steps).map(|step| if step < 3 { step.to_string() } else { "·".into() }).collect();
        json!({ "update": update, "split": "validation", "sequence": 0, "inputs": inputs,
            "reminded_of": (0..steps).map(reminded).collect::<Vec<_>>() })
    };
    [100, 200, 300, 400].map(record).to_vec()
}

/// The data that a page carries.
fn data_of(page: &str) -> Value {
    let (_, after) = page.split_once(r#"<script type="application/json" id="data">"#).expect("a page has data");
    serde_json::from_str(after.split_once("</script>").expect("the data ends").0).expect("JSON")
}

#[test]
fn the_page_needs_nothing_but_itself() {
    let place = Place::new();
    let view = RunView::of_run(&a_run(&place, "run", 30)).expect("readable");
    let page = page("A run", None, &[view]);
    // The namespace of SVG, and the comment that says where uPlot comes from, are not fetched.
    let rest = page.replace(SVG, "").replace("https://github.com/leeoniya/uPlot", "");
    for word in ["http://", "https://", "src=", "url(", "@import", "<link", "fetch(", "XMLHttpRequest", "innerHTML"] {
        assert!(!rest.contains(word), "{word}");
    }
    assert!(page.contains("The MIT License") && page.contains("Leon Sorokin"), "uPlot's licence is in the page");
    assert!(page.contains("default-src 'none'") && page.contains("<noscript>"));
    assert!(!page.contains("{{"), "a slot is not filled");
    assert!(page.contains("<title>A run</title>"));
}

#[test]
fn names_and_values_cannot_break_out_of_their_place() {
    let evil = "</script><b>{{script}}<!--<script>";
    let view = RunView {
        name: evil.into(),
        group: evil.into(),
        config: json!({ evil: evil }),
        attention: vec![json!({ "update": 1, "inputs": [evil], "reminded_of": [[[0, 1.0]]] })],
        ..RunView::default()
    };
    let section = Section { heading: evil.into(), columns: vec![evil.into()], rows: vec![vec![evil.into()]] };
    let table = Rendered { title: evil.into(), about: evil.into(), sections: vec![section], ..Rendered::default() };
    let page = page(evil, Some(&table), &[view]);
    assert!(!page.contains("</script><b>"));
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("</script>").count(), 2);
    assert!(page.contains("<title>&lt;/script&gt;&lt;b&gt;"));
    let data = data_of(&page);
    assert_eq!(data["runs"][0]["name"], evil);
    assert_eq!(data["table"]["sections"][0]["rows"][0][0], evil);
    assert_eq!(data["runs"][0]["attention"][0]["inputs"][0], evil);
}

#[test]
fn a_run_that_goes_on_is_read_as_far_as_it_is() {
    let place = Place::new();
    let run = a_run(&place, "run", 5);
    std::fs::remove_file(run.join("summary.json")).expect("removed");
    std::fs::remove_file(run.join("attention.jsonl")).expect("removed");
    let whole = RunView::of_run(&run).expect("readable");
    place.write("run/metrics.jsonl", lines(&curve()) + "{\"kind\":\"train\",\"update\":410,\"lo");
    let half = RunView::of_run(&run).expect("readable with a half-written line");
    assert_eq!(half, whole);
    assert_eq!(half.curve.len(), 44);
    assert_eq!((&half.summary, half.attention.len()), (&Value::Null, 0));
    std::fs::remove_file(run.join("metrics.jsonl")).expect("removed");
    let fresh = RunView::of_run(&run).expect("readable before the first line");
    assert!(fresh.curve.is_empty());
    assert!(page("fresh", None, &[fresh]).contains("fresh"));
}

#[test]
fn curves_are_columns_and_what_is_no_number_is_told() {
    let place = Place::new();
    let view = RunView::of_run(&a_run(&place, "run", 5)).expect("readable");
    assert_eq!((view.name.as_str(), view.config["train"]["updates"].as_u64()), ("run", Some(400)));
    let data = data_of(&page("A run", None, &[view]));
    let train = &data["runs"][0]["train"];
    assert_eq!((&train["update"][4], &train["loss"][4]), (&json!(50), &json!("nan")));
    assert_eq!(data["runs"][0]["validation"]["update"], json!([100, 200, 300, 400]));
    assert_eq!(data["runs"][0]["attention"][3]["reminded_of"][2], json!([[2, 0.6], [1, 0.3999], [0, 0.0001]]));
}

#[test]
fn the_command_writes_beside_the_run_or_where_it_is_told() {
    let place = Place::new();
    a_run(&place, "a/run", 5);
    a_run(&place, "b/run", 5);
    assert_eq!(place.ok(&["report", "a/run"]).trim(), Path::new("a/run").join("report.html").to_string_lossy());
    assert_eq!(place.ok(&["report", "a/run", "b/run"]).trim(), "report.html");
    let several = std::fs::read_to_string(place.path("report.html")).expect("written");
    assert_eq!(data_of(&several)["runs"][1]["name"], "b/run", "runs of the same name are told apart");
    place.ok(&["report", "b/run", "--out", "new/folder/page.html"]);
    assert!(place.path("new/folder/page.html").is_file());
}

#[test]
fn the_command_says_what_is_wrong() {
    let place = Place::new();
    a_run(&place, "run", 5);
    let message = place.fails(4, &["report", "nowhere"]);
    assert!(
        message.contains("`nowhere` is neither a run directory nor a table") && message.contains("ptb"),
        "{message}"
    );
    assert!(place.fails(4, &["report", "run", "nowhere"]).contains("nowhere does not exist"));
    assert!(place.fails(2, &["report", "copy", "adding"]).contains("`copy` is a table"));
    assert!(place.fails(4, &["report", "cppy"]).contains("nor a table; did you mean `copy`?"));
    place.write("folder/file", "");
    assert!(place.fails(4, &["report", "run", "folder"]).contains("folder is not a run directory"));
    assert!(place.fails(2, &["report", "run", "--out", "folder"]).contains("name the file"));
    assert!(place.fails(2, &["report"]).contains("RUN"));
    place.write("run/summary.json", "{");
    assert!(place.fails(4, &["report", "run"]).contains("summary.json is damaged"));
    place.write("run/config.toml", "= 3");
    assert!(place.fails(2, &["report", "run"]).contains("config.toml is not TOML"));
    assert!(!place.path("run/report.html").exists());
}

#[test]
fn a_table_can_be_reported_from_its_records() {
    let place = Place::new();
    let file = |key: &str| format!("{key} = \"small\"\n");
    let table = format!(
        "{}{}{}metrics = [{{ name = \"accuracy\", heading = \"accuracy, %\", factor = 100.0 }}]\n[[groups]]\n[[groups.rows]]\n\
         label = \"the row\"\nexperiment = \"small/sab\"\npaper = [\"99.5\"]\n[[groups.rows]]\nlabel = \"another\"\n\
         experiment = \"small/missing\"\n[[groups.rows]]\nlabel = \"between\"\nexperiment = \"small/sab2\"\n[[groups.rows]]\nlabel = \"the same again\"\nexperiment = \"small/sab\"\n",
        file("title"),
        file("source"),
        file("about")
    );
    place.write("mine/small/table.toml", table);
    let row = "[task]\nname = \"copy\"\nlength = 3\ntest = 8\n[model]\nhidden = 8\n[train]\nupdates = 40\nbatch = 4\n";
    place.write("mine/small/sab.toml", row);
    place.write("mine/small/sab2.toml", row.replace("batch = 4", "batch = 5"));
    place.write("mine/small/missing.toml", row);
    let kept = ["small", "--experiments", "mine", "--results", "out"];
    place.ok(&[&["reproduce"][..], &kept, &["--only", "sab", "--quiet", "--threads", "1"]].concat());
    assert_eq!(place.ok(&[&["report"][..], &kept, &["--runs", "out/runs"]].concat()), "out/small.html\n");
    let data = data_of(&std::fs::read_to_string(place.path("out/small.html")).expect("written"));
    assert_eq!(data["table"]["sections"][0]["rows"][0][0], "the row");
    assert_eq!(data["table"]["sections"][0]["rows"][1][2], "not run");
    assert_eq!(data["runs"].as_array().map(Vec::len), Some(2), "two rows share a run");
    assert_eq!((&data["runs"][0]["name"], &data["runs"][0]["group"]), (&json!("small/sab seed 1"), &json!("the row")));
    assert!(data["runs"][0]["attention"].as_array().is_some_and(|lines| !lines.is_empty()), "the run is still there");
    assert!(data["runs"][0]["summary"]["test"].is_object() && data["runs"][0]["failure"].is_null());

    // A folder that happens to be called like the table is not in its way.
    std::fs::create_dir(place.path("small")).expect("a folder");
    place.ok(&[&["report"][..], &kept].concat());
    // A table that chooses settings shows nothing of the test set, and a training that failed has failed.
    let table = std::fs::read_to_string(place.path("mine/small/table.toml")).expect("it is there");
    let table = table.replacen("[[groups]]\n", "[[groups]]\nheading = \"T = 3\"\n", 1);
    place.write("mine/small/table.toml", format!("validation = true\n{table}"));
    let mut record = place.json("out/records/small/sab2/seed1.json");
    record["summary"] = Value::Null;
    record["failure"] = "10 gradients are not numbers".into();
    place.write("out/records/small/sab2/seed1.json", record.to_string());
    place.ok(&[&["report"][..], &kept].concat());
    let page = std::fs::read_to_string(place.path("out/small.html")).expect("written");
    let runs = &data_of(&page)["runs"];
    assert!(runs[0]["summary"]["test"].is_null() && runs[0]["summary"]["validation"].is_object());
    assert_eq!(
        (&runs[0]["group"], &runs[1]["failure"]),
        (&json!("T = 3: the row"), &json!("10 gradients are not numbers"))
    );
    if let Some(told) = selftest(&page) {
        assert!(told.starts_with("ok "), "{told}");
    }
    let message = place.fails(4, &["report", "small", "--experiments", "mine", "--results", "nowhere"]);
    assert!(message.contains("nowhere has no records of the table small; run `sab reproduce small`"), "{message}");
    assert!(!place.path("nowhere").exists());
}

#[test]
fn a_run_of_reproduce_is_called_by_its_experiment() {
    let place = Place::new();
    let name = |folder: &str| RunView::of_run(&a_run(&place, folder, 1)).expect("readable").name;
    assert_eq!(name("runs/copy/100-sab/seed12"), "100-sab seed 12");
    assert_eq!(name("runs/copy/seedling"), "seedling");
}

#[test]
fn a_run_that_was_trained_here_can_be_reported() {
    let place = Place::new();
    place.ok(&tiny_copy("run", "80", &[]));
    place.ok(&["report", "run"]);
    let page = std::fs::read_to_string(place.path("run/report.html")).expect("written");
    let data = data_of(&page);
    assert_eq!(data["runs"][0]["config"]["task"]["name"], "copy");
    assert_eq!(data["runs"][0]["validation"]["update"], json!([40, 80]));
    if let Some(told) = selftest(&page) {
        assert!(told.starts_with("ok charts=6"), "{told}");
    }
}

/// A browser that can be asked for the page it has made.
fn chromium() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("SAB_CHROMIUM") {
        return Some(path.into());
    }
    let folders = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&folders).flat_map(|folder| names.map(|name| folder.join(name))).find(|path| path.is_file())
}

/// Opens a page in a browser and gives what its self-test says; nothing where there is no browser.
fn selftest(page: &str) -> Option<String> {
    let Some(browser) = chromium() else {
        eprintln!("skipped: there is no chromium in PATH or $SAB_CHROMIUM");
        return None;
    };
    let place = Place::new();
    let file = place.write("page.html", page);
    let out = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg(format!("--user-data-dir={}", place.path("browser").display()))
        .args(["--window-size=1280,1000", "--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!("file://{}#selftest", file.display()))
        .output()
        .expect("the browser runs");
    let dom = String::from_utf8_lossy(&out.stdout);
    let told = dom.split_once(r#"<p id="selftest""#).and_then(|(_, after)| after.split_once('>'));
    let told = told.and_then(|(_, after)| after.split_once("</p>"));
    Some(told.unwrap_or_else(|| panic!("no self-test in the page: {dom} {}", common::stderr(&out))).0.to_string())
}

#[test]
fn a_browser_draws_a_run_and_its_attention() {
    let place = Place::new();
    let view = RunView::of_run(&a_run(&place, "run", 30)).expect("readable");
    let Some(told) = selftest(&page("A run", None, &[view])) else { return };
    // Accuracy, cross-entropy, loss, gradient norm, learning rate; two of them have a validation line too.
    assert!(told.starts_with("ok charts=5 paths=7 log=5 "), "{told}");
    // 30 steps: one reminder at the first, two at the second, three at each other.
    assert!(told.contains(" cells=87 arcs=3 pinned=15 "), "{told}");
}

#[test]
fn a_browser_draws_many_runs_with_groups_and_strange_names() {
    let place = Place::new();
    let path = a_run(&place, "run", 1044);
    let mut views: Vec<RunView> = (0..40).map(|_| RunView::of_run(&path).expect("readable")).collect();
    for (place, view) in views.iter_mut().enumerate() {
        view.group = format!("row {} </script><b>", place / 5);
        view.name = format!("<img src=x onerror=alert(1)> {place}");
        if place > 0 {
            view.attention.clear();
        }
    }
    views[1].summary = Value::Null;
    views[2].curve.clear();
    let section = Section {
        heading: "One".into(),
        columns: vec!["model".into(), "accuracy".into()],
        rows: vec![vec!["SAB".into(), "98.7 ± 0.4 %".into()], vec!["LSTM".into()]],
    };
    let table = Rendered {
        title: "A table".into(),
        about: "Of `nothing`.".into(),
        sections: vec![section],
        ..Rendered::default()
    };
    let Some(told) = selftest(&page("Many", Some(&table), &views)) else { return };
    assert!(told.starts_with("ok charts=5 paths=273 ") && told.contains(" cells=3129 "), "{told}");
    assert!(told.contains(" code=1"), "what stands in backticks is set as code: {told}");
}

#[test]
fn a_browser_opens_a_page_with_nothing_in_it() {
    for views in [vec![], vec![RunView { name: "fresh".into(), config: json!({ "a": 1 }), ..RunView::default() }]] {
        let Some(told) = selftest(&page("Nothing", None, &views)) else { return };
        assert!(told.starts_with("ok"), "{told}");
    }
}
