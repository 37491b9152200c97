//! Line charts: a [`LineChart`] by itself, or several in a [`Figure`].
//!
//! Lines differ in colour and in the shape of their points, so that they are told apart without colour too. A chart by
//! itself has the names at the ends of its lines; the charts of a figure share one legend above them, in which a name
//! means the same line in every chart.

mod axis;
mod panel;
mod scene;
mod style;

use crate::drawing;
use std::collections::HashSet;

/// The PNG has this many pixels a side for one of the SVG.
const PNG_SCALE: u8 = 2;

/// How numbers become places along an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences are equally long.
    #[default]
    Linear,
    /// Equal ratios are equally long; numbers that are not above 0 are left out.
    Log,
}

/// A line of a chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Its name, another one for each line of a chart.
    pub name: String,
    /// x and y of its points, in the order in which the line runs through them. The line is interrupted where a number is
    /// not finite, or has no place on the axis.
    pub points: Vec<(f64, f64)>,
    /// Whether the line is dashed.
    pub dashed: bool,
}

/// Lines over one pair of axes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LineChart {
    /// Stands above the chart.
    pub title: String,
    /// Stands below the x axis.
    pub x_label: String,
    /// Stands above the y axis.
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
    /// Stands above all.
    pub title: String,
    /// Charts beside each other, before the next row begins: 1 stacks them. 0 counts as 1.
    pub columns: usize,
    /// The charts, row by row.
    pub charts: Vec<LineChart>,
}

/// Why a chart cannot be drawn.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineChartError {
    /// A figure without charts.
    #[error("the figure `{0}` has no charts")]
    NoCharts(String),
    /// A chart without lines.
    #[error("the chart `{0}` has no lines")]
    NoSeries(String),
    /// A line without a point that can be drawn.
    #[error("the line `{series}` of the chart `{chart}` has no points that can be drawn, of {points}")]
    EmptySeries {
        /// The chart's title.
        chart: String,
        /// The line's name.
        series: String,
        /// How many points it has.
        points: usize,
    },
    /// Two lines of a chart have the same name.
    #[error("the chart `{chart}` has two lines of the name `{series}`")]
    SameName {
        /// The chart's title.
        chart: String,
        /// The lines' name.
        series: String,
    },
    /// The PNG could not be written.
    #[error("the chart could not be encoded as PNG")]
    Png(#[from] png::EncodingError),
}

impl Scale {
    /// Whether a number has a place on the axis. Beyond the limits the arithmetic of ticks would overflow.
    fn holds(self, value: f64) -> bool {
        let size = value.abs();
        match self {
            Self::Linear => size <= 1e100 && (size == 0.0 || size >= 1e-100),
            Self::Log => (1e-100..=1e100).contains(&value),
        }
    }
}

impl LineChart {
    /// Checks that there are lines, that their names differ, and that each has a point that can be drawn.
    pub fn validate(&self) -> Result<(), LineChartError> {
        let chart = || self.title.clone();
        if self.series.is_empty() {
            return Err(LineChartError::NoSeries(chart()));
        }
        let mut names = HashSet::new();
        for Series { name, points, .. } in &self.series {
            if !names.insert(name) {
                return Err(LineChartError::SameName { chart: chart(), series: name.clone() });
            }
            if !points.iter().any(|point| self.can_be_drawn(*point)) {
                let (series, points) = (name.clone(), points.len());
                return Err(LineChartError::EmptySeries { chart: chart(), series, points });
            }
        }
        Ok(())
    }

    /// Draws the chart as a self-contained SVG document; a point tells its numbers under the pointer.
    ///
    /// Fails as [`validate`](Self::validate) does.
    pub fn to_svg(&self) -> Result<String, LineChartError> {
        self.validate()?;
        Ok(drawing::to_svg(&scene::of_chart(self)))
    }

    /// Draws the chart as a PNG, twice as large as the SVG says.
    ///
    /// Fails as [`validate`](Self::validate) does.
    pub fn to_png(&self) -> Result<Vec<u8>, LineChartError> {
        self.validate()?;
        Ok(drawing::to_png(&scene::of_chart(self), PNG_SCALE)?)
    }

    fn can_be_drawn(&self, (x, y): (f64, f64)) -> bool {
        self.x_scale.holds(x) && self.y_scale.holds(y)
    }

    /// The points that can be drawn, of all lines.
    fn drawable(&self) -> impl Iterator<Item = (f64, f64)> {
        self.series.iter().flat_map(|series| &series.points).copied().filter(|point| self.can_be_drawn(*point))
    }
}

impl Figure {
    /// Checks that there are charts, and each of them as [`LineChart::validate`] does.
    pub fn validate(&self) -> Result<(), LineChartError> {
        if self.charts.is_empty() {
            return Err(LineChartError::NoCharts(self.title.clone()));
        }
        self.charts.iter().try_for_each(LineChart::validate)
    }

    /// Draws the charts as a self-contained SVG document; a point tells its numbers under the pointer.
    ///
    /// Fails as [`validate`](Self::validate) does.
    pub fn to_svg(&self) -> Result<String, LineChartError> {
        self.validate()?;
        Ok(drawing::to_svg(&scene::of_figure(self)))
    }

    /// Draws the charts as a PNG, twice as large as the SVG says.
    ///
    /// Fails as [`validate`](Self::validate) does.
    pub fn to_png(&self) -> Result<Vec<u8>, LineChartError> {
        self.validate()?;
        Ok(drawing::to_png(&scene::of_figure(self), PNG_SCALE)?)
    }
}
