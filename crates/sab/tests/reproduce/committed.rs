//! The tables and records of the repository.

use super::*;
use sab::reproduce::Record;
use std::collections::BTreeSet;
use std::path::PathBuf;

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
                let variant = catalogue.variant(&row.experiment, budget);
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

/// The repository and its results; none in a package, which has neither.
fn repository() -> Option<(PathBuf, Results)> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = repository.join("results");
    if !folder.join("records").is_dir() {
        eprintln!("skipped: this is a package, without results");
        return None;
    }
    let runs = folder.join("runs");
    Some((repository, Results { catalogue: Catalogue::built_in(), budget: Budget::Cpu, runs, folder }))
}

#[test]
fn tables_and_pages_say_what_the_records_say() {
    let Some((repository, results)) = repository() else { return };
    for name in results.names().expect("names") {
        let rendered = results.render(&results.table(&name).expect(&name)).expect(&name);
        let committed = std::fs::read_to_string(results.folder.join(format!("{name}.md"))).expect(&name);
        let again = "sab reproduce all --results results --table-only";
        assert!(committed == rendered.to_markdown(), "results/{name}.md is not what its records say: `{again}`");
    }
    for page in ["docs/reproducing.md", "docs/sweeps.md", "experiments/README.md"] {
        let text = std::fs::read_to_string(repository.join(page)).expect(page);
        assert!(text.contains("<!-- end -->"), "{page} has no block");
        let filled = results.fill(&text, page).expect(page);
        assert!(filled == text, "{page} is not what the records say: `sab reproduce --fill {page} --results results`");
    }
}

#[test]
fn every_record_has_the_present_form_and_says_nothing_of_places() {
    let Some((_, results)) = repository() else { return };
    let root = results.folder.join("records");
    let place = Place::new();
    let records: Vec<_> =
        everything(&root).into_iter().filter(|(path, _)| path.extension() == Some("json".as_ref())).collect();
    assert!(records.len() > 200, "{} records", records.len());
    for (path, bytes) in &records {
        let record = Record::load(path).expect("a record").expect("it is there");
        let copy = place.path("copy.json");
        record.save(&copy).expect("saved");
        let name = path.strip_prefix(&root).expect("below").display().to_string();
        assert!(
            std::fs::read(&copy).expect("saved") == *bytes,
            "{name}: `sab reproduce --rewrite-records --results results`"
        );
        assert_eq!(name, format!("{}/seed{}.json", record.experiment, record.config.train.seed));
        let text = String::from_utf8_lossy(bytes);
        assert!(!["/tmp", "/home", "/work", "\"/"].iter().any(|place| text.contains(place)), "{name} names a place");
    }
}

#[test]
fn every_record_belongs_to_a_table() {
    let Some((_, results)) = repository() else { return };
    let mut shown = BTreeSet::new();
    for name in results.names().expect("names") {
        let table = results.table(&name).expect(&name);
        shown.extend(table.rows().map(|row| results.catalogue.variant(&row.experiment, Budget::Cpu)));
    }
    for (path, _) in everything(&results.folder.join("records")) {
        let name = path.parent().expect("a folder").strip_prefix(results.folder.join("records")).expect("below");
        assert!(shown.contains(&*name.to_string_lossy()), "no table shows the record {}", path.display());
    }
}

#[test]
fn rows_of_a_text_table_have_the_same_size() {
    let catalogue = Catalogue::built_in();
    for name in ["ptb", "text8"] {
        for budget in [Budget::Cpu, Budget::Paper] {
            let size = |row: &sab::reproduce::Row| {
                let experiment =
                    catalogue.experiment(&catalogue.variant(&row.experiment, budget), 1).expect("an experiment");
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
fn the_labels_of_sweeps_name_settings_that_their_records_have() {
    let Some((_, results)) = repository() else { return };
    let (table, mut checked) = (results.table("sweeps").expect("sweeps"), 0);
    for row in table.rows() {
        let (_, records) = results.of_row(row).expect("records");
        let config = serde_json::to_value(&records[0].config).expect("JSON");
        let (model, start, train) = (&config["model"], &config["model"]["start"], &config["train"]);
        for part in row.label.replace(" (", ", ").split(", ") {
            let (key, value) = part.rsplit_once(' ').unwrap_or((part, ""));
            let found = match key {
                "learning rate" => &train["learning_rate"],
                "input_gain" | "forget_bias" | "attention_gain" => &start[key],
                "k_top" | "k_att" | "k_trunc" | "trunc_phase" | "hops" | "score_gradient" => &model[key],
                _ => continue,
            };
            let same = match value.parse::<f64>() {
                Ok(number) => found.as_f64() == Some(number),
                Err(_) => found.as_str() == Some(value),
            };
            assert!(same, "the row \"{}\" is of a record with {key} {found}", row.label);
            checked += 1;
        }
        if let Some((updates, _)) = row.label.split_once(" updates") {
            let updates: u64 = updates.rsplit(' ').next().expect("a word").replace(',', "").parse().expect(&row.label);
            assert_eq!(records[0].config.train.updates, updates, "{}", row.label);
        }
    }
    assert!(checked > 90, "only {checked} settings were found in labels");
}
