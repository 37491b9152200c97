//! The Penn Treebank as characters, in Mikolov's version with 10,000 words.
//!
//! The symbols are those of his character files: a line's characters, with single blanks between words, and one
//! end-of-sentence symbol (`\n`) after every line. The word files have the same lines, so they serve as well.

use super::alphabet::Alphabet;
use super::error::{DataError, Result};
use super::files::{fetch_hint, first_file, members, read_file};
use super::text::{TextSplit, utf8};
use std::path::{Path, PathBuf};

pub(crate) const ARCHIVE: &str = "simple-examples.tgz";
/// The folders that hold the files, below the one in which a user unpacked the archive.
pub(crate) const FOLDERS: [&str; 3] = ["", "simple-examples/data", "data"];
const PARTS: [&str; 3] = ["train", "valid", "test"];
/// Ten times the largest of the files.
const MOST_FILE_BYTES: u64 = 100_000_000;

/// How a file writes its characters.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// `ptb.char.*.txt`: characters separated by blanks, `_` for a blank.
    Characters,
    /// `ptb.*.txt`: words.
    Words,
}

impl Form {
    fn file(self, part: &str) -> String {
        if self == Form::Characters { format!("ptb.char.{part}.txt") } else { format!("ptb.{part}.txt") }
    }
}

/// Loads the Penn Treebank from `data_dir/ptb/` or `data_dir/`: the archive `simple-examples.tgz`, the character files
/// `ptb.char.{train,valid,test}.txt` or the word files `ptb.{train,valid,test}.txt`, the first of these that exists.
/// The files may also be in `simple-examples/data/`. All of them give the same symbols.
pub fn load_ptb(data_dir: &Path) -> Result<TextSplit> {
    let hint = fetch_hint("ptb", data_dir);
    let homes = [data_dir.join("ptb"), data_dir.to_path_buf()];
    // The archive comes first, so that fetching it replaces a broken unpacked file.
    if let Some(archive) = first_file(homes.iter().map(|home| home.join(ARCHIVE))) {
        // `sab data verify` checks the archive by its word files, so these are read.
        let names = PARTS.map(|part| Form::Words.file(part));
        let contents = members(&archive, &names, MOST_FILE_BYTES, &hint)?;
        let paths = names.iter().map(|name| archive.join(name));
        return assemble(Form::Words, &paths.zip(contents).collect::<Vec<_>>(), &hint);
    }
    let folders = homes.iter().flat_map(|home| FOLDERS.map(|folder| home.join(folder)));
    let forms = folders.flat_map(|folder| [(folder.clone(), Form::Characters), (folder, Form::Words)]);
    // Part of a set is better than none: the error then names the missing files.
    let found = |least: usize| {
        forms
            .clone()
            .find(|(folder, form)| PARTS.iter().filter(|p| folder.join(form.file(p)).is_file()).count() >= least)
    };
    let Some((folder, form)) = found(PARTS.len()).or_else(|| found(1)) else {
        return Err(DataError::missing(&homes[0].join(ARCHIVE), &hint));
    };
    let mut files = Vec::new();
    for part in PARTS {
        let path = folder.join(form.file(part));
        let bytes = read_file(&path, MOST_FILE_BYTES, &hint)?;
        files.push((path, bytes));
    }
    assemble(form, &files, &hint)
}

/// Turns the three files, in the order of [`PARTS`], into symbols of their common alphabet.
fn assemble(form: Form, files: &[(PathBuf, Vec<u8>)], hint: &str) -> Result<TextSplit> {
    let texts = files.iter().map(|(path, bytes)| sentences(path, bytes, form, hint)).collect::<Result<Vec<_>>>()?;
    let alphabet = Alphabet::of(texts.iter().flat_map(|text| text.chars()))?;
    let mut parts = texts.iter().map(|text| alphabet.encode(text));
    let mut next = || parts.next().unwrap_or_else(|| Ok(Vec::new()));
    let (train, validation, test) = (next()?, next()?, next()?);
    Ok(TextSplit { alphabet, train, validation, test, note: None, sha256: None })
}

/// The sentences of a file, each ended by `\n`.
fn sentences(path: &Path, bytes: &[u8], form: Form, hint: &str) -> Result<String> {
    let content = utf8(path, bytes, hint)?;
    let mut text = String::with_capacity(content.len());
    for (line, number) in content.lines().zip(1..) {
        // The character files end with a blank after the last line end: that is no sentence.
        if line.trim().is_empty() {
            continue;
        }
        for (word, place) in line.split_whitespace().zip(0..) {
            match form {
                Form::Words => {
                    if place > 0 {
                        text.push(' ');
                    }
                    text.push_str(word);
                }
                Form::Characters => {
                    let mut characters = word.chars();
                    let (Some(character), None) = (characters.next(), characters.next()) else {
                        let problem =
                            format!("is not a character file: line {number} has `{word}` instead of a character");
                        return Err(DataError::bad(path, problem, hint));
                    };
                    text.push(if character == '_' { ' ' } else { character });
                }
            }
        }
        text.push('\n');
    }
    if text.is_empty() {
        return Err(DataError::bad(path, "is empty", hint));
    }
    Ok(text)
}
