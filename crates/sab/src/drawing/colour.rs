//! The colours of the page and of lines.

/// Red, green and blue.
pub type Colour = [u8; 3];

/// The page.
pub const PAPER: Colour = [0xff, 0xff, 0xff];
/// Text and axes.
pub const INK: Colour = [0x22, 0x25, 0x2b];
/// Numbers and other text of lesser weight.
pub const FAINT_INK: Colour = [0x5b, 0x61, 0x6b];
/// Lines behind the data.
pub const GRID: Colour = [0xe4, 0xe6, 0xea];

/// Lines that are told apart by all kinds of colour vision: the palette of Okabe and Ito without its yellow, which is
/// lost on paper.
pub const LINES: [Colour; 7] = [
    [0x00, 0x72, 0xb2],
    [0xd5, 0x5e, 0x00],
    [0x00, 0x9e, 0x73],
    [0xb0, 0x4a, 0x87],
    [0x2e, 0x31, 0x38],
    [0xe6, 0x9f, 0x00],
    [0x56, 0xb4, 0xe9],
];
