//! A scene as a PNG, with text in bitmap fonts.

use super::canvas::{Canvas, RIM};
use super::colour::PAPER;
use super::scene::{Anchor, Place, Scene, Size, Text};
use embedded_graphics::draw_target::DrawTarget;
use embedded_graphics::geometry::{OriginDimensions, Point, Size as Dimensions};
use embedded_graphics::mono_font::{MonoFont, MonoTextStyle, iso_8859_1};
use embedded_graphics::pixelcolor::BinaryColor;
use embedded_graphics::text::{Alignment, Baseline, Text as BitmapText, TextStyleBuilder};
use embedded_graphics::{Drawable, Pixel};
use std::convert::Infallible;

/// Draws the scene `scale` times as large as it says, and encodes it. With a scale of 1 text is as its bitmaps are; larger
/// text has round edges.
pub fn render(scene: &Scene, scale: u8) -> Result<Vec<u8>, png::EncodingError> {
    let (whole, part) = (i32::from(scale.max(1)), f64::from(scale.max(1)));
    let mut canvas = Canvas::new(scene.width.saturating_mul(whole), scene.height.saturating_mul(whole));
    for r in &scene.rectangles {
        let [x, y, width, height] = [r.x, r.y, r.width, r.height].map(|length| length.saturating_mul(whole));
        canvas.fill(x, y, width, height, r.fill);
    }
    let scaled = |points: &[Place]| -> Vec<Place> { points.iter().map(|(x, y)| (x * part, y * part)).collect() };
    for stroke in &scene.strokes {
        let points = scaled(&stroke.points);
        match stroke.dash {
            None => canvas.stroke(&points, stroke.width * part, stroke.colour),
            Some((dash, gap)) => {
                for dash in dashes(&points, dash * part, gap * part) {
                    canvas.stroke(&dash, stroke.width * part, stroke.colour);
                }
            }
        }
    }
    for polygon in &scene.polygons {
        let corners = scaled(&polygon.corners);
        canvas.polygon(&corners, RIM * part, PAPER);
        canvas.polygon(&corners, 0.0, polygon.fill);
    }
    for text in &scene.texts {
        write(&mut canvas, text, whole);
    }
    canvas.encode()
}

/// The parts of a line that are drawn when it is dashed.
fn dashes(points: &[Place], dash: f64, gap: f64) -> Vec<Vec<Place>> {
    let Some(first) = points.first().filter(|_| dash > 0.0 && gap > 0.0) else { return vec![points.to_vec()] };
    let mut parts = Vec::new();
    let (mut part, mut drawn, mut left) = (vec![*first], true, dash);
    for pair in points.windows(2) {
        let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
        let length = (x1 - x0).hypot(y1 - y0);
        let mut along = 0.0;
        while length - along > left {
            along += left;
            let at = (x0 + (x1 - x0) * along / length, y0 + (y1 - y0) * along / length);
            if drawn {
                part.push(at);
                parts.push(std::mem::take(&mut part));
            }
            part = vec![at];
            drawn = !drawn;
            left = if drawn { dash } else { gap };
        }
        left -= length - along;
        if drawn {
            part.push((x1, y1));
        }
    }
    if drawn && part.len() > 1 {
        parts.push(part);
    }
    parts
}

fn write(canvas: &mut Canvas, text: &Text, scale: i32) {
    let font: &MonoFont<'_> = match text.size {
        Size::Title => &iso_8859_1::FONT_10X20,
        Size::Label => &iso_8859_1::FONT_9X15,
        Size::Number => &iso_8859_1::FONT_8X13,
        Size::Symbol => &iso_8859_1::FONT_6X10,
    };
    let style = MonoTextStyle::new(font, BinaryColor::On);
    let alignment = match text.anchor {
        Anchor::Start => Alignment::Left,
        Anchor::Middle => Alignment::Center,
        Anchor::End => Alignment::Right,
    };
    let layout = TextStyleBuilder::new().alignment(alignment).baseline(Baseline::Middle).build();
    // A text is one line.
    let content = text.content.replace(char::is_control, " ");
    let mut dots = Dots { upright: text.upright, places: Vec::new() };
    // Drawing is infallible; the error type has no values.
    let Ok(_) = BitmapText::with_text_style(&content, Point::zero(), style, layout).draw(&mut dots);
    if scale == 1 {
        for (right, down) in dots.places {
            canvas.blend(text.x.saturating_add(right), text.y.saturating_add(down), text.fill, 1.0);
        }
    } else {
        smooth(canvas, text, &dots.places, scale);
    }
}

/// Draws the dots of a text enlarged: each is a soft spot, and what the spots add up to is cut off at a level where a
/// line of dots is one dot wide and diagonals hold together.
fn smooth(canvas: &mut Canvas, text: &Text, dots: &[(i32, i32)], scale: i32) {
    const LEVEL: f64 = 0.4;
    let low = dots.iter().fold((i32::MAX, i32::MAX), |low, dot| (low.0.min(dot.0), low.1.min(dot.1)));
    let high = dots.iter().fold((i32::MIN, i32::MIN), |high, dot| (high.0.max(dot.0), high.1.max(dot.1)));
    if dots.is_empty() {
        return;
    }
    let (width, height) = (((high.0 - low.0 + 3) * scale) as usize, ((high.1 - low.1 + 3) * scale) as usize);
    let mut sum = vec![0.0; width * height];
    for (right, down) in dots {
        // Of the enlarged dots around this one.
        let (left, top) = (((right - low.0) * scale) as usize, ((down - low.1) * scale) as usize);
        for y in 0..3 * scale as usize {
            for x in 0..3 * scale as usize {
                let from_middle = |at: usize| ((at as f64 + 0.5) / f64::from(scale) - 1.5).abs();
                sum[(top + y) * width + left + x] += spot(from_middle(x)) * spot(from_middle(y));
            }
        }
    }
    for (at, sum) in sum.into_iter().enumerate() {
        let right = (low.0 - 1) * scale + (at % width) as i32;
        let down = (low.1 - 1) * scale + (at / width) as i32;
        let cover = 0.5 + (sum - LEVEL) * f64::from(scale);
        let x = text.x.saturating_mul(scale).saturating_add(right);
        canvas.blend(x, text.y.saturating_mul(scale).saturating_add(down), text.fill, cover);
    }
}

/// The quadratic B-spline.
fn spot(distance: f64) -> f64 {
    match distance {
        ..0.5 => 0.75 - distance * distance,
        ..1.5 => 0.5 * (1.5 - distance).powi(2),
        _ => 0.0,
    }
}

/// The dots of a text around its position, turned a quarter against the clock if it is upright.
struct Dots {
    upright: bool,
    places: Vec<(i32, i32)>,
}

impl OriginDimensions for Dots {
    fn size(&self) -> Dimensions {
        Dimensions::new(u32::MAX, u32::MAX)
    }
}

impl DrawTarget for Dots {
    type Color = BinaryColor;
    type Error = Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<BinaryColor>>>(&mut self, pixels: I) -> Result<(), Infallible> {
        let upright = self.upright;
        let on = pixels.into_iter().filter(|pixel| pixel.1 == BinaryColor::On);
        self.places.extend(on.map(|Pixel(at, _)| if upright { (at.y, -at.x) } else { (at.x, at.y) }));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_and_gaps_take_turns_across_corners() {
        let parts = dashes(&[(0.0, 0.0), (5.0, 0.0), (5.0, 7.0)], 4.0, 2.0);
        assert_eq!(parts, [vec![(0.0, 0.0), (4.0, 0.0)], vec![(5.0, 1.0), (5.0, 5.0)]]);
        let long: f64 = dashes(&[(0.0, 0.0), (600.0, 0.0)], 6.0, 4.0).iter().map(|dash| dash[1].0 - dash[0].0).sum();
        assert!((long - 360.0).abs() < 6.0, "{long}");
        assert_eq!(dashes(&[(1.0, 1.0), (2.0, 2.0)], 0.0, 1.0).len(), 1);
    }
}
