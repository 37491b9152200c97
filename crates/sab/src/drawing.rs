//! The common ground of both kinds of figure: texts, numbers and files. [kuva](https://docs.rs/kuva) draws the
//! figures; it brings its own font, so a PNG looks the same on a machine without fonts.

use crate::error::{LabError, Result};
use kuva::prelude::{Layout, PngBackend, SvgBackend};
use kuva::render::render::Scene;

/// A side of the PNG has this many pixels for each pixel of the SVG.
const PNG_SCALE: f32 = 2.0;

/// A figure that has been drawn.
pub struct Picture(pub(crate) Scene);

impl Picture {
    /// A self-contained SVG document. Cells and markers tell their numbers under the pointer.
    pub fn to_svg(&self) -> String {
        renumbered(&SvgBackend::new().with_pretty(true).render_scene(&self.0))
    }

    /// A PNG.
    pub fn to_png(&self) -> Result<Vec<u8>> {
        PngBackend::new().with_scale(PNG_SCALE).render_scene(&self.0).map_err(LabError::Figure)
    }
}

/// Axes that span exactly `x` and `y`, with text of the size that it has in all figures.
pub(crate) fn axes(x: (f64, f64), y: (f64, f64)) -> Layout {
    let axes = Layout::new(x, y).with_x_axis_min(x.0).with_x_axis_max(x.1).with_y_axis_min(y.0).with_y_axis_max(y.1);
    axes.with_title_size(15).with_label_size(12).with_tick_size(11)
}

/// Numbers the clip paths from 0. kuva counts them through the life of the process, but the same figure must give the
/// same file.
fn renumbered(svg: &str) -> String {
    const NAME: &str = "kuva-clip-";
    let mut parts = svg.split(NAME);
    let mut out = parts.next().unwrap_or_default().to_owned();
    let mut seen: Vec<&str> = Vec::new();
    for part in parts {
        let (number, rest) = part.split_at(part.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(part.len()));
        let place = seen.iter().position(|other| *other == number).unwrap_or_else(|| {
            seen.push(number);
            seen.len() - 1
        });
        out += &format!("{NAME}{place}{rest}");
    }
    out
}

/// A text as it can stand in a figure: one line of at most `most` characters. kuva reads `$...$` as a formula unless
/// the dollar is escaped.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let clean = |text: &str| {
        let blank = |letter: char| letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}');
        text.replace(blank, " ").replace('$', "\\$")
    };
    if text.chars().count() <= most {
        return clean(text);
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{}…", clean(kept.trim_end()))
}

/// A number beside a tick: `0.25`, `5000`, `20,000`, `2e6`, `1e-5`.
pub(crate) fn tick_label(value: f64) -> String {
    let size = value.abs();
    // The sum of many small steps may miss 0 a little.
    if size < 1e-12 {
        return "0".to_owned();
    }
    if !(1e-3..1e6).contains(&size) {
        return format!("{:e}", format!("{value:.2e}").parse().unwrap_or(value));
    }
    if size < 1e4 {
        let text = format!("{value:.4}");
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    let whole = format!("{value:.0}");
    let (head, tail) = whole.split_at(whole.len() - 3);
    format!("{head},{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_one_short_line() {
        assert_eq!(one_line("a\nb\0c", 9), "a b c");
        assert_eq!(one_line("a name that is long", 8), "a name…");
        assert_eq!(one_line("$x$", 9), "\\$x\\$");
    }

    #[test]
    fn clip_paths_are_counted_from_0() {
        let svg = |first: u32, second: u32| {
            format!(
                "<clipPath id=\"kuva-clip-{first}\"/><clipPath id=\"kuva-clip-{second}\"/><g clip-path=\"url(#kuva-clip-{first})\">"
            )
        };
        assert_eq!(renumbered(&svg(9, 34)), svg(0, 1));
        assert_eq!(renumbered("plain"), "plain");
    }

    #[test]
    fn tick_labels_are_short() {
        let labels = [0.25, 5000.0, 20_000.0, -123_456.0, 2e6, 1e-5, 2.5e9, 0.3, 1e-17].map(tick_label);
        assert_eq!(labels, ["0.25", "5000", "20,000", "-123,456", "2e6", "1e-5", "2.5e9", "0.3", "0"]);
    }
}
