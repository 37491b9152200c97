//! Running the real binary in a folder of its own.
#![allow(dead_code, reason = "each test file uses its part")]

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A folder that is removed with everything in it.
pub struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(&path, content).expect("written");
        path
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sab"));
        command.args(arguments).current_dir(self.folder.path()).env_remove("SAB_DATA_DIR").stdin(Stdio::null());
        command
    }

    pub fn sab(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the binary runs")
    }

    /// Runs what must succeed and gives its stdout.
    pub fn ok(&self, arguments: &[&str]) -> String {
        let out = self.sab(arguments);
        assert!(out.status.success(), "sab {arguments:?}: {}", stderr(&out));
        String::from_utf8(out.stdout).expect("UTF-8")
    }

    /// Runs what must fail with this exit code and gives its message.
    pub fn fails(&self, code: i32, arguments: &[&str]) -> String {
        let out = self.sab(arguments);
        let message = stderr(&out);
        assert_eq!(out.status.code(), Some(code), "sab {arguments:?}: {message}");
        assert!(!message.contains("panicked"), "sab {arguments:?}: {message}");
        message
    }

    pub fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary starts")
    }

    pub fn json(&self, name: &str) -> Value {
        let text = fs::read_to_string(self.path(name)).unwrap_or_else(|why| panic!("{name}: {why}"));
        serde_json::from_str(&text).unwrap_or_else(|why| panic!("{name}: {why}"))
    }
}

pub fn stderr(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// Settings that make any run tiny.
pub const TINY: &[&str] = &[
    "--set",
    "model.hidden=8",
    "--set",
    "train.batch=4",
    "--set",
    "train.validate_every=40",
    "--set",
    "train.checkpoint_every=20",
    "--set",
    "train.log_every=10",
    "--set",
    "train.validation_batches=2",
    "--set",
    "train.test_batches=2",
    "--threads",
    "1",
    "--quiet",
];

/// `sab train` of a tiny copy task, with more arguments.
pub fn tiny_copy<'a>(run: &'a str, steps: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["train", "copy", "--length", "3", "--run", run, "--steps", steps][..], TINY, more].concat()
}

/// The tensors of a run's latest checkpoint and of its model, byte for byte.
pub fn weights(run: &Path) -> (String, Vec<u8>, Vec<u8>) {
    let checkpoints = checkpoints(run);
    let latest = checkpoints.last().expect("a checkpoint");
    let name = latest.file_name().expect("a name").to_string_lossy().into_owned();
    (name, tensors(latest), tensors(&run.join("model.safetensors")))
}

/// Of a safetensors file what follows the header: the header of a checkpoint has the time in it.
fn tensors(path: &Path) -> Vec<u8> {
    let bytes = fs::read(path).expect("readable");
    let header = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")) as usize;
    bytes[8 + header..].to_vec()
}

/// The checkpoints of a run, oldest first.
pub fn checkpoints(run: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(run.join("checkpoints"))
        .expect("a folder of checkpoints")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "safetensors"))
        .collect();
    found.sort();
    found
}

/// The lines of a run's metrics without what depends on the clock.
pub fn metrics(run: &Path) -> Vec<Value> {
    let text = fs::read_to_string(run.join("metrics.jsonl")).unwrap_or_default();
    let strip = |line: &str| -> Option<Value> {
        let mut line: Value = serde_json::from_str(line).ok()?;
        let object = line.as_object_mut()?;
        object.remove("seconds");
        object.remove("time");
        Some(line)
    };
    text.lines().filter_map(strip).collect()
}

/// Every file below a folder with its content.
pub fn everything(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(everything(&path));
        } else {
            found.push((path.clone(), fs::read(&path).expect("readable")));
        }
    }
    found.sort();
    found
}
