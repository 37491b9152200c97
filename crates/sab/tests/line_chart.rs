//! Line charts draw what they hold, tell lines apart without colour, and refuse what makes no sense.

use sab::line_chart::{Figure, LineChart, LineChartError, Scale, Series};

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

struct Picture {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

impl Picture {
    fn of(bytes: &[u8]) -> Self {
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        Self { width: info.width as usize, height: info.height as usize, pixels }
    }

    fn count(&self, colour: [u8; 3]) -> usize {
        self.pixels.chunks_exact(3).filter(|pixel| *pixel == colour).count()
    }

    /// The rows of pixels in which a colour appears left of `until`.
    fn rows(&self, colour: [u8; 3], until: usize) -> Vec<usize> {
        let has = |row: &[u8]| row.chunks_exact(3).take(until).any(|pixel| pixel == colour);
        let rows = self.pixels.chunks_exact(3 * self.width).enumerate();
        rows.filter(|(_, row)| has(row)).map(|(number, _)| number).collect()
    }
}

/// The first two lines of a chart.
const BLUE: [u8; 3] = [0x00, 0x72, 0xb2];
const ORANGE: [u8; 3] = [0xd5, 0x5e, 0x00];

/// All numbers `points="x,y x,y"` of the tags of this name.
fn places(svg: &str, tag: &str) -> Vec<Vec<(f64, f64)>> {
    let place = |text: &str| text.split_once(',').map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap())).unwrap();
    let start = format!("<{tag} points=\"");
    svg.split(&start).skip(1).map(|rest| rest.split('"').next().unwrap().split(' ').map(place).collect()).collect()
}

/// The lines of the data: the thin ones lead to names, the short level ones are samples in the legend.
fn lines(svg: &str) -> Vec<Vec<(f64, f64)>> {
    let wide: Vec<&str> = svg.lines().filter(|line| line.contains("stroke-width=\"2.2\"")).collect();
    let all = wide.iter().flat_map(|line| places(line, "polyline"));
    all.filter(|line| !(line.len() == 2 && line[0].1 == line[1].1 && line[1].0 - line[0].0 < 50.0)).collect()
}

#[test]
fn higher_numbers_lie_higher_and_later_ones_to_the_right() {
    let svg = chart(vec![series("a", &[(0.0, 10.0), (50.0, 20.0), (100.0, 40.0)])]).to_svg().unwrap();
    let line = lines(&svg).remove(0);
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
    let svg = chart.to_svg().unwrap();
    let line = lines(&svg).remove(0);
    let slope = |a: (f64, f64), b: (f64, f64)| (b.1 - a.1) / (b.0 - a.0);
    assert!((slope(line[0], line[1]) - slope(line[1], line[3])).abs() < 5e-3, "{line:?}");
    for label in [">100<", ">1000<", ">10,000<"] {
        assert!(svg.contains(label), "{label} is missing");
    }
}

#[test]
fn numbers_that_are_none_interrupt_the_line() {
    let whole = [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (4.0, 4.0), (5.0, 5.0)];
    let count = |points: &[(f64, f64)], scale| {
        let mut chart = chart(vec![series("a", points)]);
        chart.y_scale = scale;
        lines(&chart.to_svg().unwrap()).iter().map(Vec::len).collect::<Vec<_>>()
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
    let all: Vec<Series> = (0..4).map(|i| series(&format!("run {i}"), &[(0.0, i as f64), (1.0, 9.0)])).collect();
    let svg = chart(all).to_svg().unwrap();
    // Each line has two points and a sample beside its name; a shape is its corners around their middle.
    let shapes: Vec<String> = places(&svg, "polygon")
        .iter()
        .map(|corners| {
            let (x, y) = corners.iter().fold((0.0, 0.0), |(x, y), corner| (x + corner.0, y + corner.1));
            let count = corners.len() as f64;
            let around = |(right, down): &(f64, f64)| format!("{:.0},{:.0}", right - x / count, down - y / count);
            corners.iter().map(around).collect::<Vec<_>>().join(" ").replace("-0", "0")
        })
        .collect();
    let different: std::collections::HashSet<&String> = shapes.iter().collect();
    assert_eq!(shapes.len(), 3 * 4);
    assert!(different.len() >= 4, "{different:?}");
    let mut dashed = chart(vec![series("a", &[(0.0, 1.0), (1.0, 2.0)]), series("b", &[(0.0, 2.0), (1.0, 3.0)])]);
    let before = Picture::of(&dashed.to_png().unwrap());
    dashed.series[1].dashed = true;
    let after = Picture::of(&dashed.to_png().unwrap());
    assert_eq!(dashed.to_svg().unwrap().matches("stroke-dasharray").count(), 2, "the line and its sample");
    assert!(after.count(ORANGE) * 4 < before.count(ORANGE) * 3, "gaps are in the PNG too");
    assert_eq!(after.count(BLUE), before.count(BLUE));
}

#[test]
fn names_stand_beside_the_plot_and_not_on_each_other() {
    let all: Vec<Series> = (0..12).map(|i| series(&format!("name {i}"), &[(0.0, 0.0), (1.0, 100.0)])).collect();
    let svg = chart(all).to_svg().unwrap();
    let right = lines(&svg).iter().flatten().map(|place| place.0).fold(0.0, f64::max);
    let attribute = |line: &str, name: &str| -> f64 {
        line.split_once(&format!(" {name}=\"")).unwrap().1.split('"').next().unwrap().parse().unwrap()
    };
    let names: Vec<&str> = svg.lines().filter(|line| line.starts_with("<text") && line.contains(">name ")).collect();
    assert_eq!(names.len(), 12);
    let mut heights: Vec<f64> = names.iter().map(|line| attribute(line, "y")).collect();
    heights.sort_by(f64::total_cmp);
    assert!(names.iter().all(|line| attribute(line, "x") > right + 20.0));
    assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= 16.0), "{heights:?}");
}

#[test]
fn the_png_is_the_picture_of_the_svg_at_twice_its_size() {
    let chart = chart(vec![series("a", &[(0.0, 30.0), (1.0, 30.0)]), series("b", &[(0.0, 60.0), (1.0, 60.0)])]);
    let svg = chart.to_svg().unwrap();
    let picture = Picture::of(&chart.to_png().unwrap());
    assert!(svg.contains(&format!("viewBox=\"0 0 {} {}\"", picture.width / 2, picture.height / 2)));
    for (line, colour) in lines(&svg).iter().zip([BLUE, ORANGE]) {
        let rows = picture.rows(colour, 2 * line[1].0 as usize - 40);
        let middle = rows.iter().sum::<usize>() as f64 / rows.len() as f64 + 0.5;
        assert!((middle - 2.0 * line[0].1).abs() <= 2.0, "{middle} against {line:?}");
    }
}

#[test]
fn a_figure_has_all_charts_one_legend_and_one_look_for_a_name() {
    let one = chart(vec![series("first", &[(0.0, 1.0), (1.0, 2.0)]), series("second", &[(0.0, 1.0), (1.0, 3.0)])]);
    let mut other = one.clone();
    other.title = "Other".to_owned();
    other.series.remove(0);
    let mut figure = Figure { title: "Both".to_owned(), columns: 2, charts: vec![one, other] };
    let svg = figure.to_svg().unwrap();
    for name in [">first</text>", ">second</text>", ">Other</text>", ">Both</text>"] {
        assert_eq!(svg.matches(name).count(), 1, "{name}");
    }
    let tips: Vec<&str> = svg.lines().filter(|line| line.contains("<title>second: ")).collect();
    assert_eq!(tips.len(), 4);
    assert!(tips.iter().all(|line| line.contains("#d55e00")), "{tips:?}");
    let beside = Picture::of(&figure.to_png().unwrap());
    figure.columns = 1;
    let stacked = Picture::of(&figure.to_png().unwrap());
    assert!(beside.width > stacked.width && beside.height < stacked.height);
    figure.columns = 0;
    assert_eq!(figure.to_png().unwrap().len(), Figure { columns: 1, ..figure.clone() }.to_png().unwrap().len());
}

#[test]
fn points_tell_their_numbers_and_long_lines_mark_some_only() {
    let few = chart(vec![series("a", &[(100.0, 12.5), (20_000.0, 99.96)])]).to_svg().unwrap();
    assert!(
        few.contains("<title>a: 99.96 at 20,000</title>") && few.contains("<title>a: 12.50 at 100.0</title>"),
        "{few}"
    );
    let points: Vec<(f64, f64)> = (0..5000).map(|i| (f64::from(i), f64::from(i).sqrt())).collect();
    let many = chart(vec![series("a", &points)]).to_svg().unwrap();
    assert!((5..20).contains(&many.matches("<title>a: ").count()));
}

#[test]
fn bad_charts_are_errors_that_say_what_is_wrong() {
    let message = |chart: &LineChart| {
        let figure = Figure { charts: vec![chart.clone()], ..Figure::default() };
        let says = chart.validate().unwrap_err().to_string();
        let others = [chart.to_png().err(), chart.to_svg().err(), figure.to_png().err(), figure.to_svg().err()];
        assert!(others.into_iter().all(|error| error.unwrap().to_string() == says));
        says
    };
    assert_eq!(message(&chart(vec![])), "the chart `Copying <ten> & more` has no lines");
    assert_eq!(
        message(&chart(vec![series("a", &[(1.0, 1.0)]), series("b", &[])])),
        "the line `b` of the chart `Copying <ten> & more` has no points that can be drawn, of 0"
    );
    let nowhere = chart(vec![series("a", &[(f64::NAN, 1.0), (1.0, f64::INFINITY)])]);
    assert!(matches!(nowhere.validate(), Err(LineChartError::EmptySeries { points: 2, .. })));
    let mut negative = chart(vec![series("a", &[(1.0, -1.0)])]);
    assert!(negative.validate().is_ok());
    negative.y_scale = Scale::Log;
    assert!(matches!(negative.validate(), Err(LineChartError::EmptySeries { points: 1, .. })));
    let twice = chart(vec![series("a", &[(1.0, 1.0)]), series("a", &[(1.0, 2.0)])]);
    assert!(message(&twice).contains("two lines of the name `a`"));
    let none = Figure { title: "None".to_owned(), ..Figure::default() };
    assert_eq!(none.to_png().unwrap_err().to_string(), "the figure `None` has no charts");
}

#[test]
fn strange_numbers_and_texts_do_not_panic() {
    let extremes = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        1e-300,
        1e300,
        1e-100,
        1e100,
        -1e100,
        f64::MIN_POSITIVE,
        f64::MAX,
        5e-324,
        1e9 + 1.0,
        1e9,
    ];
    for x in extremes {
        for y in extremes {
            for scale in [Scale::Linear, Scale::Log] {
                let mut chart = chart(vec![series(&"\u{1F600}\n\0 name".repeat(20), &[(x, y), (y, x), (1.0, 1.0)])]);
                (chart.x_scale, chart.y_scale) = (scale, scale);
                chart.title = "\u{202e}\t".repeat(300);
                let svg = chart.to_svg().unwrap();
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{x} {y}");
                assert!(!svg.contains('\0'));
            }
        }
    }
    let wide = chart(vec![series("\u{1F600}", &[(1e100, -1e100), (-1e100, 1e100)])]);
    wide.to_png().unwrap();
}
