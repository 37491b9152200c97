//! Reads the input as a text file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sab::data::parse_text;
use std::path::Path;

fuzz_target!(|data: &[u8]| {
    if let Ok(split) = parse_text(Path::new("fuzz"), data) {
        for part in [&split.train, &split.validation, &split.test] {
            assert_eq!(split.alphabet.encode(&split.alphabet.decode(part)).ok().as_ref(), Some(part));
        }
    }
});
