//! Files of one JSON object a line, each with the `update` it belongs to, that grow while a run goes on.

use super::atomic;
use crate::error::{LabError, Result};
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::path::Path;

/// The lines of a file; none if there is no such file. A line that a kill has cut off is not one.
pub fn read(path: &Path) -> Result<Vec<Value>> {
    let text = match std::fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(why) => return Err(LabError::file("read", path, &why)),
    };
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// Goes on after `update`: lines of later updates, which a killed run may have left, are dropped. Gives the lines that stay
/// and the file to add to.
pub(super) fn resume(path: &Path, update: u64) -> Result<(Vec<Value>, File)> {
    let mut lines = read(path)?;
    lines.retain(|line| line.get("update").and_then(Value::as_u64).is_some_and(|at| at <= update));
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    atomic::write(path, text.as_bytes())?;
    let file = OpenOptions::new().append(true).open(path).map_err(|why| LabError::file("write", path, &why))?;
    Ok((lines, file))
}
