//! One pair of axes with its lines.

use super::axis::Axis;
use super::style::Style;
use super::{LineChart, Series};
use crate::drawing::{Anchor, FAINT_INK, GRID, INK, Place, Scene, Size, Stroke, tick_label};

/// Above the plot: the title and the name of the y axis.
pub const ABOVE: i32 = 54;
/// Below the plot: numbers and the name of the x axis.
pub const BELOW: i32 = 50;
/// Pixels between the plot and the numbers beside it.
const GAP: i32 = 8;
/// Ticks have at least this much room on the y axis.
const ROOM_Y: i32 = 52;
/// Room for each tick of the x axis.
const ROOM_X: i32 = 84;
/// Points of a line that has few are all marked; of others those that are this far apart.
const FEW: usize = 24;
const APART: f64 = 64.0;

/// Where the plot lies.
#[derive(Clone, Copy)]
pub struct Frame {
    pub left: i32,
    pub top: i32,
    pub width: i32,
    pub height: i32,
}

/// The axes of a chart in a frame.
pub struct Panel<'a> {
    chart: &'a LineChart,
    frame: Frame,
    x: Axis,
    y: Axis,
}

/// Pixels to the left of the plot that the numbers of the y axis take.
pub fn room_for_numbers(chart: &LineChart, height: i32) -> i32 {
    let y = y_axis(chart, Frame { left: 0, top: 0, width: 0, height });
    let widths = y.ticks(tick_count(height, ROOM_Y)).into_iter().map(|tick| Size::Number.width(&tick.label));
    widths.max().unwrap_or(0) + GAP
}

fn y_axis(chart: &LineChart, frame: Frame) -> Axis {
    let values = chart.drawable().map(|point| point.1);
    let bottom = f64::from(frame.top + frame.height);
    Axis::new(chart.y_scale, values, (bottom, f64::from(frame.top)), Some(tick_count(frame.height, ROOM_Y)))
}

fn tick_count(length: i32, room: i32) -> usize {
    (length / room).max(2) as usize
}

impl<'a> Panel<'a> {
    pub fn new(chart: &'a LineChart, frame: Frame) -> Self {
        let values = chart.drawable().map(|point| point.0);
        let (left, right) = (f64::from(frame.left), f64::from(frame.left + frame.width));
        // Points do not lie on the y axis, where their halves would cover its numbers.
        let x = Axis::new(chart.x_scale, values, (left + 8.0, right - 8.0), None);
        Self { chart, frame, x, y: y_axis(chart, frame) }
    }

    /// Draws the axes with their names, and the title above them.
    pub fn axes(&self, scene: &mut Scene, title: Size) {
        let Frame { left, top, width, height } = self.frame;
        let bottom = top + height;
        scene.text(left, top - 42, Anchor::Start, title, INK, title.fit(&self.chart.title, width));
        let y_label = Size::Number.fit(&self.chart.y_label, width);
        scene.text(left, top - 18, Anchor::Start, Size::Number, FAINT_INK, y_label);
        for tick in self.y.ticks(tick_count(height, ROOM_Y)) {
            let at = tick.at.round() as i32;
            scene.rectangle(left, at, width, 1, GRID);
            scene.text(left - GAP, at, Anchor::End, Size::Number, FAINT_INK, tick.label);
        }
        let mut free_from = i32::MIN;
        for tick in self.x.ticks(tick_count(width, ROOM_X)) {
            let at = tick.at.round() as i32;
            scene.rectangle(at, top, 1, height, GRID);
            scene.rectangle(at, bottom, 1, 5, FAINT_INK);
            let half = Size::Number.width(&tick.label) / 2;
            // Ticks of a log axis may be closer than their numbers are wide.
            if at - half >= free_from {
                scene.text(at, bottom + 14, Anchor::Middle, Size::Number, FAINT_INK, tick.label);
                free_from = at + half + 6;
            }
        }
        scene.rectangle(left, bottom, width, 1, FAINT_INK);
        let x_label = Size::Number.fit(&self.chart.x_label, width);
        scene.text(left + width / 2, bottom + 36, Anchor::Middle, Size::Number, FAINT_INK, x_label);
    }

    /// Draws a line with its points; `number` moves the points along it, so that those of two lines do not hide each other.
    pub fn series(&self, scene: &mut Scene, series: &Series, style: Style, number: usize) {
        let drawable: Vec<Option<(f64, f64)>> =
            series.points.iter().map(|point| self.chart.can_be_drawn(*point).then_some(*point)).collect();
        for piece in drawable.split(Option::is_none) {
            let places: Vec<Place> = piece.iter().flatten().map(|point| self.place(*point)).collect();
            if places.len() > 1 {
                style.line(scene, places);
            }
        }
        let points: Vec<(f64, f64)> = drawable.into_iter().flatten().collect();
        let few = points.len() <= FEW;
        let mut next = f64::NEG_INFINITY;
        for (i, point) in points.iter().enumerate() {
            let place = self.place(*point);
            if i == 0 && !few {
                next = place.0 + APART * (number % 5) as f64 / 5.0 + 6.0;
            }
            if few || place.0 >= next {
                next = place.0 + APART;
                style.point(scene, place, Some(self.tip(series, *point)));
            }
        }
    }

    /// Where a line ends.
    pub fn end(&self, series: &Series) -> Option<Place> {
        series.points.iter().rfind(|point| self.chart.can_be_drawn(**point)).map(|point| self.place(*point))
    }

    /// Draws a thin line from the end of a line to its name.
    pub fn leader(scene: &mut Scene, style: Style, from: Place, to: Place) {
        let bend = (to.0 - 6.0, to.1);
        scene.strokes.push(Stroke { points: vec![from, bend, to], width: 1.0, dash: None, colour: style.colour });
    }

    fn place(&self, (x, y): (f64, f64)) -> Place {
        (self.x.place(x), self.y.place(y))
    }

    fn tip(&self, series: &Series, (x, y): (f64, f64)) -> String {
        // Four digits, whatever the size.
        let number =
            |value: f64| tick_label(value, 10_f64.powf(value.abs().max(1e-300).log10().floor() - 3.0).min(1.0));
        format!("{}: {} at {}", series.name, number(y), number(x))
    }
}
