//! Compares files with the catalogue.

use super::catalogue::{Check, KnownFile};
use super::error::{DataError, Result};
use super::files::{members, open};
use super::verify::Verdict;
use sha2::{Digest, Sha256};
use std::io::{self, Read};
use std::path::Path;

/// The sha256 as the catalogue writes it.
pub(crate) fn hexadecimal(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The sha256 of a file's content, in the same form.
pub(crate) fn sha256_of(bytes: &[u8]) -> String {
    hexadecimal(Sha256::new_with_prefix(bytes))
}

/// Judges a file by what the catalogue says about it.
pub(crate) fn judge(path: &Path, known: &KnownFile) -> Result<Verdict> {
    let size = std::fs::metadata(path).map_err(|e| DataError::reading(path, e, ""))?.len();
    if size > known.bytes || (size < known.bytes && known.prefixes.is_empty()) {
        return Ok(Verdict::Wrong(format!("has {size} bytes, not {}", known.bytes)));
    }
    let sha256 = match known.check {
        Check::Sha256(sha256) => sha256,
        Check::Members(members) => return judge_members(path, members),
    };
    let lengths: Vec<u64> = known.prefixes.iter().map(|(length, _)| *length).filter(|length| *length <= size).collect();
    let (sums, sum, read) = prefix_sums(open(path, "")?, &lengths).map_err(|e| DataError::reading(path, e, ""))?;
    if known.prefixes.iter().zip(&sums).any(|((_, right), found)| right != found) {
        return Ok(Verdict::Wrong(format!("does not begin like {}", known.file)));
    }
    Ok(match lengths.last() {
        _ if read == known.bytes && sum == sha256 => Verdict::Good,
        _ if read == known.bytes => Verdict::Wrong(format!("has the sha256 {sum}, not {sha256}")),
        None => Verdict::Wrong(format!("has {read} bytes, not {}", known.bytes)),
        Some(checked) => {
            let part = format!("the first {read} of {} bytes", known.bytes);
            let rest = if *checked == read { String::new() } else { format!(", of which {checked} could be checked") };
            Verdict::Prefix(part + &rest)
        }
    })
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
fn hash_all(mut reader: impl Read, hash: &mut Sha256) -> io::Result<u64> {
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
fn judge_members(path: &Path, known: &[KnownFile]) -> Result<Verdict> {
    let names: Vec<&str> = known.iter().map(|member| member.file).collect();
    let most_bytes = known.iter().map(|member| member.bytes).max().unwrap_or(0);
    let contents = match members(path, &names, most_bytes, "") {
        Ok(contents) => contents,
        Err(DataError::Bad { problem, .. }) => return Ok(Verdict::Wrong(problem)),
        Err(other) => return Err(other),
    };
    for (member, content) in known.iter().zip(contents) {
        let sum = sha256_of(&content);
        if let Check::Sha256(right) = member.check
            && sum != right
        {
            return Ok(Verdict::Wrong(format!("has a member {} with the sha256 {sum}, not {right}", member.file)));
        }
    }
    Ok(Verdict::Good)
}
