//! CIFAR-10, binary version: colour images of 32x32 pixels in ten classes.
//!
//! A record is a label byte and then the 1024 red, the 1024 green and the 1024 blue bytes, row by row.

use super::error::{DataError, Result};
use super::files::{fetch_hint, first_file, members, read_file};
use super::images::{ImageSet, Images};
use std::path::{Path, PathBuf};

const PIXELS: usize = 32 * 32;
const CHANNELS: usize = 3;
const RECORD: usize = 1 + PIXELS * CHANNELS;
/// Ten times the size of a batch.
const MOST_BATCH_BYTES: u64 = 100_000 * RECORD as u64;

pub(crate) const FOLDER: &str = "cifar-10-batches-bin";
pub(crate) const ARCHIVE: &str = "cifar-10-binary.tar.gz";
const BATCHES: [&str; 6] =
    ["data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin", TEST];
const TEST: &str = "test_batch.bin";

/// Loads CIFAR-10 from `data_dir/cifar10/` or `data_dir/`: the archive `cifar-10-binary.tar.gz` or, if there is none,
/// the six files of `cifar-10-batches-bin/`.
///
/// The archive comes first, so that fetching it replaces a broken unpacked file.
pub fn load_cifar10(data_dir: &Path) -> Result<ImageSet> {
    let hint = fetch_hint("cifar10", data_dir);
    let homes = [data_dir.join("cifar10"), data_dir.to_path_buf()];
    let mut set = ImageSet { train: empty(), test: empty() };
    let mut add = |name: &str, path: &Path, bytes: &[u8]| {
        append(bytes, if name == TEST { &mut set.test } else { &mut set.train }, path, &hint)
    };
    if let Some(archive) = first_file(homes.iter().map(|home| home.join(ARCHIVE))) {
        for (name, bytes) in BATCHES.iter().zip(members(&archive, &BATCHES, MOST_BATCH_BYTES, &hint)?) {
            add(name, &archive.join(name), &bytes)?;
        }
    } else {
        for name in BATCHES {
            let path = locate(&homes, name);
            add(name, &path, &read_file(&path, MOST_BATCH_BYTES, &hint)?)?;
        }
    }
    Ok(set)
}

/// The path of a batch, or the path where it should be.
fn locate(homes: &[PathBuf; 2], name: &str) -> PathBuf {
    let candidates = homes.iter().flat_map(|home| [home.join(FOLDER).join(name), home.join(name)]);
    first_file(candidates).unwrap_or_else(|| homes[0].join(FOLDER).join(name))
}

fn empty() -> Images {
    Images { steps: PIXELS, channels: CHANNELS, pixels: Vec::new(), labels: Vec::new() }
}

/// Reads the images of one batch file; `path` is the name used in errors.
pub fn parse_cifar10(path: &Path, bytes: &[u8]) -> Result<Images> {
    let mut images = empty();
    append(bytes, &mut images, path, "get an intact copy of the data set")?;
    Ok(images)
}

/// Adds the images of a batch: `[channels, steps]` in the file, `[steps, channels]` in memory.
fn append(bytes: &[u8], images: &mut Images, path: &Path, hint: &str) -> Result<()> {
    let bad = |problem: String| DataError::bad(path, problem, hint);
    if bytes.is_empty() {
        return Err(bad("is empty".into()));
    }
    if !bytes.len().is_multiple_of(RECORD) {
        let records = format!("{} bytes are not a whole number of records of {RECORD} bytes", bytes.len());
        return Err(bad(format!("is truncated or not a CIFAR-10 batch: {records}")));
    }
    let first = images.pixels.len();
    images.pixels.resize(first + bytes.len() / RECORD * PIXELS * CHANNELS, 0);
    let room = images.pixels[first..].chunks_exact_mut(PIXELS * CHANNELS);
    for (i, (record, image)) in bytes.chunks_exact(RECORD).zip(room).enumerate() {
        let [label, planes @ ..] = record else { continue };
        if *label > 9 {
            return Err(bad(format!("has label {label} at image {i}, but labels are 0 to 9")));
        }
        images.labels.push(*label);
        let (red, rest) = planes.split_at(PIXELS);
        let (green, blue) = rest.split_at(PIXELS);
        for (pixel, ((r, g), b)) in image.chunks_exact_mut(CHANNELS).zip(red.iter().zip(green).zip(blue)) {
            pixel.copy_from_slice(&[*r, *g, *b]);
        }
    }
    Ok(())
}
