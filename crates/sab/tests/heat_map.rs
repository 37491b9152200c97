//! Heat maps draw what they hold and refuse what makes no sense.

use sab::heat_map::{Cell, HeatMap, HeatMapError};

fn map(rows: usize, columns: usize, cells: &[(usize, usize, f32)]) -> HeatMap {
    HeatMap {
        title: "Reminders <of> & \"copy\"".to_owned(),
        x_label: "remembered step".to_owned(),
        y_label: "step".to_owned(),
        columns: 0..columns,
        rows: 0..rows,
        cells: cells.iter().map(|&(step, remembered, weight)| Cell { step, remembered, weight }).collect(),
        ..HeatMap::default()
    }
}

struct Picture {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

impl Picture {
    fn of(map: &HeatMap) -> Self {
        let bytes = map.to_png().unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        Self { width: info.width as usize, height: info.height as usize, pixels }
    }

    fn count(&self, colour: [u8; 3]) -> usize {
        self.pixels.chunks_exact(3).filter(|pixel| *pixel == colour).count()
    }
}

/// The strongest reminder of the scale and, in the bar, its first line of 20 pixels.
const STRONGEST: [u8; 3] = [0xfc, 0xff, 0xa4];
const BAR: usize = 20;

#[test]
fn each_reminder_fills_its_cell() {
    let none = Picture::of(&map(120, 120, &[(50, 3, 0.9)]));
    let two = Picture::of(&map(120, 120, &[(50, 3, 1.0), (119, 0, 1.0)]));
    assert_eq!(none.count(STRONGEST), BAR);
    assert_eq!(two.count(STRONGEST), BAR + 2 * 8 * 8);
}

#[test]
fn sizes_stay_sensible_from_one_cell_to_millions() {
    for (rows, columns) in [(1, 1), (10, 120), (120, 120), (1000, 1000), (3, 1_000_000), (usize::MAX, usize::MAX)] {
        let picture = Picture::of(&map(rows, columns, &[(rows - 1, columns - 1, 1.0)]));
        assert!((200..1400).contains(&picture.width), "{rows} x {columns}: width {}", picture.width);
        assert!((150..1300).contains(&picture.height), "{rows} x {columns}: height {}", picture.height);
        assert!(picture.count(STRONGEST) > BAR, "{rows} x {columns}: the last corner is drawn");
    }
}

#[test]
fn pooling_keeps_the_strongest_reminder() {
    let svg = map(1000, 1000, &[(900, 30, 0.2), (901, 31, 0.7), (902, 32, 0.1)]).to_svg().unwrap();
    assert!(svg.contains("step 901 was reminded of step 31: 0.700"));
    assert_eq!(svg.matches("was reminded of").count(), 1);
    assert!(svg.contains("a cell is the strongest of 3 x 3 steps"));
}

#[test]
fn the_same_map_gives_the_same_file() {
    let cells: Vec<_> = (1..500).map(|step| (step, step * 7 % step.max(1), 0.5)).collect();
    let mut reversed = cells.clone();
    reversed.reverse();
    assert_eq!(map(500, 500, &cells).to_svg().unwrap(), map(500, 500, &reversed).to_svg().unwrap());
    assert_eq!(map(500, 500, &cells).to_png().unwrap(), map(500, 500, &reversed).to_png().unwrap());
}

#[test]
fn the_svg_has_tips_labels_and_marks_and_escapes_text() {
    let mut map = map(12, 12, &[(11, 2, 0.25)]);
    map.step_labels = Some(vec!["<".to_owned(), "7".to_owned()]);
    map.marks = vec![(0, "symbols".to_owned()), (5, "answer & end".to_owned()), (99, "elsewhere".to_owned())];
    let svg = map.to_svg().unwrap();
    for part in [
        "<title>Reminders &lt;of&gt; &amp; \"copy\"</title>",
        "<title>step 11 was reminded of step 2: 0.250</title>",
        ">remembered step</text>",
        ">symbols</text>",
        ">answer &amp; end</text>",
        ">7</text>",
        ">&lt;</text>",
        ">0.50</text>",
    ] {
        assert!(svg.contains(part), "{part} is missing");
    }
    assert!(!svg.contains("elsewhere"));
    assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"));
}

#[test]
fn a_zoom_keeps_step_numbers_and_drops_the_rest() {
    let whole = map(120, 120, &[(20, 3, 0.5), (119, 9, 0.5), (115, 100, 0.5)]);
    let zoomed = whole.last_rows(12);
    assert_eq!((zoomed.rows.clone(), zoomed.cells.len()), (108..120, 2));
    let picture = zoomed.to_svg().unwrap();
    assert!(picture.contains(">118</text>") && picture.contains("step 119 was reminded of step 9"));
    let corner = whole.crop(100..500, 0..10);
    assert_eq!((corner.rows, corner.columns, corner.cells.len()), (100..120, 0..10, 1));
    assert_eq!(whole.last_rows(1000), whole);
}

#[test]
fn bad_maps_are_errors_that_say_what_is_wrong() {
    let message = |map: HeatMap| {
        assert_eq!(map.to_png().unwrap_err().to_string(), map.to_svg().unwrap_err().to_string());
        map.validate().unwrap_err().to_string()
    };
    assert_eq!(message(map(0, 5, &[])), "a heat map needs at least one row and one column, but its rows are 0..0");
    assert_eq!(
        message(map(5, 5, &[(5, 0, 0.1)])),
        "the reminder of step 0 at step 5 is outside columns 0..5 and rows 0..5"
    );
    for weight in [f32::NAN, -0.1, 1.1, f32::INFINITY] {
        let error = map(5, 5, &[(1, 0, weight)]).validate().unwrap_err();
        assert!(matches!(error, HeatMapError::Weight { step: 1, remembered: 0, .. }), "{error}");
    }
    assert!(map(5, 5, &[(1, 0, 1.000_01)]).validate().is_ok(), "rounding above 1 is forgiven");
}

#[test]
fn strange_text_does_not_panic() {
    let mut map = map(30, 30, &[(3, 1, 0.5)]);
    map.title = "\u{1F600}\n\u{202e}".repeat(200);
    map.x_label = "\0\t\u{301}".repeat(300);
    map.y_label = map.title.clone();
    map.step_labels = Some(vec!["\u{1F600}long label".to_owned(); 7]);
    map.marks = (0..40).map(|step| (step, "a very long mark ".repeat(step))).collect();
    map.to_png().unwrap();
    let svg = map.to_svg().unwrap();
    assert!(!svg.contains('\0'));
}
