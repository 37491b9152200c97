//! Data sets: loading, fetching and checking them.
//!
//! Loaders never trust a file. A missing, truncated, mislabelled or hostile one is an error that names the file, the
//! fault and the way to a good one.

mod alphabet;
mod catalogue;
mod cifar10;
mod digest;
mod error;
mod fetch;
mod files;
mod images;
mod mnist;
mod ptb;
mod table;
mod text;
mod verify;

pub use alphabet::{Alphabet, MOST_SYMBOLS};
pub use catalogue::{CATALOGUE, Check, DataSet, KnownFile, data_set};
pub use cifar10::{load_cifar10, parse_cifar10};
pub(crate) use digest::hexadecimal;
pub use error::{DataError, Result};
pub use fetch::{FetchOptions, Progress, fetch, fetch_set};
pub use images::{ImageSet, Images};
pub use mnist::{load_mnist, parse_idx};
pub use ptb::load_ptb;
pub use table::{
    AnswerKind, AnswerOn, Answers, Question, Questions, Sequence, Standardization, Table, TableLayout, TableSplit,
    load_questions, load_table, parse_questions, parse_table,
};
pub use text::{TextSplit, load_text, load_text_as, load_text8, parse_text};
pub use verify::{FileReport, Verdict, verify, verify_set};
