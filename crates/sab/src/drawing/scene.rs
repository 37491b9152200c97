//! The parts of a picture, in pixels, for both renderers.

use super::colour::Colour;

/// Size of a text, and with it its font.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// The title of the picture.
    Title,
    /// The name of an axis.
    Label,
    /// Numbers, marks and notes.
    Number,
    /// A symbol in a narrow cell.
    Symbol,
}

impl Size {
    /// Width and height of a character in pixels, in the bitmap fonts of the PNG. Fonts of the SVG are narrower.
    pub const fn character(self) -> (i32, i32) {
        match self {
            Self::Title => (10, 20),
            Self::Label => (9, 15),
            Self::Number => (8, 13),
            Self::Symbol => (6, 10),
        }
    }

    /// The width of a text in pixels.
    pub fn width(self, text: &str) -> i32 {
        pixels(text.chars().count()).saturating_mul(self.character().0)
    }

    /// `text`, cut with an ellipsis where it is wider than `room`.
    pub fn fit(self, text: &str, room: i32) -> String {
        let characters = usize::try_from(room / self.character().0).unwrap_or(0);
        if text.chars().count() <= characters {
            return text.to_owned();
        }
        let kept: String = text.chars().take(characters.saturating_sub(3)).collect();
        format!("{}...", kept.trim_end())
    }
}

/// Which point of a text its position means; vertically it is always the middle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// A filled rectangle; the tip is shown under the pointer.
pub struct Rectangle {
    pub x: i32,
    pub y: i32,
    pub width: i32,
    pub height: i32,
    pub fill: Colour,
    pub tip: Option<String>,
}

/// A line of text; upright text reads from bottom to top.
pub struct Text {
    pub x: i32,
    pub y: i32,
    pub anchor: Anchor,
    pub size: Size,
    pub upright: bool,
    pub fill: Colour,
    pub content: String,
}

/// A point of a line or a polygon, in pixels to the right and down.
pub type Place = (f64, f64);

/// A line through points.
pub struct Stroke {
    pub points: Vec<Place>,
    pub width: f64,
    /// Pixels of a dash and of the gap after it.
    pub dash: Option<(f64, f64)>,
    pub colour: Colour,
}

/// A filled polygon with a rim of paper, so that it stands out from the lines it lies on; the tip is shown under the
/// pointer.
pub struct Polygon {
    pub corners: Vec<Place>,
    pub fill: Colour,
    pub tip: Option<String>,
}

/// A picture: rectangles in the order of drawing, then lines, polygons and texts.
#[derive(Default)]
pub struct Scene {
    pub title: String,
    pub width: i32,
    pub height: i32,
    pub rectangles: Vec<Rectangle>,
    pub strokes: Vec<Stroke>,
    pub polygons: Vec<Polygon>,
    pub texts: Vec<Text>,
}

impl Scene {
    /// Puts another scene below, as it is.
    pub fn put_below(&mut self, other: Scene) {
        let down = self.height;
        let lower = |places: Vec<Place>| places.into_iter().map(|(x, y)| (x, y + f64::from(down))).collect();
        self.width = self.width.max(other.width);
        self.height += other.height;
        self.rectangles.extend(other.rectangles.into_iter().map(|part| Rectangle { y: part.y + down, ..part }));
        self.texts.extend(other.texts.into_iter().map(|part| Text { y: part.y + down, ..part }));
        self.strokes.extend(other.strokes.into_iter().map(|part| Stroke { points: lower(part.points), ..part }));
        self.polygons.extend(other.polygons.into_iter().map(|part| Polygon { corners: lower(part.corners), ..part }));
    }

    pub fn text(&mut self, x: i32, y: i32, anchor: Anchor, size: Size, fill: Colour, content: impl Into<String>) {
        self.texts.push(Text { x, y, anchor, size, upright: false, fill, content: content.into() });
    }

    pub fn rectangle(&mut self, x: i32, y: i32, width: i32, height: i32, fill: Colour) {
        self.rectangles.push(Rectangle { x, y, width, height, fill, tip: None });
    }
}

/// A count as a number of pixels.
pub fn pixels(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
