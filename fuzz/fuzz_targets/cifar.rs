//! Reads the input as a batch file of CIFAR-10.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sab::data::parse_cifar10;
use std::path::Path;

fuzz_target!(|data: &[u8]| {
    if let Ok(images) = parse_cifar10(Path::new("fuzz"), data) {
        assert_eq!(images.pixels.len(), images.len() * 3072);
        assert!(images.labels.iter().all(|label| *label < 10));
    }
});
