//! Whole runs on a GPU by wgpu (or on a software driver for Vulkan) beside the same runs on the CPU.
//!
//! `.ci/gpu` runs it where there is no GPU.
#![cfg(feature = "wgpu")]

mod common;

use common::{Place, stderr, tiny_copy};
use serde_json::Value;

const GPU: &[&str] = &["--device", "wgpu"];

/// The losses of a run's updates.
fn losses(place: &Place, run: &str) -> Vec<f64> {
    let text = std::fs::read_to_string(place.path(run).join("metrics.jsonl")).expect("metrics");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter(|line| line["kind"] == "train").map(|line| line["loss"].as_f64().expect("a loss")).collect()
}

fn devices(place: &Place, run: &str) -> Vec<(String, u64)> {
    let environment = place.json(&format!("{run}/environment.json"));
    let devices = environment["devices"].as_array().expect("a list").clone();
    let of_one = |device: &Value| {
        let name = device["device"].as_str().expect("a name").to_string();
        assert_eq!(device["adapter"].is_string(), name == "wgpu", "{device}");
        (name, device["from_update"].as_u64().expect("a number"))
    };
    devices.iter().map(of_one).collect()
}

#[test]
fn training_takes_the_course_that_it_takes_on_the_cpu() {
    let place = Place::new();
    let every = ["--set", "train.log_every=1", "--set", "train.checkpoint_every=4"];
    place.ok(&tiny_copy("cpu", "6", &every));
    place.ok(&tiny_copy("gpu", "6", &[&every[..], GPU].concat()));
    let (cpu, gpu) = (losses(&place, "cpu"), losses(&place, "gpu"));
    assert_eq!((cpu.len(), gpu.len()), (6, 6));
    for (right, got) in cpu.iter().zip(&gpu) {
        assert!((right - got).abs() < 1e-4, "{cpu:?} {gpu:?}");
    }
    assert_eq!(devices(&place, "cpu"), [("cpu".to_string(), 0)]);
    assert_eq!(devices(&place, "gpu"), [("wgpu".to_string(), 0)]);

    // A trained model answers alike on both, whichever it was trained on.
    for run in ["cpu", "gpu"] {
        let judged = |device: &str| -> f64 {
            let text = place.ok(&["eval", run, "--json", "--device", device]);
            let judged: Value = serde_json::from_str(&text).expect("JSON");
            judged["metrics"]["ce"].as_f64().expect("a metric")
        };
        assert!((judged("cpu") - judged("wgpu")).abs() < 1e-4);
        place.ok(&["attention", run, "--device", "wgpu"]);
        place.ok(&["transfer", run, "--lengths", "4", "--sequences", "4", "--device", "wgpu"]);
    }
}

#[test]
fn a_run_goes_on_on_another_device_and_says_so() {
    let place = Place::new();
    let arguments = tiny_copy("run", "4", &["--set", "train.log_every=1", "--max-time", "0.000001s"]);
    place.ok(&[&arguments[..], GPU].concat());
    // Without a word it goes on where it was.
    place.ok(&["train", "--resume", "run", "--quiet", "--max-time", "0.000001s"]);
    assert_eq!(devices(&place, "run"), [("wgpu".to_string(), 0)]);
    place.ok(&["train", "--resume", "run", "--quiet", "--max-time", "1h", "--device", "cpu"]);
    assert_eq!(devices(&place, "run"), [("wgpu".to_string(), 0), ("cpu".to_string(), 0)]);
    assert_eq!(losses(&place, "run").len(), 4);
}

#[test]
fn a_machine_without_a_gpu_is_told_so() {
    let place = Place::new();
    let mut command = place.command(&[&tiny_copy("run", "4", &[])[..], GPU].concat());
    // The loader of Vulkan finds no driver, that of OpenGL no platform.
    let out = command
        .env("VK_DRIVER_FILES", "/nowhere.json")
        .env("VK_ICD_FILENAMES", "/nowhere.json")
        .env("__EGL_VENDOR_LIBRARY_FILENAMES", "/nowhere.json")
        .output()
        .expect("the binary runs");
    let message = stderr(&out);
    assert_eq!(out.status.code(), Some(2), "{message}");
    assert!(message.contains("finds no GPU") && !message.contains("panicked"), "{message}");
    assert!(!place.path("run").exists());
}
