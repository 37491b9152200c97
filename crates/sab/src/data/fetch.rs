//! Downloading data sets: every file is checked before it gets its name.

use super::catalogue::{DataSet, KnownFile, data_set};
use super::digest::judge;
use super::error::{DataError, Result};
use super::verify::{Verdict, good_unpacked};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::NamedTempFile;

/// The source of a download and the time to wait for it.
#[derive(Clone, Debug)]
pub struct FetchOptions {
    /// The base URL that replaces the official locations; the names of the files stay.
    pub mirror: Option<String>,
    /// How long a server may stay silent.
    pub patience: Duration,
}

impl Default for FetchOptions {
    fn default() -> Self {
        Self { mirror: None, patience: Duration::from_secs(30) }
    }
}

/// Receives progress: the file, the bytes that have arrived, and the size if it is known.
pub type Progress<'a> = dyn FnMut(&str, u64, Option<u64>) + 'a;

/// Downloads a data set of the catalogue into `data_dir/<name>/` and returns its files.
///
/// Correct files that exist are kept, packed or unpacked. A download goes to a temporary file, is checked, and only
/// then gets its name; a failure leaves nothing behind.
pub fn fetch(name: &str, data_dir: &Path, mirror: Option<&str>, progress: &mut Progress) -> Result<Vec<PathBuf>> {
    let options = FetchOptions { mirror: mirror.map(String::from), ..FetchOptions::default() };
    fetch_set(data_set(name)?, data_dir, &options, progress)
}

/// Downloads any data set, as [`fetch`] does.
pub fn fetch_set(
    set: &DataSet, data_dir: &Path, options: &FetchOptions, progress: &mut Progress,
) -> Result<Vec<PathBuf>> {
    if let Some(paths) = good_unpacked(set, data_dir)? {
        return Ok(paths);
    }
    let folder = data_dir.join(set.name);
    let new = !folder.exists();
    std::fs::create_dir_all(&folder).map_err(|e| DataError::writing(&folder, e))?;
    let result = fetch_files(set, &folder, options, progress);
    if result.is_err() && new {
        // A folder that cannot be removed stays; it is not empty if one of several files arrived.
        _ = std::fs::remove_dir(&folder);
    }
    result
}

fn fetch_files(set: &DataSet, folder: &Path, options: &FetchOptions, progress: &mut Progress) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for download in set.downloads {
        let path = folder.join(download.file);
        if !path.is_file() || judge(&path, download)? != Verdict::Good {
            fetch_file(download, &path, options, progress)?;
        }
        paths.push(path);
    }
    Ok(paths)
}

/// Tries the locations one after the other.
fn fetch_file(download: &KnownFile, path: &Path, options: &FetchOptions, progress: &mut Progress) -> Result<()> {
    let locations = match &options.mirror {
        Some(mirror) => vec![mirror.as_str()],
        None => download.locations.to_vec(),
    };
    let mut problems = Vec::new();
    for location in locations {
        let url = format!("{}/{}", location.trim_end_matches('/'), download.file);
        match fetch_from(&url, download, path, options, progress) {
            Ok(()) => return Ok(()),
            // Another location does not help against a full disk.
            Err(Failure::Here(error)) => return Err(error),
            Err(Failure::There(problem)) => problems.push(format!("{url}: {problem}")),
        }
    }
    let folder = path.parent().unwrap_or(path).display();
    let hint = format!("check the network, give another source with `--mirror URL`, or put the file into {folder}");
    let (file, problems) = (download.file, problems.join("; "));
    Err(DataError::Invalid(format!("cannot download {file}: {problems}; {hint}")))
}

/// The side that failed: another location helps only against `There`.
enum Failure {
    Here(DataError),
    There(String),
}

fn fetch_from(
    url: &str, download: &KnownFile, path: &Path, options: &FetchOptions, progress: &mut Progress,
) -> std::result::Result<(), Failure> {
    let there = |e: ureq::Error| Failure::There(explain(&e));
    let mut response = agent(url, options.patience).get(url).call().map_err(there)?;
    let announced = response.body().content_length();
    if let Some(size) = announced.filter(|size| *size != download.bytes) {
        return Err(Failure::There(format!("the server has a file of {size} bytes, not of {}", download.bytes)));
    }
    let here = |e: io::Error| Failure::Here(DataError::writing(path, e));
    let mut file = temporary(path).map_err(here)?;
    let mut body = response.body_mut().as_reader();
    let (mut buffer, mut done) = (vec![0; 1 << 16], 0);
    progress(download.file, done, Some(download.bytes));
    loop {
        let read = match body.read(&mut buffer) {
            Ok(read) => read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => {
                let cut = format!("the connection broke after {done} of {} bytes ({e})", download.bytes);
                return Err(Failure::There(cut));
            }
        };
        if read == 0 {
            break;
        }
        done += read as u64;
        // Stopped at once: a server that never ends must not fill the disk.
        if done > download.bytes {
            return Err(Failure::There(format!("the server sends more than {} bytes", download.bytes)));
        }
        file.write_all(buffer.get(..read).unwrap_or_default()).map_err(here)?;
        progress(download.file, done, Some(download.bytes));
    }
    file.as_file().sync_all().map_err(here)?;
    match judge(file.path(), download).map_err(Failure::Here)? {
        Verdict::Good => {}
        Verdict::Wrong(difference) => return Err(Failure::There(format!("the downloaded file {difference}"))),
        _ => return Err(Failure::There("the downloaded file is incomplete".into())),
    }
    file.persist(path).map_err(|e| here(e.error))?;
    Ok(())
}

/// A file in the same folder, so that one rename puts it into place; it vanishes without that rename.
fn temporary(path: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".fetch-").suffix(".part");
    // A temporary file is private by default, but a data set may be shared as the user's umask says.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(path.parent().unwrap_or(Path::new(".")))
}

fn agent(url: &str, patience: Duration) -> ureq::Agent {
    let wait = Some(patience);
    let mut config = ureq::Agent::config_builder()
        .timeout_resolve(wait)
        .timeout_connect(wait)
        .timeout_send_request(wait)
        .timeout_recv_response(wait)
        // For each read, not for the whole: a slow line may take hours.
        .timeout_per_read(wait)
        .user_agent(concat!("sab/", env!("CARGO_PKG_VERSION")));
    // A proxy cannot reach a mirror on this machine.
    let host = url.split_once("://").map_or("", |(_, rest)| rest);
    if ["localhost", "127.", "[::1]"].iter().any(|own| host.starts_with(own)) {
        config = config.proxy(None);
    }
    config.build().into()
}

/// The error of the network in the words of its user.
fn explain(error: &ureq::Error) -> String {
    match error {
        ureq::Error::StatusCode(404) => "the server does not have it (HTTP 404)".into(),
        ureq::Error::StatusCode(code) => format!("the server refuses it (HTTP {code})"),
        ureq::Error::HostNotFound => "there is no such server, or no network".into(),
        ureq::Error::Tls(_) | ureq::Error::Rustls(_) => format!("no secure connection to the server ({error})"),
        ureq::Error::Timeout(_) => "the server does not answer in time".into(),
        ureq::Error::ConnectionFailed => "no connection to the server".into(),
        ureq::Error::BadUri(_) => "this is not a URL such as https://example.org/data".into(),
        ureq::Error::Io(e) => format!("no connection to the server ({e})"),
        other => other.to_string(),
    }
}
