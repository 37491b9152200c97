//! Event files hold what was written, in TensorFlow's format.

use sab::tensorboard::EventWriter;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The part of a record that these tests need.
#[derive(Debug, Default, PartialEq)]
struct Event {
    wall_time: f64,
    step: i64,
    file_version: Option<String>,
    scalar: Option<(String, f32)>,
}

/// The checksum bit by bit, so that it shares nothing with the writer's.
fn masked_crc32c(bytes: &[u8]) -> u32 {
    let mut crc = !0_u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
        }
    }
    let crc = !crc;
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (head, tail) = bytes.split_at(count);
    *bytes = tail;
    head
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = take(bytes, 1)[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}

/// The fields of a message: number and raw content (varints as eight bytes).
fn fields(mut message: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message);
        let content = match key & 7 {
            0 => varint(&mut message).to_le_bytes().to_vec(),
            1 => take(&mut message, 8).to_vec(),
            2 => {
                let length = varint(&mut message) as usize;
                take(&mut message, length).to_vec()
            }
            5 => take(&mut message, 4).to_vec(),
            other => panic!("wire type {other}"),
        };
        fields.push((key >> 3, content));
    }
    fields
}

fn read_events(path: &Path) -> Vec<Event> {
    let file = std::fs::read(path).unwrap();
    let mut bytes = file.as_slice();
    let mut events = Vec::new();
    while !bytes.is_empty() {
        let length = take(&mut bytes, 8);
        assert_eq!(masked_crc32c(length).to_le_bytes(), take(&mut bytes, 4), "checksum of the length");
        let payload = take(&mut bytes, u64::from_le_bytes(length.try_into().unwrap()) as usize);
        assert_eq!(masked_crc32c(payload).to_le_bytes(), take(&mut bytes, 4), "checksum of the payload");
        let mut event = Event::default();
        for (number, content) in fields(payload) {
            match number {
                1 => event.wall_time = f64::from_le_bytes(content.try_into().unwrap()),
                2 => event.step = i64::from_le_bytes(content.try_into().unwrap()),
                3 => event.file_version = Some(String::from_utf8(content).unwrap()),
                5 => {
                    let [(1, value)] = &fields(&content)[..] else { panic!("one value a summary") };
                    let [(1, tag), (2, number)] = &fields(value)[..] else { panic!("a tag and a number") };
                    let number = f32::from_le_bytes(number[..].try_into().unwrap());
                    event.scalar = Some((String::from_utf8(tag.clone()).unwrap(), number));
                }
                other => panic!("field {other}"),
            }
        }
        events.push(event);
    }
    events
}

#[test]
fn a_file_reads_back_as_it_was_written() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("made/on/the/way");
    let mut writer = EventWriter::create(&run, 1_700_000_000.25).unwrap();
    writer.scalar("train/loss", 0, 1_700_000_001.0, 2.5).unwrap();
    writer.scalar("prüfung/µ", 300, 1_700_000_002.0, -1e-3).unwrap();
    writer.scalar(&"long".repeat(100), u64::MAX, 1_700_000_003.0, f64::INFINITY).unwrap();
    writer.flush().unwrap();

    let path = writer.path().to_owned();
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("events.out.tfevents.1700000000."), "{name}");
    let scalar = |tag: &str, value| Some((tag.to_owned(), value));
    let at = |wall_time, step| Event { wall_time, step, ..Event::default() };
    assert_eq!(
        read_events(&path),
        [
            Event { file_version: Some("brain.Event:2".to_owned()), ..at(1_700_000_000.25, 0) },
            Event { scalar: scalar("train/loss", 2.5), ..at(1_700_000_001.0, 0) },
            Event { scalar: scalar("prüfung/µ", -1e-3), ..at(1_700_000_002.0, 300) },
            Event { scalar: scalar(&"long".repeat(100), f32::INFINITY), ..at(1_700_000_003.0, i64::MAX) },
        ]
    );
}

#[test]
fn files_of_one_second_do_not_overwrite_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> =
        (0..3).map(|_| EventWriter::create(directory.path(), 5.0).unwrap().path().to_owned()).collect();
    assert_ne!(paths[0], paths[1]);
    assert_ne!(paths[1], paths[2]);
    assert!(paths.iter().all(|path| read_events(path).len() == 1));
}

#[test]
fn odd_times_and_a_directory_that_is_a_file_do_not_panic() {
    let directory = tempfile::tempdir().unwrap();
    for wall_time in [f64::NAN, f64::NEG_INFINITY, -1.0, 1e300] {
        EventWriter::create(directory.path(), wall_time).unwrap();
    }
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(EventWriter::create(&file, 0.0).is_err());
}

/// The real TensorBoard reads the file. Runs where `python3` (or `$SAB_PYTHON`) has the package, says so elsewhere.
#[test]
fn tensorboard_itself_reads_the_file() {
    let python = std::env::var("SAB_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has_tensorboard = Command::new(&python).args(["-c", "import tensorboard"]).output();
    if !has_tensorboard.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: {python} has no tensorboard package");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut first = EventWriter::create(directory.path(), 1_700_000_000.0).unwrap();
    for step in 0..10 {
        first.scalar("train/loss", step, 1_700_000_000.0 + step as f64, 1.0 / (step + 1) as f64).unwrap();
    }
    first.scalar("validation/accuracy", 9, 1_700_000_009.0, 0.75).unwrap();
    drop(first);

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/check_tensorboard.py");
    let output = Command::new(&python).arg(script).arg(directory.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seen: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let expected = serde_json::json!({
        "train/loss": { "count": 10, "last_step": 9, "last_value": f64::from(0.1_f32) },
        "validation/accuracy": { "count": 1, "last_step": 9, "last_value": 0.75 },
    });
    assert_eq!(seen, expected);
}
