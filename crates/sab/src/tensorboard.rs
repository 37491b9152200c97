//! Curves for TensorBoard: an event file written without TensorFlow.
//!
//! An event file is a sequence of TFRecords. Each record is one `Event` of TensorFlow's `event.proto`:
//!
//! ```text
//! record = length: u64 | masked CRC-32C of length: u32 | payload | masked CRC-32C of payload: u32   (little-endian)
//! Event  = wall_time: 1 | step: 2 | file_version: 3 or summary: 5 or session_log: 7
//! ```
//!
//! The five messages used here are short enough to encode by hand, which saves a protobuf compiler.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The checksum of TFRecords, computed sixteen bytes at a time from a table.
const CRC_32C: crc::Crc<u32, crc::Table<16>> = crc::Crc::<u32, crc::Table<16>>::new(&crc::CRC_32_ISCSI);

/// Files of the same second before the writer gives up on finding a free name.
const MOST_FILES_OF_ONE_SECOND: u32 = 1000;

/// Writes scalars to one event file.
///
/// Times are seconds since 1970. Points reach the file at [`flush`](Self::flush) or when the writer is dropped.
/// Dropping hides errors, so a run flushes whenever it reports.
#[derive(Debug)]
pub struct EventWriter {
    file: BufWriter<File>,
    path: PathBuf,
}

impl EventWriter {
    /// Creates `directory` if it is missing and opens a new file `events.out.tfevents.<seconds>.<host>` in it.
    ///
    /// An existing file is never overwritten: TensorBoard reads all files of a directory as one run, so a resumed run
    /// adds a file, and two files of the same second differ by a number at the end of the name.
    pub fn create(directory: &Path, wall_time: f64) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        // TensorBoard reads files in the order of their names, hence the ten digits. `as` turns NaN and times before
        // 1970 into 0.
        let stem = format!("events.out.tfevents.{:010}.{}", wall_time as u64, host_name());
        let (path, file) = create_new(directory, &stem)?;
        let mut writer = Self { file: BufWriter::new(file), path };
        writer.event(wall_time, 0, &bytes_field(3, b"brain.Event:2"))?;
        writer.flush()?;
        Ok(writer)
    }

    /// The event file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a point to the curve `tag`. TensorBoard keeps values in single precision.
    pub fn scalar(&mut self, tag: &str, step: u64, wall_time: f64, value: f64) -> io::Result<()> {
        let mut point = bytes_field(1, tag.as_bytes());
        point.push(key(2, WireType::Bits32));
        point.extend_from_slice(&(value as f32).to_le_bytes());
        let summary = bytes_field(1, &point);
        self.event(wall_time, step, &bytes_field(5, &summary))
    }

    /// Hands everything written so far to the operating system, where a running TensorBoard sees it.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    fn event(&mut self, wall_time: f64, step: u64, what: &[u8]) -> io::Result<()> {
        let mut event = vec![key(1, WireType::Bits64)];
        event.extend_from_slice(&wall_time.to_le_bytes());
        event.push(key(2, WireType::Varint));
        // The step is signed in the protocol.
        push_varint(&mut event, step.min(i64::MAX as u64));
        event.extend_from_slice(what);
        self.file.write_all(&record(&event))
    }
}

fn create_new(directory: &Path, stem: &str) -> io::Result<(PathBuf, File)> {
    let mut path = directory.join(stem);
    for number in 1.. {
        match File::create_new(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < MOST_FILES_OF_ONE_SECOND => {
                path = directory.join(format!("{stem}.{number}"));
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// The host name without characters that a file name cannot have, or `sab`.
fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("HOSTNAME").ok())
        .or_else(|| std::env::var("COMPUTERNAME").ok())
        .unwrap_or_default();
    let name: String =
        name.trim().chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')).take(64).collect();
    if name.is_empty() { "sab".to_owned() } else { name }
}

fn record(payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u64).to_le_bytes();
    let mut record = Vec::with_capacity(payload.len() + 16);
    record.extend_from_slice(&length);
    record.extend_from_slice(&masked_crc(&length).to_le_bytes());
    record.extend_from_slice(payload);
    record.extend_from_slice(&masked_crc(payload).to_le_bytes());
    record
}

/// CRC-32C, masked as TFRecord requires, because data may contain checksums itself.
fn masked_crc(bytes: &[u8]) -> u32 {
    CRC_32C.checksum(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

enum WireType {
    Varint = 0,
    Bits64 = 1,
    Bytes = 2,
    Bits32 = 5,
}

/// The key of a field; all fields here have numbers below 16, so a key is one byte.
const fn key(field: u8, wire_type: WireType) -> u8 {
    field << 3 | wire_type as u8
}

fn bytes_field(field: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![key(field, WireType::Bytes)];
    push_varint(&mut out, bytes.len() as u64);
    out.extend_from_slice(bytes);
    out
}

fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
