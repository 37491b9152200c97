//! [`DataError`]: the faults of data files and their hints.

use std::io;
use std::path::{Path, PathBuf};

/// The result of a data function.
pub type Result<T> = std::result::Result<T, DataError>;

/// A fault in a data file, a download or a request for data. The text names the file, the fault and the hint.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A file that is needed does not exist.
    #[error("{} does not exist; {hint}", path.display())]
    Missing {
        /// The path where the file is expected.
        path: PathBuf,
        /// How to get it.
        hint: String,
    },
    /// The system refuses to read or write a file or folder, for example because the disk is full.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// The attempted action.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's message.
        source: io::Error,
    },
    /// The content of a file is wrong.
    #[error("{} {problem}; {hint}", path.display())]
    Bad {
        /// The file.
        path: PathBuf,
        /// The fault, as the rest of a sentence that begins with the file's name.
        problem: String,
        /// How to get a good file.
        hint: String,
    },
    /// One line of a table is wrong.
    #[error("{}, line {line}{}: {problem}", path.display(), in_column(column.as_deref()))]
    BadRow {
        /// The table.
        path: PathBuf,
        /// The line, counted from 1; the header is line 1.
        line: u64,
        /// The column, if a single one is wrong.
        column: Option<String>,
        /// The fault.
        problem: String,
    },
    /// A text has a character that is not in the alphabet.
    #[error("character {character:?} at position {position} is not in the alphabet of {symbols} symbols")]
    UnknownCharacter {
        /// The character.
        character: char,
        /// How many characters stand before it.
        position: usize,
        /// The size of the alphabet.
        symbols: usize,
    },
    /// There is no data set of this name.
    #[error("{0}")]
    UnknownSet(String),
    /// A download that failed at every location, or a value that makes no sense.
    #[error("{0}")]
    Invalid(String),
}

impl DataError {
    /// Wraps a refusal to read; a file that does not exist becomes [`DataError::Missing`].
    pub(crate) fn reading(path: &Path, source: io::Error, hint: &str) -> Self {
        match source.kind() {
            io::ErrorKind::NotFound => Self::missing(path, hint),
            _ => Self::File { action: "read", path: path.into(), source },
        }
    }

    /// Says that a file does not exist; the hint for a file that was never there lacks "again".
    pub(crate) fn missing(path: &Path, hint: &str) -> Self {
        Self::Missing { path: path.into(), hint: hint.trim_end_matches(" again").into() }
    }

    /// Wraps a refusal to write.
    pub(crate) fn writing(path: &Path, source: io::Error) -> Self {
        Self::File { action: "write", path: path.into(), source }
    }

    /// Describes the fault of a file.
    pub(crate) fn bad(path: &Path, problem: impl Into<String>, hint: &str) -> Self {
        Self::Bad { path: path.into(), problem: problem.into(), hint: hint.into() }
    }
}

fn in_column(column: Option<&str>) -> String {
    column.map(|name| format!(", column `{name}`")).unwrap_or_default()
}
