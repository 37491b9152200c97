//! The layout of charts and figures.

use super::panel::{ABOVE, BELOW, Frame, Panel, room_for_numbers};
use super::style::{SAMPLE, Style};
use super::{Figure, LineChart};
use crate::drawing::{Anchor, INK, Scene, Size, pixels};

const MARGIN: i32 = 18;
/// The plot of a chart by itself, and of one among others.
const LARGE: (i32, i32) = (640, 360);
const SMALL: (i32, i32) = (400, 250);
/// Between the plot and the names at the ends of its lines.
const TO_NAMES: i32 = 26;
/// Height of a name.
const NAME: i32 = 22;
/// The longest name, in pixels.
const LONGEST: i32 = 330;
/// Between two charts of a figure.
const BETWEEN: i32 = 30;

/// Lays out a valid chart by itself, with the names at the ends of its lines.
pub fn of_chart(chart: &LineChart) -> Scene {
    let (width, height) = LARGE;
    let names: Vec<String> = chart.series.iter().map(|series| Size::Number.fit(&series.name, LONGEST)).collect();
    let widest = names.iter().map(|name| Size::Number.width(name)).max().unwrap_or(0);
    // Many names need more height than few lines do.
    let height = height.max(NAME * pixels(names.len()));
    let frame = Frame { left: MARGIN + room_for_numbers(chart, height), top: MARGIN + ABOVE, width, height };
    let names_at = frame.left + width + TO_NAMES;
    let mut scene = Scene {
        title: chart.title.clone(),
        width: names_at + SAMPLE as i32 + 8 + widest + MARGIN,
        height: frame.top + height + BELOW + MARGIN / 2,
        ..Scene::default()
    };
    let panel = Panel::new(chart, frame);
    panel.axes(&mut scene, Size::Title);
    let styles: Vec<Style> =
        chart.series.iter().enumerate().map(|(number, series)| Style::new(number, series.dashed)).collect();
    let ends: Vec<_> = chart.series.iter().map(|series| panel.end(series).unwrap_or_default()).collect();
    let heights =
        spread(&ends.iter().map(|end| end.1).collect::<Vec<_>>(), f64::from(NAME), frame.top, frame.top + height);
    for (((end, at), style), name) in ends.iter().zip(&heights).zip(&styles).zip(names) {
        let x = f64::from(names_at);
        Panel::leader(&mut scene, *style, *end, (x - 4.0, *at));
        style.sample(&mut scene, (x, *at));
        let x = names_at + SAMPLE as i32 + 8;
        scene.text(x, at.round() as i32, Anchor::Start, Size::Number, INK, name);
    }
    for (number, (series, style)) in chart.series.iter().zip(&styles).enumerate() {
        panel.series(&mut scene, series, *style, number);
    }
    scene
}

/// Places for names `apart` pixels from each other, each as near as can be to where it would like to be, in the order of
/// these wishes.
fn spread(wishes: &[f64], apart: f64, low: i32, high: i32) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wishes.len()).collect();
    order.sort_by(|a, b| wishes[*a].total_cmp(&wishes[*b]));
    // Names that would meet form a block around the middle of their wishes: (first, last, sum of shifted wishes).
    let mut blocks: Vec<(usize, usize, f64)> = Vec::new();
    for (i, number) in order.iter().enumerate() {
        let mut block = (i, i, wishes[*number]);
        while let Some(before) =
            blocks.pop_if(|before| top(before) + apart * (before.1 - before.0 + 1) as f64 > top(&block))
        {
            let count = (before.1 - before.0 + 1) as f64;
            let later = (block.1 - block.0 + 1) as f64;
            block = (before.0, block.1, before.2 + block.2 - later * count * apart);
        }
        blocks.push(block);
    }
    let mut places = vec![0.0; wishes.len()];
    let mut least = f64::from(low);
    let mut left = wishes.len();
    for block in blocks {
        let start = top(&block).min(f64::from(high) - apart * (left - 1) as f64).max(least);
        for (i, number) in order[block.0..=block.1].iter().enumerate() {
            places[*number] = start + apart * i as f64;
        }
        let count = block.1 - block.0 + 1;
        left -= count;
        least = start + apart * count as f64;
    }
    places
}

/// Where the first name of a block lies when all are as near to their wishes as can be.
fn top((first, last, sum): &(usize, usize, f64)) -> f64 {
    sum / (last - first + 1) as f64
}

/// Lays out a valid figure, with one legend for all its charts.
pub fn of_figure(figure: &Figure) -> Scene {
    let columns = figure.columns.max(1).min(figure.charts.len());
    let (width, height) = SMALL;
    let rooms: Vec<i32> = (0..columns)
        .map(|column| {
            let charts = figure.charts.iter().skip(column).step_by(columns);
            charts.map(|chart| room_for_numbers(chart, height)).max().unwrap_or(0)
        })
        .collect();
    let all: i32 = rooms.iter().sum::<i32>() + pixels(columns) * width + (pixels(columns) - 1) * BETWEEN + 2 * MARGIN;
    let mut scene = Scene { title: figure.title.clone(), width: all, ..Scene::default() };
    let title = Size::Title.fit(&figure.title, all - 2 * MARGIN);
    scene.text(MARGIN, MARGIN + 10, Anchor::Start, Size::Title, INK, title);

    let looks = looks(figure);
    let mut top = legend(&mut scene, &looks, MARGIN + 44) + 14;
    for row in figure.charts.chunks(columns) {
        let mut left = MARGIN;
        for (chart, room) in row.iter().zip(&rooms) {
            let panel = Panel::new(chart, Frame { left: left + room, top: top + ABOVE, width, height });
            panel.axes(&mut scene, Size::Label);
            for series in &chart.series {
                if let Some(number) = looks.iter().position(|(name, _)| *name == series.name) {
                    panel.series(&mut scene, series, Style::new(number, series.dashed), number);
                }
            }
            left += room + width + BETWEEN;
        }
        top += ABOVE + height + BELOW + 6;
    }
    scene.height = top + MARGIN / 2;
    scene
}

/// The names of all lines, in the order in which they appear, and how each looks.
fn looks(figure: &Figure) -> Vec<(&str, Style)> {
    let mut looks: Vec<(&str, Style)> = Vec::new();
    for series in figure.charts.iter().flat_map(|chart| &chart.series) {
        if !looks.iter().any(|(name, _)| *name == series.name) {
            looks.push((&series.name, Style::new(looks.len(), series.dashed)));
        }
    }
    looks
}

/// Draws the legend from `y` on, in as many lines as it needs, and returns where it ends.
fn legend(scene: &mut Scene, looks: &[(&str, Style)], y: i32) -> i32 {
    let (mut x, mut y) = (MARGIN, y);
    for (name, style) in looks {
        let name = Size::Number.fit(name, LONGEST);
        let width = SAMPLE as i32 + 8 + Size::Number.width(&name);
        if x > MARGIN && x + width > scene.width - MARGIN {
            (x, y) = (MARGIN, y + NAME);
        }
        style.sample(scene, (f64::from(x), f64::from(y)));
        scene.text(x + SAMPLE as i32 + 8, y, Anchor::Start, Size::Number, INK, name);
        x += width + 26;
    }
    y + NAME / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_apart_and_as_near_as_can_be() {
        assert_eq!(spread(&[50.0, 200.0], 20.0, 0, 300), [50.0, 200.0]);
        assert_eq!(spread(&[100.0, 100.0, 100.0], 20.0, 0, 300), [80.0, 100.0, 120.0]);
        assert_eq!(spread(&[0.0, 0.0, 300.0, 299.0], 20.0, 0, 300), [0.0, 20.0, 300.0, 280.0]);
        assert_eq!(
            spread(&[120.0, 100.0, 130.0], 20.0, 0, 300),
            [116.66666666666667, 96.66666666666667, 136.66666666666669]
        );
    }

    #[test]
    fn names_that_are_pushed_to_an_edge_stay_inside() {
        let wishes: Vec<f64> = (0..10).map(|i| if i < 5 { 2.0 } else { 198.0 }).collect();
        let mut places = spread(&wishes, 22.0, 0, 200);
        places.sort_by(f64::total_cmp);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= 22.0 - 1e-9), "{places:?}");
        assert!(places[0] >= 0.0 && places[9] <= 200.0, "{places:?}");
    }
}
