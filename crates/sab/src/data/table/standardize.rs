//! [`Standardization`]: bringing columns to mean 0 and deviation 1.

use super::{Answers, Sequence, Table};
use crate::data::error::{DataError, Result};
use serde::{Deserialize, Serialize};

/// The mean and the standard deviation of each column, taken from the training sequences only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Parts")]
pub struct Standardization {
    mean: Vec<f32>,
    deviation: Vec<f32>,
}

/// The content of a file, before it is checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts {
    mean: Vec<f32>,
    deviation: Vec<f32>,
}

impl Standardization {
    /// Takes means and deviations, all finite, the deviations above zero.
    pub fn new(mean: Vec<f32>, deviation: Vec<f32>) -> Result<Self> {
        if mean.len() != deviation.len() || mean.is_empty() {
            let text = format!("a standardization has {} means but {} deviations", mean.len(), deviation.len());
            return Err(DataError::Invalid(text));
        }
        if let Some(bad) = mean.iter().find(|m| !m.is_finite()) {
            return Err(DataError::Invalid(format!("a standardization has the mean {bad}, which is not finite")));
        }
        if let Some(bad) = deviation.iter().find(|d| !(d.is_finite() && **d > 0.0)) {
            return Err(DataError::Invalid(format!("a standardization has the deviation {bad}, which is not above 0")));
        }
        Ok(Self { mean, deviation })
    }

    /// The means and deviations of the features of the training sequences. A constant feature gets the deviation 1.
    pub fn of_features(table: &Table, train: &[usize]) -> Result<Self> {
        let sequences = pick(table, train)?;
        let rows = || sequences.iter().flat_map(|s| s.features.chunks_exact(table.feature_names.len().max(1)));
        let columns = (0..table.feature_names.len()).map(|i| moments(|| rows().filter_map(move |row| row.get(i))));
        let (mean, deviation) = columns.unzip();
        Self::new(mean, deviation)
    }

    /// The mean and deviation of the answers of the training sequences, one column; an error if they are classes.
    pub fn of_values(table: &Table, train: &[usize]) -> Result<Self> {
        let sequences = pick(table, train)?;
        let mut values = Vec::new();
        for sequence in sequences {
            match &sequence.answers {
                Answers::Values(more) => values.extend_from_slice(more),
                Answers::Classes(_) => return Err(DataError::Invalid("classes cannot be standardized".into())),
            }
        }
        let (mean, deviation) = moments(|| values.iter());
        Self::new(vec![mean], vec![deviation])
    }

    /// The mean of each column.
    pub fn mean(&self) -> &[f32] {
        &self.mean
    }

    /// The standard deviation of each column.
    pub fn deviation(&self) -> &[f32] {
        &self.deviation
    }

    /// Standardizes rows in place, `[rows, width]`.
    pub fn apply(&self, rows: &mut [f32]) {
        self.each(rows, |x, mean, deviation| (x - mean) / deviation);
    }

    /// Turns standardized rows back in place, `[rows, width]`.
    pub fn undo(&self, rows: &mut [f32]) {
        self.each(rows, |x, mean, deviation| x * deviation + mean);
    }

    fn each(&self, rows: &mut [f32], map: impl Fn(f64, f64, f64) -> f64) {
        for row in rows.chunks_mut(self.mean.len()) {
            for (x, (&mean, &deviation)) in row.iter_mut().zip(self.mean.iter().zip(&self.deviation)) {
                // Clamped: a value far outside the training range must not become infinite.
                let y = map(f64::from(*x), f64::from(mean), f64::from(deviation));
                *x = y.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32;
            }
        }
    }
}

impl TryFrom<Parts> for Standardization {
    type Error = DataError;

    fn try_from(parts: Parts) -> Result<Self> {
        Self::new(parts.mean, parts.deviation)
    }
}

fn pick<'a>(table: &'a Table, places: &[usize]) -> Result<Vec<&'a Sequence>> {
    if places.is_empty() {
        return Err(DataError::Invalid("there are no training sequences to standardize by".into()));
    }
    let sequence = |&i: &usize| {
        let count = table.sequences.len();
        table.sequences.get(i).ok_or_else(|| DataError::Invalid(format!("there is no sequence {i} of {count}")))
    };
    places.iter().map(sequence).collect()
}

/// Mean and standard deviation of a column in two passes.
fn moments<'a, I: Iterator<Item = &'a f32>>(column: impl Fn() -> I) -> (f32, f32) {
    let count = column().count().max(1) as f64;
    let mean = column().map(|&x| f64::from(x)).sum::<f64>() / count;
    let variance = column().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / count;
    let deviation = variance.sqrt() as f32;
    // Compared directly, because rounding leaves a constant column with a deviation that is not quite 0.
    let first = column().next();
    let constant = column().all(|x| Some(x) == first);
    (mean as f32, if constant || !deviation.is_normal() { 1.0 } else { deviation })
}
