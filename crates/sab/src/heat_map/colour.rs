//! Colours of reminders: matplotlib's `inferno`, which is perceptually uniform and reads in grey too.

use crate::drawing::Colour;

/// A pair of steps without a reminder.
pub const NO_REMINDER: Colour = [0x0b, 0x07, 0x24];
/// A pair of steps that cannot be, as nobody is reminded of the future.
pub const FUTURE: Colour = [0xe9, 0xea, 0xee];
/// The lines of marks; to be seen both on [`NO_REMINDER`] and on [`FUTURE`].
pub const MARK: Colour = [0x4f, 0x8f, 0xb8];

/// `inferno` at 0, 1/16, ..., 1.
const INFERNO: [Colour; 17] = [
    [0x00, 0x00, 0x04],
    [0x0b, 0x07, 0x24],
    [0x21, 0x0c, 0x4a],
    [0x3d, 0x09, 0x65],
    [0x57, 0x10, 0x6e],
    [0x71, 0x19, 0x6e],
    [0x8a, 0x22, 0x6a],
    [0xa3, 0x2c, 0x61],
    [0xbc, 0x37, 0x54],
    [0xd0, 0x45, 0x45],
    [0xe3, 0x59, 0x33],
    [0xf1, 0x71, 0x1f],
    [0xf9, 0x8c, 0x0a],
    [0xfc, 0xaa, 0x0f],
    [0xf9, 0xc9, 0x32],
    [0xf2, 0xe8, 0x65],
    [0xfc, 0xff, 0xa4],
];

/// Where in the map the weakest reminder begins, so that it stands out from [`NO_REMINDER`].
const WEAKEST: f32 = 0.25;

/// The colour of a reminder whose weight is the fraction `strength` of the top of the scale.
pub fn reminder(strength: f32) -> Colour {
    let last = INFERNO.len() - 1;
    let place = (WEAKEST + (1.0 - WEAKEST) * strength.clamp(0.0, 1.0)) * last as f32;
    let below = (place as usize).min(last - 1);
    let part = place - below as f32;
    let mut colour = INFERNO[below];
    for (channel, above) in colour.iter_mut().zip(INFERNO[below + 1]) {
        *channel = (f32::from(*channel) * (1.0 - part) + f32::from(above) * part).round() as u8;
    }
    colour
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_grows_brighter_from_weak_to_strong() {
        let brightness =
            |colour: Colour| 0.299 * colour[0] as f32 + 0.587 * colour[1] as f32 + 0.114 * colour[2] as f32;
        let steps: Vec<f32> = (0..=100).map(|i| brightness(reminder(i as f32 / 100.0))).collect();
        assert!(steps.windows(2).all(|pair| pair[1] > pair[0]));
        assert!(steps[0] > brightness(NO_REMINDER) + 25.0);
        assert_eq!(reminder(1.0), [0xfc, 0xff, 0xa4]);
    }
}
