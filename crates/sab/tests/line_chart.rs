//! Line charts draw what they hold, tell lines apart without colour, and refuse what makes no sense.

mod figures;

use figures::{Picture, assert_readable, attribute, texts};
use sab::line_chart::{Figure, LineChart, Scale, Series};

fn series(name: &str, points: &[(f64, f64)]) -> Series {
    Series { name: name.to_owned(), points: points.to_vec(), dashed: false }
}

fn chart(all: Vec<Series>) -> LineChart {
    LineChart {
        title: "Copying <ten> & more".to_owned(),
        x_label: "updates".to_owned(),
        y_label: "accuracy, %".to_owned(),
        series: all,
        ..LineChart::default()
    }
}

fn figure(charts: Vec<LineChart>) -> Figure {
    Figure { title: "A figure".to_owned(), columns: 2, charts }
}

fn svg(chart: &LineChart) -> String {
    figure(vec![chart.clone()]).draw().unwrap().to_svg()
}

/// The first two lines of a figure.
const BLUE: &str = "#0072b2";
const ORANGE: &str = "#d55e00";

/// The points of each line of this colour.
fn lines(svg: &str, colour: &str) -> Vec<Vec<(f64, f64)>> {
    let of_colour =
        svg.lines().filter(|line| attribute(line, "stroke") == Some(colour) && line.contains("fill=\"none\""));
    let points = |path: &str| {
        let numbers: Vec<f64> = path.split(['M', 'L', ' ', ',']).filter_map(|word| word.parse().ok()).collect();
        numbers.chunks_exact(2).map(|point| (point[0], point[1])).collect()
    };
    of_colour.filter_map(|line| attribute(line, "d").or_else(|| attribute(line, "points"))).map(points).collect()
}

#[test]
fn higher_numbers_lie_higher_and_later_ones_to_the_right() {
    let svg = svg(&chart(vec![series("a", &[(0.0, 10.0), (50.0, 20.0), (100.0, 40.0)])]));
    let line = lines(&svg, BLUE).remove(0);
    assert_eq!(line.len(), 3);
    assert!(line.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 > pair[1].1), "{line:?}");
    // A linear axis: half way is half way, and 10 to 20 is half of 20 to 40.
    assert!((line[1].0 - (line[0].0 + line[2].0) / 2.0).abs() < 0.2, "{line:?}");
    assert!((2.0 * (line[0].1 - line[1].1) - (line[1].1 - line[2].1)).abs() < 0.3, "{line:?}");
}

#[test]
fn on_log_axes_powers_are_straight_lines() {
    let points: Vec<(f64, f64)> = [100.0, 200.0, 800.0, 3200.0].iter().map(|t: &f64| (*t, 0.003 * t.powi(2))).collect();
    let mut chart = chart(vec![series("square", &points)]);
    (chart.x_scale, chart.y_scale) = (Scale::Log, Scale::Log);
    let svg = svg(&chart);
    let line = lines(&svg, BLUE).remove(0);
    let slope = |a: (f64, f64), b: (f64, f64)| (b.1 - a.1) / (b.0 - a.0);
    assert!((slope(line[0], line[1]) - slope(line[1], line[3])).abs() < 5e-3, "{line:?}");
    for label in [">100<", ">1000<", ">10,000<"] {
        assert!(svg.contains(label), "{label} is missing");
    }
}

#[test]
fn a_log_axis_of_any_range_has_two_numbers_or_more() {
    for (low, high) in [(1.0, 1.0), (21.0, 49.0), (3e-7, 5e-7), (1e-8, 1e8), (0.02, 2000.0), (9.0, 11.0)] {
        let mut chart = chart(vec![series("a", &[(1.0, low), (2.0, high)])]);
        chart.y_scale = Scale::Log;
        chart.x_label.clear();
        let svg = svg(&chart);
        assert_readable(&svg);
        let left = lines(&svg, BLUE)[0][0].0;
        let beside = texts(&svg).into_iter().filter(|text| text.right < left && text.content != "a");
        assert!(beside.count() >= 2, "{low} to {high}: {:?}", texts(&svg));
    }
}

#[test]
fn numbers_that_are_none_interrupt_the_line() {
    let whole = [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (4.0, 4.0), (5.0, 5.0)];
    let count = |points: &[(f64, f64)], scale| {
        let mut chart = chart(vec![series("a", points)]);
        chart.y_scale = scale;
        lines(&svg(&chart), BLUE).iter().map(Vec::len).collect::<Vec<_>>()
    };
    assert_eq!(count(&whole, Scale::Linear), [5]);
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut points = whole;
        points[2].1 = bad;
        assert_eq!(count(&points, Scale::Linear), [2, 2]);
        points[2] = (bad, 3.0);
        assert_eq!(count(&points, Scale::Linear), [2, 2]);
    }
    let mut points = whole;
    points[1].1 = 0.0;
    assert_eq!(count(&points, Scale::Linear), [5], "zero is a number");
    assert_eq!(count(&points, Scale::Log), [3], "but not on a log axis, and a point alone is no line");
}

#[test]
fn lines_are_told_apart_without_colour() {
    // Without its colour each marker in the legend still has a shape of its own, and none has both of another's.
    let all: Vec<Series> = (0..42).map(|i| series(&format!("run {i}"), &[(0.0, f64::from(i)), (1.0, 9.0)])).collect();
    let svg = svg(&chart(all));
    let tips =
        |name: &str| svg.lines().skip_while(|line| !line.contains(&format!("<title>{name}: "))).nth(1).unwrap().trim();
    let shapes: Vec<&str> = (0..6).map(|i| tips(&format!("run {i}"))).collect();
    let kinds: std::collections::HashSet<(usize, &str)> =
        shapes.iter().map(|shape| (shape.matches('L').count(), shape.split(' ').next().unwrap())).collect();
    assert!(kinds.len() >= 4, "{shapes:?}");
    let mut dashed = chart(vec![series("a", &[(0.0, 1.0), (1.0, 2.0)]), series("b", &[(0.0, 2.0), (1.0, 3.0)])]);
    let picture = |chart: &LineChart| Picture::of(&figure(vec![chart.clone()]).draw().unwrap().to_png().unwrap());
    let before = picture(&dashed);
    dashed.series[1].dashed = true;
    let after = picture(&dashed);
    let orange = [0xd5, 0x5e, 0x00];
    assert!(after.count(orange) * 5 < before.count(orange) * 4, "gaps are in the PNG too");
    assert_eq!(after.count([0x00, 0x72, 0xb2]), before.count([0x00, 0x72, 0xb2]));
}

#[test]
fn a_figure_has_all_charts_one_legend_and_one_look_for_a_name() {
    let one = chart(vec![series("first", &[(0.0, 1.0), (1.0, 2.0)]), series("second", &[(0.0, 1.0), (1.0, 3.0)])]);
    let mut other = one.clone();
    other.title = "Other".to_owned();
    other.series.remove(0);
    let mut figure = figure(vec![one, other]);
    let svg = figure.draw().unwrap().to_svg();
    assert_readable(&svg);
    for name in [
        ">first</text>",
        ">second</text>",
        ">Other</text>",
        ">A figure</text>",
        ">Copying &lt;ten&gt; &amp; more</text>",
    ] {
        assert_eq!(svg.matches(name).count(), 1, "{name}");
    }
    assert_eq!(svg.matches(">accuracy, %</text>").count(), 2);
    assert_eq!((lines(&svg, BLUE).len(), lines(&svg, ORANGE).len()), (1, 2));
    assert_eq!(svg.matches("<title>second: ").count(), 4);
    let beside = Picture::of(&figure.draw().unwrap().to_png().unwrap());
    figure.columns = 1;
    let stacked = Picture::of(&figure.draw().unwrap().to_png().unwrap());
    assert!(beside.width > stacked.width && beside.height < stacked.height);
    figure.columns = 0;
    assert_eq!(
        figure.draw().unwrap().to_png().unwrap(),
        Figure { columns: 1, ..figure.clone() }.draw().unwrap().to_png().unwrap()
    );
}

#[test]
fn texts_have_room() {
    let long = |i: usize| format!("LSTM with full self-attention, full BPTT, a name that is much too long, number {i}");
    let line = |i: usize| series(&long(i), &[(0.0, 1e-5 * i as f64), (12_000.0, 123_456.0)]);
    for charts in 1..6 {
        for lines in [1, 3, 12] {
            let mut chart = chart((0..lines).map(line).collect());
            chart.title = long(0);
            chart.y_label = long(1);
            let figure = Figure { title: long(2).repeat(3), columns: 2, charts: vec![chart; charts] };
            assert_readable(&figure.draw().unwrap().to_svg());
        }
    }
}

#[test]
fn points_tell_their_numbers_and_long_lines_mark_some_only() {
    let few = svg(&chart(vec![series("a", &[(100.0, 12.5), (20_000.0, 99.96)])]));
    for tip in ["<title>a: 99.96 at 20,000</title>", "<title>a: 12.5 at 100</title>"] {
        assert!(few.contains(tip), "{tip} is not in {few}");
    }
    let points: Vec<(f64, f64)> = (0..5000).map(|i| (f64::from(i), f64::from(i).sqrt())).collect();
    let many = svg(&chart(vec![series("a", &points)]));
    assert!((5..30).contains(&many.matches("<title>a: ").count()));
}

#[test]
fn the_same_figure_gives_the_same_file() {
    let make =
        || figure(vec![chart((0..9).map(|i| series(&format!("{i}"), &[(0.0, 1.0), (1.0, i.into())])).collect())]);
    assert!(make().draw().unwrap().to_svg() == make().draw().unwrap().to_svg());
    assert!(make().draw().unwrap().to_png().unwrap() == make().draw().unwrap().to_png().unwrap());
}

#[test]
fn bad_charts_are_errors_that_say_what_is_wrong() {
    let message = |charts: &[LineChart]| figure(charts.to_vec()).draw().err().map(|why| why.to_string());
    let refused = |chart: &LineChart, why: &str| {
        let expected = format!("cannot draw the figure: the chart `Copying <ten> & more` has {why}");
        assert_eq!(message(std::slice::from_ref(chart)), Some(expected));
    };
    refused(&chart(vec![]), "no lines");
    refused(
        &chart(vec![series("a", &[(1.0, 1.0)]), series("b", &[])]),
        "no points that can be drawn for the line `b`, of 0",
    );
    let nowhere = chart(vec![series("a", &[(f64::NAN, 1.0), (1.0, f64::INFINITY)])]);
    refused(&nowhere, "no points that can be drawn for the line `a`, of 2");
    let mut negative = chart(vec![series("a", &[(1.0, -1.0)])]);
    assert_eq!(message(&[negative.clone()]), None);
    negative.y_scale = Scale::Log;
    refused(&negative, "no points that can be drawn for the line `a`, of 1");
    refused(&chart(vec![series("a", &[(1.0, 1.0)]), series("a", &[(1.0, 2.0)])]), "two lines of the name `a`");
    assert_eq!(message(&[]).as_deref(), Some("cannot draw the figure: `A figure` has no charts"));
}

#[test]
fn strange_numbers_and_texts_do_not_panic() {
    let extremes =
        [0.0, -0.0, 1.0, -1.0, 1e-300, 1e300, 1e-30, 1e30, -1e30, f64::MIN_POSITIVE, f64::MAX, 5e-324, 1e9 + 1.0, 1e9];
    for x in extremes {
        for y in extremes {
            for scale in [Scale::Linear, Scale::Log] {
                let mut chart = chart(vec![series(&"\u{1F600}\n\0 name".repeat(20), &[(x, y), (y, x), (1.0, 1.0)])]);
                (chart.x_scale, chart.y_scale) = (scale, scale);
                chart.title = "\u{202e}\t".repeat(300);
                let svg = svg(&chart);
                assert!(!svg.contains("NaN") && !svg.contains("\"inf"), "{x} {y}");
                assert!(!svg.contains('\0'));
            }
        }
    }
    let wide = chart(vec![series("\u{1F600}", &[(1e30, -1e30), (-1e30, 1e30)])]);
    figure(vec![wide]).draw().unwrap().to_png().unwrap();
}
