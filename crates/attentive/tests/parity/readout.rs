//! The fused readout against the portable one (R8).

use super::round;
use crate::common::{Array, Numbers, difference};
use attentive::{Path, SabReadout, SabReadoutConfig};
use burn::module::Param;
use burn::tensor::{DType, Device, Tensor};

/// A readout with random parameters.
fn readout(hidden: usize, output: usize, dtype: DType, device: &Device) -> SabReadout {
    let mut numbers = Numbers::new((hidden * 100 + output) as u64);
    let mut array = |shape: &[usize]| {
        let mut array = Array::new(shape, numbers.take(shape.iter().product(), 1.0));
        round(&mut array);
        array
    };
    let mut readout = SabReadoutConfig::new(hidden, output).init(device);
    readout.v1 = Param::from_tensor(array(&[hidden, output]).tensor(dtype, device));
    readout.v2 = Param::from_tensor(array(&[hidden, output]).tensor(dtype, device));
    readout.bias = Param::from_tensor(array(&[output]).tensor(dtype, device));
    readout
}

/// Output and gradients of a readout of `[batch, time, hidden]` states, by name.
fn run_readout(
    [batch, time, hidden, output]: [usize; 4], tracked: [bool; 2], dtype: DType, path: Path,
) -> Vec<(&'static str, Array)> {
    let device = Device::flex().autodiff();
    let readout = readout(hidden, output, dtype, &device);
    let mut numbers = Numbers::new((batch * time) as u64);
    let mut tensor = |shape: [usize; 3]| -> Tensor<3> {
        let mut array = Array::new(&shape, numbers.take(shape.iter().product(), 1.0));
        round(&mut array);
        array.tensor(dtype, &device)
    };
    let states = [tensor([time, batch, hidden]), tensor([batch, time, hidden])];
    let [h, s] = [0, 1].map(|i| if tracked[i] { states[i].clone().require_grad() } else { states[i].clone() });
    // One of them is not contiguous.
    let y = readout.forward_by(h.clone().swap_dims(0, 1), s.clone(), path).expect("good shapes");
    let grads = (y.clone() * tensor([batch, time, output])).sum().backward();
    let of = |gradient: Option<Tensor<2>>| gradient.map(|g| Array::of(&g)).expect("a gradient");
    let mut results = vec![
        ("y", Array::of(&y)),
        ("v1", of(readout.v1.val().grad(&grads))),
        ("v2", of(readout.v2.val().grad(&grads))),
        ("bias", Array::of(&readout.bias.val().grad(&grads).expect("a gradient"))),
    ];
    for (name, state, tracked) in [("hidden", h, tracked[0]), ("summary", s, tracked[1])] {
        let gradient = state.grad(&grads);
        assert_eq!(gradient.is_some(), tracked, "{name}");
        results.extend(gradient.map(|g| (name, Array::of(&g))));
    }
    results
}

#[test]
fn fused_readout_agrees_with_portable() {
    let both = [true, true];
    let mut shapes = vec![
        ([1, 1, 1, 1], both),
        ([1, 7, 16, 16], both),
        ([48, 1, 17, 15], both),
        ([7, 7, 33, 40], both),
        // Enough multiplications for several threads, and more rows than are multiplied at a time.
        ([10, 20, 40, 40], both),
        ([3, 100, 40, 37], both),
        ([3, 9, 12, 5], [true, false]),
        ([3, 9, 12, 5], [false, true]),
        ([3, 9, 12, 5], [false, false]),
    ];
    let mut numbers = Numbers::new(1);
    shapes.extend((0..40).map(|_| {
        let batch = 1 + numbers.below(10);
        ([batch, 1 + numbers.below(200 / batch), 1 + numbers.below(40), 1 + numbers.below(40)], both)
    }));
    for (shape, tracked) in shapes {
        let right = run_readout(shape, tracked, DType::F64, Path::Portable);
        for (path, got) in
            [Path::Fused, Path::Portable].map(|path| (path, run_readout(shape, tracked, DType::F32, path)))
        {
            assert_eq!(got.len(), right.len());
            for ((name, got), (_, right)) in got.iter().zip(&right) {
                let scale = right.values.iter().fold(1.0, |m: f64, x| m.max(x.abs()));
                let d = difference(got, right, scale);
                assert!(d < 2e-6, "{path:?}, batch, time, hidden, output {shape:?}: {name} differs by {d:e}");
            }
        }
    }
}
