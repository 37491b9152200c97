//! MNIST: handwritten digits of 28x28 pixels in four idx files, gzipped or not.
//!
//! An idx file is a big-endian header (magic, count and, for images, rows and columns) and then one byte per value.

use super::error::{DataError, Result};
use super::files::{Content, broken_stream, fetch_hint, first_file, open_maybe_gzip, read_up_to};
use super::images::{ImageSet, Images};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Rows, and columns, of an image.
const SIDE: usize = 28;
/// More images than any idx file of this kind has; a header that promises more is not believed.
const MOST_IMAGES: u32 = 1_000_000;
const IMAGE_MAGIC: u32 = 0x0803;
const LABEL_MAGIC: u32 = 0x0801;

/// Loads MNIST from `data_dir/mnist/` or `data_dir/`: `train-images-idx3-ubyte`, `train-labels-idx1-ubyte` and the same
/// with `t10k`, each with or without `.gz`.
pub fn load_mnist(data_dir: &Path) -> Result<ImageSet> {
    let part = |name: &str| load_part(data_dir, name);
    Ok(ImageSet { train: part("train")?, test: part("t10k")? })
}

fn load_part(data_dir: &Path, part: &str) -> Result<Images> {
    let hint = fetch_hint("mnist", data_dir);
    let images = locate(data_dir, &format!("{part}-images-idx3-ubyte"));
    let labels = locate(data_dir, &format!("{part}-labels-idx1-ubyte"));
    // Both are opened first, so that a missing file is reported before the other is read.
    let image_reader = open_maybe_gzip(&images, &hint)?;
    let label_reader = open_maybe_gzip(&labels, &hint)?;
    let pixels = read_idx(image_reader, Kind::Images, &images, &hint)?;
    let labels = read_idx(label_reader, Kind::Labels, &labels, &hint)?;
    join(pixels, labels, &images, &hint)
}

/// The path of a file, or the path where it should be.
fn locate(data_dir: &Path, name: &str) -> PathBuf {
    let folder = data_dir.join("mnist");
    let packed = format!("{name}.gz");
    let candidates = [folder.join(&packed), folder.join(name), data_dir.join(&packed), data_dir.join(name)];
    first_file(candidates).unwrap_or_else(|| folder.join(packed))
}

/// Reads images and their labels from the unpacked content of two idx files; `path` is the name used in errors.
pub fn parse_idx(path: &Path, images: impl Read, labels: impl Read) -> Result<Images> {
    let hint = "get an intact copy of the data set";
    let pixels = read_idx(images, Kind::Images, path, hint)?;
    let labels = read_idx(labels, Kind::Labels, path, hint)?;
    join(pixels, labels, path, hint)
}

fn join(pixels: Vec<u8>, labels: Vec<u8>, path: &Path, hint: &str) -> Result<Images> {
    let count = pixels.len() / (SIDE * SIDE);
    if count != labels.len() {
        let problem = format!("holds {count} images but the label file beside it holds {} labels", labels.len());
        return Err(DataError::bad(path, problem, hint));
    }
    Ok(Images { steps: SIDE * SIDE, channels: 1, pixels, labels })
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Images,
    Labels,
}

impl Kind {
    fn name(self) -> &'static str {
        if self == Kind::Images { "images" } else { "labels" }
    }

    fn header_bytes(self) -> usize {
        if self == Kind::Images { 16 } else { 8 }
    }
}

/// The values of one idx file, without the header.
fn read_idx(mut reader: impl Read, kind: Kind, path: &Path, hint: &str) -> Result<Vec<u8>> {
    let bad = |problem: String| DataError::bad(path, problem, hint);
    let header = read_up_to((&mut reader).take(kind.header_bytes() as u64), u64::MAX);
    if let Some(error) = header.broken {
        return Err(broken_stream(path, error, header.bytes.len(), hint));
    }
    let word = |i: usize| header.bytes.get(4 * i..4 * i + 4)?.try_into().ok().map(u32::from_be_bytes);
    check_magic(word(0), header.bytes.len(), kind).map_err(bad)?;
    let short = || bad(format!("is truncated: {} bytes are not even a header", header.bytes.len()));
    let count = word(1).ok_or_else(short)?;
    let size = match kind {
        Kind::Labels => 1,
        Kind::Images => {
            let (rows, columns) = (word(2).ok_or_else(short)?, word(3).ok_or_else(short)?);
            if (rows, columns) != (SIDE as u32, SIDE as u32) {
                return Err(bad(format!("holds images of {rows}x{columns} pixels, not of {SIDE}x{SIDE}")));
            }
            SIDE * SIDE
        }
    };
    if count == 0 {
        return Err(bad(format!("holds no {}", kind.name())));
    }
    if count > MOST_IMAGES {
        let problem = format!("has a corrupt header: it promises {count} {}, more than {MOST_IMAGES}", kind.name());
        return Err(bad(problem));
    }
    // At most 784 million: no overflow.
    let expected = count as usize * size;
    let content = read_up_to(reader, expected as u64);
    check_length(&content, expected, count, kind).map_err(bad)?;
    if let Some(error) = content.broken {
        return Err(broken_stream(path, error, content.bytes.len(), hint));
    }
    if kind == Kind::Labels
        && let Some((i, label)) = content.bytes.iter().enumerate().find(|(_, label)| **label > 9)
    {
        return Err(bad(format!("has label {label} at image {i}, but labels are 0 to 9")));
    }
    Ok(content.bytes)
}

fn check_magic(magic: Option<u32>, bytes: usize, kind: Kind) -> std::result::Result<(), String> {
    match (magic, kind) {
        (Some(IMAGE_MAGIC), Kind::Images) | (Some(LABEL_MAGIC), Kind::Labels) => Ok(()),
        (Some(IMAGE_MAGIC), Kind::Labels) => Err("is a mislabelled file: it holds images, not labels".into()),
        (Some(LABEL_MAGIC), Kind::Images) => Err("is a mislabelled file: it holds labels, not images".into()),
        (Some(other), _) => Err(format!("is not an idx file of {}: it begins with {other:#010x}", kind.name())),
        (None, _) if bytes == 0 => Err("is empty".into()),
        (None, _) => Err(format!("is truncated: {bytes} bytes are not even a header")),
    }
}

fn check_length(content: &Content, expected: usize, count: u32, kind: Kind) -> std::result::Result<(), String> {
    let promise = format!("the header promises {count} {} ({} bytes)", kind.name(), expected + kind.header_bytes());
    let found = content.bytes.len();
    let ended = content.broken.as_ref().is_none_or(|error| error.kind() == std::io::ErrorKind::UnexpectedEof);
    if ended && found < expected {
        return Err(format!("is truncated: {promise} but only {found} bytes follow it"));
    }
    if content.too_long {
        return Err(format!("is corrupt: {promise} but more follow"));
    }
    Ok(())
}
