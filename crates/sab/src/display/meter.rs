//! How far an evaluation is: a bar on a terminal, a line now and then elsewhere, nothing for a short one.

use super::bar::style;
use super::format::duration;
use super::throttle::{Clock, Throttle};
use super::{BETWEEN_LINES, Style, can_draw};
use indicatif::{ProgressBar, ProgressDrawTarget};
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// An evaluation that takes less is over before anyone wonders.
const SHORT: Duration = Duration::from_secs(1);

/// Parts of a bar, enough for a bar as wide as any terminal.
const PARTS: u64 = 10_000;

/// Shows the share of a long evaluation that is done, and the time left, on stderr. Dropping it leaves nothing on a
/// terminal: the result follows.
pub struct Meter {
    title: String,
    clock: Clock,
    began: Instant,
    out: Out,
}

enum Out {
    Nothing,
    Bar(ProgressBar, Throttle),
    Lines(Box<dyn Write + Send>, Throttle),
}

impl Meter {
    /// The meter of a style for an evaluation called `title`, which begins now.
    pub fn new(style: Style, title: &str) -> Self {
        let clock: Clock = Box::new(Instant::now);
        match style {
            Style::Quiet | Style::Json => Self::with(title, clock, Out::Nothing),
            Style::Lines => Self::lines(title, clock, Throttle::new(BETWEEN_LINES), Box::new(io::stderr())),
            _ if can_draw() => Self::bar(title, clock, Throttle::new(SHORT), ProgressDrawTarget::stderr()),
            _ => Self::lines(title, clock, Throttle::new(BETWEEN_LINES), Box::new(io::stderr())),
        }
    }

    pub(super) fn bar(title: &str, clock: Clock, mut patience: Throttle, target: ProgressDrawTarget) -> Self {
        let bar = ProgressBar::with_draw_target(Some(PARTS), target);
        bar.set_style(style());
        // It says yes again once a short evaluation would be over.
        patience.ready();
        Self::with(title, clock, Out::Bar(bar, patience))
    }

    pub(super) fn lines(title: &str, clock: Clock, mut throttle: Throttle, out: Box<dyn Write + Send>) -> Self {
        throttle.ready();
        Self::with(title, clock, Out::Lines(out, throttle))
    }

    fn with(title: &str, mut clock: Clock, out: Out) -> Self {
        Self { title: title.to_string(), began: clock(), clock, out }
    }

    /// Shows a share in `0.0..=1.0`, if it is time to.
    pub fn show(&mut self, share: f64) {
        let seconds = (self.clock)().saturating_duration_since(self.began).as_secs_f64();
        // Cut, not rounded: only the end is 100 %.
        let percent = (100.0 * share) as u64;
        let left = duration(seconds * (1.0 - share) / share);
        let text = format!("{}  {percent:>3} %  {left} left", self.title);
        match &mut self.out {
            Out::Nothing => {}
            Out::Bar(bar, patience) => {
                if bar.position() > 0 || patience.ready() {
                    bar.set_position((share * PARTS as f64) as u64);
                    bar.set_message(text);
                }
            }
            Out::Lines(out, throttle) => {
                if throttle.ready() {
                    // A reader that has gone away does not stop the evaluation.
                    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
                }
            }
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Out::Bar(bar, _) = &self.out {
            bar.finish_and_clear();
        }
    }
}
