//! A scene as a PNG, with text in bitmap fonts.

use super::colour::{Colour, PAPER};
use super::scene::{Anchor, Rectangle, Scene, Size, Text};
use embedded_graphics::draw_target::DrawTarget;
use embedded_graphics::geometry::{OriginDimensions, Point, Size as Dimensions};
use embedded_graphics::mono_font::{MonoFont, MonoTextStyle, iso_8859_1};
use embedded_graphics::pixelcolor::{Rgb888, RgbColor};
use embedded_graphics::text::{Alignment, Baseline, Text as BitmapText, TextStyleBuilder};
use embedded_graphics::{Drawable, Pixel};
use std::convert::Infallible;
use std::ops::Range;

/// Draws the scene and encodes it.
pub fn render(scene: &Scene) -> Result<Vec<u8>, png::EncodingError> {
    let mut canvas = Canvas::new(scene.width, scene.height);
    for rectangle in &scene.rectangles {
        canvas.fill(rectangle);
    }
    for text in &scene.texts {
        canvas.write(text);
    }
    canvas.encode()
}

struct Canvas {
    width: u32,
    height: u32,
    /// Red, green and blue of each pixel, row by row.
    pixels: Vec<u8>,
}

impl Canvas {
    fn new(width: i32, height: i32) -> Self {
        let (width, height) = (width.max(1) as u32, height.max(1) as u32);
        let pixels = PAPER.repeat(width as usize * height as usize);
        Self { width, height, pixels }
    }

    /// Sets a pixel; what lies outside the canvas is cut off.
    fn set(&mut self, x: i32, y: i32, colour: Colour) {
        let (Ok(x), Ok(y)) = (u32::try_from(x), u32::try_from(y)) else { return };
        if x < self.width && y < self.height {
            let at = 3 * (y as usize * self.width as usize + x as usize);
            self.pixels[at..at + 3].copy_from_slice(&colour);
        }
    }

    fn fill(&mut self, &Rectangle { x, y, width, height, fill, .. }: &Rectangle) {
        let columns = self.clip(x, width, self.width);
        for row in self.clip(y, height, self.height) {
            let start = row * self.width as usize;
            let line = &mut self.pixels[3 * (start + columns.start)..3 * (start + columns.end)];
            line.as_chunks_mut().0.fill(fill);
        }
    }

    /// The pixels of a side that lie on the canvas.
    fn clip(&self, start: i32, length: i32, side: u32) -> Range<usize> {
        let end = start.saturating_add(length).clamp(0, side as i32) as usize;
        (start.max(0) as usize).min(end)..end
    }

    fn write(&mut self, text: &Text) {
        let [red, green, blue] = text.fill;
        let font: &MonoFont<'_> = match text.size {
            Size::Title => &iso_8859_1::FONT_10X20,
            Size::Label => &iso_8859_1::FONT_9X15,
            Size::Number => &iso_8859_1::FONT_8X13,
            Size::Symbol => &iso_8859_1::FONT_6X10,
        };
        let style = MonoTextStyle::new(font, Rgb888::new(red, green, blue));
        let alignment = match text.anchor {
            Anchor::Start => Alignment::Left,
            Anchor::Middle => Alignment::Center,
            Anchor::End => Alignment::Right,
        };
        let layout = TextStyleBuilder::new().alignment(alignment).baseline(Baseline::Middle).build();
        // A text is one line.
        let content = text.content.replace(char::is_control, " ");
        let mut at = At { x: text.x, y: text.y, upright: text.upright, canvas: self };
        // Drawing is infallible; the error type has no values.
        let Ok(_) = BitmapText::with_text_style(&content, Point::zero(), style, layout).draw(&mut at);
    }

    fn encode(&self) -> Result<Vec<u8>, png::EncodingError> {
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

/// The canvas seen from a point, turned a quarter against the clock for upright text.
struct At<'a> {
    x: i32,
    y: i32,
    upright: bool,
    canvas: &'a mut Canvas,
}

impl OriginDimensions for At<'_> {
    fn size(&self) -> Dimensions {
        Dimensions::new(self.canvas.width, self.canvas.height)
    }
}

impl DrawTarget for At<'_> {
    type Color = Rgb888;
    type Error = Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<Rgb888>>>(&mut self, pixels: I) -> Result<(), Infallible> {
        for Pixel(point, colour) in pixels {
            let (right, down) = if self.upright { (point.y, -point.x) } else { (point.x, point.y) };
            let colour = [colour.r(), colour.g(), colour.b()];
            self.canvas.set(self.x.saturating_add(right), self.y.saturating_add(down), colour);
        }
        Ok(())
    }
}
