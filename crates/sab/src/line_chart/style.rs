//! How lines look, so that no two of a picture look the same.

use crate::drawing::{Colour, LINES, Place, Polygon, Scene, Stroke};
use std::f64::consts::TAU;

/// Width of a line.
const WIDTH: f64 = 2.2;
/// Pixels of a dash and of the gap after it; the round ends of a dash take half a width of the gap each.
const DASH: (f64, f64) = (5.0, 6.0);
/// From the middle of a point to its rim.
const RADIUS: f64 = 4.6;
/// Width of the piece of line in a legend.
pub const SAMPLE: f64 = 44.0;

/// The shape of a point.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Circle,
    Square,
    Triangle,
    Diamond,
    Cross,
    Inverted,
}

/// As many as there are colours but one: a line of the next round has another shape with its colour.
const SHAPES: [Shape; 6] =
    [Shape::Circle, Shape::Square, Shape::Triangle, Shape::Diamond, Shape::Cross, Shape::Inverted];

/// The look of one line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Style {
    pub colour: Colour,
    shape: Shape,
    dashed: bool,
}

impl Style {
    /// The look of the line with this number.
    pub fn new(number: usize, dashed: bool) -> Self {
        Self { colour: LINES[number % LINES.len()], shape: SHAPES[number % SHAPES.len()], dashed }
    }

    /// Draws the line.
    pub fn line(self, scene: &mut Scene, points: Vec<Place>) {
        let dash = self.dashed.then_some(DASH);
        scene.strokes.push(Stroke { points, width: WIDTH, dash, colour: self.colour });
    }

    /// Draws a point.
    pub fn point(self, scene: &mut Scene, (x, y): Place, tip: Option<String>) {
        // Angles from the top, clockwise, and how far from the middle; all shapes weigh about the same.
        let regular = |corners: usize, turn: f64, size: f64| -> Vec<(f64, f64)> {
            (0..corners).map(|i| (turn + i as f64 / corners as f64, size)).collect()
        };
        let outline = match self.shape {
            Shape::Circle => regular(24, 0.0, 1.0),
            Shape::Square => regular(4, 0.125, 1.22),
            Shape::Triangle => regular(3, 0.0, 1.38),
            Shape::Inverted => regular(3, 0.5, 1.38),
            Shape::Diamond => regular(4, 0.0, 1.32),
            // Four arms with two corners each, and a corner between them.
            Shape::Cross => (0..4)
                .flat_map(|arm| {
                    [(-0.048, 1.4), (0.048, 1.4), (0.125, 0.55)]
                        .map(|(turn, size)| (arm as f64 / 4.0 + 0.125 + turn, size))
                })
                .collect(),
        };
        let corner = |(turn, size): (f64, f64)| {
            let (sin, cos) = (turn * TAU).sin_cos();
            (x + RADIUS * size * sin, y - RADIUS * size * cos)
        };
        let corners = outline.into_iter().map(corner).collect();
        scene.polygons.push(Polygon { corners, fill: self.colour, tip });
    }

    /// Draws a piece of the line with a point, for a legend.
    pub fn sample(self, scene: &mut Scene, (x, y): Place) {
        self.line(scene, vec![(x, y), (x + SAMPLE, y)]);
        self.point(scene, (x + SAMPLE / 2.0, y), None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forty_two_lines_all_look_different() {
        let styles: Vec<_> = (0..42).map(|number| Style::new(number, false)).collect();
        for (i, style) in styles.iter().enumerate() {
            assert!(!styles[..i].contains(style), "{i}");
        }
    }
}
