//! The readout (R8) read directly from a call's outputs: the same values and gradients as through its tensors.

mod common;

use attentive::{ForwardOptions, Hops, Path, SabLstmConfig, SabOutput, SabReadout, SabReadoutConfig, ScoreGradient};
use burn::module::Param;
use burn::tensor::{DType, Device, Gradients, Tensor};
use common::{Array, Input, Parameters, difference, gradients_of};

/// How a readout gets at the outputs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Linked,
    Tensors,
    Both,
}

fn read(readout: &SabReadout, out: &SabOutput, way: Way, last: bool) -> Tensor<2> {
    let time = out.hidden.dims()[1];
    let rows = |x: &Tensor<3>| if last { x.clone().narrow(1, time - 1, 1) } else { x.clone() }.flatten::<2>(0, 1);
    let linked = || match last {
        true => readout.read_last(out).expect("a fitting readout"),
        false => readout.read(out).expect("a fitting readout").flatten(0, 1),
    };
    let tensors = || readout.forward(rows(&out.hidden), rows(&out.summary)).expect("a fitting readout");
    match way {
        Way::Linked => linked(),
        Way::Tensors => tensors(),
        // Half of it each way, and twice the linked one: adjoints from several readers add up.
        Way::Both => tensors() * 0.5 + linked() * 0.25 + linked() * 0.25,
    }
}

/// The output and the gradients of all parameters of both layers.
fn run(config: &SabLstmConfig, tokens: bool, way: Way, last: bool) -> Vec<(&'static str, Array)> {
    let device = Device::flex().autodiff();
    let parameters = Parameters::random_for(config, 5);
    let lstm = parameters.layer(config, DType::F32, &device);
    // Given numbers: those that `init` draws come from one generator for all tests.
    let mut readout = SabReadoutConfig::new(config.hidden, 5).init(&device);
    let mut numbers = common::Numbers::new(3);
    let mut matrix = || Array::new(&[config.hidden, 5], numbers.take(config.hidden * 5, 0.3));
    readout.v1 = Param::from_tensor(matrix().tensor(DType::F32, &device));
    readout.v2 = Param::from_tensor(matrix().tensor(DType::F32, &device));
    readout.bias = Param::from_tensor(Array::new(&[5], vec![0.1, -0.2, 0.3, 0.0, 0.5]).tensor(DType::F32, &device));
    let (x, _) = Input::random(3, 14, config.input, tokens, 7).tensor(DType::F32, &device);
    let options = ForwardOptions::new().with_path(Path::Fused);
    let out = lstm.forward_with(x, None, &options).expect("a good input");
    let y = read(&readout, &out, way, last);
    let [rows, _] = y.dims();
    let weights = common::Numbers::new(11).take(rows * 5, 1.0);
    let grads = (y.clone() * Array::new(&[rows, 5], weights).tensor::<2>(DType::F32, &device)).sum().backward();
    fn gradient<const D: usize>(param: Tensor<D>, grads: &Gradients) -> Array {
        Array::of(&param.grad(grads).expect("every parameter has a gradient"))
    }
    let mut all = vec![("y", Array::of(&y))];
    all.extend(gradients_of(&lstm, &grads));
    all.extend([
        ("v1", gradient(readout.v1.val(), &grads)),
        ("v2", gradient(readout.v2.val(), &grads)),
        ("readout bias", gradient(readout.bias.val(), &grads)),
    ]);
    all
}

#[test]
fn r8_reading_outputs_directly_gives_the_same_gradients() {
    let base = SabLstmConfig::new(3, 20).with_k_top(2).with_k_att(2).with_k_trunc(3).with_trunc_phase(1);
    let configs = [
        base.clone(),
        base.clone().with_hops(Hops::One),
        base.clone().with_score_gradient(ScoreGradient::Full),
        base.clone().with_k_top(0),
        SabLstmConfig { hidden: 32, ..base.clone() },
    ];
    let parts = common::parts::each_part(&base).into_iter().map(|(_, config)| config);
    for config in configs.into_iter().chain(parts) {
        for (tokens, last) in [(true, false), (false, false), (true, true)] {
            let right = run(&config, tokens, Way::Tensors, last);
            for way in [Way::Linked, Way::Both] {
                for ((name, got), (_, right)) in run(&config, tokens, way, last).iter().zip(&right) {
                    let scale = right.values.iter().fold(1e-3_f64, |m, x| m.max(x.abs()));
                    let d = difference(got, right, scale);
                    assert!(d < 2e-5, "{name} differs by {d:e}: {way:?}, last {last}, {config:?}");
                }
            }
        }
    }
}

#[test]
fn outputs_that_were_changed_are_read_as_they_are_now() {
    let device = Device::flex().autodiff();
    let lstm = SabLstmConfig::new(2, 8).init(&device);
    let readout = SabReadoutConfig::new(8, 3).init(&device);
    let mut out = lstm.forward(Tensor::<3>::ones([2, 4, 2], &device), None).expect("a good input");
    let before = Array::of(&readout.read(&out).expect("a fitting readout"));
    out.hidden = out.hidden * 2.0;
    let after = Array::of(&readout.read(&out).expect("a fitting readout"));
    let right = Array::of(&readout.forward(out.hidden, out.summary).expect("a fitting readout"));
    assert_eq!(after, right);
    assert_ne!(after, before);
}
