//! Tells the program which compiler made it, and puts the experiments into it.

use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let version = std::process::Command::new(rustc).arg("--version").output().ok();
    let version = version.and_then(|out| String::from_utf8(out.stdout).ok()).unwrap_or_else(|| "unknown".into());
    println!("cargo::rustc-env=SAB_RUSTC={}", version.trim());
    println!("cargo::rerun-if-changed=build.rs");
    experiments();
}

/// Writes a list of all TOML files of `experiments/` with their texts. The folder is a link to that of the repository; in a
/// package it is a copy.
fn experiments() {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("cargo says where")).join("experiments");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    collect(&root, &mut files);
    files.sort();
    let mut list = String::from("&[\n");
    for file in files {
        let name = file.strip_prefix(&root).expect("below it").to_string_lossy().replace('\\', "/");
        writeln!(list, "    ({name:?}, include_str!({:?})),", file.display().to_string()).expect("a string has room");
    }
    list.push(']');
    let out = PathBuf::from(std::env::var("OUT_DIR").expect("cargo says where")).join("experiments.rs");
    std::fs::write(out, list).expect("the build folder can be written to");
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in std::fs::read_dir(folder).expect("experiments/ is there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|kind| kind == "toml") {
            println!("cargo::rerun-if-changed={}", path.display());
            files.push(path);
        }
    }
}
