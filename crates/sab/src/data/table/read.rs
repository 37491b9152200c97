//! Reading a table: rows are grouped by sequence, sorted by step and checked cell by cell.

use super::layout::Columns;
use super::{AnswerKind, AnswerOn, Answers, Sequence, Table, TableLayout};
use crate::data::error::{DataError, Result};
use crate::data::files::{open, read_whole};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

/// The largest file that is read.
const MOST_BYTES: u64 = 1 << 30;
/// With more different whole numbers than this, an answer is taken for a value.
const MOST_GUESSED_CLASSES: usize = 20;
const REMEDY: &str = "correct the file, or name other columns";

/// One row on its way into a sequence.
struct Row {
    line: u64,
    step: f64,
    features: Vec<f32>,
    label: String,
}

/// Loads a table of labelled sequences from a CSV file with a header, one row per step, in any order.
///
/// Rows are grouped by sequence and sorted by step. With [`AnswerOn::Last`] only the label of the last step counts; the
/// others may be empty.
pub fn load_table(path: &Path, layout: &TableLayout) -> Result<Table> {
    let remedy = "give the path of a CSV file";
    let bytes = read_whole(open(path, remedy)?, MOST_BYTES, path, "give a smaller file")?;
    parse_table(path, &bytes, layout)
}

/// Reads a table as [`load_table`] does from the content of a CSV file; `path` is the name used in errors.
pub fn parse_table(path: &Path, bytes: &[u8], layout: &TableLayout) -> Result<Table> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(bytes);
    let header: Vec<String> =
        reader.headers().map_err(|e| csv_error(path, bytes, &e))?.iter().map(String::from).collect();
    if header.iter().all(String::is_empty) {
        return Err(DataError::bad(path, "is empty", REMEDY));
    }
    let columns = layout.columns(&header).map_err(|problem| DataError::bad(path, problem, REMEDY))?;
    let cells = Cells { path, bytes, header: &header, columns: &columns };

    let mut places: HashMap<String, usize> = HashMap::new();
    let mut groups: Vec<(String, Vec<Row>)> = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|e| csv_error(path, bytes, &e))?;
        let (id, row) = cells.row(&record)?;
        let place = *places.entry(id).or_insert_with_key(|id| {
            groups.push((id.clone(), Vec::new()));
            groups.len() - 1
        });
        if let Some((_, rows)) = groups.get_mut(place) {
            rows.push(row);
        }
    }
    if groups.is_empty() {
        return Err(DataError::bad(path, "has a header but no rows", REMEDY));
    }
    for (id, rows) in &mut groups {
        cells.sort(id, rows)?;
    }
    cells.table(groups, layout)
}

/// Reads cells and names them in errors.
struct Cells<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    header: &'a [String],
    columns: &'a Columns,
}

impl Cells<'_> {
    fn error(&self, line: u64, column: usize, problem: String) -> DataError {
        let column = self.header.get(column).cloned();
        DataError::BadRow { path: self.path.into(), line, column, problem }
    }

    fn row(&self, record: &csv::StringRecord) -> Result<(String, Row)> {
        let line = line_at(self.bytes, record.position());
        // The reader has checked that every row is as long as the header.
        let text = |column: usize| record.get(column).unwrap_or_default();
        let id = text(self.columns.sequence).to_string();
        if id.is_empty() {
            return Err(self.error(line, self.columns.sequence, "the name of the sequence is empty".into()));
        }
        let step = self.number(line, self.columns.step, text(self.columns.step))?;
        let feature = |&column: &usize| self.single(line, column, text(column));
        let features = self.columns.features.iter().map(feature).collect::<Result<Vec<f32>>>()?;
        Ok((id, Row { line, step, features, label: text(self.columns.label).to_string() }))
    }

    fn number(&self, line: u64, column: usize, text: &str) -> Result<f64> {
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number),
            Ok(_) => Err(self.error(line, column, format!("`{text}` is not a finite number"))),
            Err(_) if text.is_empty() => Err(self.error(line, column, "a number is missing".into())),
            Err(_) => Err(self.error(line, column, format!("`{text}` is not a number"))),
        }
    }

    fn single(&self, line: u64, column: usize, text: &str) -> Result<f32> {
        let number = self.number(line, column, text)? as f32;
        if number.is_finite() {
            return Ok(number);
        }
        Err(self.error(line, column, format!("`{text}` is too large for a 32-bit number")))
    }

    /// Brings the rows of a sequence into the order of their steps, no two of which may be equal.
    fn sort(&self, id: &str, rows: &mut [Row]) -> Result<()> {
        rows.sort_by(|a, b| a.step.total_cmp(&b.step));
        match rows.array_windows().find(|[a, b]| a.step == b.step) {
            None => Ok(()),
            Some([a, b]) => {
                let (first, second) = (a.line.min(b.line), a.line.max(b.line));
                let problem = format!("sequence `{id}` has step {} already in line {first}", b.step);
                Err(self.error(second, self.columns.step, problem))
            }
        }
    }

    fn table(&self, groups: Vec<(String, Vec<Row>)>, layout: &TableLayout) -> Result<Table> {
        let counted = |rows: &'_ [Row]| match layout.on {
            AnswerOn::Each => 0,
            AnswerOn::Last => rows.len().saturating_sub(1),
        };
        let labelled = || groups.iter().flat_map(|(_, rows)| &rows[counted(rows)..]);
        if let Some(row) = labelled().find(|row| row.label.is_empty()) {
            let what = if layout.on == AnswerOn::Last { "last step of a sequence" } else { "step" };
            return Err(self.error(row.line, self.columns.label, format!("the label of the {what} is empty")));
        }
        let labels: BTreeSet<&str> = labelled().map(|row| row.label.as_str()).collect();
        let kind = layout.kind.unwrap_or_else(|| guess(&labels));
        let class_names = if kind == AnswerKind::Class { class_order(&labels) } else { Vec::new() };
        let numbers: HashMap<&str, usize> = class_names.iter().map(String::as_str).zip(0..).collect();

        let mut sequences = Vec::with_capacity(groups.len());
        for (id, rows) in &groups {
            let answering = &rows[counted(rows)..];
            let answers = match kind {
                AnswerKind::Class => Answers::Classes(
                    answering.iter().filter_map(|row| numbers.get(row.label.as_str()).copied()).collect(),
                ),
                AnswerKind::Value => {
                    let value = |row: &Row| self.single(row.line, self.columns.label, &row.label);
                    Answers::Values(answering.iter().map(value).collect::<Result<Vec<f32>>>()?)
                }
            };
            let features = rows.iter().flat_map(|row| row.features.iter().copied()).collect();
            sequences.push(Sequence { id: id.clone(), steps: rows.len(), features, answers });
        }
        let name = |column: usize| self.header.get(column).cloned().unwrap_or_default();
        let feature_names = self.columns.features.iter().map(|&column| name(column)).collect();
        let label_name = name(self.columns.label);
        Ok(Table { feature_names, label_name, kind, on: layout.on, class_names, sequences })
    }
}

/// Values if all labels are numbers and there are many of them or one is no whole number; otherwise classes.
fn guess(labels: &BTreeSet<&str>) -> AnswerKind {
    let numbers: Option<Vec<f64>> =
        labels.iter().map(|label| label.parse::<f64>().ok().filter(|number| number.is_finite())).collect();
    match numbers {
        Some(n) if n.len() > MOST_GUESSED_CLASSES || n.iter().any(|number| number.fract() != 0.0) => AnswerKind::Value,
        _ => AnswerKind::Class,
    }
}

/// The names of the classes in order: by size if all are whole numbers, so that class 10 comes after class 9.
fn class_order(labels: &BTreeSet<&str>) -> Vec<String> {
    let mut names: Vec<String> = labels.iter().map(|label| (*label).to_string()).collect();
    if names.iter().all(|name| name.parse::<i64>().is_ok()) {
        names.sort_by_key(|name| name.parse::<i64>().ok());
    }
    names
}

/// The line on which a record begins: its position is before the empty lines that the reader skips.
fn line_at(bytes: &[u8], position: Option<&csv::Position>) -> u64 {
    let Some(position) = position else { return 1 };
    let rest = usize::try_from(position.byte()).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
    let skipped = rest.iter().take_while(|byte| b"\r\n".contains(byte)).filter(|byte| **byte == b'\n');
    position.line() + skipped.count() as u64
}

fn csv_error(path: &Path, bytes: &[u8], error: &csv::Error) -> DataError {
    let line = line_at(bytes, error.position());
    let row = |problem: String| DataError::BadRow { path: path.into(), line, column: None, problem };
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            row(format!("the row has {len} columns, the header has {expected_len}"))
        }
        csv::ErrorKind::Utf8 { .. } => row("the row is not UTF-8 text".into()),
        _ => DataError::bad(path, format!("cannot be read as CSV ({error})"), REMEDY),
    }
}
