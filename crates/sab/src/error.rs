//! [`LabError`]: what can go wrong in the laboratory, and the exit code that says so.

use std::io;
use std::path::{Path, PathBuf};

/// A result of the laboratory.
pub type Result<T> = std::result::Result<T, LabError>;

/// An error of the laboratory. Its message says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The command line or a configuration.
    #[error("{0}")]
    Config(String),
    /// Data that is missing or wrong.
    #[error(transparent)]
    Data(#[from] crate::data::DataError),
    /// A run directory, checkpoint or model file that is missing, foreign or damaged.
    #[error("{0}")]
    Run(String),
    /// A file that cannot be read or written.
    #[error("cannot {action} {}: {why}{}", path.display(), hint(why))]
    File {
        /// The attempted action.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's message.
        why: String,
    },
    /// A figure that cannot be drawn.
    #[error("cannot draw the figure: {0}")]
    Figure(String),
    /// Training met too many losses or gradients that are not finite.
    #[error("{0}")]
    Diverged(String),
    /// Training was stopped by this signal, after a checkpoint.
    #[error("stopped by {}; {again} continues from update {update}", signal_name(*signal))]
    Interrupted {
        /// SIGINT or SIGTERM.
        signal: i32,
        /// The command that continues the run.
        again: String,
        /// Updates done.
        update: u64,
    },
    /// An evaluation was stopped by this signal.
    #[error("stopped by {}: {left}", signal_name(*signal))]
    Stopped {
        /// SIGINT or SIGTERM.
        signal: i32,
        /// What is saved and what is not.
        left: String,
    },
    /// The model refused what it was given.
    #[error("the model: {0}")]
    Model(#[from] attentive::SabError),
}

fn signal_name(signal: i32) -> &'static str {
    if signal == signal_hook::consts::SIGTERM { "SIGTERM" } else { "Ctrl-C" }
}

/// Advice that fits the system's message.
fn hint(why: &str) -> &'static str {
    let says = |word: &str| why.to_lowercase().contains(word);
    if says("no space") || says("quota") || says("too large") {
        "; make room and resume the run"
    } else if says("permission") || says("read-only") {
        "; choose a place you can write to (--run, --results or --out)"
    } else {
        ""
    }
}

impl LabError {
    pub(crate) fn file(action: &'static str, path: &Path, why: &io::Error) -> Self {
        Self::File { action, path: path.to_path_buf(), why: why.to_string() }
    }

    /// The exit code of the command; `sab --help` lists them.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_) | Self::Data(crate::data::DataError::UnknownSet(_)) => 2,
            Self::Data(_) => 3,
            Self::Run(_) | Self::File { .. } | Self::Figure(_) => 4,
            Self::Diverged(_) => 5,
            Self::Model(_) => 1,
            // As shells report a process ended by a signal.
            Self::Interrupted { signal, .. } | Self::Stopped { signal, .. } => 128 + *signal as u8,
        }
    }
}
