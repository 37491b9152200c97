//! The examples run to their end: their own assertions are the test. They are modules here, so that one program holds
//! all.
#![allow(dead_code, reason = "each has a `main`")]

#[path = "../examples/from_pytorch.rs"]
mod from_pytorch;
#[path = "../examples/own_table.rs"]
mod own_table;
#[path = "../examples/own_task.rs"]
mod own_task;

use std::path::Path;
use std::process::Command;

#[test]
fn a_model_is_trained_on_a_table() {
    own_table::run().expect("the example runs");
}

#[test]
fn a_task_is_written_outside_of_the_crate() {
    own_task::run().expect("the example runs");
}

#[test]
fn a_model_of_pytorch_runs_here() {
    from_pytorch::run(&from_pytorch::golden()).expect("the example runs");
}

/// With `SAB_PYTHON` a Python that has PyTorch: both directions of `oracle/exchange.py`.
#[test]
fn models_are_exchanged_with_pytorch() {
    let python = std::env::var("SAB_PYTHON").unwrap_or_else(|_| "python3".into());
    let has_torch = Command::new(&python).args(["-c", "import torch, safetensors, numpy"]).output();
    if !has_torch.is_ok_and(|out| out.status.success()) {
        eprintln!("skipped: {python} has no PyTorch; set SAB_PYTHON to one that has");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let written = folder.path().join("from_pytorch");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../oracle/exchange.py");
    let exchange = |direction: &str, folder: &Path| {
        let out = Command::new(&python).arg(&script).arg(direction).arg(folder).output().expect("Python runs");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).expect("UTF-8")
    };
    exchange("write", &written);
    from_pytorch::run(&written).expect("the example runs");
    assert!(exchange("read", &from_pytorch::golden()).contains("softmax"));
}
