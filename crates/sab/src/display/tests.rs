//! The output of each style.

use super::bar::Bar;
use super::dashboard::{State, draw};
use super::lines::{Form, Lines};
use super::meter::Meter;
use super::throttle::{Clock, Throttle};
use crate::train::{NoteKind, Observer, Progress, Validation};
use indicatif::{InMemoryTerm, ProgressDrawTarget};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Output that can still be read when the display has it.
#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl Output {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A clock that is set by hand, in seconds, and a throttle of five seconds that follows it.
fn clock() -> (Arc<AtomicU64>, Throttle) {
    let seconds = Arc::new(AtomicU64::new(0));
    let (start, read) = (Instant::now(), seconds.clone());
    let now = move || start + Duration::from_secs(read.load(Ordering::SeqCst));
    (seconds, Throttle::with_clock(Duration::from_secs(5), Box::new(now)))
}

fn progress(update: u64, loss: f64) -> Progress {
    Progress {
        update,
        budget: 20_000,
        loss,
        metrics: vec![("accuracy", 0.632)],
        gradient_norm: 0.71,
        learning_rate: 9.9e-4,
        updates_per_second: 27.1,
        seconds: 44.0,
        seconds_left: Some(694.0),
    }
}

fn validation(update: u64, best: bool) -> Validation {
    Validation { update, metrics: vec![("loss", 0.7011), ("accuracy", 0.713)], best }
}

#[test]
fn a_throttle_says_yes_once_per_interval() {
    let (seconds, mut throttle) = clock();
    let mut yes = Vec::new();
    for second in 0..=12 {
        seconds.store(second, Ordering::SeqCst);
        yes.extend(throttle.ready().then_some(second));
    }
    assert_eq!(yes, [0, 5, 10]);
}

#[test]
fn the_last_progress_comes_before_the_note_that_training_has_ended() {
    let output = Output::default();
    let (_, throttle) = clock();
    let mut lines = Lines::new(output.clone(), Form::Text, throttle, "");
    let heads = |output: &Output| {
        let head = |line: &str| line.split("  loss").next().unwrap_or_default().to_string();
        output.text().lines().map(head).collect::<Vec<_>>()
    };
    lines.progress(&progress(1, 2.0));
    lines.progress(&progress(20_000, 1.0));
    lines.validation(&validation(20_000, true));
    lines.note(NoteKind::Info, "the budget of updates is spent; testing the best model");
    let spent = "the budget of updates is spent; testing the best model";
    let whole = ["update     1/20000   0 %", "update 20000/20000 100 %", "validation at update 20000", spent];
    assert_eq!(heads(&output), whole);
    // The time may be up before the budget is spent.
    lines.progress(&progress(300, 1.0));
    lines.note(NoteKind::Info, "the time is up; testing the best model");
    drop(lines);
    assert_eq!(heads(&output)[4..], ["update   300/20000   1 %", "the time is up; testing the best model"]);
}

#[test]
fn lines_have_matching_columns_and_are_limited_in_number() {
    let output = Output::default();
    let (seconds, throttle) = clock();
    let mut lines = Lines::new(output.clone(), Form::Text, throttle, "copy, T = 100");
    lines.progress(&progress(1, 2.0794));
    seconds.store(4, Ordering::SeqCst);
    lines.progress(&progress(900, 1.5));
    lines.validation(&validation(1000, true));
    lines.note(NoteKind::Warning, "the gradient was clipped 40 times");
    seconds.store(5, Ordering::SeqCst);
    let mut later = progress(1200, 12.81234);
    later.metrics[0].1 = 1.0;
    later.seconds_left = Some(4271.0);
    lines.progress(&later);
    seconds.store(6, Ordering::SeqCst);
    lines.progress(&progress(20_000, 0.000_123));
    drop(lines);
    let expected = "\
copy, T = 100
update     1/20000   0 %  loss  2.0794  accuracy  63.2 %  lr  9.9e-4  grad  0.7100    27.1 updates/s    11:34 left
validation at update  1000  loss  0.7011  accuracy  71.3 %  best so far
warning: the gradient was clipped 40 times
update  1200/20000   6 %  loss  12.812  accuracy 100.0 %  lr  9.9e-4  grad  0.7100    27.1 updates/s  1:11:11 left
update 20000/20000 100 %  loss 1.23e-4  accuracy  63.2 %  lr  9.9e-4  grad  0.7100    27.1 updates/s    11:34 left
";
    assert_eq!(output.text(), expected);
}

#[test]
fn dropping_lines_shows_the_last_progress() {
    let output = Output::default();
    let (_, throttle) = clock();
    let mut lines = Lines::new(output.clone(), Form::Text, throttle, "");
    lines.progress(&Progress { loss: f64::NAN, ..Progress::default() });
    lines.progress(&Progress { update: 7, loss: f64::INFINITY, budget: 0, ..Progress::default() });
    drop(lines);
    let text = output.text();
    assert_eq!(text.lines().count(), 2);
    assert!(text.contains("loss     NaN") && text.contains("update 7/0 100 %  loss     inf"), "{text}");
}

#[test]
fn quiet_shows_warnings_only() {
    let output = Output::default();
    let mut quiet = Lines::new(output.clone(), Form::Quiet, clock().1, "title");
    quiet.progress(&progress(1, 1.0));
    quiet.validation(&validation(1, true));
    quiet.note(NoteKind::Info, "hello");
    quiet.note(NoteKind::Warning, "hm");
    assert_eq!(output.text(), "warning: hm\n");
}

#[test]
fn json_lines_parse_and_hold_everything() {
    let output = Output::default();
    let (seconds, throttle) = clock();
    let mut json = Lines::new(output.clone(), Form::Json, throttle, "title");
    json.progress(&progress(1, f64::NAN));
    seconds.store(1, Ordering::SeqCst);
    json.progress(&progress(2, 1.0));
    json.validation(&validation(2, false));
    json.note(NoteKind::Warning, "two\nlines \"quoted\"");
    json.progress(&progress(3, 0.5));
    drop(json);
    let values: Vec<serde_json::Value> =
        output.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(values.len(), 4);
    assert_eq!(
        values[0],
        serde_json::json!({
            "event": "progress", "update": 1, "budget": 20000, "loss": null, "metrics": { "accuracy": 0.632 },
            "gradient_norm": 0.71, "learning_rate": 9.9e-4, "updates_per_second": 27.1, "seconds": 44.0,
            "seconds_left": 694.0,
        })
    );
    assert_eq!(
        values[1],
        serde_json::json!({
            "event": "validation", "update": 2, "metrics": { "loss": 0.7011, "accuracy": 0.713 }, "best": false,
        })
    );
    assert_eq!(values[2], serde_json::json!({ "event": "note", "kind": "warning", "text": "two\nlines \"quoted\"" }));
    assert_eq!((&values[3]["update"], &values[3]["loss"]), (&3.into(), &0.5.into()));
}

#[test]
fn closed_output_does_not_stop_the_training() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }
    for form in [Form::Text, Form::Json, Form::Quiet] {
        let mut display = Lines::new(Closed, form, clock().1, "title");
        display.progress(&progress(1, 1.0));
        display.validation(&validation(1, true));
        display.note(NoteKind::Warning, "text");
    }
}

#[test]
fn the_bar_is_below_its_results() {
    let terminal = InMemoryTerm::new(10, 90);
    let mut bar = Bar::new(ProgressDrawTarget::term_like(Box::new(terminal.clone())), "copy, T = 100");
    bar.progress(&progress(10_000, 0.8123));
    bar.validation(&validation(10_000, true));
    bar.note(NoteKind::Warning, "hm");
    bar.progress(&progress(10_001, 0.8122));
    drop(bar);
    let shown = terminal.contents();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 4, "{shown}");
    assert_eq!(lines[0], "copy, T = 100");
    assert_eq!(lines[1], "validation at update 10000  loss  0.7011  accuracy  71.3 %  best so far");
    assert_eq!(lines[2], "warning: hm");
    assert!(lines[3].starts_with("━"), "{shown}");
    assert!(lines[3].ends_with("10001/20000  50 %  11:34 left  loss 0.8122  accuracy 63.2 %  27.1/s"), "{shown}");
}

/// The dashboard of a run of 400 updates as text.
fn dashboard(width: u16, height: u16, state: &State) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, state)).unwrap();
    terminal.backend().to_string()
}

fn run() -> State {
    let mut state = State::new("copy, T = 100");
    for update in 1..=400 {
        let loss = 2.0 * (-(update as f64) / 150.0).exp();
        let mut progress = progress(update * 50, loss);
        progress.metrics[0].1 = 1.0 - loss / 2.0;
        progress.gradient_norm = 0.5 + 0.3 * (update as f64 / 9.0).sin();
        state.progress(&progress);
        if update % 80 == 0 {
            state.validation(&validation(update * 50, update == 320));
        }
    }
    for note in 0..200 {
        state.note(NoteKind::Info, &format!("note {note}"));
    }
    state.note(NoteKind::Warning, "the loss jumped");
    state
}

#[test]
fn the_dashboard_shows_metrics_charts_and_notes() {
    let shown = dashboard(120, 40, &run());
    for part in [
        "copy, T = 100  update 20000/20000  27.1 updates/s  0:44 so far  11:34 left",
        "100.0 %",
        "loss 0.1390  accuracy 93.1 %  gradient norm 0.6338  learning rate 9.9e-4",
        "last at update 20000: loss 0.7011  accuracy 71.3 %  best at update 16000:",
        " loss ",
        " accuracy ",
        " gradient norm ",
        " learning rate ",
        "note 199",
        "warning: the loss jumped",
        "Ctrl-C stops",
    ] {
        assert!(shown.contains(part), "{part} is missing in\n{shown}");
    }
    let dots = shown.chars().filter(|c| ('\u{2801}'..='\u{28ff}').contains(c)).count();
    assert!(dots > 200, "only {dots} cells of charts in\n{shown}");
}

#[test]
fn the_dashboard_fits_any_terminal_and_any_numbers() {
    let mut odd = State::new(&"title\n\u{1F600}".repeat(50));
    for value in [f64::NAN, f64::MAX, -f64::MAX, f64::MIN_POSITIVE, 0.0, f64::INFINITY] {
        odd.progress(&Progress { loss: value, gradient_norm: value, updates_per_second: value, ..progress(1, value) });
        odd.validation(&Validation { update: 1, metrics: vec![("accuracy", value)], best: true });
    }
    for state in [State::default(), run(), odd] {
        for (width, height) in [(1, 1), (2, 9), (20, 5), (80, 24), (300, 100), (400, 2)] {
            dashboard(width, height, &state);
        }
    }
}

/// A clock that is set by hand, for a meter: one of its own and one for its throttle.
fn two_clocks() -> (Arc<AtomicU64>, Clock, Throttle) {
    let (seconds, throttle) = clock();
    let (start, read) = (Instant::now(), seconds.clone());
    (seconds, Box::new(move || start + Duration::from_secs(read.load(Ordering::SeqCst))), throttle)
}

#[test]
fn a_long_evaluation_gets_a_line_now_and_then_with_the_time_left() {
    let output = Output::default();
    let (seconds, own, throttle) = two_clocks();
    let mut meter = Meter::lines("T=1000000", own, throttle, Box::new(output.clone()));
    for (second, share) in [(0, 0.0), (4, 0.2), (5, 0.25), (6, 0.3), (90, 0.999), (91, 1.0)] {
        seconds.store(second, Ordering::SeqCst);
        meter.show(share);
    }
    drop(meter);
    assert_eq!(output.text(), "T=1000000   25 %  0:15 left\nT=1000000   99 %  0:00 left\n");
}

#[test]
fn a_short_evaluation_shows_nothing() {
    let output = Output::default();
    let (seconds, own, throttle) = two_clocks();
    let mut meter = Meter::lines("test", own, throttle, Box::new(output.clone()));
    meter.show(0.5);
    seconds.store(4, Ordering::SeqCst);
    meter.show(1.0);
    drop(meter);
    assert_eq!(output.text(), "");
}

#[test]
fn on_a_terminal_an_evaluation_is_a_bar_that_leaves_nothing_behind() {
    let terminal = InMemoryTerm::new(5, 60);
    let (seconds, own, patience) = two_clocks();
    let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
    let mut meter = Meter::bar("T=5000", own, patience, target);
    meter.show(0.1);
    assert_eq!(terminal.contents(), "");
    seconds.store(6, Ordering::SeqCst);
    meter.show(0.25);
    assert!(terminal.contents().ends_with("T=5000   25 %  0:18 left"), "{}", terminal.contents());
    assert_eq!(terminal.contents().lines().count(), 1);
    drop(meter);
    assert_eq!(terminal.contents(), "");
}
