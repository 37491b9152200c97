//! Line charts: several [`LineChart`]s in a [`Figure`] with one legend, in which a name means the same line everywhere.
//!
//! Lines differ in colour and in the shape of their markers, so that readers tell them apart without colour too.

use crate::drawing::{self, Picture, one_line, tick_label};
use crate::error::{LabError, Result};
use kuva::plot::LineStyle;
use kuva::plot::legend::{LegendEntry, LegendShape};
use kuva::plot::scatter::MarkerShape;
use kuva::prelude::{Layout, LinePlot, Plot, ScatterPlot, TickFormat};
use kuva::render::figure::Figure as Panels;
use std::collections::HashSet;
use std::sync::Arc;

/// Colours that people with any kind of colour vision tell apart: the palette of Okabe and Ito without its yellow,
/// which is lost on paper.
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#b04a87", "#2e3138", "#e69f00", "#56b4e9"];
/// One fewer than colours, so that lines of the same colour have different markers.
const MARKERS: [MarkerShape; 6] = [
    MarkerShape::Circle,
    MarkerShape::Square,
    MarkerShape::Triangle,
    MarkerShape::Diamond,
    MarkerShape::Cross,
    MarkerShape::TriangleDown,
];
/// Pixels of a panel with its axes and titles.
const PANEL: (f64, f64) = (520.0, 370.0);
/// Between panels, and around them.
const GAP: f64 = 12.0;
/// A line with more points has markers on some of them only.
const MOST_MARKERS: usize = 24;
/// Characters of a name in the legend, and of a line above a panel.
const LONGEST_NAME: usize = 48;
const LONGEST_TITLE: usize = 52;

/// How numbers become places along an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences are equally long.
    #[default]
    Linear,
    /// Equal ratios are equally long; numbers below 1e-9 are left out.
    Log,
}

/// A line of a chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Its name; the names of a chart differ.
    pub name: String,
    /// x and y of its points, in the order in which the line runs through them. The line is interrupted where a number
    /// is not finite, or has no place on the axis.
    pub points: Vec<(f64, f64)>,
    /// Whether the line is dashed.
    pub dashed: bool,
}

/// Lines over one pair of axes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LineChart {
    /// The title above the chart.
    pub title: String,
    /// The text below the x axis.
    pub x_label: String,
    /// The quantity on the y axis; the text below the title.
    pub y_label: String,
    /// Of the x axis.
    pub x_scale: Scale,
    /// Of the y axis.
    pub y_scale: Scale,
    /// The lines.
    pub series: Vec<Series>,
}

/// Charts in one picture, with one legend.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figure {
    /// The title above all charts.
    pub title: String,
    /// Charts beside each other before the next row begins: 1 stacks them. 0 counts as 1.
    pub columns: usize,
    /// The charts, row by row.
    pub charts: Vec<LineChart>,
}

impl Scale {
    /// Whether a number has a place on the axis. Beyond the limits the arithmetic of ticks would overflow.
    fn holds(self, value: f64) -> bool {
        match self {
            Self::Linear => value == 0.0 || (1e-30..=1e30).contains(&value.abs()),
            Self::Log => (1e-9..=1e30).contains(&value),
        }
    }

    /// The ends of the x axis, or with `round` those of the y axis, with room for half a marker. A linear axis begins
    /// at 0 unless the changes are small compared with the values.
    fn span(self, values: impl Iterator<Item = f64>, round: bool) -> (f64, f64) {
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
        match self {
            Self::Linear if low >= 0.0 && low <= 0.5 * high => (0.0, 1.02 * high),
            Self::Linear if low == high => (low - 0.1 * low.abs().max(1.0), high + 0.1 * high.abs().max(1.0)),
            Self::Linear => (low - 0.02 * (high - low), high + 0.02 * (high - low)),
            Self::Log if low == high => (low / 2.0, high * 2.0),
            // Ticks of a log axis are few: the next of 1, 2, 5, 10, ... is one.
            Self::Log if round => (round_below(0.97 * low), 1.0 / round_below(0.97 / high)),
            Self::Log => {
                let room = (high / low).powf(0.02);
                (low / room, high * room)
            }
        }
    }
}

/// The next of 1, 2, 5 times a power of ten that is not above `value`.
fn round_below(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    [5.0, 2.0].into_iter().map(|digit| digit * decade).find(|round| *round <= value).unwrap_or(decade)
}

impl LineChart {
    /// Checks that there are lines, that their names differ, and that each has a point that can be drawn.
    fn validate(&self) -> Result<()> {
        let wrong = |why: String| Err(LabError::Figure(format!("the chart `{}` has {why}", self.title)));
        if self.series.is_empty() {
            return wrong("no lines".into());
        }
        let mut names = HashSet::new();
        for Series { name, points, .. } in &self.series {
            if !names.insert(name) {
                return wrong(format!("two lines of the name `{name}`"));
            }
            if !points.iter().any(|point| self.holds(*point)) {
                return wrong(format!("no points that can be drawn for the line `{name}`, of {}", points.len()));
            }
        }
        Ok(())
    }

    fn holds(&self, (x, y): (f64, f64)) -> bool {
        self.x_scale.holds(x) && self.y_scale.holds(y)
    }

    fn layout(&self) -> Layout {
        let drawn = || self.series.iter().flat_map(|s| &s.points).copied().filter(|point| self.holds(*point));
        let x = self.x_scale.span(drawn().map(|point| point.0), false);
        let y = self.y_scale.span(drawn().map(|point| point.1), true);
        let mut layout = drawing::axes(x, y)
            .with_title(one_line(&self.title, 2 * LONGEST_TITLE))
            .with_title_wrap(LONGEST_TITLE)
            .with_x_label(one_line(&self.x_label, LONGEST_TITLE))
            .with_subtitle(one_line(&self.y_label, LONGEST_TITLE))
            .with_subtitle_size(12)
            .with_tick_format(TickFormat::Custom(Arc::new(tick_label)));
        if self.x_scale == Scale::Log {
            layout = layout.with_log_x();
        }
        if self.y_scale == Scale::Log { layout.with_log_y() } else { layout }
    }

    /// The lines and markers, each looking as its place among `names` says.
    fn plots(&self, names: &[&str]) -> Vec<Plot> {
        let mut plots = Vec::new();
        for series in &self.series {
            let number = names.iter().position(|name| *name == series.name).unwrap_or_default();
            let colour = COLOURS[number % COLOURS.len()];
            for piece in series.points.split(|point| !self.holds(*point)).filter(|piece| piece.len() > 1) {
                let line = LinePlot::new().with_data(piece.to_vec()).with_color(colour).with_stroke_width(2.0);
                plots.push(
                    if series.dashed { line.with_line_style(LineStyle::Custom("5 6".into())) } else { line }.into(),
                );
            }
            let points: Vec<(f64, f64)> = series.points.iter().copied().filter(|point| self.holds(*point)).collect();
            let apart = points.len().div_ceil(MOST_MARKERS).max(1);
            // Markers of different lines do not hide each other.
            let marked: Vec<(f64, f64)> = points.into_iter().skip(number % apart).step_by(apart).collect();
            let name = one_line(&series.name, LONGEST_NAME);
            let tip = |(x, y): &(f64, f64)| format!("{name}: {} at {}", tick_label(*y), tick_label(*x));
            let tips: Vec<String> = marked.iter().map(tip).collect();
            let markers = ScatterPlot::new().with_data(marked).with_color(colour).with_size(4.2);
            plots.push(markers.with_marker(MARKERS[number % MARKERS.len()]).with_tooltip_labels(tips).into());
        }
        plots
    }
}

impl Figure {
    /// Draws the charts. There must be one at least, with lines of different names, each with a point that can be
    /// drawn.
    pub fn draw(&self) -> Result<Picture> {
        if self.charts.is_empty() {
            return Err(LabError::Figure(format!("`{}` has no charts", self.title)));
        }
        self.charts.iter().try_for_each(LineChart::validate)?;
        let mut names: Vec<&str> = Vec::new();
        for series in self.charts.iter().flat_map(|chart| &chart.series) {
            if !names.contains(&series.name.as_str()) {
                names.push(&series.name);
            }
        }
        let entry = |(number, name): (usize, &&str)| LegendEntry {
            label: one_line(name, LONGEST_NAME),
            color: COLOURS[number % COLOURS.len()].to_owned(),
            shape: LegendShape::Marker(MARKERS[number % MARKERS.len()]),
            dasharray: None,
        };
        let columns = self.columns.clamp(1, self.charts.len());
        let rows = self.charts.len().div_ceil(columns);
        let panels = Panels::new(rows, columns)
            .with_structure((0..self.charts.len()).map(|chart| vec![chart]).collect())
            .with_plots(self.charts.iter().map(|chart| chart.plots(&names)).collect())
            .with_layouts(self.charts.iter().map(LineChart::layout).collect())
            .with_cell_size(PANEL.0, PANEL.1)
            .with_title(one_line(&self.title, LONGEST_TITLE * columns))
            .with_title_size(18)
            .with_padding(GAP)
            .with_spacing(GAP)
            .with_shared_legend_entries(names.iter().enumerate().map(entry).collect());
        // If the last row has room for another panel, the legend goes there.
        let free = self.charts.len() % columns;
        let panels = match free {
            0 => panels.with_shared_legend_right_top(),
            _ => {
                let place = |before: usize, side: f64| 4.0 * GAP + before as f64 * (side + GAP);
                panels.with_shared_legend_at(place(free, PANEL.0), place(rows - 1, PANEL.1))
            }
        };
        Ok(Picture(panels.render()))
    }
}
