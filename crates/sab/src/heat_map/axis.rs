//! How steps become pixels.

use crate::drawing::{pixels, round_up};
use std::ops::Range;

/// The side of a cell grows up to this, so that small maps stay compact...
const LARGEST_CELL: i32 = 28;
/// ...and shrinks down to this, below which steps are pooled: smaller cells are hard to see.
const SMALLEST_CELL: i32 = 3;
/// What the cells of an axis may fill.
const PLOT: i32 = 1020;

/// One axis: which steps it has and how they become pixels.
pub struct Axis {
    /// The steps.
    pub steps: Range<usize>,
    /// Steps in a cell.
    pub bin: usize,
    /// Pixels of a cell.
    pub cell: i32,
    /// How many cells there are.
    pub bins: usize,
    /// Where the first cell begins.
    pub origin: i32,
}

impl Axis {
    pub fn new(steps: &Range<usize>) -> Self {
        let most = (PLOT / SMALLEST_CELL) as usize;
        let bin = steps.len().div_ceil(most).max(1);
        let bins = steps.len().div_ceil(bin).max(1);
        Self {
            steps: steps.clone(),
            bin,
            cell: (PLOT / pixels(bins)).clamp(SMALLEST_CELL, LARGEST_CELL),
            bins,
            origin: 0,
        }
    }

    pub fn length(&self) -> i32 {
        self.cell * pixels(self.bins)
    }

    pub fn end(&self) -> i32 {
        self.origin + self.length()
    }

    pub fn bin_start(&self, bin: usize) -> i32 {
        self.origin + self.cell * pixels(bin.min(self.bins))
    }

    /// The pixel where the cell of `step` begins, if the axis has that step.
    pub fn start(&self, step: usize) -> Option<i32> {
        self.steps.contains(&step).then(|| self.bin_start((step - self.steps.start) / self.bin))
    }

    /// The last step of a cell.
    pub fn last_step(&self, bin: usize) -> usize {
        let past = bin.saturating_add(1).saturating_mul(self.bin).min(self.steps.len());
        self.steps.start + past.saturating_sub(1)
    }

    /// Steps that bear a number, with the middle of their cells: as many as have `room` pixels each.
    pub fn ticks(&self, room: i32) -> Vec<(usize, i32)> {
        let bins_apart = (room / self.cell + i32::from(room % self.cell > 0)).max(1) as usize;
        let apart = round_up(bins_apart.saturating_mul(self.bin));
        let Some(first) = self.steps.start.checked_next_multiple_of(apart) else { return Vec::new() };
        (first..self.steps.end)
            .step_by(apart)
            .filter_map(|step| Some((step, self.start(step)? + self.cell / 2)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_steps_have_a_cell_each_and_many_share_one() {
        let sizes = |steps: usize| {
            let axis = Axis::new(&(0..steps));
            (axis.bin, axis.bins, axis.cell)
        };
        assert_eq!(sizes(1), (1, 1, 28));
        assert_eq!(sizes(120), (1, 120, 8));
        assert_eq!(sizes(340), (1, 340, 3));
        assert_eq!(sizes(1000), (3, 334, 3));
        let (bin, bins, cell) = sizes(usize::MAX);
        assert!(bin > 1 << 50 && bins <= 340 && cell >= 3);
    }

    #[test]
    fn ticks_stand_at_round_steps_and_have_room() {
        let axis = Axis::new(&(108..120));
        assert_eq!(axis.ticks(30).iter().map(|tick| tick.0).collect::<Vec<_>>(), [108, 110, 112, 114, 116, 118]);
        let axis = Axis::new(&(0..1000));
        let ticks = axis.ticks(48);
        assert_eq!(ticks.first(), Some(&(0, 1)));
        assert!(ticks.windows(2).all(|pair| pair[1].1 - pair[0].1 >= 48));
        assert!(Axis::new(&(usize::MAX - 1..usize::MAX)).ticks(48).len() <= 1);
    }

    #[test]
    fn the_last_step_of_a_cell_is_on_the_axis() {
        let axis = Axis::new(&(10..1010));
        assert_eq!((axis.last_step(0), axis.last_step(333)), (12, 1009));
    }
}
