//! A scene as an SVG document.

use super::canvas::RIM;
use super::colour::{Colour, PAPER};
use super::scene::{Anchor, Place, Polygon, Rectangle, Scene, Size, Stroke, Text};
use std::fmt::Write;

/// Draws the scene; the document refers to nothing outside itself.
pub fn render(scene: &Scene) -> String {
    let mut svg = String::new();
    // Writing to a string does not fail.
    let _ = write(&mut svg, scene);
    svg
}

fn write(svg: &mut String, scene: &Scene) -> std::fmt::Result {
    let Scene { title, width, height, rectangles, strokes, polygons, texts } = scene;
    writeln!(
        svg,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" font-family="system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', Helvetica, Arial, sans-serif">"#
    )?;
    writeln!(svg, "<title>{}</title>", escape(title))?;
    writeln!(svg, r#"<rect width="{width}" height="{height}" fill="{}"/>"#, hex(PAPER))?;
    // Without this browsers blur the borders between cells when they scale the picture.
    writeln!(svg, r#"<g shape-rendering="crispEdges">"#)?;
    for Rectangle { x, y, width, height, fill, tip } in rectangles {
        write!(svg, r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{}""#, hex(*fill))?;
        close(svg, "rect", tip.as_deref())?;
    }
    writeln!(svg, "</g>")?;
    for Stroke { points, width, dash, colour } in strokes {
        let dash = dash.map_or(String::new(), |(dash, gap)| format!(r#" stroke-dasharray="{dash} {gap}""#));
        writeln!(
            svg,
            r#"<polyline points="{}" fill="none" stroke="{}" stroke-width="{width}" stroke-linejoin="round" stroke-linecap="round"{dash}/>"#,
            places(points),
            hex(*colour)
        )?;
    }
    for Polygon { corners, fill, tip } in polygons {
        let (paper, rim) = (hex(PAPER), 2.0 * RIM);
        write!(
            svg,
            r#"<polygon points="{}" fill="{}" stroke="{paper}" stroke-width="{rim}" paint-order="stroke""#,
            places(corners),
            hex(*fill)
        )?;
        close(svg, "polygon", tip.as_deref())?;
    }
    for Text { x, y, anchor, size, upright, fill, content } in texts {
        if content.is_empty() {
            continue;
        }
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let font = match size {
            Size::Title => r#"font-size="18" font-weight="600""#,
            Size::Label => r#"font-size="14""#,
            Size::Number => r#"font-size="12""#,
            Size::Symbol => r#"font-size="9""#,
        };
        let turn = if *upright { format!(r#" transform="rotate(-90 {x} {y})""#) } else { String::new() };
        writeln!(
            svg,
            r#"<text x="{x}" y="{y}" dy="0.35em" text-anchor="{anchor}" {font} fill="{}"{turn}>{}</text>"#,
            hex(*fill),
            escape(content)
        )?;
    }
    writeln!(svg, "</svg>")
}

/// Ends a tag, with a tip inside if there is one.
fn close(svg: &mut String, tag: &str, tip: Option<&str>) -> std::fmt::Result {
    match tip {
        Some(tip) => writeln!(svg, "><title>{}</title></{tag}>", escape(tip)),
        None => writeln!(svg, "/>"),
    }
}

/// Points to a tenth of a pixel, without repetitions.
fn places(points: &[Place]) -> String {
    let mut texts: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    texts.dedup();
    texts.join(" ")
}

fn hex([red, green, blue]: Colour) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Text that is safe between tags; characters that XML does not allow become the replacement character.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\t' | '\n' | '\r' => out.push(' '),
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_break_out_of_its_tag() {
        assert_eq!(escape("a<b> & c\n\x00"), "a&lt;b&gt; &amp; c \u{fffd}");
    }
}
