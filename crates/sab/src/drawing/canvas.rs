//! Pixels: rectangles exactly, all else with smooth edges.

use super::colour::{Colour, PAPER};
use super::scene::Place;
use std::ops::Range;

/// Width of the paper around a polygon, in pixels of the scene.
pub const RIM: f64 = 1.0;

/// A picture in pixels.
pub struct Canvas {
    pub width: u32,
    pub height: u32,
    /// Red, green and blue of each pixel, row by row.
    pixels: Vec<u8>,
}

impl Canvas {
    pub fn new(width: i32, height: i32) -> Self {
        let (width, height) = (width.max(1) as u32, height.max(1) as u32);
        let pixels = PAPER.repeat(width as usize * height as usize);
        Self { width, height, pixels }
    }

    /// Mixes a colour into a pixel, `cover` of it in 0..=1; what lies outside the canvas is cut off.
    pub fn blend(&mut self, x: i32, y: i32, colour: Colour, cover: f64) {
        let (Ok(x), Ok(y)) = (u32::try_from(x), u32::try_from(y)) else { return };
        if x < self.width && y < self.height && cover > 0.0 {
            let at = 3 * (y as usize * self.width as usize + x as usize);
            for (channel, new) in self.pixels[at..at + 3].iter_mut().zip(colour) {
                let mixed = f64::from(*channel) + (f64::from(new) - f64::from(*channel)) * cover.min(1.0);
                *channel = mixed.round() as u8;
            }
        }
    }

    /// Fills a rectangle.
    pub fn fill(&mut self, x: i32, y: i32, width: i32, height: i32, colour: Colour) {
        let columns = clip(x, width, self.width);
        for row in clip(y, height, self.height) {
            let start = row * self.width as usize;
            let line = &mut self.pixels[3 * (start + columns.start)..3 * (start + columns.end)];
            line.as_chunks_mut().0.fill(colour);
        }
    }

    /// Draws a line through points. Where it meets itself it does not grow darker.
    pub fn stroke(&mut self, points: &[Place], width: f64, colour: Colour) {
        let reach = width / 2.0 + 1.0;
        let Some(field) = self.around(points, reach) else { return };
        let mut nearest = vec![f64::INFINITY; field.columns.len() * field.rows.len()];
        for ends in pairs(points) {
            let Some(part) = self.around(&ends, reach) else { continue };
            for y in part.rows.clone() {
                for x in part.columns.clone() {
                    let at = (y - field.rows.start) * field.columns.len() + x - field.columns.start;
                    nearest[at] = nearest[at].min(distance((x as f64 + 0.5, y as f64 + 0.5), ends));
                }
            }
        }
        for (line, y) in nearest.chunks(field.columns.len().max(1)).zip(field.rows) {
            for (distance, x) in line.iter().zip(field.columns.clone()) {
                self.blend(x as i32, y as i32, colour, 0.5 + width / 2.0 - distance);
            }
        }
    }

    /// Fills a polygon, `grown` by some pixels on all sides.
    pub fn polygon(&mut self, corners: &[Place], grown: f64, colour: Colour) {
        let Some(field) = self.around(corners, grown + 1.0) else { return };
        for y in field.rows {
            for x in field.columns.clone() {
                let place = (x as f64 + 0.5, y as f64 + 0.5);
                let edge = sides(corners).map(|ends| distance(place, ends)).fold(f64::INFINITY, f64::min);
                let outside = if contains(corners, place) { -edge } else { edge };
                self.blend(x as i32, y as i32, colour, 0.5 + grown - outside);
            }
        }
    }

    /// The pixels of the canvas within `reach` of any of the points.
    fn around(&self, points: &[Place], reach: f64) -> Option<Field> {
        let span = |values: &mut dyn Iterator<Item = f64>, side: u32| {
            let (low, high) =
                values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
            let start = (low - reach).floor().clamp(0.0, f64::from(side)) as usize;
            let end = (high + reach).ceil().clamp(0.0, f64::from(side)) as usize;
            (start < end).then_some(start..end)
        };
        let columns = span(&mut points.iter().map(|point| point.0), self.width)?;
        let rows = span(&mut points.iter().map(|point| point.1), self.height)?;
        Some(Field { columns, rows })
    }

    /// The picture as a PNG file.
    pub fn encode(&self) -> Result<Vec<u8>, png::EncodingError> {
        let mut out = Vec::new();
        let mut encoder = png::Encoder::new(&mut out, self.width, self.height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::Balanced);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&self.pixels)?;
        writer.finish()?;
        Ok(out)
    }
}

/// A part of the canvas.
struct Field {
    columns: Range<usize>,
    rows: Range<usize>,
}

/// The pixels of a side that lie on the canvas.
fn clip(start: i32, length: i32, side: u32) -> Range<usize> {
    let end = start.saturating_add(length).clamp(0, side as i32) as usize;
    (start.max(0) as usize).min(end)..end
}

/// The pieces of a line; a single point is a piece without length.
fn pairs(points: &[Place]) -> impl Iterator<Item = [Place; 2]> {
    let single = if points.len() == 1 { points.first() } else { None };
    points.windows(2).map(|pair| [pair[0], pair[1]]).chain(single.map(|point| [*point, *point]))
}

fn sides(corners: &[Place]) -> impl Iterator<Item = [Place; 2]> {
    corners.iter().enumerate().map(|(i, corner)| [*corner, corners[(i + 1) % corners.len()]])
}

/// How far a place is from a piece of a line.
fn distance((x, y): Place, [(x0, y0), (x1, y1)]: [Place; 2]) -> f64 {
    let (dx, dy) = (x1 - x0, y1 - y0);
    let length = dx * dx + dy * dy;
    let along = if length > 0.0 { (((x - x0) * dx + (y - y0) * dy) / length).clamp(0.0, 1.0) } else { 0.0 };
    (x - x0 - along * dx).hypot(y - y0 - along * dy)
}

/// Whether a place is inside a polygon: a line from it to the right crosses an odd number of sides.
fn contains(corners: &[Place], (x, y): Place) -> bool {
    let crosses = |[(x0, y0), (x1, y1)]: [Place; 2]| (y0 > y) != (y1 > y) && x < x0 + (y - y0) / (y1 - y0) * (x1 - x0);
    sides(corners).filter(|side| crosses(*side)).count() % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn darkness(canvas: &Canvas) -> f64 {
        canvas.pixels.iter().map(|channel| f64::from(255 - channel) / 255.0).sum::<f64>() / 3.0
    }

    #[test]
    fn a_line_covers_its_length_times_its_width_wherever_it_lies() {
        for (from, to) in [((10.0, 20.0), (90.0, 20.0)), ((10.3, 20.6), (90.3, 20.6)), ((10.0, 10.0), (74.0, 58.0))] {
            let mut canvas = Canvas::new(100, 100);
            canvas.stroke(&[from, to], 3.0, [0, 0, 0]);
            // Its round ends are a circle of its width.
            let right = 80.0 * 3.0 + 1.5 * 1.5 * std::f64::consts::PI;
            assert!((darkness(&canvas) - right).abs() < 3.0, "{} against {right}", darkness(&canvas));
        }
    }

    #[test]
    fn a_line_back_and_forth_is_as_dark_as_one() {
        let draw = |points: &[Place]| {
            let mut canvas = Canvas::new(60, 20);
            canvas.stroke(points, 2.0, [0, 0, 0]);
            canvas.pixels
        };
        assert_eq!(draw(&[(5.2, 7.3), (50.0, 12.0)]), draw(&[(5.2, 7.3), (50.0, 12.0), (5.2, 7.3)]));
    }

    #[test]
    fn a_polygon_covers_its_area_and_what_is_outside_is_cut_off() {
        let mut canvas = Canvas::new(50, 50);
        canvas.polygon(&[(10.5, 10.5), (30.5, 10.5), (30.5, 25.5), (10.5, 25.5)], 0.0, [0, 0, 0]);
        assert!((darkness(&canvas) - 300.0).abs() < 2.0, "{}", darkness(&canvas));
        canvas.polygon(&[(-1e9, -1e9), (1e9, -1e9), (0.0, 1e9)], 0.0, [0, 0, 0]);
        canvas.stroke(&[(-1e9, f64::NAN), (1e9, 1e9)], 2.0, [0, 0, 0]);
        canvas.polygon(&[], 1.0, [0, 0, 0]);
    }
}
