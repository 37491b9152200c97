//! `environment.json`: programs, machine and devices of a run.

use crate::device::{DeviceName, adapter};
use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use std::time::{SystemTime, UNIX_EPOCH};

/// Programs, machine and seed.
#[derive(Clone, Debug, Serialize)]
pub struct Environment {
    /// The version of this program.
    pub sab: &'static str,
    /// The version of the framework.
    pub burn: &'static str,
    /// The compiler.
    pub rustc: &'static str,
    /// Operating system and processor family.
    pub platform: String,
    /// The processor's name.
    pub cpu: String,
    /// The cores that this process may use.
    pub cores: usize,
    /// Whether the fast kernels can run.
    pub avx2_fma: bool,
    /// Memory in bytes, if known.
    pub memory: Option<u64>,
    /// The devices it was trained on: one, or several in turn if it was resumed elsewhere.
    pub devices: Vec<DeviceUse>,
    /// Threads of the run.
    pub threads: usize,
    /// The run's seed.
    pub seed: u64,
    /// The start of the run in seconds since 1970.
    pub began: u64,
    /// The command line.
    pub command: Vec<String>,
}

impl Environment {
    /// This machine, now.
    pub fn here(threads: usize, seed: u64, device: DeviceUse) -> Self {
        Self {
            sab: env!("CARGO_PKG_VERSION"),
            burn: env!("SAB_BURN"),
            rustc: env!("SAB_RUSTC"),
            platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            cpu: of_proc("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".into()),
            cores: cores(),
            avx2_fma: avx2_fma(),
            memory: bytes_of_proc("/proc/meminfo", "MemTotal"),
            devices: vec![device],
            threads,
            seed,
            began: now() as u64,
            // The command as typed, not the path of the program.
            command: std::iter::once("sab".to_string()).chain(std::env::args().skip(1)).collect(),
        }
    }
}

/// A device that a run was trained on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceUse {
    /// Its name.
    pub device: DeviceName,
    /// The name that a GPU gives itself.
    pub adapter: Option<String>,
    /// The updates made before.
    pub from_update: u64,
}

impl DeviceUse {
    /// A device that has been opened, from an update on.
    pub fn new(device: DeviceName, opened: &Device, from_update: u64) -> Self {
        Self { device, adapter: adapter(opened), from_update }
    }
}

/// In words: its name, and the name that a GPU gives itself.
impl std::fmt::Display for DeviceUse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.adapter {
            Some(adapter) => write!(f, "{} ({adapter})", self.device.name()),
            None => f.write_str(self.device.name()),
        }
    }
}

/// Cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Seconds since 1970.
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// The value of a line `key: value` of a file under `/proc`, which only Linux has.
fn of_proc(file: &str, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

/// Bytes of free memory, if known.
pub fn available_memory() -> Option<u64> {
    bytes_of_proc("/proc/meminfo", "MemAvailable")
}

/// The most memory that this process has held, in bytes, if known.
pub fn peak_memory() -> Option<u64> {
    bytes_of_proc("/proc/self/status", "VmHWM")
}

/// Lets [`peak_memory`] begin anew: gives freed memory back to the system, and asks it to forget the peak. Where the
/// system cannot, the peak stays that of the whole process.
pub fn forget_peak_memory() {
    attentive::release_freed_memory();
    // Linux alone has the file, and a sandbox may forbid it.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The bytes of a line `key:  123 kB` of a file under `/proc`, which only Linux has.
pub fn bytes_of_proc(file: &str, key: &str) -> Option<u64> {
    let kib: u64 = of_proc(file, key)?.strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

fn avx2_fma() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    false
}
