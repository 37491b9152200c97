//! A picture of which past steps each step was reminded of.
//!
//! Time runs to the right for the remembered steps and downwards for the steps that remember, so a row reads: at this
//! step, these were the memories. [`HeatMap`] holds the data, and `scene` lays it out as rectangles and text.

mod axis;
mod colour;
mod scene;

use crate::drawing;
use std::collections::HashMap;
use std::ops::Range;

/// Rounding in single precision may carry a weight this far above 1.
const ROUNDING: f32 = 1e-4;

/// One reminder: at `step` the network was reminded of `remembered`, with `weight` in 0..=1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// The step that was reminded, from 0.
    pub step: usize,
    /// The past step it was reminded of, from 0.
    pub remembered: usize,
    /// The weight of the memory, in 0..=1; 0 counts as no reminder.
    pub weight: f32,
}

/// A sparse matrix of reminders with what is written around it.
///
/// Step numbers are those of the sequence, also when only a part of it is shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatMap {
    /// Stands above the picture.
    pub title: String,
    /// Stands below the x axis, that of the remembered steps.
    pub x_label: String,
    /// Stands beside the y axis, that of the steps that remember.
    pub y_label: String,
    /// The remembered steps that are shown, from left to right.
    pub columns: Range<usize>,
    /// The remembering steps that are shown, from top to bottom.
    pub rows: Range<usize>,
    /// The reminders, in any order. Where two name the same pair the stronger one is shown.
    pub cells: Vec<Cell>,
    /// The symbol of each step of the sequence, written along the axes where there is room.
    pub step_labels: Option<Vec<String>>,
    /// Steps where something begins, such as the answer, with its name; drawn as thin lines.
    pub marks: Vec<(usize, String)>,
}

/// Heat maps one below the other, such as the same sequence at different points of training.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatMaps(pub Vec<HeatMap>);

impl HeatMaps {
    /// Draws all maps as one SVG document. Fails as [`HeatMap::validate`] does.
    pub fn to_svg(&self) -> Result<String, HeatMapError> {
        Ok(drawing::to_svg(&self.scene()?))
    }

    /// Draws all maps as one PNG. Fails as [`HeatMap::validate`] does.
    pub fn to_png(&self) -> Result<Vec<u8>, HeatMapError> {
        Ok(drawing::to_png(&self.scene()?, 1)?)
    }

    fn scene(&self) -> Result<drawing::Scene, HeatMapError> {
        let mut maps = self.0.iter();
        let lay_out = |map: &HeatMap| map.validate().map(|()| scene::lay_out(map));
        let Some(first) = maps.next() else { return Err(HeatMapError::Empty { axis: "rows", range: 0..0 }) };
        let mut all = lay_out(first)?;
        for map in maps {
            all.put_below(lay_out(map)?);
        }
        Ok(all)
    }
}

/// Why a heat map cannot be drawn.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeatMapError {
    /// An axis has no steps.
    #[error("a heat map needs at least one row and one column, but its {axis} are {}..{}", range.start, range.end)]
    Empty {
        /// `rows` or `columns`.
        axis: &'static str,
        /// What the axis is.
        range: Range<usize>,
    },
    /// A reminder lies outside the picture.
    #[error("the reminder of step {remembered} at step {step} is outside columns {}..{} and rows {}..{}",
        columns.start, columns.end, rows.start, rows.end)]
    OutOfRange {
        /// The step that was reminded.
        step: usize,
        /// The step it was reminded of.
        remembered: usize,
        /// The remembered steps of the picture.
        columns: Range<usize>,
        /// The remembering steps of the picture.
        rows: Range<usize>,
    },
    /// A weight is NaN, negative or above 1.
    #[error("the reminder of step {remembered} at step {step} has weight {weight}, but weights are in 0..=1")]
    Weight {
        /// The step that was reminded.
        step: usize,
        /// The step it was reminded of.
        remembered: usize,
        /// The weight.
        weight: f32,
    },
    /// The PNG could not be written.
    #[error("the heat map could not be encoded as PNG")]
    Png(#[from] png::EncodingError),
}

impl HeatMap {
    /// Checks that both axes have steps, that every cell lies on them, and that every weight is in 0..=1.
    pub fn validate(&self) -> Result<(), HeatMapError> {
        for (axis, range) in [("columns", &self.columns), ("rows", &self.rows)] {
            if range.is_empty() {
                return Err(HeatMapError::Empty { axis, range: range.clone() });
            }
        }
        for &Cell { step, remembered, weight } in &self.cells {
            if !self.columns.contains(&remembered) || !self.rows.contains(&step) {
                let (columns, rows) = (self.columns.clone(), self.rows.clone());
                return Err(HeatMapError::OutOfRange { step, remembered, columns, rows });
            }
            // NaN is in no range.
            if !(0.0..=1.0 + ROUNDING).contains(&weight) {
                return Err(HeatMapError::Weight { step, remembered, weight });
            }
        }
        Ok(())
    }

    /// The part of the map that lies in `rows` and `columns`.
    pub fn crop(&self, rows: Range<usize>, columns: Range<usize>) -> Self {
        let overlap = |a: &Range<usize>, b: Range<usize>| a.start.max(b.start)..a.end.min(b.end);
        let mut part = self.clone();
        part.rows = overlap(&self.rows, rows);
        part.columns = overlap(&self.columns, columns);
        part.cells.retain(|cell| part.rows.contains(&cell.step) && part.columns.contains(&cell.remembered));
        part
    }

    /// The part of the map with the last `count` remembering steps, such as the answer of the copy task.
    pub fn last_rows(&self, count: usize) -> Self {
        self.crop(self.rows.end.saturating_sub(count)..self.rows.end, self.columns.clone())
    }

    /// Draws the map as a self-contained SVG document; a cell tells its steps and weight under the pointer.
    ///
    /// Fails as [`validate`](Self::validate) does.
    pub fn to_svg(&self) -> Result<String, HeatMapError> {
        self.validate()?;
        Ok(drawing::to_svg(&scene::lay_out(self)))
    }

    /// Draws the map as a PNG some 1100 pixels wide.
    ///
    /// Fails as [`validate`](Self::validate) does.
    pub fn to_png(&self) -> Result<Vec<u8>, HeatMapError> {
        self.validate()?;
        Ok(drawing::to_png(&scene::lay_out(self), 1)?)
    }

    /// The strongest cell of each bin of `row_bin` by `column_bin` steps, keyed by the bin's row and column.
    fn strongest(&self, row_bin: usize, column_bin: usize) -> Vec<((usize, usize), Cell)> {
        let mut strongest: HashMap<(usize, usize), Cell> = HashMap::new();
        for &cell in self.cells.iter().filter(|cell| cell.weight > 0.0) {
            let row = cell.step.saturating_sub(self.rows.start) / row_bin;
            let column = cell.remembered.saturating_sub(self.columns.start) / column_bin;
            let seen = strongest.entry((row, column)).or_insert(cell);
            // Of equals the first in time, so that the order of the cells does not matter.
            let place = |cell: &Cell| (cell.step, cell.remembered);
            if cell.weight > seen.weight || (cell.weight == seen.weight && place(&cell) < place(seen)) {
                *seen = cell;
            }
        }
        let mut strongest: Vec<_> = strongest.into_iter().collect();
        // A hash map has no order, but the same map is to give the same file.
        strongest.sort_unstable_by_key(|(bin, _)| *bin);
        strongest
    }

    fn step_label(&self, step: usize) -> &str {
        self.step_labels.as_deref().and_then(|labels| labels.get(step)).map_or("", String::as_str)
    }
}
