//! Mean and spread over seeds, and their text.

use crate::display::number;

/// Mean and spread of some seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Statistics {
    /// The mean.
    pub(super) mean: f64,
    /// The standard deviation of the sample; one seed has none.
    pub(super) spread: Option<f64>,
    /// The number of values.
    pub(super) count: usize,
}

impl Statistics {
    /// The statistics of some values; none without a value.
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        let count = values.len();
        if count == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let spread = (count > 1).then(|| (squares / (count - 1) as f64).sqrt());
        Some(Self { mean, spread, count })
    }

    /// `99.97 ± 0.03` for percentages; other numbers have the digits of [`number`].
    pub(super) fn write(&self, percent: bool) -> String {
        let show = |value: f64| match percent {
            // Only a perfect score reads 100.
            true if (99.0..100.0).contains(&value) => format!("{:.2}", value.min(99.99)),
            true => format!("{value:.2}"),
            false => number(value),
        };
        match self.spread {
            Some(spread) => format!("{} ± {}", show(self.mean), show(spread)),
            None => show(self.mean),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_is_that_of_a_sample() {
        let found = Statistics::of(&[1.0, 2.0, 4.0]).expect("three values");
        assert!((found.mean - 7.0 / 3.0).abs() < 1e-12);
        // The squared distances sum to 42/9; two degrees of freedom.
        assert!((found.spread.expect("three values") - (42.0_f64 / 18.0).sqrt()).abs() < 1e-12);
        assert_eq!(Statistics::of(&[5.0]).map(|one| one.spread), Some(None));
        assert_eq!(Statistics::of(&[]), None);
    }

    #[test]
    fn percentages_have_two_decimals() {
        let found = Statistics::of(&[99.95, 100.0]).expect("two values");
        assert_eq!(found.write(true), "99.97 ± 0.04");
        assert_eq!(Statistics::of(&[5.4e-4]).expect("one").write(false), "5.4e-4");
    }
}
