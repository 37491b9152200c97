//! Looking into figures: the pixels of a PNG and the texts of an SVG.
#![allow(dead_code, reason = "each test file uses its part")]

/// A decoded PNG.
pub struct Picture {
    pub width: usize,
    pub height: usize,
    channels: usize,
    pixels: Vec<u8>,
}

impl Picture {
    pub fn of(bytes: &[u8]) -> Self {
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        let channels = info.color_type.samples();
        Self { width: info.width as usize, height: info.height as usize, channels, pixels }
    }

    /// How many pixels have this colour.
    pub fn count(&self, colour: [u8; 3]) -> usize {
        self.pixels.chunks_exact(self.channels).filter(|pixel| pixel[..3] == colour).count()
    }
}

/// A text of an SVG where it stands on the page.
#[derive(Debug)]
pub struct Text {
    pub content: String,
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

/// An attribute of a tag.
pub fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    tag.split_once(&format!(" {name}=\""))?.1.split('"').next()
}

/// The sides of an SVG.
pub fn size(svg: &str) -> (f64, f64) {
    let number = |name| attribute(svg, name).unwrap().trim_end_matches("px").parse().unwrap();
    (number("width"), number("height"))
}

/// The width of a letter of DejaVu Sans, roughly, in its size.
fn advance(letter: char) -> f64 {
    match letter {
        'i' | 'l' | 'j' | 't' | 'f' | 'r' | ' ' | ',' | '.' | '(' | ')' => 0.34,
        'm' | 'w' | 'M' | 'W' => 0.9,
        _ => 0.6,
    }
}

/// All texts of an SVG with one tag a line.
pub fn texts(svg: &str) -> Vec<Text> {
    let mut groups: Vec<(f64, f64)> = vec![(0.0, 0.0)];
    let mut found = Vec::new();
    for line in svg.lines().map(str::trim) {
        if line.starts_with("<g") {
            let moved = attribute(line, "transform").and_then(|moved| moved.strip_prefix("translate("));
            let (x, y) = moved.and_then(|moved| moved.trim_end_matches(')').split_once(',')).unwrap_or(("0", "0"));
            let (left, top) = *groups.last().unwrap();
            groups.push((left + x.trim().parse::<f64>().unwrap(), top + y.trim().parse::<f64>().unwrap()));
        } else if line.starts_with("</g") {
            groups.pop();
        } else if line.starts_with("<text") {
            assert!(!line.contains("rotate"), "turned text is blurred in a PNG: {line}");
            let number = |name| attribute(line, name).unwrap().parse::<f64>().unwrap();
            let content = line.split_once('>').unwrap().1.trim_end_matches("</text>").to_owned();
            let plain = content.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").replace("&quot;", "\"");
            let (left, top) = *groups.last().unwrap();
            let size = number("font-size");
            let width = size * plain.chars().map(advance).sum::<f64>();
            let left = left + number("x")
                - match attribute(line, "text-anchor") {
                    Some("middle") => width / 2.0,
                    Some("end") => width,
                    _ => 0.0,
                };
            let base = top + number("y");
            found.push(Text { content, left, right: left + width, top: base - 0.8 * size, bottom: base + 0.25 * size });
        }
    }
    found
}

/// No text leaves the page, and no two lie on each other.
pub fn assert_readable(svg: &str) {
    let (width, height) = size(svg);
    let texts = texts(svg);
    for (place, text) in texts.iter().enumerate() {
        let inside = text.left >= -1.0 && text.right <= width + 1.0 && text.top >= -1.0 && text.bottom <= height + 1.0;
        assert!(inside, "{text:?} is not on the page of {width} x {height}");
        for other in &texts[..place] {
            let apart = text.left >= other.right - 1.0
                || other.left >= text.right - 1.0
                || text.top >= other.bottom - 1.0
                || other.top >= text.bottom - 1.0;
            assert!(apart, "{text:?} lies on {other:?}");
        }
    }
}
