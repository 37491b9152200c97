//! What all pictures share: a [`Scene`] of shapes and text is laid out once and drawn as SVG and as PNG.

mod canvas;
mod colour;
mod raster;
mod scene;
mod svg;
mod ticks;

pub use colour::{Colour, FAINT_INK, GRID, INK, LINES};
pub use raster::render as to_png;
pub use scene::{Anchor, Place, Polygon, Rectangle, Scene, Size, Stroke, Text, pixels};
pub use svg::render as to_svg;
pub use ticks::{round_step, round_up, tick_label};
