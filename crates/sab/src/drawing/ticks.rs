//! Round numbers along an axis.

/// The next of 1, 2, 5, 10, 20, ...
pub fn round_up(count: usize) -> usize {
    let mut decade = 1_usize;
    loop {
        for round in [decade, decade.saturating_mul(2), decade.saturating_mul(5)] {
            if round >= count {
                return round;
            }
        }
        decade = decade.saturating_mul(10);
    }
}

/// The smallest of 1, 2, 5 times a power of ten that is at least `step`, a positive number.
pub fn round_step(step: f64) -> f64 {
    let decade = 10_f64.powi(step.log10().floor() as i32);
    // Rounding must not push 0.2 / 0.1 above 2.
    let digit = step / decade * (1.0 - 1e-9);
    let round = [1.0, 2.0, 5.0].into_iter().find(|round| digit <= *round).unwrap_or(10.0);
    round * decade
}

/// A number beside a tick, with the digits that ticks `step` apart need: `0.25`, `5000`, `20,000`, `2M`, `1e-6`.
pub fn tick_label(value: f64, step: f64) -> String {
    let size = value.abs();
    if value == 0.0 || size < step * 1e-6 {
        return "0".to_owned();
    }
    if !(1e-4..1e9).contains(&size) {
        return format!("{value:.3e}").replacen(".000e", "e", 1);
    }
    if size >= 1e6 {
        let millions = format!("{:.3}", value / 1e6);
        return format!("{}M", millions.trim_end_matches('0').trim_end_matches('.'));
    }
    let decimals = (-step.log10() - 1e-9).ceil().clamp(0.0, 9.0) as usize;
    let text = format!("{value:.decimals$}");
    if size < 10_000.0 { text } else { with_commas(&text) }
}

/// A comma before each group of three digits of a whole number.
fn with_commas(text: &str) -> String {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
    let (whole, fraction) = digits.split_once('.').map_or((digits, None), |(whole, fraction)| (whole, Some(fraction)));
    let groups: Vec<&str> = whole.as_bytes().rchunks(3).rev().filter_map(|group| str::from_utf8(group).ok()).collect();
    let fraction = fraction.map_or(String::new(), |fraction| format!(".{fraction}"));
    format!("{sign}{}{fraction}", groups.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_not_below_what_was_asked() {
        let rounded: Vec<f64> = [1.0, 1.1, 2.0, 2.1, 5.0, 5.1, 0.03, 7e5].into_iter().map(round_step).collect();
        assert_eq!(rounded, [1.0, 2.0, 2.0, 5.0, 5.0, 10.0, 0.05, 1e6]);
        assert_eq!([1, 3, 6, 11].map(round_up), [1, 5, 10, 20]);
    }

    #[test]
    fn labels_have_the_digits_that_tell_ticks_apart() {
        let label = |value, step| tick_label(value, step);
        assert_eq!([label(0.25, 0.05), label(0.3, 0.1), label(2.0, 0.5)], ["0.25", "0.3", "2.0"]);
        assert_eq!(
            [label(5000.0, 1000.0), label(20_000.0, 5000.0), label(-123_456.0, 1.0)],
            ["5000", "20,000", "-123,456"]
        );
        assert_eq!(
            [label(2e6, 1e6), label(2.5e6, 5e5), label(1e-6, 1e-6), label(3e9, 1e9)],
            ["2M", "2.5M", "1e-6", "3e9"]
        );
        assert_eq!([label(0.0, 1.0), label(1e-17, 0.1)], ["0", "0"]);
    }
}
