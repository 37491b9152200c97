//! Files of a run directory survive failures and kills.

use sab::run_dir::{atomic, files, metrics};
use std::fs;

#[test]
fn a_file_is_replaced_as_a_whole_and_nothing_else_stays() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("a.json");
    atomic::write(&path, b"old").expect("written");
    atomic::write(&path, b"new").expect("written again");
    assert_eq!(fs::read(&path).expect("readable"), b"new");
    assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 1);
}

#[test]
fn a_write_that_fails_names_the_file_and_leaves_the_old_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("a.json");
    atomic::write(&path, b"old").expect("written");
    fs::create_dir(folder.path().join("a.json.partial")).expect("something in the way");
    let message = atomic::write(&path, b"new").expect_err("cannot be written").to_string();
    assert!(message.contains("a.json"), "{message}");
    assert_eq!(fs::read(&path).expect("readable"), b"old");
}

#[test]
fn leftovers_are_cleaned_away() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("x.safetensors.partial"), b"half").expect("written");
    fs::write(folder.path().join("x.safetensors"), b"whole").expect("written");
    atomic::clean(folder.path()).expect("cleaned");
    assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 1);
}

#[test]
fn folders_are_read_in_order_and_missing_ones_are_empty() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for name in ["b/2", "b/1", "a"] {
        files::write_below(&folder.path().join(name), b"x").expect("written");
    }
    let below = files::below(folder.path()).expect("readable");
    assert_eq!(below, ["a", "b/1", "b/2"].map(|name| folder.path().join(name)));
    assert!(files::below(&folder.path().join("none")).expect("empty").is_empty());
}

#[test]
fn a_validation_that_the_checkpoint_does_not_know_is_made_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let line = |kind: &str, update: u64| format!("{{\"kind\":\"{kind}\",\"update\":{update},\"time\":1.0}}\n");
    let text = line("validation", 16) + &line("train", 20) + &line("validation", 20);
    fs::write(folder.path().join(metrics::FILE), text).expect("a file");
    metrics::MetricsFile::resume(folder.path(), 20, Some(16)).expect("metrics");
    let kept = files::read_lines(&folder.path().join(metrics::FILE)).expect("lines");
    let kept: Vec<_> = kept.iter().map(|line| (line["kind"].as_str(), line["update"].as_u64())).collect();
    assert_eq!(kept, [(Some("validation"), Some(16)), (Some("train"), Some(20))]);
}
