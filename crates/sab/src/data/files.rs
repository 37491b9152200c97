//! Reads files with a limit: the memory taken never depends on a size that a file claims.

use super::error::{DataError, Result};
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// The first two bytes of every gzip file.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// More than any archive of a known data set unpacks to; a longer one is not read to its end.
const MOST_UNPACKED: u64 = 1 << 30;

/// The sentence that ends an error about a file of a known data set.
pub(crate) fn fetch_hint(set: &str, data_dir: &Path) -> String {
    format!("run `sab data fetch {set} --data-dir {}` to download it again", shell_word(data_dir))
}

/// The path as a word for the shell, so that users can paste the command.
fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+~:\\".contains(c);
    if !text.is_empty() && text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// The first of the candidates that is a file.
pub(crate) fn first_file(candidates: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    candidates.into_iter().find(|path| path.is_file())
}

/// Opens a file for buffered reading.
pub(crate) fn open(path: &Path, hint: &str) -> Result<BufReader<File>> {
    let file = File::open(path).map_err(|e| DataError::reading(path, e, hint))?;
    Ok(BufReader::with_capacity(1 << 16, file))
}

/// Reads a whole file that may have at most `limit` bytes.
pub(crate) fn read_file(path: &Path, limit: u64, hint: &str) -> Result<Vec<u8>> {
    read_whole(open(path, hint)?, limit, path, hint)
}

/// Opens a file and unpacks it on the way if its content, not its name, says that it is gzipped: some browsers unpack
/// a download and keep the name.
pub(crate) fn open_maybe_gzip(path: &Path, hint: &str) -> Result<Box<dyn Read>> {
    let mut file = open(path, hint)?;
    let start = file.fill_buf().map_err(|e| DataError::reading(path, e, hint))?;
    if start.starts_with(&GZIP_MAGIC) { Ok(Box::new(MultiGzDecoder::new(file))) } else { Ok(Box::new(file)) }
}

/// The result of reading a stream.
pub(crate) struct Content {
    /// The bytes that could be read.
    pub bytes: Vec<u8>,
    /// Why reading ended early, if it did.
    pub broken: Option<io::Error>,
    /// Whether there was more than the limit; `bytes` then has one byte more than the limit.
    pub too_long: bool,
}

/// Reads at most `limit` bytes, and one more to see whether there are more. Memory grows with what really arrives.
pub(crate) fn read_up_to(reader: impl Read, limit: u64) -> Content {
    let mut bytes = Vec::new();
    let broken = reader.take(limit.saturating_add(1)).read_to_end(&mut bytes).err();
    let too_long = bytes.len() as u64 > limit;
    Content { bytes, broken, too_long }
}

/// Reads a whole stream that may have at most `limit` bytes; a broken or longer one is an error.
pub(crate) fn read_whole(reader: impl Read, limit: u64, path: &Path, hint: &str) -> Result<Vec<u8>> {
    let content = read_up_to(reader, limit);
    if let Some(error) = content.broken {
        return Err(broken_stream(path, error, content.bytes.len(), hint));
    }
    if content.too_long {
        return Err(DataError::bad(path, format!("holds more than {limit} bytes, the limit"), hint));
    }
    Ok(content.bytes)
}

/// The error for a stream that broke off after `read` bytes, if that is known.
pub(crate) fn broken_stream(path: &Path, error: io::Error, read: usize, hint: &str) -> DataError {
    // The system's own errors, such as "is a directory", say nothing about the content.
    if error.raw_os_error().is_some() {
        return DataError::reading(path, error, hint);
    }
    let after = if read > 0 { format!(", after {read} bytes") } else { String::new() };
    let problem = match error.kind() {
        io::ErrorKind::UnexpectedEof => format!("is truncated: it ends in the middle{after}"),
        _ => format!("cannot be unpacked, the file is corrupt ({error}){after}"),
    };
    DataError::bad(path, problem, hint)
}

/// The members of a gzipped tar archive with these names, whatever their folders, in the order of the names.
///
/// A member may have at most `most_bytes`; of the whole archive no more than [`MOST_UNPACKED`] bytes are read.
pub(crate) fn members(path: &Path, wanted: &[impl AsRef<str>], most_bytes: u64, hint: &str) -> Result<Vec<Vec<u8>>> {
    let mut archive = tar::Archive::new(open_maybe_gzip(path, hint)?.take(MOST_UNPACKED));
    let broken = |e: io::Error| broken_stream(path, e, 0, hint);
    let mut found: Vec<Option<Vec<u8>>> = vec![None; wanted.len()];
    for entry in archive.entries().map_err(broken)? {
        let entry = entry.map_err(broken)?;
        let name = entry.path().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        let Some(place) = wanted.iter().position(|known| name.as_deref() == Some(known.as_ref())) else { continue };
        let size = entry.size();
        let bytes = read_whole(entry, most_bytes, path, hint)?;
        if (bytes.len() as u64) < size {
            let name = wanted[place].as_ref();
            let problem = format!("is truncated: {name} ends after {} of {size} bytes", bytes.len());
            return Err(DataError::bad(path, problem, hint));
        }
        found[place].get_or_insert(bytes);
    }
    // The archive ends before the checksum of gzip does.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(broken)?;
    let lacks = |name: &str| DataError::bad(path, format!("lacks the member {name}"), hint);
    wanted.iter().zip(found).map(|(name, found)| found.ok_or_else(|| lacks(name.as_ref()))).collect()
}
