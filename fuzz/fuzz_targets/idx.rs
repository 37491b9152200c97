//! Reads the input as two idx files of MNIST. The first two bytes give the length of the first file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sab::data::parse_idx;
use std::path::Path;

fuzz_target!(|data: &[u8]| {
    let Some((length, rest)) = data.split_first_chunk() else { return };
    let (images, labels) = rest.split_at(usize::from(u16::from_be_bytes(*length)).min(rest.len()));
    if let Ok(images) = parse_idx(Path::new("fuzz"), images, labels) {
        assert_eq!(images.pixels.len(), images.len() * 784);
        assert!(images.labels.iter().all(|label| *label < 10));
    }
});
