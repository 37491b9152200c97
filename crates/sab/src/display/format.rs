//! Numbers as people read them. Every function takes any number, NaN and infinities included.

/// Whether a metric of this name is a fraction, which is shown in percent.
pub fn is_fraction(name: &str) -> bool {
    name.contains("accuracy")
}

/// A metric as its name asks: `63.2 %` for an accuracy, else as [`number`].
pub fn metric(name: &str, value: f64) -> String {
    if is_fraction(name) { percent(value) } else { number(value) }
}

/// About five digits: `0.8123`, `12.346`, `12346`; below 0.01 and from 100000 on `9.9e-4`.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return format!("{value}");
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    if !(0.01..1e5).contains(&size) {
        return scientific(value);
    }
    let decimals = match size {
        ..10.0 => 4,
        ..100.0 => 3,
        ..1000.0 => 2,
        ..10_000.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// At most three digits and a power of ten: `9.9e-4`, `1e-3`.
fn scientific(value: f64) -> String {
    let text = format!("{value:.2e}");
    match text.split_once('e') {
        Some((digits, power)) => format!("{}e{power}", digits.trim_end_matches('0').trim_end_matches('.')),
        None => text,
    }
}

/// A fraction as `63.2 %`; close to one as `99.96 %`, so that only 1 is shown as 100.
pub fn percent(fraction: f64) -> String {
    match 100.0 * fraction {
        near if (99.0..100.0).contains(&near) => format!("{:.2} %", near.min(99.99)),
        percent if percent.is_finite() => format!("{percent:.1} %"),
        _ => format!("{fraction}"),
    }
}

/// A speed: `27.1`, `1234`, `0.0532`.
pub fn rate(per_second: f64) -> String {
    match per_second {
        1.0..1000.0 => format!("{per_second:.1}"),
        1000.0..1e6 => format!("{per_second:.0}"),
        _ => number(per_second),
    }
}

/// Seconds as `m:ss` or `h:mm:ss`; `-` for anything that is not a time.
pub fn duration(seconds: f64) -> String {
    // Ten thousand years: longer times are not shown.
    if !(0.0..3e11).contains(&seconds) {
        return "-".to_owned();
    }
    let seconds = seconds.round() as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_digits_and_stay_short() {
        let shown = |values: &[f64]| values.iter().map(|value| number(*value)).collect::<Vec<_>>().join(" ");
        assert_eq!(
            shown(&[0.8123, 2.0, 12.3456, 123.456, 1234.56, 12345.6]),
            "0.8123 2.0000 12.346 123.46 1234.6 12346"
        );
        assert_eq!(
            shown(&[9.9e-4, 1e-3, 0.00999, 0.01, 123_456.0, -1.234e-7]),
            "9.9e-4 1e-3 9.99e-3 0.0100 1.23e5 -1.23e-7"
        );
        assert_eq!(shown(&[0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY]), "0 0 NaN inf -inf");
        for power in -300..300 {
            assert!(number(-9.999_99 * 10_f64.powi(power)).len() <= 9);
        }
    }

    #[test]
    fn fractions_named_accuracy_are_in_percent() {
        assert_eq!(
            (percent(0.9996), percent(0.99999), percent(1.0)),
            ("99.96 %".into(), "99.99 %".into(), "100.0 %".into())
        );
        assert_eq!(metric("accuracy", 0.632), "63.2 %");
        assert_eq!(metric("answer accuracy", 1.0), "100.0 %");
        assert_eq!(metric("bits per character", 1.5), "1.5000");
        assert_eq!(metric("accuracy", f64::NAN), "NaN");
    }

    #[test]
    fn durations_are_minutes_and_seconds() {
        let shown = [0.0, 59.4, 59.5, 694.0, 3599.6, 4271.0, 360_000.0, f64::NAN, -1.0, f64::INFINITY].map(duration);
        assert_eq!(shown, ["0:00", "0:59", "1:00", "11:34", "1:00:00", "1:11:11", "100:00:00", "-", "-", "-"]);
    }

    #[test]
    fn rates_have_one_decimal() {
        assert_eq!([27.13, 1234.5, 0.0532, 0.0, 5e7].map(rate), ["27.1", "1234", "0.0532", "0", "5e7"]);
    }
}
