//! Heat maps draw what they hold and refuse what makes no sense.

mod figures;

use figures::{Picture, assert_readable, texts};
use sab::drawing;
use sab::heat_map::{Cell, HeatMap, HeatMaps};

fn map(rows: usize, columns: usize, cells: &[(usize, usize, f32)]) -> HeatMap {
    HeatMap {
        title: "Reminders <of> & \"copy\"".to_owned(),
        columns: 0..columns,
        rows: 0..rows,
        cells: cells.iter().map(|&(step, remembered, weight)| Cell { step, remembered, weight }).collect(),
        ..HeatMap::default()
    }
}

fn draw(map: &HeatMap) -> drawing::Picture {
    HeatMaps(vec![map.clone()]).draw().unwrap()
}

fn svg(map: &HeatMap) -> String {
    draw(map).to_svg()
}

fn picture(map: &HeatMap) -> Picture {
    Picture::of(&draw(map).to_png().unwrap())
}

/// The strongest reminder of the scale.
const STRONGEST: [u8; 3] = [0xfc, 0xff, 0xa4];

#[test]
fn each_reminder_fills_its_cell() {
    let none = picture(&map(120, 120, &[(50, 3, 0.9)])).count(STRONGEST);
    let two = picture(&map(120, 120, &[(50, 3, 1.0), (119, 0, 1.0)])).count(STRONGEST);
    assert!(none > 0, "the scale has it");
    // A side of a cell has 8 pixels of the SVG, and twice as many of the PNG.
    assert_eq!(two - none, 2 * 16 * 16);
}

#[test]
fn sizes_stay_sensible_from_one_cell_to_millions() {
    for (rows, columns) in [(1, 1), (10, 120), (120, 120), (1000, 1000), (3, 1_000_000), (usize::MAX, usize::MAX)] {
        let weak = map(rows, columns, &[(rows - 1, columns - 1, 0.9)]);
        let strong = map(rows, columns, &[(rows - 1, columns - 1, 1.0)]);
        let (weak, strong) = (picture(&weak), picture(&strong));
        assert!((400..2800).contains(&strong.width), "{rows} x {columns}: width {}", strong.width);
        assert!((300..2600).contains(&strong.height), "{rows} x {columns}: height {}", strong.height);
        assert!(strong.count(STRONGEST) >= weak.count(STRONGEST) + 36, "{rows} x {columns}: the last corner is drawn");
    }
}

#[test]
fn pooling_keeps_the_strongest_reminder() {
    let svg = svg(&map(1000, 1000, &[(900, 30, 0.2), (901, 31, 0.7), (902, 32, 0.1)]));
    assert!(svg.contains("step 901 was reminded of step 31: 0.700"));
    assert_eq!(svg.matches("was reminded of").count(), 1);
    assert!(svg.contains("a cell is the strongest of 3 x 3 steps"));
}

#[test]
fn the_same_map_gives_the_same_file() {
    let cells: Vec<_> = (1..500).map(|step| (step, step * 7 % step.max(1), 0.5)).collect();
    let mut reversed = cells.clone();
    reversed.reverse();
    let [one, other] = [cells, reversed].map(|cells| draw(&map(500, 500, &cells)));
    assert!(one.to_svg() == other.to_svg());
    assert!(one.to_png().unwrap() == other.to_png().unwrap());
}

#[test]
fn the_svg_has_tips_and_labels_and_escapes_text() {
    let mut map = map(12, 12, &[(11, 2, 0.25)]);
    map.step_labels = Some(vec!["<".to_owned(), "7".to_owned()]);
    let svg = svg(&map);
    assert!(svg.contains("<title>step 11 was reminded of step 2: 0.250</title>"), "{svg}");
    let written: Vec<String> = texts(&svg).into_iter().map(|text| text.content).collect();
    for text in [
        "Reminders &lt;of&gt; &amp; &quot;copy&quot;",
        "remembered step",
        "step",
        "none",
        "0.50",
        "&lt;",
        "7",
        "1 7",
        "11",
    ] {
        assert!(written.iter().any(|content| content == text), "{text} is not in {written:?}");
    }
    assert!(svg.starts_with("<svg xmlns="));
}

#[test]
fn texts_have_room() {
    let symbols = |count: usize| Some((0..count).map(|step| ["7", "·", "word"][step % 3].to_owned()).collect());
    for (rows, columns) in [(1, 1), (3, 4), (10, 221), (40, 40), (120, 120), (340, 340), (100_000, 1_000_000)] {
        let mut map = map(rows, columns, &[(rows - 1, 0, 0.4)]);
        map.step_labels = symbols(rows.max(columns).min(1000));
        map.title = "a title as long as a name can be, and then some more of it".repeat(3);
        assert_readable(&svg(&map));
        assert_readable(&HeatMaps(vec![map.clone(), map]).draw().unwrap().to_svg());
    }
    // Rows are named even where their numbers are long.
    let mut late = map(10_000_000, 5, &[]);
    late.rows.start = 9_999_990;
    assert_readable(&svg(&late));
}

#[test]
fn a_zoom_keeps_step_numbers_and_drops_the_rest() {
    let whole = map(120, 120, &[(20, 3, 0.5), (119, 9, 0.5), (115, 100, 0.5)]);
    let zoomed = whole.clone().last_rows(12);
    assert_eq!((zoomed.rows.clone(), zoomed.cells.len()), (108..120, 2));
    let svg = svg(&zoomed);
    assert!(svg.contains(">118</text>") && svg.contains("step 119 was reminded of step 9"));
    assert_eq!(whole.clone().last_rows(1000), whole);
}

#[test]
fn bad_maps_are_errors_that_say_what_is_wrong() {
    let message = |map: HeatMap| HeatMaps(vec![map]).draw().err().unwrap().to_string();
    assert_eq!(
        message(map(0, 5, &[])),
        "cannot draw the figure: a heat map needs at least one row and one column, but its rows are 0..0"
    );
    assert_eq!(
        message(map(5, 5, &[(5, 0, 0.1)])),
        "cannot draw the figure: the reminder of step 0 at step 5 is outside columns 0..5 and rows 0..5"
    );
    for weight in [f32::NAN, -0.1, 1.1, f32::INFINITY] {
        let message = message(map(5, 5, &[(1, 0, weight)]));
        assert!(message.contains(&format!("the reminder of step 0 at step 1 has weight {weight}")), "{message}");
    }
    assert!(HeatMaps(vec![map(5, 5, &[(1, 0, 1.000_01)])]).draw().is_ok(), "rounding above 1 is forgiven");
    assert!(HeatMaps(Vec::new()).draw().is_err());
}

#[test]
fn strange_text_does_not_panic() {
    let mut map = map(30, 30, &[(3, 1, 0.5)]);
    map.title = "\u{1F600}\n\u{202e}$x^2$\0\t\u{301}".repeat(200);
    map.step_labels = Some(vec!["\u{1F600}long label".to_owned(); 7]);
    picture(&map);
    let svg = svg(&map);
    assert!(!svg.contains('\0') && svg.contains("$x^2$"), "{svg}");
}
