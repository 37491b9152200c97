//! Text as a sequence of characters: text8, and any UTF-8 file.

use super::alphabet::{Alphabet, MOST_SYMBOLS};
use super::digest::sha256_of;
use super::error::{DataError, Result};
use super::files::{fetch_hint, first_file, open, read_file, read_whole};
use std::io::{Read, Seek};
use std::path::Path;

/// The size of the complete text8.
pub(crate) const TEXT8_BYTES: usize = 100_000_000;
/// The largest file that [`load_text`] reads: some 3 GB of memory.
const MOST_TEXT_BYTES: u64 = 1 << 30;
/// The shortest text worth splitting.
const FEWEST_CHARACTERS: usize = 1000;
const NOT_UTF8: &str = "convert it to UTF-8, for example with iconv";

/// A text in three parts, each a sequence of numbers of the alphabet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextSplit {
    /// The symbols behind the numbers.
    pub alphabet: Alphabet,
    /// The part to learn from.
    pub train: Vec<u16>,
    /// The part that selects the best model.
    pub validation: Vec<u16>,
    /// The part that judges the result.
    pub test: Vec<u16>,
    /// A remark for readers of the metrics, if there is one.
    pub note: Option<String>,
    /// The SHA-256 of the file, if it is one of the user's own.
    pub sha256: Option<String>,
}

/// The starts of validation and test in `length` symbols: 90 % train, 5 % validation, the rest test.
fn borders(length: usize) -> (usize, usize) {
    // Divided first: no overflow. The remainders go to train (of tenths) and to test (of twentieths).
    let validation = length / 20;
    let train = length - 2 * validation - (length % 20) / 10;
    (train, train + validation)
}

/// Splits a sequence of symbols; the part for training keeps the memory.
fn split(alphabet: Alphabet, mut train: Vec<u16>, note: Option<String>) -> TextSplit {
    let (validation, test) = borders(train.len());
    let test = train.split_off(test);
    let validation = train.split_off(validation);
    TextSplit { alphabet, train, validation, test, note, sha256: None }
}

/// Loads text8 from `data_dir/text8/` or `data_dir/`: `text8.zip` or, if there is none, the unpacked file `text8`.
///
/// The first 90 % are for training, 5 % for validation, 5 % for the test. A file shorter than the complete 100,000,000
/// bytes is accepted as a prefix, and the note says so.
pub fn load_text8(data_dir: &Path) -> Result<TextSplit> {
    let hint = fetch_hint("text8", data_dir);
    let home = data_dir.join("text8");
    // The archive comes first, so that fetching it replaces an unpacked file that is broken or a prefix.
    if let Some(archive) = first_file([home.join("text8.zip"), data_dir.join("text8.zip")]) {
        let bytes = unzip(open(&archive, &hint)?, "text8", TEXT8_BYTES as u64, &archive, &hint)?;
        return parse_text8(&archive, bytes, &hint);
    }
    // `data_dir/text8` is the usual folder, or the file itself.
    let path = first_file([home.join("text8"), home.clone()]).unwrap_or_else(|| home.join("text8.zip"));
    let bytes = read_file(&path, TEXT8_BYTES as u64, &hint)?;
    parse_text8(&path, bytes, &hint)
}

fn unzip(archive: impl Read + Seek, member: &str, limit: u64, path: &Path, hint: &str) -> Result<Vec<u8>> {
    let corrupt = |e: zip::result::ZipError| DataError::bad(path, format!("is not an intact zip archive ({e})"), hint);
    let mut archive = zip::ZipArchive::new(archive).map_err(corrupt)?;
    let file = match archive.by_name(member) {
        Err(zip::result::ZipError::FileNotFound) => {
            return Err(DataError::bad(path, format!("lacks the member {member}"), hint));
        }
        other => other.map_err(corrupt)?,
    };
    read_whole(file, limit, path, hint)
}

/// Turns the content of text8 into symbols: space is 0, a to z are 1 to 26.
fn parse_text8(path: &Path, bytes: Vec<u8>, hint: &str) -> Result<TextSplit> {
    let mut numbers = Vec::with_capacity(bytes.len());
    for (offset, &byte) in bytes.iter().enumerate() {
        numbers.push(match byte {
            b' ' => 0,
            b'a'..=b'z' => u16::from(byte - b'a') + 1,
            _ => {
                let shown = byte.escape_ascii();
                let problem = format!("holds the byte `{shown}` at offset {offset}, but text8 has only a-z and space");
                return Err(DataError::bad(path, problem, hint));
            }
        });
    }
    too_short(path, numbers.len(), hint)?;
    let prefix = |length| {
        format!("a prefix of text8 ({length} of {TEXT8_BYTES} bytes): metrics do not compare with published ones")
    };
    let note = (numbers.len() < TEXT8_BYTES).then(|| prefix(numbers.len()));
    Ok(split(Alphabet::new([' '].into_iter().chain('a'..='z').collect())?, numbers, note))
}

fn too_short(path: &Path, characters: usize, hint: &str) -> Result<()> {
    if characters >= FEWEST_CHARACTERS {
        return Ok(());
    }
    let problem = match characters {
        0 => "is empty".into(),
        n => format!("is too short: it has {n} characters and needs {FEWEST_CHARACTERS}"),
    };
    Err(DataError::bad(path, problem, hint))
}

/// Loads any UTF-8 text of at least 1000 characters: the first 90 % for training, 5 % for validation, 5 % for the test.
///
/// The alphabet consists of all characters that occur. A byte order mark at the beginning is dropped.
pub fn load_text(path: &Path) -> Result<TextSplit> {
    parse_text(path, &read_text(path)?)
}

/// Loads all of a UTF-8 text in the symbols of an alphabet; the error for a character outside the alphabet names it.
pub fn load_text_as(path: &Path, alphabet: &Alphabet) -> Result<Vec<u16>> {
    let bytes = read_text(path)?;
    let text = utf8(path, &bytes, NOT_UTF8)?;
    alphabet.encode(text).map_err(|why| match why {
        DataError::UnknownCharacter { character, position, symbols } => {
            let line = 1 + text.chars().take(position).filter(|character| *character == '\n').count();
            let problem =
                format!("has {character:?} in line {line}, which is not one of the {symbols} symbols of the model");
            DataError::bad(path, problem, "give a text in the characters that the model learned")
        }
        other => other,
    })
}

fn read_text(path: &Path) -> Result<Vec<u8>> {
    let hint = "give the path of a text file";
    read_whole(open(path, hint)?, MOST_TEXT_BYTES, path, "give a smaller file, or a part of it")
}

/// Splits the content of a text file as [`load_text`] does; `path` is the name used in errors.
pub fn parse_text(path: &Path, bytes: &[u8]) -> Result<TextSplit> {
    let text = utf8(path, bytes, NOT_UTF8)?;
    too_short(path, text.chars().count(), "give a longer text")?;
    let alphabet = Alphabet::of(text.chars()).map_err(|_| {
        let problem = format!("has more than {MOST_SYMBOLS} different characters");
        DataError::bad(path, problem, "give a text in fewer scripts")
    })?;
    let numbers = alphabet.encode(text)?;
    Ok(TextSplit { sha256: Some(sha256_of(bytes)), ..split(alphabet, numbers, None) })
}

/// The content of a file as text, without a byte order mark; a byte that is not UTF-8 is named by its offset.
pub(crate) fn utf8<'a>(path: &Path, bytes: &'a [u8], hint: &str) -> Result<&'a str> {
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let problem = format!("is not UTF-8 text: the byte at offset {} does not fit", e.valid_up_to());
        DataError::bad(path, problem, hint)
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::borders;

    #[test]
    fn borders_are_at_90_and_95_percent() {
        assert_eq!(borders(100_000_000), (90_000_000, 95_000_000));
        assert_eq!(borders(1000), (900, 950));
        for length in 0..5000 {
            let (validation, test) = borders(length);
            assert!(validation <= test && test <= length);
            assert!(length < 1000 || (test > validation && length > test));
            assert!(validation.abs_diff(length * 9 / 10) <= 2, "{length}");
        }
    }
}
