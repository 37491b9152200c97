//! The memory of a process, where the system tells it.

use crate::run_dir::bytes_of_proc;

/// Bytes in memory now.
pub fn resident(process: u32) -> Option<u64> {
    of_status(&process.to_string(), "VmRSS")
}

/// Bytes of this process in memory now.
pub fn resident_here() -> Option<u64> {
    of_status("self", "VmRSS")
}

/// The most bytes that this process has had in memory.
pub fn peak_here() -> Option<u64> {
    of_status("self", "VmHWM")
}

fn of_status(process: &str, key: &str) -> Option<u64> {
    bytes_of_proc(&format!("/proc/{process}/status"), key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_peak_stays_when_the_memory_is_given_back() {
        let size = 64 << 20;
        let before = peak_here().expect("Linux tells it");
        drop(std::hint::black_box(vec![1_u8; size]));
        let (now, peak) = (resident(std::process::id()).expect("told"), peak_here().expect("told"));
        assert!(peak >= before && peak >= now && peak > size as u64, "{before} {now} {peak}");
    }
}
