//! [`Tally`]: the quality of answers, summed over batches.

use super::batch::{Answers, Asked, Batch};
use crate::error::Result;

/// A named result, such as `("accuracy", 0.993)`.
pub type Metrics = Vec<(&'static str, f64)>;

/// The metric of a name, if there is one: `metric(&finished.test, "accuracy")`.
pub fn metric(metrics: &[(&'static str, f64)], name: &str) -> Option<f64> {
    metrics.iter().find(|(found, _)| *found == name).map(|(_, value)| *value)
}

/// Metrics as a JSON object, in their order.
pub(crate) fn as_json(metrics: &[(&'static str, f64)]) -> serde_json::Map<String, serde_json::Value> {
    metrics.iter().map(|(name, value)| ((*name).to_string(), (*value).into())).collect()
}

/// Sums over answers, in double precision.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    /// Answers that count.
    pub count: u64,
    /// Those that name the right class.
    pub correct: u64,
    /// Of `-ln p(right class)`.
    pub cross_entropy: f64,
    /// Of squared errors.
    pub squared_error: f64,
    /// Of absolute errors.
    pub absolute_error: f64,
}

impl Sums {
    fn mean(&self, sum: f64) -> f64 {
        sum / self.count as f64
    }

    /// Share of right classes.
    pub fn accuracy(&self) -> f64 {
        self.mean(self.correct as f64)
    }

    /// Mean cross-entropy in nats.
    pub fn ce(&self) -> f64 {
        self.mean(self.cross_entropy)
    }

    /// Mean squared error.
    pub fn mse(&self) -> f64 {
        self.mean(self.squared_error)
    }

    /// Mean absolute error.
    pub fn mae(&self) -> f64 {
        self.mean(self.absolute_error)
    }
}

/// The quality of all answers, and of those among the last steps of a sequence that the task grades.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Every answer.
    pub all: Sums,
    /// Answers of the last `graded` steps.
    pub graded: Sums,
    graded_steps: usize,
}

impl Tally {
    /// A tally that grades the last steps of a sequence apart.
    pub fn grading_last(steps: usize) -> Self {
        Self { graded_steps: steps, ..Self::default() }
    }

    /// Adds the outputs `[answers, outputs]` of a batch; an error if the batch does not have the right answers.
    pub fn add(&mut self, batch: &Batch, outputs: &[f32], width: usize) -> Result<()> {
        let last = self.first_graded(batch, 0, batch.steps);
        judged(batch, outputs, width, |_, step, one| {
            self.all.merge(one);
            if step >= last {
                self.graded.merge(one);
            }
        })
    }

    /// The first graded step of a stretch that begins at step `first` of sequences of `steps` steps. A sequence's only
    /// answer is its last one, wherever it stands.
    pub(super) fn first_graded(&self, stretch: &Batch, first: usize, steps: usize) -> usize {
        match stretch.asked {
            Asked::At(_) | Asked::Only(_) if self.graded_steps > 0 => 0,
            _ => steps.saturating_sub(self.graded_steps).saturating_sub(first),
        }
    }
}

/// Hands each answer that counts to `take`, with its row and step, in the order of the outputs `[answers, outputs]`. An
/// error if the batch does not have the right answers.
pub(super) fn judged(
    batch: &Batch, outputs: &[f32], width: usize, mut take: impl FnMut(usize, usize, &Sums),
) -> Result<()> {
    let right = match &batch.answers {
        Answers::Classes(right) => right.len(),
        Answers::Values(right) => right.len(),
        Answers::Unknown => 0,
    };
    if right != batch.answer_count() || outputs.len() != batch.answer_count() * width.max(1) {
        return Err(batch.unanswered().into());
    }
    let counted = batch.counted();
    let places = batch.asked.places(batch.rows, batch.steps);
    for (place, (output, (row, step))) in outputs.chunks_exact(width.max(1)).zip(places).enumerate() {
        if counted.as_ref().is_some_and(|counted| !counted[place]) {
            continue;
        }
        let mut one = Sums { count: 1, ..Sums::default() };
        match &batch.answers {
            Answers::Classes(right) => {
                let right = right[place] as usize;
                one.cross_entropy = cross_entropy(output, right);
                one.correct = u64::from(largest(output) == Some(right));
            }
            Answers::Values(right) => {
                let error = f64::from(output[0]) - f64::from(right[place]);
                (one.squared_error, one.absolute_error) = (error * error, error.abs());
            }
            Answers::Unknown => continue,
        }
        take(row, step, &one);
    }
    Ok(())
}

impl Sums {
    pub(super) fn merge(&mut self, other: &Sums) {
        self.count += other.count;
        self.correct += other.correct;
        self.cross_entropy += other.cross_entropy;
        self.squared_error += other.squared_error;
        self.absolute_error += other.absolute_error;
    }
}

/// `-ln softmax(scores)[right]`
fn cross_entropy(scores: &[f32], right: usize) -> f64 {
    let most = scores.iter().fold(f64::NEG_INFINITY, |most, score| most.max(f64::from(*score)));
    let sum: f64 = scores.iter().map(|score| (f64::from(*score) - most).exp()).sum();
    most + sum.ln() - scores.get(right).map_or(f64::NEG_INFINITY, |score| f64::from(*score))
}

/// The first of the largest; none if there are no numbers.
pub(crate) fn largest(scores: &[f32]) -> Option<usize> {
    let better = |best: Option<usize>, place: usize| match best {
        Some(best) if scores[place] > scores[best] => Some(place),
        None if !scores[place].is_nan() => Some(place),
        best => best,
    };
    (0..scores.len()).fold(None, better)
}

#[cfg(test)]
mod tests {
    use super::super::batch::{Asked, Input};
    use super::*;

    fn batch(asked: Asked, answers: Answers) -> Batch {
        Batch { rows: 2, steps: 3, input: Input::Tokens(vec![0; 6]), asked, answers }
    }

    #[test]
    fn classes_are_counted_and_their_cross_entropy_is_that_of_the_softmax() {
        let right = batch(Asked::At(vec![2, 2]), Answers::Classes(vec![1, 0]));
        let mut tally = Tally::default();
        tally.add(&right, &[0.0, 2.0, 1.0, 3.0], 2).expect("answers");
        assert_eq!((tally.all.count, tally.all.accuracy()), (2, 0.5));
        let of = |other: f64| (1.0 + other.exp()).ln();
        assert!((tally.all.ce() - (of(-2.0) + of(2.0)) / 2.0).abs() < 1e-12);
    }

    #[test]
    fn the_last_steps_are_graded_apart() {
        let mut tally = Tally::grading_last(1);
        let all = batch(Asked::From(0), Answers::Values(vec![0.0; 6]));
        tally.add(&all, &[1.0, 1.0, 3.0, 1.0, 1.0, 5.0], 1).expect("answers");
        assert_eq!((tally.graded.count, tally.graded.mse(), tally.graded.mae()), (2, 17.0, 4.0));
        assert_eq!((tally.all.count, tally.all.mae()), (6, 2.0));
    }

    #[test]
    fn metrics_are_found_by_name() {
        let metrics: Metrics = vec![("ce", 0.5), ("accuracy", 0.75)];
        assert_eq!((metric(&metrics, "accuracy"), metric(&metrics, "mse")), (Some(0.75), None));
    }

    #[test]
    fn padding_does_not_count() {
        let mut tally = Tally::default();
        let padded = batch(Asked::Until(vec![3, 1]), Answers::Values(vec![0.0; 6]));
        tally.add(&padded, &[1.0, 1.0, 1.0, 1.0, f32::NAN, 9.0], 1).expect("answers");
        assert_eq!((tally.all.count, tally.all.mse()), (4, 1.0));
    }

    #[test]
    fn a_batch_without_answers_is_not_judged() {
        for answers in [Answers::Unknown, Answers::Values(Vec::new()), Answers::Classes(vec![1])] {
            let mut tally = Tally::default();
            let why = tally.add(&batch(Asked::From(0), answers), &[0.0; 6], 1).expect_err("no answers").to_string();
            assert!(why.contains("6 right answers"), "{why}");
            assert_eq!(tally, Tally::default());
        }
    }

    #[test]
    fn outputs_that_are_not_numbers_are_never_right() {
        let mut tally = Tally::default();
        tally.add(&batch(Asked::At(vec![0, 0]), Answers::Classes(vec![0, 0])), &[f32::NAN; 4], 2).expect("answers");
        assert_eq!(tally.all.correct, 0);
        assert!(tally.all.ce().is_nan());
    }
}
