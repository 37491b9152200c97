//! Files that are either the old or the new ones, whatever happens while they are written.

use super::files;
use crate::error::{LabError, Result};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The name of a file while it is written.
const PARTIAL: &str = "partial";

/// Writes a file completely or not at all: next to its place, to the disk, then into its place.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    write_with(path, |file| file.write_all(bytes).map_err(|why| LabError::file("write", path, &why)))
}

/// Writes a file completely or not at all. `fill` writes the content; if it fails, the old file stays.
pub fn write_with(path: &Path, fill: impl FnOnce(&mut File) -> Result<()>) -> Result<()> {
    let partial = partial_of(path);
    let wrong = |why: io::Error| LabError::file("write", path, &why);
    let done = File::create(&partial).map_err(wrong).and_then(|mut file| {
        fill(&mut file)?;
        file.sync_all().and_then(|()| fs::rename(&partial, path)).and_then(|()| sync_parent(path)).map_err(wrong)
    });
    // Nothing half-written stays behind; if that fails too, the first error says more.
    done.inspect_err(|_| _ = fs::remove_file(&partial))
}

/// Writes a JSON file.
pub fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<()> {
    let mut text =
        serde_json::to_string_pretty(value).map_err(|why| LabError::Run(format!("{}: {why}", path.display())))?;
    text.push('\n');
    write(path, text.as_bytes())
}

/// Removes the remains of an interrupted write from a directory.
pub fn clean(directory: &Path) -> Result<()> {
    for path in files::entries(directory)? {
        if path.extension().is_some_and(|extension| extension == PARTIAL) {
            fs::remove_file(&path).map_err(|why| LabError::file("remove", &path, &why))?;
        }
    }
    Ok(())
}

fn partial_of(path: &Path) -> PathBuf {
    path.with_added_extension(PARTIAL)
}

/// The folder of a file or folder.
pub(super) fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A rename is on the disk when its directory is.
pub(super) fn sync_parent(path: &Path) -> io::Result<()> {
    // Windows does not open directories; there renames need no help.
    if cfg!(unix) { File::open(parent(path))?.sync_all() } else { Ok(()) }
}
