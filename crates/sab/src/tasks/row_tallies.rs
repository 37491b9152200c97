//! [`RowTallies`]: the quality of answers to sequences that are judged stretch by stretch.

use super::batch::{Answers, Batch};
use super::tally::{Sums, Tally, judged};
use crate::error::Result;

/// Where no sequence has more steps, the answers are summed one by one, in the order of the sequences, as [`Tally::add`]
/// sums those of a batch. Otherwise each sequence has a sum of its own. Neither depends on the stretches, or on which
/// sequences run together.
const ONE_BY_ONE: usize = 200_000;

/// The answers to some sequences that run together. A stretch holds the next steps of all of them, but the bits of a sum
/// depend on its order: a sequence counts after the one before it.
#[derive(Debug)]
pub struct RowTallies {
    steps: usize,
    one_by_one: bool,
    rows: Vec<Row>,
    classes: bool,
}

/// The answers of one sequence.
#[derive(Clone, Debug, Default)]
struct Row {
    /// How many there are and how many are right; of a long sequence, all sums.
    all: Sums,
    graded: Sums,
    /// The cross-entropies or absolute errors of a short sequence. The last of them are the graded ones.
    losses: Vec<f64>,
}

impl RowTallies {
    /// For `rows` sequences of `steps` steps, where the longest of all sequences has `longest`.
    pub fn new(rows: usize, steps: usize, longest: usize) -> Self {
        Self { steps, one_by_one: longest <= ONE_BY_ONE, rows: vec![Row::default(); rows], classes: false }
    }

    /// Bytes that the longest sequence takes until it is counted.
    pub fn bytes_a_row(longest: usize) -> usize {
        if longest <= ONE_BY_ONE { longest * size_of::<f64>() } else { size_of::<Row>() }
    }

    /// Adds the outputs `[answers, outputs]` of the stretch that begins at step `first`, graded as `tally` grades. An
    /// error if the stretch does not have the right answers.
    pub fn add(&mut self, tally: &Tally, stretch: &Batch, first: usize, outputs: &[f32], width: usize) -> Result<()> {
        let last = tally.first_graded(stretch, first, self.steps);
        self.classes = matches!(stretch.answers, Answers::Classes(_));
        let (one_by_one, classes, rows) = (self.one_by_one, self.classes, &mut self.rows);
        judged(stretch, outputs, width, |row, step, one| {
            let row = &mut rows[row];
            let mut counted = *one;
            if one_by_one {
                row.losses.push(if classes { one.cross_entropy } else { one.absolute_error });
                counted = Sums { count: one.count, correct: one.correct, ..Sums::default() };
            }
            row.all.merge(&counted);
            if step >= last {
                row.graded.merge(&counted);
            }
        })
    }

    /// Adds everything to a tally, in the order of the sequences.
    pub fn finish(self, tally: &mut Tally) {
        for Row { all, graded, losses } in self.rows {
            let first_graded = losses.len() - (graded.count as usize).min(losses.len());
            tally.all.merge(&all);
            tally.graded.merge(&graded);
            for (place, loss) in losses.into_iter().enumerate() {
                let one = match self.classes {
                    true => Sums { cross_entropy: loss, ..Sums::default() },
                    false => Sums { squared_error: loss * loss, absolute_error: loss, ..Sums::default() },
                };
                tally.all.merge(&one);
                if place >= first_graded {
                    tally.graded.merge(&one);
                }
            }
        }
    }
}
