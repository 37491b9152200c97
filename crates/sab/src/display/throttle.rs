//! Limits how often things are shown.

use std::time::{Duration, Instant};

/// The source of the time; tests bring their own.
pub type Clock = Box<dyn FnMut() -> Instant + Send>;

/// Says yes at most once per interval.
pub struct Throttle {
    every: Duration,
    clock: Clock,
    last: Option<Instant>,
}

impl Throttle {
    /// Says yes at once and then at most once per `every`.
    pub fn new(every: Duration) -> Self {
        Self::with_clock(every, Box::new(Instant::now))
    }

    /// The same with another clock.
    pub fn with_clock(every: Duration, clock: Clock) -> Self {
        Self { every, clock, last: None }
    }

    /// Whether it is time again.
    pub fn ready(&mut self) -> bool {
        let now = (self.clock)();
        let ready = self.last.is_none_or(|last| now.saturating_duration_since(last) >= self.every);
        if ready {
            self.last = Some(now);
        }
        ready
    }
}
