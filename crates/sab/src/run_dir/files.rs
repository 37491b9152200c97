//! Files and folders that may be missing or incomplete: a run may still be training, or may have been killed.

use super::atomic;
use crate::error::{LabError, Result};
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// A file of JSON; none if there is no such file.
pub fn read_json(path: &Path) -> Result<Option<Value>> {
    let Some(text) = read_text(path)? else { return Ok(None) };
    let wrong = |why: serde_json::Error| LabError::Run(format!("{} is damaged: {why}", path.display()));
    serde_json::from_str(&text).map(Some).map_err(wrong)
}

/// The objects of a file of JSON lines; none if there is no such file. A line that a kill has cut off does not count.
pub fn read_lines(path: &Path) -> Result<Vec<Value>> {
    let text = read_text(path)?.unwrap_or_default();
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).filter(Value::is_object).collect())
}

fn read_text(path: &Path) -> Result<Option<String>> {
    match std::fs::read(path) {
        // A line that is being written may end within a character.
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(None),
        Err(why) => Err(LabError::file("read", path, &why)),
    }
}

/// The entries of a folder in the order of their names; none if there is no such folder.
pub fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(why) => return Err(LabError::file("read", folder, &why)),
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

/// All files of a folder and of the folders in it; none if there is no such folder.
pub fn below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in entries(folder)? {
        if path.is_dir() { files.extend(below(&path)?) } else { files.push(path) }
    }
    Ok(files)
}

/// Creates a folder and those above it.
pub fn create_folder(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|why| LabError::file("create", folder, &why))
}

/// [`atomic::write`] that creates the folder of the file if there is none.
pub fn write_below(path: &Path, bytes: &[u8]) -> Result<()> {
    create_folder(atomic::parent(path))?;
    atomic::write(path, bytes)
}

/// A file of JSON lines to add to.
pub(super) struct Lines(File, PathBuf);

impl Lines {
    pub(super) fn add(&mut self, line: &Value) -> Result<()> {
        // One write per line: a kill leaves at most one half-written line, which resuming drops.
        self.0.write_all(format!("{line}\n").as_bytes()).map_err(|why| LabError::file("write", &self.1, &why))
    }
}

/// Continues a file of JSON lines after `update`: lines of later updates, which a killed run may have left, are
/// dropped, as are those that `stays` refuses. Returns the lines that stay and the file to add to.
pub(super) fn resume_lines(
    path: PathBuf, update: u64, stays: impl Fn(&Value, u64) -> bool,
) -> Result<(Vec<Value>, Lines)> {
    let mut lines = read_lines(&path)?;
    lines.retain(|line| line["update"].as_u64().is_some_and(|at| at <= update && stays(line, at)));
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    atomic::write(&path, text.as_bytes())?;
    let file = OpenOptions::new().append(true).open(&path).map_err(|why| LabError::file("write", &path, &why))?;
    Ok((lines, Lines(file, path)))
}
