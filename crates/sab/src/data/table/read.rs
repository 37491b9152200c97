//! Reading a table: rows are grouped by sequence, sorted by step and checked cell by cell.

use super::layout::Columns;
use super::{AnswerKind, AnswerOn, Answers, Question, Questions, Sequence, Table, TableLayout};
use crate::data::digest::sha256_of;
use crate::data::error::{DataError, Result};
use crate::data::files::{open, read_whole};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

/// The largest file that is read.
const MOST_BYTES: u64 = 1 << 30;
/// With more different whole numbers than this, an answer is taken for a value.
const MOST_GUESSED_CLASSES: usize = 20;
const HINT: &str = "correct the file, or name other columns";

/// One row on its way into a sequence.
struct Row {
    line: u64,
    step: f64,
    /// The text of the step column; kept only for questions, whose answers repeat it.
    step_text: String,
    features: Vec<f32>,
    label: String,
}

/// The rows of each sequence, in order.
type Groups = Vec<(String, Vec<Row>)>;

/// Loads a table of labelled sequences from a CSV file with a header, one row per step, in any order.
///
/// Rows are grouped by sequence and sorted by step. With [`AnswerOn::Last`] only the label of the last step counts; the
/// others may be empty.
pub fn load_table(path: &Path, layout: &TableLayout) -> Result<Table> {
    parse_table(path, &content(path)?, layout)
}

/// Reads a table as [`load_table`] does from the content of a CSV file; `path` is the name used in errors.
pub fn parse_table(path: &Path, bytes: &[u8], layout: &TableLayout) -> Result<Table> {
    let (cells, groups) = read(path, bytes, layout, true, HINT)?;
    Ok(Table { sha256: sha256_of(bytes), ..cells.table(groups, layout)? })
}

/// Loads sequences to be answered from a CSV file like that of [`load_table`]. The label column may be missing, and is
/// not looked at; columns that `layout` has no use for do not matter if it names the features.
pub fn load_questions(path: &Path, layout: &TableLayout) -> Result<Questions> {
    parse_questions(path, &content(path)?, layout)
}

/// Reads sequences as [`load_questions`] does from the content of a CSV file; `path` is the name used in errors.
pub fn parse_questions(path: &Path, bytes: &[u8], layout: &TableLayout) -> Result<Questions> {
    let (cells, groups) =
        read(path, bytes, layout, false, "give a table with the columns that the model learned from")?;
    let question = |(id, rows): (String, Vec<Row>)| Question {
        id,
        features: rows.iter().flat_map(|row| row.features.iter().copied()).collect(),
        steps: rows.into_iter().map(|row| row.step_text).collect(),
    };
    Ok(Questions {
        sequence_name: cells.name(cells.columns.sequence),
        step_name: cells.name(cells.columns.step),
        feature_names: cells.feature_names(),
        sequences: groups.into_iter().map(question).collect(),
    })
}

fn content(path: &Path) -> Result<Vec<u8>> {
    let hint = "give the path of a CSV file";
    read_whole(open(path, hint)?, MOST_BYTES, path, "give a smaller file")
}

/// Reads, groups and sorts all rows.
fn read<'a>(
    path: &'a Path, bytes: &'a [u8], layout: &TableLayout, labelled: bool, hint: &str,
) -> Result<(Cells<'a>, Groups)> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(bytes);
    let header: Vec<String> =
        reader.headers().map_err(|e| csv_error(path, bytes, &e))?.iter().map(String::from).collect();
    if header.iter().all(String::is_empty) {
        return Err(DataError::bad(path, "is empty", hint));
    }
    let columns = layout.columns(&header, labelled).map_err(|problem| DataError::bad(path, problem, hint))?;
    let cells = Cells { path, bytes, header, columns };

    let mut places: HashMap<String, usize> = HashMap::new();
    let mut groups = Groups::new();
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
        return Err(DataError::bad(path, "has a header but no rows", hint));
    }
    for (id, rows) in &mut groups {
        cells.sort(id, rows)?;
    }
    Ok((cells, groups))
}

/// Reads cells and names them in errors.
struct Cells<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    header: Vec<String>,
    columns: Columns,
}

impl Cells<'_> {
    fn error(&self, line: u64, column: usize, problem: String) -> DataError {
        let column = self.header.get(column).cloned();
        DataError::BadRow { path: self.path.into(), line, column, problem }
    }

    fn name(&self, column: usize) -> String {
        self.header.get(column).cloned().unwrap_or_default()
    }

    fn feature_names(&self) -> Vec<String> {
        self.columns.features.iter().map(|&column| self.name(column)).collect()
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
        let (step_text, label) = match self.columns.label {
            Some(label) => (String::new(), text(label).to_string()),
            None => (text(self.columns.step).to_string(), String::new()),
        };
        Ok((id, Row { line, step, step_text, features, label }))
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

    fn table(&self, groups: Groups, layout: &TableLayout) -> Result<Table> {
        // A table that is read for its labels has a column of them.
        let label = self.columns.label.unwrap_or_default();
        let counted = |rows: &'_ [Row]| match layout.on {
            AnswerOn::Each => 0,
            AnswerOn::Last => rows.len().saturating_sub(1),
        };
        let labelled = || groups.iter().flat_map(|(_, rows)| &rows[counted(rows)..]);
        if let Some(row) = labelled().find(|row| row.label.is_empty()) {
            let what = if layout.on == AnswerOn::Last { "last step of a sequence" } else { "step" };
            return Err(self.error(row.line, label, format!("the label of the {what} is empty")));
        }
        let labels: BTreeSet<&str> = labelled().map(|row| row.label.as_str()).collect();
        let kind = layout.kind.unwrap_or_else(|| guess(&labels));
        let class_names = match kind {
            AnswerKind::Class if layout.classes.is_empty() => class_order(&labels),
            AnswerKind::Class => layout.classes.clone(),
            AnswerKind::Value => Vec::new(),
        };
        let numbers: HashMap<&str, usize> = class_names.iter().map(String::as_str).zip(0..).collect();
        let unknown = |row: &&Row| kind == AnswerKind::Class && !numbers.contains_key(row.label.as_str());
        if let Some(row) = labelled().find(unknown) {
            let known = class_names.iter().take(20).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let problem = format!("the class `{}` is none of the {} known ones: {known}", row.label, class_names.len());
            return Err(self.error(row.line, label, problem));
        }

        let mut sequences = Vec::with_capacity(groups.len());
        for (id, rows) in &groups {
            let answering = &rows[counted(rows)..];
            let answers = match kind {
                AnswerKind::Class => Answers::Classes(
                    answering.iter().filter_map(|row| numbers.get(row.label.as_str()).copied()).collect(),
                ),
                AnswerKind::Value => {
                    let value = |row: &Row| self.single(row.line, label, &row.label);
                    Answers::Values(answering.iter().map(value).collect::<Result<Vec<f32>>>()?)
                }
            };
            let features = rows.iter().flat_map(|row| row.features.iter().copied()).collect();
            sequences.push(Sequence { id: id.clone(), steps: rows.len(), features, answers });
        }
        Ok(Table {
            feature_names: self.feature_names(),
            sequence_name: self.name(self.columns.sequence),
            step_name: self.name(self.columns.step),
            label_name: self.name(label),
            kind,
            on: layout.on,
            class_names,
            sequences,
            sha256: String::new(),
        })
    }
}

/// Values if all labels are numbers and there are many of them or one is not a whole number; otherwise classes.
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
        _ => DataError::bad(path, format!("cannot be read as CSV ({error})"), HINT),
    }
}
