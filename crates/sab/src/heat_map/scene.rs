//! The layout of a heat map.

use super::HeatMap;
use super::axis::Axis;
use super::colour::{self, FUTURE, MARK, NO_REMINDER};
use crate::drawing::{Anchor, FAINT_INK, INK, Rectangle, Scene, Size, Text, pixels};
use std::ops::Range;

const MARGIN: i32 = 18;
const TICK: i32 = 5;
const MARK_ROWS: usize = 3;
const MARK_ROW: i32 = 17;
const BAR_WIDTH: i32 = 20;
const SHORTEST_BAR: i32 = 96;

/// Lays out a valid map.
pub fn lay_out(map: &HeatMap) -> Scene {
    let (mut x, mut y) = (Axis::new(&map.columns), Axis::new(&map.rows));
    let number_width = Size::Number.width(&map.rows.end.to_string());
    let y_symbols = symbol_room(map, &y);
    let x_symbols = if symbol_size(map, &x).is_some() { 14 } else { 0 };
    let note = pooling_note(&x, &y);

    x.origin = MARGIN + 28 + number_width + TICK + 5 + y_symbols;
    let right = 26 + BAR_WIDTH + 8 + Size::Number.width("0.00") + MARGIN;
    // A map of a few steps is wider and higher than its cells, for the text around it.
    let title_room = Size::Title.width(&map.title) - right + 2 * MARGIN;
    let least = Size::Label.width(&map.x_label).max(title_room).clamp(SHORTEST_BAR, 640);
    let plot_end = x.origin + x.length().max(least);
    let marks = place_marks(map, &x, plot_end);
    let mark_rows = marks.iter().map(|mark| mark.row + 1).max().unwrap_or(0);
    y.origin = MARGIN + 28 + if note.is_some() { 20 } else { 0 } + 8 + MARK_ROW * pixels(mark_rows);

    let width = plot_end + right;
    let floor = y.origin + y.length().max(SHORTEST_BAR + 40);
    let below = y.end() + x_symbols + TICK + 14 + 26;
    let mut scene = Scene {
        title: map.title.clone(),
        width,
        height: below.max(floor).max(MARGIN + Size::Label.width(&map.y_label).min(400)) + MARGIN,
        ..Scene::default()
    };
    let title = Size::Title.fit(&map.title, width - x.origin - MARGIN);
    scene.text(x.origin, MARGIN + 10, Anchor::Start, Size::Title, INK, title);
    if let Some(note) = note {
        scene.text(x.origin, MARGIN + 34, Anchor::Start, Size::Number, FAINT_INK, note);
    }
    scene.field(&x, &y);
    scene.marks(&marks, map, &x, &y);
    let top = scene.cells(map, &x, &y);
    scene.x_axis(map, &x, plot_end, y.end(), x_symbols);
    scene.y_axis(map, &y, x.origin, y_symbols);
    scene.colour_bar(plot_end + 26, y.origin, y.length(), top);
    scene
}

/// Says that cells stand for several steps, where they do.
fn pooling_note(x: &Axis, y: &Axis) -> Option<String> {
    (x.bin > 1 || y.bin > 1).then(|| format!("a cell is the strongest of {} x {} steps", x.bin, y.bin))
}

/// The size of the symbols along an axis, if there are any and one character has room.
fn symbol_size(map: &HeatMap, axis: &Axis) -> Option<Size> {
    let has_labels = map.step_labels.as_ref().is_some_and(|labels| labels.iter().any(|label| !label.is_empty()));
    if !has_labels || axis.bin > 1 {
        return None;
    }
    [Size::Number, Size::Symbol].into_iter().find(|size| size.character().0 < axis.cell)
}

/// Pixels beside the y axis for symbols of up to six characters.
fn symbol_room(map: &HeatMap, axis: &Axis) -> i32 {
    let Some(size) = symbol_size(map, axis) else { return 0 };
    if size.character().1 > axis.cell {
        return 0;
    }
    let longest = axis.steps.clone().map(|step| map.step_label(step).chars().count().min(6)).max().unwrap_or(0);
    if longest == 0 { 0 } else { pixels(longest) * size.character().0 + 6 }
}

/// A mark's line and where its name stands.
struct Mark {
    at: i32,
    row: usize,
    text_x: i32,
    anchor: Anchor,
    name: String,
}

/// Gives each mark of the x axis a row above the picture in which its name meets no other; names without room go.
fn place_marks(map: &HeatMap, x: &Axis, plot_end: i32) -> Vec<Mark> {
    let mut marks: Vec<_> = map.marks.iter().filter_map(|(step, name)| Some((x.start(*step)?, name))).collect();
    // From the right, so that of two names that meet the left one moves up: its line then crosses no other name.
    marks.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    let mut taken: [Vec<Range<i32>>; MARK_ROWS] = Default::default();
    let mut placed = Vec::new();
    for (at, name) in marks {
        let name = Size::Number.fit(name, plot_end - x.origin);
        let width = Size::Number.width(&name);
        let (anchor, from) = if at + width <= plot_end + 10 { (Anchor::Start, at) } else { (Anchor::End, at - width) };
        let span = from - 10..from + width + 10;
        let is_free =
            |row: &Vec<Range<i32>>| row.iter().all(|other| other.end <= span.start || span.end <= other.start);
        let row = taken.iter().position(is_free);
        if let Some(row) = row {
            taken[row].push(span);
        }
        let name = if row.is_some() { name } else { String::new() };
        placed.push(Mark { at, row: row.unwrap_or(0), text_x: at, anchor, name });
    }
    placed
}

impl Scene {
    /// Draws what the cells lie on: pairs of steps without a reminder, and those that cannot be.
    fn field(&mut self, x: &Axis, y: &Axis) {
        self.rectangle(x.origin, y.origin, x.length(), y.length(), NO_REMINDER);
        for row in 0..y.bins {
            // The first column whose every step lies at or after the last step of the row.
            let column = y.last_step(row).saturating_sub(x.steps.start).div_ceil(x.bin);
            let from = x.bin_start(column);
            if from < x.end() {
                self.rectangle(from, y.bin_start(row), x.end() - from, y.cell, FUTURE);
            }
        }
    }

    /// Draws the reminders and returns the weight at the top of the colour scale.
    fn cells(&mut self, map: &HeatMap, x: &Axis, y: &Axis) -> f32 {
        let strongest = map.strongest(y.bin, x.bin);
        let most = strongest.iter().fold(0.0, |most: f32, (_, cell)| most.max(cell.weight));
        let top = [0.1, 0.2, 0.5].into_iter().find(|top| most <= *top).unwrap_or(1.0);
        for ((row, column), cell) in strongest {
            self.rectangles.push(Rectangle {
                x: x.bin_start(column),
                y: y.bin_start(row),
                width: x.cell,
                height: y.cell,
                fill: colour::reminder(cell.weight / top),
                tip: Some(format!("step {} was reminded of step {}: {:.3}", cell.step, cell.remembered, cell.weight)),
            });
        }
        top
    }

    /// Draws the lines, below the reminders so that they hide none, and the names. The frame needs no line.
    fn marks(&mut self, marks: &[Mark], map: &HeatMap, x: &Axis, y: &Axis) {
        for mark in marks {
            let tail = 6 + MARK_ROW * pixels(mark.row);
            let height = if mark.at > x.origin { y.length() } else { 0 };
            self.rectangle(mark.at, y.origin - tail, 1, height + tail, MARK);
            let middle = y.origin - tail - 7;
            self.text(mark.text_x, middle, mark.anchor, Size::Number, MARK, mark.name.clone());
        }
        for (step, _) in &map.marks {
            if let Some(at) = y.start(*step).filter(|at| *at > y.origin) {
                self.rectangle(x.origin, at, x.length(), 1, MARK);
            }
        }
    }

    fn x_axis(&mut self, map: &HeatMap, x: &Axis, plot_end: i32, bottom: i32, symbols: i32) {
        if let Some(size) = symbol_size(map, x) {
            let room = (x.cell / size.character().0).max(1) as usize;
            for step in x.steps.clone() {
                let label: String = map.step_label(step).chars().take(room).collect();
                if let (false, Some(start)) = (label.is_empty(), x.start(step)) {
                    self.text(start + x.cell / 2, bottom + 9, Anchor::Middle, size, INK, label);
                }
            }
        }
        let axis = bottom + symbols;
        let widest = Size::Number.width(&x.steps.end.to_string());
        for (step, middle) in x.ticks(widest + 16) {
            self.rectangle(middle, axis + 2, 1, TICK, FAINT_INK);
            self.text(middle, axis + TICK + 10, Anchor::Middle, Size::Number, FAINT_INK, step.to_string());
        }
        let label = Size::Label.fit(&map.x_label, plot_end - x.origin);
        let half = Size::Label.width(&label) / 2;
        let middle = (x.origin + x.length() / 2).max(x.origin + half);
        self.text(middle, axis + TICK + 33, Anchor::Middle, Size::Label, INK, label);
    }

    fn y_axis(&mut self, map: &HeatMap, y: &Axis, left: i32, symbols: i32) {
        if symbols > 0
            && let Some(size) = symbol_size(map, y)
        {
            for step in y.steps.clone() {
                let label: String = map.step_label(step).chars().take(6).collect();
                if let (false, Some(start)) = (label.is_empty(), y.start(step)) {
                    self.text(left - 5, start + y.cell / 2, Anchor::End, size, INK, label);
                }
            }
        }
        let axis = left - symbols;
        for (step, middle) in y.ticks(24) {
            // A symbol stands where the tick would.
            if symbols == 0 {
                self.rectangle(axis - 2 - TICK, middle, TICK, 1, FAINT_INK);
            }
            self.text(axis - TICK - 5, middle, Anchor::End, Size::Number, FAINT_INK, step.to_string());
        }
        let content = Size::Label.fit(&map.y_label, self.height - 2 * MARGIN);
        let half = Size::Label.width(&content) / 2;
        let middle = (y.origin + y.length() / 2).max(MARGIN + half).min(self.height - MARGIN - half);
        let (x, fill) = (MARGIN + 6, INK);
        self.texts.push(Text { x, y: middle, anchor: Anchor::Middle, size: Size::Label, upright: true, fill, content });
    }

    /// Draws the scale from weight 0 to `top`, and below it the colour of no reminder.
    fn colour_bar(&mut self, x: i32, y: i32, plot: i32, top: f32) {
        let height = (plot - 40).clamp(SHORTEST_BAR, 320);
        for line in 0..height {
            let strength = 1.0 - line as f32 / (height - 1) as f32;
            self.rectangle(x, y + line, BAR_WIDTH, 1, colour::reminder(strength));
        }
        let steps = if height >= 160 { 5 } else { 2 };
        for step in 0..=steps {
            let fraction = step as f32 / steps as f32;
            let at = y + ((1.0 - fraction) * (height - 1) as f32).round() as i32;
            self.rectangle(x + BAR_WIDTH, at, 3, 1, FAINT_INK);
            let number = format!("{:.2}", top * fraction);
            self.text(x + BAR_WIDTH + 7, at, Anchor::Start, Size::Number, FAINT_INK, number);
        }
        let none = y + height + 20;
        self.rectangle(x, none, BAR_WIDTH, 14, NO_REMINDER);
        self.text(x + BAR_WIDTH + 7, none + 7, Anchor::Start, Size::Number, FAINT_INK, "none");
        self.text(x, y - 18, Anchor::Start, Size::Number, FAINT_INK, "weight");
    }
}
