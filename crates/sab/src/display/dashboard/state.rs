//! The dashboard's knowledge of the run.

use super::super::{NoteKind, Progress, Validation};
use std::collections::VecDeque;

/// More points than a terminal has columns, in braille dots.
const MOST_POINTS: usize = 1024;
const MOST_NOTES: usize = 100;

/// A curve of any length in bounded memory: when it is full, neighbours are joined to their mean.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    points: Vec<(f64, f64)>,
    /// How many values the next point is the mean of, as a power of two.
    halvings: u32,
    sum: (f64, f64),
    summed: u32,
}

impl Curve {
    /// Adds a value; a chart has no place for NaN and infinities.
    pub fn push(&mut self, update: u64, value: f64) {
        if !value.is_finite() {
            return;
        }
        // Sums and differences of larger values would overflow.
        let value = value.clamp(-1e200, 1e200);
        self.sum = (self.sum.0 + update as f64, self.sum.1 + value);
        self.summed += 1;
        if self.summed < 1 << self.halvings {
            return;
        }
        let count = f64::from(self.summed);
        self.points.push((self.sum.0 / count, self.sum.1 / count));
        (self.sum, self.summed) = ((0.0, 0.0), 0);
        if self.points.len() >= MOST_POINTS && self.halvings < 31 {
            let mean = |a: f64, b: f64| a / 2.0 + b / 2.0;
            let (pairs, _) = self.points.as_chunks::<2>();
            self.points = pairs.iter().map(|[a, b]| (mean(a.0, b.0), mean(a.1, b.1))).collect();
            self.halvings += 1;
        }
    }

    /// The points of the curve, in the order of updates.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }
}

/// Curves by name.
#[derive(Clone, Debug, Default)]
pub struct Curves(Vec<(&'static str, Curve)>);

impl Curves {
    fn push(&mut self, update: u64, metrics: &[(&'static str, f64)]) {
        for &(name, value) in metrics {
            let index = self.0.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
                self.0.push((name, Curve::default()));
                self.0.len() - 1
            });
            self.0[index].1.push(update, value);
        }
    }

    /// The points of a curve; none if there is no such curve.
    pub fn points(&self, name: &str) -> &[(f64, f64)] {
        self.0.iter().find(|(known, _)| *known == name).map_or(&[], |(_, curve)| curve.points())
    }

    /// Names in the order of their first appearance.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|(name, _)| *name)
    }
}

/// Everything on display.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub title: String,
    pub progress: Option<Progress>,
    pub validation: Option<Validation>,
    pub best: Option<Validation>,
    pub loss: Curve,
    pub gradient_norm: Curve,
    pub learning_rate: Curve,
    pub training: Curves,
    pub held_out: Curves,
    pub notes: VecDeque<(NoteKind, String)>,
}

impl State {
    pub fn new(title: &str) -> Self {
        Self { title: title.to_owned(), ..Self::default() }
    }

    pub fn progress(&mut self, progress: &Progress) {
        self.loss.push(progress.update, progress.loss);
        self.gradient_norm.push(progress.update, progress.gradient_norm);
        self.learning_rate.push(progress.update, progress.learning_rate);
        self.training.push(progress.update, &progress.metrics);
        self.progress = Some(progress.clone());
    }

    pub fn validation(&mut self, validation: &Validation) {
        self.held_out.push(validation.update, &validation.metrics);
        if validation.best {
            self.best = Some(validation.clone());
        }
        self.validation = Some(validation.clone());
    }

    pub fn note(&mut self, kind: NoteKind, text: &str) {
        if self.notes.len() >= MOST_NOTES {
            self.notes.pop_front();
        }
        self.notes.push_back((kind, text.to_owned()));
    }

    /// The metric of the second chart: the first that is not the loss.
    pub fn main_metric(&self) -> Option<&'static str> {
        self.training.names().chain(self.held_out.names()).find(|name| *name != "loss")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_curve_keeps_its_shape_in_bounded_memory() {
        let mut curve = Curve::default();
        for update in 0..100_000_u64 {
            curve.push(update, 2.0 * update as f64);
        }
        let points = curve.points();
        assert!((MOST_POINTS / 2..=MOST_POINTS).contains(&points.len()));
        assert!(points.iter().all(|(x, y)| (y - 2.0 * x).abs() < 1e-6));
        assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(points[points.len() - 1].0 > 99_000.0);
    }

    #[test]
    fn values_that_are_no_numbers_are_left_out() {
        let mut curve = Curve::default();
        for value in [1.0, f64::NAN, f64::INFINITY, 2.0] {
            curve.push(1, value);
        }
        assert_eq!(curve.points(), [(1.0, 1.0), (1.0, 2.0)]);
    }
}
