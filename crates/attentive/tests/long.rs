//! A sequence of 100,000 steps fits into memory, forward and backward. This is the only test of its binary, because it
//! measures the peak memory of the whole process.

mod common;

use attentive::{ForwardOptions, Path, SabLstmConfig};
use burn::tensor::{DType, Device, Tensor};
use common::{Array, Numbers, Parameters, gradients_of};

const TIME: usize = 100_000;
const HIDDEN: usize = 128;

/// The peak memory of this process, in bytes.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

#[test]
fn r13_a_hundred_thousand_steps_need_less_than_two_gibibytes() {
    let device = Device::flex().autodiff();
    let config = SabLstmConfig::new(1, HIDDEN).with_k_top(10).with_k_att(100).with_k_trunc(100).with_trunc_phase(0);
    let lstm = Parameters::random(1, HIDDEN, 1).layer(&config, DType::F32, &device);
    let mut numbers = Numbers::new(2);
    let x: Tensor<3> = Array::new(&[1, TIME, 1], numbers.take(TIME, 1.0)).tensor(DType::F32, &device);
    let x = x.require_grad();
    let d_last: Tensor<3> = Array::new(&[1, 1, HIDDEN], numbers.take(HIDDEN, 1.0)).tensor(DType::F32, &device);

    let out = lstm.forward_with(x.clone(), None, &ForwardOptions::new().with_path(Path::Fused)).expect("a good input");
    assert_eq!(out.state.slots(0), 1 + TIME / 100);
    let grads = (out.hidden.narrow(1, TIME - 1, 1) * d_last).sum().backward();

    let mut gradients = gradients_of(&lstm, &grads);
    gradients.push(("x", Array::of(&x.grad(&grads).expect("a gradient"))));
    for (name, gradient) in &gradients {
        assert!(gradient.values.iter().all(|d| d.is_finite()), "{name}");
        assert!(gradient.values.iter().any(|d| *d != 0.0), "the gradient of {name} is zero");
    }
    // More than the last truncation segment, yet a small part of the sequence: the replay is sparse.
    let (_, d_x) = gradients.last().expect("that of x");
    let reached = d_x.values.iter().filter(|d| **d != 0.0).count();
    assert!((101..TIME / 2).contains(&reached), "gradient reached {reached} steps");
    let far = d_x.values[..TIME / 2].iter().filter(|d| **d != 0.0).count();
    assert!(far > 0, "gradient reached nothing in the first half");

    match peak_memory() {
        Some(peak) => {
            eprintln!("{} MiB at most, {reached} steps reached, {far} of them in the first half", peak >> 20);
            assert!(peak < 2 << 30, "{} MiB", peak >> 20);
        }
        None => eprintln!("skipped: this system does not tell the peak of a process's memory"),
    }
}
