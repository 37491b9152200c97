//! Small synthetic data files for the tests of `data`.
#![allow(dead_code)] // Each test file uses its own part of this.

use flate2::{Compression, write::GzEncoder};
use std::io::Write;
use std::path::Path;

/// An idx file of `count` images whose pixels count upwards.
pub fn idx_images(count: u32) -> Vec<u8> {
    let mut bytes = [0x0803u32, count, 28, 28].map(u32::to_be_bytes).concat();
    bytes.extend((0..count as usize * 784).map(|i| (i % 251) as u8));
    bytes
}

/// An idx file of `count` labels 0, 1, … 9, 0, …
pub fn idx_labels(count: u32) -> Vec<u8> {
    let mut bytes = [0x0801u32, count].map(u32::to_be_bytes).concat();
    bytes.extend((0..count).map(|i| (i % 10) as u8));
    bytes
}

/// A CIFAR-10 batch in which the label is the image's place, and red, green and blue differ.
pub fn cifar_batch(count: usize) -> Vec<u8> {
    let record = |i: usize| {
        let planes = (0..3 * 1024).map(move |j| ((j % 1024) / 5 + 17 * (j / 1024) + i) as u8);
        std::iter::once((i % 10) as u8).chain(planes)
    };
    (0..count).flat_map(record).collect()
}

/// The names of the CIFAR-10 batches.
pub const BATCHES: [&str; 6] = [
    "data_batch_1.bin",
    "data_batch_2.bin",
    "data_batch_3.bin",
    "data_batch_4.bin",
    "data_batch_5.bin",
    "test_batch.bin",
];

/// Gzips bytes.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A gzipped tar archive.
pub fn tar_gz(members: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, bytes) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, bytes.as_slice()).unwrap();
    }
    gzip(&archive.into_inner().unwrap())
}

/// A zip archive of one member.
pub fn zip(name: &str, bytes: &[u8]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    archive.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
    archive.write_all(bytes).unwrap();
    archive.finish().unwrap().into_inner()
}

/// Writes a file and the folders it needs.
pub fn put(dir: &Path, name: &str, bytes: impl AsRef<[u8]>) {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

/// Asserts that a result is an error whose text has all of these parts.
#[track_caller]
pub fn says<T>(result: sab::data::Result<T>, parts: &[&str]) {
    let Err(error) = result else { panic!("expected an error with {parts:?}") };
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "`{text}` lacks `{part}`");
    }
}

/// Changes a valid file at random: flips, cuts, insertions, repetitions.
pub fn mutate(u: &mut arbtest::arbitrary::Unstructured, bytes: &mut Vec<u8>) -> arbtest::arbitrary::Result<()> {
    for _ in 0..u.int_in_range(1..=4)? {
        let at = u.int_in_range(0..=bytes.len())?;
        match u.int_in_range(0..=4u8)? {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, u.arbitrary()?),
            2 => drop(bytes.drain(at..(at + u.int_in_range(0..=8usize)?).min(bytes.len()))),
            3 => {
                let end = (at + u.int_in_range(0..=64usize)?).min(bytes.len());
                bytes.extend_from_within(at..end);
            }
            // Mostly near the beginning, where the headers are.
            _ => {
                let at = if u.arbitrary()? { at } else { at.min(24) };
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = u.arbitrary()?;
                }
            }
        }
    }
    Ok(())
}
