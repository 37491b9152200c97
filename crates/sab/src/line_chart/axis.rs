//! How numbers become pixels.

use super::Scale;
use crate::drawing::{round_step, tick_label};

/// From this ratio on the numbers of a linear axis begin at 0: less of it would hide how small the change is.
const FROM_ZERO: f64 = 0.5;

/// One axis: which numbers it spans and where they lie.
pub struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    /// The pixels of `low` and `high`.
    from: f64,
    to: f64,
}

/// A number beside the axis.
pub struct Tick {
    pub at: f64,
    pub label: String,
}

impl Axis {
    /// An axis for these numbers, between two pixels. Its ends are round where `widen` asks for it; then there is room for
    /// about `count` ticks.
    pub fn new(scale: Scale, values: impl Iterator<Item = f64>, pixels: (f64, f64), widen: Option<usize>) -> Self {
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
        let (low, high) = match scale {
            Scale::Linear => linear_span(low, high, widen),
            Scale::Log => log_span(low, high, widen.is_some()),
        };
        Self { scale, low, high, from: pixels.0, to: pixels.1 }
    }

    /// The pixel of a number.
    pub fn place(&self, value: f64) -> f64 {
        let part = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        // Rounding does not carry a point out of the picture.
        self.from + part.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Round numbers on the axis, about `count` of them.
    pub fn ticks(&self, count: usize) -> Vec<Tick> {
        let count = count.max(2);
        match self.scale {
            Scale::Linear => self.linear_ticks(count),
            Scale::Log => {
                let ticks = self.log_ticks(count);
                // Between 21 and 49 there is no 1, 2 or 5 of a decade.
                if ticks.len() >= 2 { ticks } else { self.linear_ticks(count) }
            }
        }
    }

    fn linear_ticks(&self, count: usize) -> Vec<Tick> {
        let step = round_step((self.high - self.low) / count as f64);
        let inside = |number: f64| (number * step, step);
        let (first, last) = ((self.low / step - 1e-6).ceil(), (self.high / step + 1e-6).floor());
        let numbers = (0..=(last - first).clamp(0.0, 100.0) as usize).map(|i| inside(first + i as f64));
        self.at_places(numbers)
    }

    /// All decades or some of them; where they are few also their 2 and 5.
    fn log_ticks(&self, count: usize) -> Vec<Tick> {
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let decades = (self.high / self.low).log10();
        let digits: &[f64] = if decades * 3.0 <= count as f64 + 4.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let apart = (decades / count as f64).ceil().max(1.0) as usize;
        let numbers = (first..=last).filter(|power| power.rem_euclid(apart as i32) == 0).flat_map(|power| {
            let decade = 10_f64.powi(power);
            digits.iter().map(move |digit| (digit * decade, decade))
        });
        let inside = |(value, _): &(f64, f64)| (self.low * (1.0 - 1e-9)..=self.high * (1.0 + 1e-9)).contains(value);
        self.at_places(numbers.filter(inside))
    }

    fn at_places(&self, numbers: impl Iterator<Item = (f64, f64)>) -> Vec<Tick> {
        numbers.map(|(value, step)| Tick { at: self.place(value), label: tick_label(value, step) }).collect()
    }
}

fn linear_span(low: f64, high: f64, widen: Option<usize>) -> (f64, f64) {
    let (mut low, mut high) = (low, high);
    if low >= 0.0 && low <= FROM_ZERO * high {
        low = 0.0;
    } else if high <= 0.0 && high >= FROM_ZERO * low {
        high = 0.0;
    }
    // All the same number, or as good as: it lies in the middle.
    let size = low.abs().max(high.abs());
    if high - low <= 1e-9 * size || size == 0.0 {
        let room = if size == 0.0 { 1.0 } else { size * 0.1 };
        (low, high) = (low - room, high + room);
    }
    if let Some(count) = widen {
        let step = round_step((high - low) / count.max(2) as f64);
        (low, high) = ((low / step + 1e-6).floor() * step, (high / step - 1e-6).ceil() * step);
    }
    (low, high)
}

fn log_span(low: f64, high: f64, widen: bool) -> (f64, f64) {
    let (low, high) = if high / low < 1.0 + 1e-9 { (low / 2.0, high * 2.0) } else { (low, high) };
    if widen { (round_below(low), 1.0 / round_below(1.0 / high)) } else { (low, high) }
}

/// The next of 1, 2, 5 times a power of ten that is not above `value`.
fn round_below(value: f64) -> f64 {
    let decade = 10_f64.powi(value.log10().floor() as i32);
    // Rounding must not take 0.2 / 0.1 for less than 2.
    let digit = value / decade * (1.0 + 1e-9);
    let round = [5.0, 2.0, 1.0].into_iter().find(|round| *round <= digit).unwrap_or(1.0);
    round * decade
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, values: &[f64], widen: Option<usize>, count: usize) -> Vec<String> {
        let axis = Axis::new(scale, values.iter().copied(), (0.0, 100.0), widen);
        let ticks = axis.ticks(count);
        assert!(ticks.iter().all(|tick| (0.0..=100.0).contains(&tick.at)));
        assert!(ticks.windows(2).all(|pair| pair[0].at < pair[1].at));
        ticks.into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn linear_ticks_are_round_and_span_the_data() {
        assert_eq!(labels(Scale::Linear, &[12.5, 99.9], Some(5), 5), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(labels(Scale::Linear, &[97.2, 99.9], Some(5), 5), ["97", "98", "99", "100"]);
        assert_eq!(labels(Scale::Linear, &[0.0, 9500.0], None, 5), ["0", "2000", "4000", "6000", "8000"]);
        assert_eq!(labels(Scale::Linear, &[-3.0, 4.0], Some(5), 5), ["-4", "-2", "0", "2", "4"]);
        assert_eq!(labels(Scale::Linear, &[5.0, 5.0], Some(4), 4), ["4.5", "5.0", "5.5"]);
    }

    #[test]
    fn log_ticks_are_decades_with_2_and_5_where_they_are_few() {
        assert_eq!(labels(Scale::Log, &[100.0, 2000.0], None, 6), ["100", "200", "500", "1000", "2000"]);
        assert_eq!(labels(Scale::Log, &[0.02, 2000.0], None, 6), ["0.1", "1", "10", "100", "1000"]);
        assert_eq!(labels(Scale::Log, &[1e-12, 1e12], None, 6).len(), 7);
        assert_eq!(labels(Scale::Log, &[21.0, 49.0], None, 5), ["30", "40"]);
        assert_eq!(labels(Scale::Log, &[7.2, 42.0], Some(4), 4), ["5", "10", "20", "50"]);
        assert_eq!(labels(Scale::Log, &[0.2, 50.0], Some(4), 4), ["0.2", "0.5", "1", "2", "5", "10", "20", "50"]);
    }

    #[test]
    fn equal_ratios_are_equally_long_on_a_log_axis() {
        let axis = Axis::new(Scale::Log, [1.0, 100.0].into_iter(), (0.0, 200.0), None);
        assert_eq!([1.0, 10.0, 100.0].map(|value| axis.place(value).round()), [0.0, 100.0, 200.0]);
    }
}
