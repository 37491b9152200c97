//! Telling whether a file is what the catalogue says.

use super::catalogue::{Check, Download, KnownFile};
use super::error::{DataError, Result};
use super::files::{member_name, open, open_maybe_gzip};
use super::verify::Verdict;
use sha2::{Digest, Sha256};
use std::io::{self, Read};
use std::path::Path;

/// The sha256 in the form in which the catalogue writes it.
pub(crate) fn hexadecimal(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The sha256 of a file's content, in the same form.
pub(crate) fn sha256_of(bytes: &[u8]) -> String {
    hexadecimal(Sha256::new_with_prefix(bytes))
}

/// Judges a file against a download of the catalogue.
pub(crate) fn judge_download(path: &Path, download: &Download) -> Result<Verdict> {
    let size = size_of(path)?;
    if size != download.bytes {
        return Ok(Verdict::Wrong(format!("has {size} bytes, not {}", download.bytes)));
    }
    match download.check {
        Check::Sha256(sha256) => {
            let file = KnownFile { file: download.file, bytes: download.bytes, sha256, prefixes: &[] };
            judge_file(path, &file)
        }
        Check::Members(members) => match judge_members(path, members) {
            Ok(verdict) => Ok(verdict),
            // Wherever unpacking fails, the archive is at fault.
            Err(DataError::Unreadable { source, .. }) => Ok(Verdict::Wrong(format!("cannot be unpacked ({source})"))),
            Err(other) => Err(other),
        },
    }
}

/// Judges an unpacked file.
pub(crate) fn judge_file(path: &Path, known: &KnownFile) -> Result<Verdict> {
    let size = size_of(path)?;
    if size > known.bytes || (size < known.bytes && known.prefixes.is_empty()) {
        return Ok(Verdict::Wrong(format!("has {size} bytes, not {}", known.bytes)));
    }
    let lengths: Vec<u64> = known.prefixes.iter().map(|(length, _)| *length).filter(|length| *length <= size).collect();
    let (sums, sum, read) = prefix_sums(open(path, "")?, &lengths).map_err(|e| DataError::reading(path, e, ""))?;
    if known.prefixes.iter().zip(&sums).any(|((_, right), found)| right != found) {
        return Ok(Verdict::Wrong(format!("its beginning is not that of {}", known.file)));
    }
    if read == known.bytes {
        return Ok(if sum == known.sha256 { Verdict::Good } else { wrong_sum(&sum, known.sha256) });
    }
    match lengths.last() {
        None => Ok(Verdict::Wrong(format!("has {read} bytes, not {}", known.bytes))),
        Some(checked) => {
            let part = format!("the first {read} of {} bytes", known.bytes);
            let rest = if *checked == read { String::new() } else { format!(", of which {checked} could be checked") };
            Ok(Verdict::Prefix(part + &rest))
        }
    }
}

fn wrong_sum(found: &str, right: &str) -> Verdict {
    Verdict::Wrong(format!("has the sha256 {found}, not {right}"))
}

fn size_of(path: &Path) -> Result<u64> {
    Ok(std::fs::metadata(path).map_err(|e| DataError::reading(path, e, ""))?.len())
}

/// The sums of the beginnings of the given lengths, in rising order, and of the whole, and the length of the whole.
fn prefix_sums(mut reader: impl Read, lengths: &[u64]) -> io::Result<(Vec<String>, String, u64)> {
    let (mut hash, mut read, mut sums) = (Sha256::new(), 0, Vec::new());
    for &length in lengths {
        read += hash_all((&mut reader).take(length.saturating_sub(read)), &mut hash)?;
        sums.push(hexadecimal(hash.clone()));
    }
    read += hash_all(reader, &mut hash)?;
    Ok((sums, hexadecimal(hash), read))
}

/// Hashes a stream to its end and says how long it is.
pub(crate) fn hash_all(mut reader: impl Read, hash: &mut Sha256) -> io::Result<u64> {
    let mut buffer = vec![0; 1 << 16];
    let mut total = 0;
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(total),
            Ok(n) => {
                hash.update(buffer.get(..n).unwrap_or_default());
                total += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// Judges a gzipped tar archive by its members.
fn judge_members(path: &Path, members: &[KnownFile]) -> Result<Verdict> {
    let unreadable = |source: io::Error| DataError::Unreadable { path: path.into(), source };
    let mut archive = tar::Archive::new(open_maybe_gzip(path, "")?);
    let mut seen = vec![false; members.len()];
    for entry in archive.entries().map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = member_name(&entry);
        let Some((known, seen)) = members.iter().zip(&mut seen).find(|(m, _)| name.as_deref() == Some(m.file)) else {
            continue;
        };
        let mut hash = Sha256::new();
        hash_all(entry, &mut hash).map_err(unreadable)?;
        let sum = hexadecimal(hash);
        if sum != known.sha256 {
            return Ok(Verdict::Wrong(format!("its member {} has the sha256 {sum}, not {}", known.file, known.sha256)));
        }
        *seen = true;
    }
    match members.iter().zip(seen).find(|(_, seen)| !seen) {
        Some((known, _)) => Ok(Verdict::Wrong(format!("lacks the member {}", known.file))),
        None => Ok(Verdict::Good),
    }
}
