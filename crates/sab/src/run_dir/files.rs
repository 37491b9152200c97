//! Reading files that may be missing or incomplete: a run may still be training, or may have been killed.

use super::atomic;
use crate::error::{LabError, Result};
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::path::Path;

/// A file of JSON; none if there is no such file.
pub fn read_json(path: &Path) -> Result<Option<Value>> {
    let Some(text) = read_text(path)? else { return Ok(None) };
    let wrong = |why: serde_json::Error| LabError::Run(format!("{} is damaged: {why}", path.display()));
    serde_json::from_str(&text).map(Some).map_err(wrong)
}

/// The objects of a file of JSON lines; none if there is no such file. A line that a kill has cut off is not one.
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

/// Continues a file of JSON lines after `update`: lines of later updates, which a killed run may have left, are
/// dropped, as are those that `stays` refuses. Gives the lines that stay and the file to add to.
pub(super) fn resume_lines(
    path: &Path, update: u64, stays: impl Fn(&Value, u64) -> bool,
) -> Result<(Vec<Value>, File)> {
    let mut lines = read_lines(path)?;
    let update_of = |line: &Value| line.get("update").and_then(Value::as_u64);
    lines.retain(|line| update_of(line).is_some_and(|at| at <= update && stays(line, at)));
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    atomic::write(path, text.as_bytes())?;
    let file = OpenOptions::new().append(true).open(path).map_err(|why| LabError::file("write", path, &why))?;
    Ok((lines, file))
}
