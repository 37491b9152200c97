//! A picture of which past steps each step was reminded of.
//!
//! Time runs to the right for the remembered steps and downwards for the steps that remember, so a row reads: at this
//! step, these were the memories.

use crate::drawing::{self, Picture, one_line};
use crate::error::{LabError, Result};
use kuva::plot::{ColorMap, Heatmap};
use kuva::prelude::{Plot, TickFormat};
use kuva::render::render::{Primitive, Scene, TextAnchor, render_multiple};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Rounding in single precision may carry a weight this far above 1.
const ROUNDING: f32 = 1e-4;
/// The most pixels that the cells of an axis fill, and the smallest and largest side of a cell. If cells would be
/// smaller, several steps share one.
const PLOT: usize = 1020;
const CELL: (usize, usize) = (3, 28);
/// Pixels around the cells: left, right, above and below them.
const AROUND: [f64; 4] = [76.0, 96.0, 56.0, 52.0];
/// The least width and height, for the texts and the scale of a small map.
const LEAST: (usize, usize) = (280, 112);
/// Colours of pairs of steps without a reminder, and of pairs in the future, of which no step can be reminded.
const NO_REMINDER: &str = "#0b0724";
const FUTURE: &str = "#e9eaee";
/// The place of the weakest reminder in the colour map, chosen to stand out from [`NO_REMINDER`].
const WEAKEST: f64 = 0.25;
/// Below the x axis, and above the y axis.
const X_LABEL: &str = "remembered step";
const Y_LABEL: &str = "step";
/// Size of symbols and notes, and the widest character of that size.
const SMALL: u32 = 10;
const SMALL_WIDTH: f64 = 8.0;

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

/// A sparse matrix of reminders and the texts around it.
///
/// Step numbers are those of the sequence, also when only a part of it is shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatMap {
    /// The title above the picture.
    pub title: String,
    /// The remembered steps that are shown, from left to right.
    pub columns: Range<usize>,
    /// The remembering steps that are shown, from top to bottom.
    pub rows: Range<usize>,
    /// The reminders, in any order. If two have the same pair of steps, the stronger one is shown.
    pub cells: Vec<Cell>,
    /// The symbol of each step of the sequence, written along the axes if there is room.
    pub step_labels: Option<Vec<String>>,
}

/// Heat maps one below the other, such as the same sequence at different points of training.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatMaps(pub Vec<HeatMap>);

impl HeatMaps {
    /// Draws all maps. Each must have steps on both axes, every cell must lie on them, and every weight must be in
    /// 0..=1.
    pub fn draw(&self) -> Result<Picture> {
        if self.0.is_empty() {
            return Err(LabError::Figure("there is no heat map to draw".into()));
        }
        let mut all = Scene::new(0.0, 0.0);
        for map in &self.0 {
            map.validate()?;
            let scene = map.scene();
            let transform = Some(format!("translate(0,{})", all.height));
            all.add(Primitive::GroupStart { transform, title: None, extra_attrs: None });
            all.font_family.clone_from(&scene.font_family);
            scene.elements.into_iter().for_each(|part| all.add(part));
            all.add(Primitive::GroupEnd);
            all.defs.extend(scene.defs);
            (all.width, all.height) = (all.width.max(scene.width), all.height + scene.height);
        }
        Ok(Picture(all))
    }
}

impl HeatMap {
    fn validate(&self) -> Result<()> {
        let wrong = |why: String| Err(LabError::Figure(why));
        for (axis, range) in [("columns", &self.columns), ("rows", &self.rows)] {
            if range.is_empty() {
                return wrong(format!(
                    "a heat map needs at least one row and one column, but its {axis} are {range:?}"
                ));
            }
        }
        let (columns, rows) = (&self.columns, &self.rows);
        for Cell { step, remembered, weight } in &self.cells {
            let reminder = format_args!("the reminder of step {remembered} at step {step}");
            if !columns.contains(remembered) || !rows.contains(step) {
                return wrong(format!("{reminder} is outside columns {columns:?} and rows {rows:?}"));
            }
            // NaN is in no range.
            if !(0.0..=1.0 + ROUNDING).contains(weight) {
                return wrong(format!("{reminder} has weight {weight}, but weights are in 0..=1"));
            }
        }
        Ok(())
    }

    /// The part of the map with the last `count` remembering steps, such as the answers of the copy task.
    pub fn last_rows(mut self, count: usize) -> Self {
        self.rows.start = self.rows.start.max(self.rows.end.saturating_sub(count));
        self.cells.retain(|cell| self.rows.contains(&cell.step));
        self
    }

    /// The strongest reminder of each cell of the picture, by row and column.
    fn strongest(&self, x: &Axis, y: &Axis) -> BTreeMap<(usize, usize), Cell> {
        let mut strongest: BTreeMap<(usize, usize), Cell> = BTreeMap::new();
        for &cell in self.cells.iter().filter(|cell| cell.weight > 0.0) {
            let seen = strongest.entry((y.bin_of(cell.step), x.bin_of(cell.remembered))).or_insert(cell);
            // Of equals the first in time, so that the order of the cells does not matter.
            let place = |cell: &Cell| (cell.step, cell.remembered);
            if cell.weight > seen.weight || (cell.weight == seen.weight && place(&cell) < place(seen)) {
                *seen = cell;
            }
        }
        strongest
    }

    fn scene(&self) -> Scene {
        let (x, y) = (Axis::new(&self.columns), Axis::new(&self.rows));
        let [left, right, above, below] = AROUND;
        let (width, height) = (x.length().max(LEAST.0 as f64), y.length().max(LEAST.1 as f64));
        let strongest = self.strongest(&x, &y);
        let most = strongest.values().fold(0.0, |most: f32, cell| most.max(cell.weight));
        let top = [0.1, 0.2, 0.5].into_iter().find(|top| most <= *top).unwrap_or(1.0);

        // kuva draws axes, texts and the colour scale from a map of two cells; our cells are drawn over them. A full
        // matrix would take megabytes.
        let scale =
            Heatmap::new().with_data([[0.0, f64::from(top)]]).with_color_map(ColorMap::Custom(Arc::new(colour)));
        let (x_end, y_end) = (width / x.cell as f64, height / y.cell as f64);
        let [x_first, y_first] = [&x, &y].map(|axis| axis.steps.start);
        let (x_bin, y_bin) = (x.bin, y.bin);
        let labels = self.step_labels.clone().filter(|_| y.cell >= 12).unwrap_or_default();
        let last_row = y.steps.end;
        // Cells are counted from 0 along both axes, downwards from the top; the middle of the first cell is its step.
        let row = move |place: f64| {
            let step = y_first.saturating_add((-place).round() as usize * y_bin);
            let symbol = labels.get(step).map_or(String::new(), |symbol| one_line(symbol, 5));
            if step < last_row { format!("{step} {symbol}").trim_end().to_owned() } else { String::new() }
        };
        let last_column = x.steps.end;
        let column = move |place: f64| {
            let step = x_first.saturating_add(place.round() as usize * x_bin);
            if step < last_column { step.to_string() } else { String::new() }
        };
        let mut layout = drawing::axes((-0.5, x_end - 0.5), (0.5 - y_end, 0.5))
            .with_width(left + width + right)
            .with_height(above + height + below)
            .with_force_margins(left, right)
            .with_force_margins_y(above, below)
            .with_show_grid(false)
            .with_title(one_line(&self.title, (width / 9.0) as usize))
            .with_x_label(X_LABEL)
            .with_x_tick_step(x.ticks_apart(48))
            .with_y_tick_step(y.ticks_apart(18))
            .with_x_tick_format(TickFormat::Custom(Arc::new(column)))
            .with_y_tick_format(TickFormat::Custom(Arc::new(row)))
            .with_colorbar_tick_format(TickFormat::Fixed(2));
        layout.show_colorbar = true;
        let mut scene = render_multiple(vec![Plot::from(scale)], layout);

        rectangle(&mut scene, (left, above), (width, height), "white");
        rectangle(&mut scene, (left, above), (x.length(), y.length()), NO_REMINDER);
        for row in 0..y.bins {
            // The first column whose every step lies at or after the last step of the row.
            let from = y.last_step(row).saturating_sub(x.steps.start).div_ceil(x.bin).min(x.bins);
            let at = (left + x.start(from), above + y.start(row));
            rectangle(&mut scene, at, (x.length() - x.start(from), y.cell as f64), FUTURE);
        }
        for ((row, column), Cell { step, remembered, weight }) in strongest {
            let title = Some(format!("step {step} was reminded of step {remembered}: {weight:.3}"));
            scene.add(Primitive::GroupStart { transform: None, title, extra_attrs: None });
            let at = (left + x.start(column), above + y.start(row));
            rectangle(&mut scene, at, (x.cell as f64, y.cell as f64), &colour(f64::from(weight / top)));
            scene.add(Primitive::GroupEnd);
        }
        self.notes(&mut scene, &x, &y, (left + width, above + height));
        scene
    }

    /// The symbols along the top, what the dark cells are, and how many steps a cell has.
    fn notes(&self, scene: &mut Scene, x: &Axis, y: &Axis, corner: (f64, f64)) {
        let [left, right, above, below] = AROUND;
        let room = (x.cell as f64 / SMALL_WIDTH) as usize;
        for (step, symbol) in self.step_labels.iter().flatten().enumerate().filter(|_| room > 0 && x.bin == 1) {
            if x.steps.contains(&step) {
                let middle = left + x.start(x.bin_of(step)) + x.cell as f64 / 2.0;
                text(scene, middle, above - 4.0, TextAnchor::Middle, symbol.chars().take(room).collect());
            }
        }
        // Upright, unlike a label of kuva, whose turned letters are blurred in a PNG.
        text(scene, left - 8.0, above - 6.0, TextAnchor::End, Y_LABEL.to_owned());
        rectangle(scene, (corner.0 + right - 74.0, corner.1 + 8.0), (14.0, 12.0), NO_REMINDER);
        text(scene, corner.0 + right - 54.0, corner.1 + 18.0, TextAnchor::Start, "none".to_owned());
        if x.bin > 1 || y.bin > 1 {
            let pooled = format!("a cell is the strongest of {} x {} steps", y.bin, x.bin);
            text(scene, left, corner.1 + below - 6.0, TextAnchor::Start, pooled);
        }
    }
}

/// The colour of a reminder whose weight is the fraction `strength` of the top of the scale.
fn colour(strength: f64) -> String {
    ColorMap::Inferno.map(WEAKEST + (1.0 - WEAKEST) * strength)
}

fn rectangle(scene: &mut Scene, (x, y): (f64, f64), (width, height): (f64, f64), fill: &str) {
    let fill = fill.into();
    scene.add(Primitive::Rect { x, y, width, height, fill, stroke: None, stroke_width: None, opacity: None });
}

fn text(scene: &mut Scene, x: f64, y: f64, anchor: TextAnchor, content: String) {
    let content = one_line(&content, usize::MAX);
    scene.add(Primitive::Text { x, y, content, size: SMALL, anchor, rotate: None, bold: false, color: None });
}

/// One axis: which steps it has and how they become cells of whole pixels.
struct Axis {
    steps: Range<usize>,
    /// Steps in a cell.
    bin: usize,
    /// Cells, and pixels of a cell.
    bins: usize,
    cell: usize,
}

impl Axis {
    fn new(steps: &Range<usize>) -> Self {
        let bin = steps.len().div_ceil(PLOT / CELL.0);
        let bins = steps.len().div_ceil(bin);
        Self { steps: steps.clone(), bin, bins, cell: (PLOT / bins).clamp(CELL.0, CELL.1) }
    }

    fn length(&self) -> f64 {
        self.start(self.bins)
    }

    fn start(&self, bin: usize) -> f64 {
        (self.cell * bin) as f64
    }

    fn bin_of(&self, step: usize) -> usize {
        step.saturating_sub(self.steps.start) / self.bin
    }

    /// The last step of a cell.
    fn last_step(&self, bin: usize) -> usize {
        let past = bin.saturating_add(1).saturating_mul(self.bin).min(self.steps.len());
        self.steps.start + past.saturating_sub(1)
    }

    /// Cells from one number to the next, so that each number has `room` pixels: 1, 2, 5, 10, ...
    fn ticks_apart(&self, room: usize) -> f64 {
        let least = room.div_ceil(self.cell) as f64;
        let decade = 10_f64.powf(least.log10().floor());
        [1.0, 2.0, 5.0, 10.0].into_iter().map(|digit| digit * decade).find(|apart| *apart >= least).unwrap_or(least)
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
        let axis = Axis::new(&(10..1010));
        assert_eq!((axis.last_step(0), axis.last_step(333)), (12, 1009));
    }

    #[test]
    fn numbers_have_room() {
        assert_eq!([28, 340, 1].map(|steps| Axis::new(&(0..steps)).ticks_apart(48)), [2.0, 20.0, 2.0]);
    }
}
