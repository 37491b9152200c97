//! Checks the data sets that a user has.

use super::catalogue::{CATALOGUE, DataSet, KnownFile};
use super::digest::judge;
use super::error::{DataError, Result};
use super::files::first_file;
use std::path::{Path, PathBuf};

/// The state of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Exactly the right file.
    Good,
    /// The beginning of the right file; the text says how much of it.
    Prefix(String),
    /// Another file; the text names the difference.
    Wrong(String),
    /// Needed to complete the set, but missing.
    Missing,
}

/// The verdict on one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileReport {
    /// The name of the data set.
    pub set: String,
    /// The file.
    pub path: PathBuf,
    /// Its state.
    pub verdict: Verdict,
}

/// Checks every known file in a data directory. A set without any file is left out. For a set with some of its files,
/// the missing ones are reported too.
pub fn verify(data_dir: &Path) -> Result<Vec<FileReport>> {
    // Unlike a missing set, a missing directory is a mistake of the user's.
    std::fs::read_dir(data_dir)
        .map_err(|e| DataError::reading(data_dir, e, "give the directory with the data sets as `--data-dir`"))?;
    let mut reports = Vec::new();
    for set in CATALOGUE {
        reports.extend(verify_set(set, data_dir)?);
    }
    Ok(reports)
}

/// Checks the files of one data set, in `data_dir/<name>/` or in `data_dir/` itself.
pub fn verify_set(set: &DataSet, data_dir: &Path) -> Result<Vec<FileReport>> {
    let forms = forms(set, data_dir);
    let report = |path: &Path, verdict| FileReport { set: set.name.into(), path: path.into(), verdict };
    let mut reports = Vec::new();
    for place in forms.iter().flatten() {
        if let Some(path) = &place.found {
            reports.push(report(path, judge(path, place.known)?));
        }
    }
    let there = |places: &Vec<Place>| places.iter().filter(|place| place.found.is_some()).count();
    let complete = forms.iter().any(|places| there(places) == places.len());
    // The first of the most complete forms: reversed, because `max_by_key` takes the last.
    let fullest = forms.iter().rev().max_by_key(|places| there(places)).filter(|places| there(places) > 0);
    if !complete && let Some(places) = fullest {
        // A file that exists packed instead of unpacked, or the other way round, is not missing.
        let stem = |path: &Path| Some(path.file_name()?.to_string_lossy().trim_end_matches(".gz").to_string());
        let have: Vec<_> = reports.iter().map(|r| stem(&r.path)).collect();
        let missing = places.iter().filter(|p| p.found.is_none() && !have.contains(&stem(&p.expected)));
        reports.extend(missing.map(|place| report(&place.expected, Verdict::Missing)));
    }
    Ok(reports)
}

/// The files of a set that is unpacked, complete and right, if none of its downloads exists.
pub(crate) fn good_unpacked(set: &DataSet, data_dir: &Path) -> Result<Option<Vec<PathBuf>>> {
    let forms = forms(set, data_dir);
    let Some((downloads, unpacked)) = forms.split_first() else { return Ok(None) };
    if downloads.iter().any(|place| place.found.is_some()) {
        return Ok(None);
    }
    for places in unpacked {
        let Some(paths) = places.iter().map(|place| place.found.clone()).collect::<Option<Vec<_>>>() else { continue };
        let verdicts = places.iter().zip(&paths).map(|(place, path)| judge(path, place.known));
        if verdicts.collect::<Result<Vec<_>>>()?.iter().all(|verdict| *verdict == Verdict::Good) {
            return Ok(Some(paths));
        }
    }
    Ok(None)
}

/// A file of a set: its content, the path where it should be, and the path where it is.
struct Place<'a> {
    known: &'a KnownFile<'a>,
    expected: PathBuf,
    found: Option<PathBuf>,
}

/// The forms that a set can have: as downloaded, then unpacked.
fn forms<'a>(set: &DataSet<'a>, data_dir: &Path) -> Vec<Vec<Place<'a>>> {
    let homes = [data_dir.join(set.name), data_dir.to_path_buf()];
    let place = |known: &'a KnownFile<'a>, folders: &[&str]| {
        let below =
            |home: &PathBuf| folders.iter().map(|folder| home.join(folder).join(known.file)).collect::<Vec<_>>();
        let candidates: Vec<PathBuf> = homes.iter().flat_map(below).collect();
        Place { known, expected: candidates.first().cloned().unwrap_or_default(), found: first_file(candidates) }
    };
    let packed = set.downloads.iter().map(|known| place(known, &[""])).collect();
    let unpacked = |files: &&'a [KnownFile<'a>]| files.iter().map(|known| place(known, set.folders)).collect();
    std::iter::once(packed).chain(set.unpacked.iter().map(unpacked)).collect()
}
