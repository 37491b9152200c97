//! Tells the program which compiler made it, and puts the experiments into it.

use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let version = std::process::Command::new(rustc).arg("--version").output().ok();
    let version = version.and_then(|out| String::from_utf8(out.stdout).ok()).unwrap_or_else(|| "unknown".into());
    println!("cargo::rustc-env=SAB_RUSTC={}", version.trim());
    println!("cargo::rustc-env=SAB_BURN={}", locked_version("burn").unwrap_or_else(|| "unknown".into()));
    println!("cargo::rerun-if-changed=build.rs");
    experiments();
}

/// The version of a dependency in Cargo.lock: that of the repository, or the copy in a package.
fn locked_version(package: &str) -> Option<String> {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").ok()?);
    let lock = [root.join("Cargo.lock"), root.join("../../Cargo.lock")].into_iter().find(|path| path.exists())?;
    println!("cargo::rerun-if-changed={}", lock.display());
    let text = std::fs::read_to_string(lock).ok()?;
    let (_, entry) = text.split_once(&format!("name = \"{package}\"\nversion = \""))?;
    entry.split('"').next().map(str::to_string)
}

/// Writes a list of all TOML files of `experiments/` with their texts. The folder is a link to that of the
/// repository; in a package it is a copy.
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
