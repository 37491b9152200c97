//! The layers as modules of Burn: saved, loaded, moved, copied and trained.

mod common;

use attentive::{ForwardOptions, Path, SabLstm, SabLstmConfig, SabReadout, SabReadoutConfig};
use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{AdamConfig, GradientsParams, SgdConfig};
use burn::tensor::{DType, Device, Int, Tensor};
use common::{Array, Numbers, gradients_of};
use std::sync::Mutex;

const PATHS: [Path; 2] = [Path::Portable, Path::Fused];

/// Burn has one random number generator per device, which the tests of this file share.
static SEED: Mutex<()> = Mutex::new(());

/// Makes a module from a seed.
fn seeded<M: Module>(seed: u64, device: &Device, make: impl FnOnce() -> M) -> M {
    let guard = SEED.lock().expect("no test panics while it holds this");
    device.seed(seed);
    let made = make();
    // Draw all remaining numbers here, before another test draws.
    made.visit(&mut Draw);
    drop(guard);
    made
}

struct Draw;

impl ModuleVisitor for Draw {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        param.val();
    }
}

fn config() -> SabLstmConfig {
    SabLstmConfig::new(3, 6).with_k_top(2).with_k_att(2).with_k_trunc(3).with_trunc_phase(0)
}

fn layer(seed: u64, device: &Device) -> SabLstm {
    seeded(seed, device, || config().init(device))
}

fn sequence(device: &Device) -> Tensor<3> {
    Array::new(&[2, 9, 3], Numbers::new(1).take(54, 1.0)).tensor(DType::F32, device)
}

/// All parameters, by name.
fn values_of(lstm: &SabLstm) -> Vec<(&'static str, Array)> {
    let of = |name| match (lstm.matrix(name), lstm.vector(name)) {
        (Some(matrix), _) => Array::of(&matrix.val()),
        (_, vector) => Array::of(&vector.expect("a declared parameter").val()),
    };
    lstm.declared().iter().map(|parameter| (parameter.name, of(parameter.name))).collect()
}

fn outputs(lstm: &SabLstm, device: &Device, path: Path) -> Vec<u64> {
    let out = lstm.forward_with(sequence(device), None, &ForwardOptions::new().with_path(path)).expect("a good input");
    [Array::of(&out.hidden).bits(), Array::of(&out.summary).bits()].concat()
}

/// The engine reuses the memory of outputs, but only after the last tensor in it is dropped.
#[test]
fn outputs_stay_unchanged_whatever_is_computed_later() {
    let device = Device::default();
    // Large enough to be kept and reused. 256 units are whole vectors, so the engine works directly in the outputs.
    for hidden in [250, 256] {
        let lstm = seeded(2, &device, || SabLstmConfig::new(3, hidden).with_k_top(2).with_k_trunc(3).init(&device));
        let run = |factor: f32| lstm.forward(sequence(&device) * factor, None).expect("a good input");
        let first = run(1.0);
        let kept = first.hidden.clone().slice([1..2, 3..7]);
        let before = [&first.hidden, &first.summary, &kept].map(|tensor| Array::of(tensor).bits());
        for factor in [0.5, -1.0, 2.0] {
            let other = run(factor);
            // Nobody else holds the other one, so Burn computes in place.
            let changed = other.hidden + 1.0;
            assert!(Array::of(&changed).bits() != before[0]);
        }
        let after = [&first.hidden, &first.summary, &kept].map(|tensor| Array::of(tensor).bits());
        assert!(before == after, "the outputs of {hidden} units have changed");
        let values = first.hidden.into_data().try_into_vec::<f32>().expect("floats");
        assert_eq!(values.len(), 2 * 9 * hidden);
        assert!(values.iter().map(|x| f64::from(*x).to_bits()).eq(before[0].iter().copied()));
    }
}

/// A directory for one test, deleted at its end.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("attentive-module-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary directory");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nothing depends on the deletion: leftovers in the temporary directory are harmless.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn parameters_are_counted() {
    for (input, hidden, output) in [(3, 6, 2), (1, 1, 1), (10, 17, 5)] {
        let lstm = seeded(1, &Device::flex(), || SabLstmConfig::new(input, hidden).init(&Device::flex()));
        // Gates from input, hidden state and bias; W1, W2 and W3.
        assert_eq!(lstm.num_params(), 4 * hidden * (input + hidden + 1) + 2 * hidden * hidden + hidden);
        let readout = seeded(1, &Device::flex(), || SabReadoutConfig::new(hidden, output).init(&Device::flex()));
        assert_eq!(readout.num_params(), 2 * hidden * output + output);
    }
}

#[test]
fn saved_and_loaded_it_gives_the_same_bits() {
    let (device, folder) = (Device::flex(), Folder::new("round-trip"));
    let (saved, other) = (layer(1, &device), layer(2, &device));
    let file = folder.0.join("lstm");
    saved.clone().save_file(&file).expect("the directory is there");
    let loaded = other.clone().try_load_file(&file).expect("the saved file");
    for path in PATHS {
        assert_ne!(outputs(&other, &device, path), outputs(&saved, &device, path));
        assert_eq!(outputs(&loaded, &device, path), outputs(&saved, &device, path));
    }
    let readout = seeded(1, &device, || SabReadoutConfig::new(6, 2).init(&device));
    let file = folder.0.join("readout");
    readout.clone().save_file(&file).expect("the directory is there");
    let loaded: SabReadout = seeded(2, &device, || SabReadoutConfig::new(6, 2).init(&device));
    let loaded = loaded.try_load_file(&file).expect("the saved file");
    let y = |readout: &SabReadout| {
        let h = sequence(&device).reshape([9, 6]);
        readout.forward(h.clone(), h * 2.0).expect("fits").to_data()
    };
    assert_eq!(y(&loaded), y(&readout));
}

#[test]
fn a_layer_loaded_with_autodiff_can_be_trained() {
    let (device, folder) = (Device::flex().autodiff(), Folder::new("train"));
    let file = folder.0.join("lstm");
    layer(1, &device).save_file(&file).expect("the directory is there");
    let loaded = layer(2, &device).try_load_file(&file).expect("the saved file");
    let grads = loaded.forward(sequence(&device), None).expect("a good input").hidden.sum().backward();
    assert!(loaded.matrix("weight_hh").expect("a matrix").val().grad(&grads).is_some());
}

#[test]
fn parameters_of_another_size_are_an_error_and_not_a_panic() {
    let (device, folder) = (Device::flex(), Folder::new("size"));
    for (name, other) in [("hidden", SabLstmConfig::new(3, 5)), ("input", SabLstmConfig::new(4, 6))] {
        let file = folder.0.join(name);
        seeded(3, &device, || other.init(&device)).save_file(&file).expect("the directory is there");
        // Burn may refuse to load; if it does not, the layer must.
        if let Ok(loaded) = layer(1, &device).try_load_file(&file) {
            let error = loaded.forward(sequence(&device), None).expect_err("another size").to_string();
            assert!(error.contains("`weight_ih` has shape"), "{error}");
        }
    }
    // The same by hand: the error names a parameter of the wrong shape.
    let mut lstm = layer(1, &device);
    let narrow = layer(1, &device).matrix("w1").expect("a matrix").val().narrow(0, 0, 5);
    lstm.set_matrix("w2", Param::from_tensor(narrow)).expect("a parameter of the layer");
    for path in PATHS {
        let result = lstm.forward_with(sequence(&device), None, &ForwardOptions::new().with_path(path));
        let error = result.expect_err("a wrong shape").to_string();
        assert!(error.contains("`w2` has shape [5, 6]") && error.contains("[6, 6]"), "{error}");
    }
}

#[test]
fn valid_has_no_autodiff_and_the_same_outputs() {
    let device = Device::flex().autodiff();
    let lstm = layer(1, &device);
    let valid = lstm.valid();
    let is_trained = |lstm: &SabLstm| lstm.matrix("weight_ih").expect("a matrix").val().is_require_grad();
    assert!(!is_trained(&valid) && is_trained(&lstm));
    for path in PATHS {
        assert_eq!(outputs(&valid, &Device::flex(), path), outputs(&lstm, &device, path));
        // It treats tensors of the other kind as data.
        assert_eq!(outputs(&valid, &device, path), outputs(&lstm, &Device::flex(), path));
    }
}

#[test]
fn fork_and_to_device_keep_the_values() {
    let device = Device::flex().autodiff();
    let lstm = layer(1, &device);
    let forked = lstm.clone().fork(&device);
    let moved = lstm.clone().to_device(&device);
    for path in PATHS {
        let right = outputs(&lstm, &device, path);
        assert_eq!(outputs(&forked, &device, path), right);
        assert_eq!(outputs(&moved, &device, path), right);
    }
    assert_eq!(forked.config(), lstm.config());
    let grads = forked.forward(sequence(&device), None).expect("a good input").hidden.sum().backward();
    assert!(forked.vector("w3").expect("a vector").val().grad(&grads).is_some(), "a fork can be trained");
}

#[test]
fn a_seed_makes_one_layer() {
    let device = Device::flex();
    let values = |lstm: &SabLstm| values_of(lstm).into_iter().flat_map(|(_, array)| array.values).collect::<Vec<_>>();
    let [a, again, b] = [5, 5, 6].map(|seed| layer(seed, &device));
    assert!(values(&a) == values(&again) && values(&a) != values(&b));
    // All are uniform within 1 / sqrt(hidden), and not all equal.
    let bound = 1.0 / 6.0_f64.sqrt();
    assert!(values(&a).iter().all(|w| w.abs() <= bound + 1e-6));
    assert!(values(&a).iter().any(|w| *w > 0.8 * bound) && values(&a).iter().any(|w| *w < -0.8 * bound));
    let readouts = [5, 5, 6].map(|seed| seeded(seed, &device, || SabReadoutConfig::new(6, 2).init(&device)));
    assert_eq!(readouts[0].v2.val().to_data(), readouts[1].v2.val().to_data());
    assert_ne!(readouts[0].v2.val().to_data(), readouts[2].v2.val().to_data());
}

#[test]
fn numbers_are_drawn_by_init() {
    let device = Device::flex();
    let values = |between: u64| {
        let guard = SEED.lock().expect("no test panics while it holds this");
        device.seed(5);
        let lstm = config().init(&device);
        // The program may draw other numbers before it uses the layer.
        device.seed(between);
        let values = values_of(&lstm);
        drop(guard);
        values
    };
    assert!(values(7) == values(8), "draws between `init` and use change the layer");
}

#[test]
fn initialization_scales_what_it_says() {
    for device in [Device::flex(), Device::flex().autodiff()] {
        initialization_scales(&device);
    }
}

fn initialization_scales(device: &Device) {
    let start = attentive::Initialization {
        bound: Some(0.5),
        input_gain: 4.0,
        attention_gain: 3.0,
        score_gain: 0.5,
        forget_bias: 2.0,
    };
    let lstm = seeded(5, device, || SabLstmConfig::new(8, 40).with_initialization(start).init(device));
    // Uniform: the largest of 40 numbers or more lies near the bound.
    let check = |values: &[f64], middle: f64, bound: f64, what: &str| {
        let largest = values.iter().fold(0.0_f64, |largest, x| largest.max((x - middle).abs()));
        assert!(largest <= bound + 1e-6 && largest > 0.8 * bound, "{what}: {largest} instead of {bound}");
    };
    for (name, array) in values_of(&lstm) {
        let bound = match name {
            "weight_ih" => 2.0,
            "weight_hh" => 0.5,
            "w1" | "w2" => 1.5,
            "w3" => 0.25,
            _ => continue,
        };
        check(&array.values, 0.0, bound, name);
    }
    for (gate, bias) in Array::of(&lstm.vector("bias").expect("a vector").val()).values.chunks(40).enumerate() {
        check(bias, if gate == 1 { 2.0 } else { 0.0 }, 0.5, "the bias of gate i, f, g or o");
    }
}

#[test]
fn every_parameter_gets_a_gradient() {
    let device = Device::flex().autodiff();
    for path in PATHS {
        let lstm = layer(1, &device);
        let out =
            lstm.forward_with(sequence(&device), None, &ForwardOptions::new().with_path(path)).expect("a good input");
        let grads = (out.hidden.powi_scalar(2).sum() + out.summary.sum()).backward();
        for (name, gradient) in gradients_of(&lstm, &grads) {
            assert!(gradient.values.iter().any(|d| *d != 0.0), "{path:?}: {name}");
        }
    }
}

#[test]
fn a_loss_may_use_only_one_of_the_outputs() {
    let device = Device::flex().autodiff();
    for path in PATHS {
        let lstm = layer(1, &device);
        let options = ForwardOptions::new().with_path(path);
        let run = || lstm.forward_with(sequence(&device), None, &options).expect("a good input");
        for loss in [run().hidden.sum(), run().summary.sum(), run().hidden.narrow(1, 8, 1).sum()] {
            let grads = loss.backward();
            let gradient = lstm.matrix("weight_ih").expect("a matrix").val().grad(&grads).expect("a gradient");
            assert!(Array::of(&gradient).values.iter().any(|d| *d != 0.0), "{path:?}");
        }
    }
}

#[test]
fn frozen_parameters_get_no_gradient_and_the_input_still_does() {
    let device = Device::flex().autodiff();
    for path in PATHS {
        let lstm = layer(1, &device).no_grad();
        let x = sequence(&device).require_grad();
        let out = lstm.forward_with(x.clone(), None, &ForwardOptions::new().with_path(path)).expect("a good input");
        let grads = out.hidden.sum().backward();
        assert!(lstm.matrix("weight_hh").expect("a matrix").val().grad(&grads).is_none(), "{path:?}");
        assert!(x.grad(&grads).is_some(), "{path:?}");
    }
}

#[test]
fn a_clone_has_the_same_values_and_is_trained_alone() {
    let device = Device::flex().autodiff();
    let lstm = layer(1, &device);
    let before = outputs(&lstm, &device, Path::Fused);
    let clone = lstm.clone();
    assert_eq!(outputs(&clone, &device, Path::Fused), before);
    let loss = clone.forward(sequence(&device), None).expect("a good input").hidden.sum();
    let grads = GradientsParams::from_grads(loss.backward(), &clone);
    let trained = SgdConfig::new().init().step(0.5, clone, grads);
    assert_ne!(outputs(&trained, &device, Path::Fused), before);
    assert_eq!(outputs(&lstm, &device, Path::Fused), before);
}

#[test]
fn without_autodiff_it_runs_and_reminds() {
    let device = Device::flex();
    for path in PATHS {
        let options = ForwardOptions::new().with_path(path).with_reminders(2);
        let out = layer(1, &device).forward_with(sequence(&device), None, &options).expect("a good input");
        assert!(!out.hidden.is_require_grad());
        assert!(!out.reminders.expect("the layer attends").at(1, 8).is_empty());
        assert_eq!(
            outputs(&layer(1, &device), &device, path),
            outputs(&layer(1, &device.clone().autodiff()), &device.clone().autodiff(), path)
        );
    }
}

/// Two layers and a readout. The hidden states of the first layer are the input of the second.
#[derive(Module, Debug)]
struct Stack {
    lower: SabLstm,
    upper: SabLstm,
    readout: SabReadout,
}

fn stack(device: &Device) -> Stack {
    seeded(3, device, || Stack {
        lower: config().init(device),
        upper: SabLstmConfig::new(6, 8).with_k_top(3).with_k_trunc(4).with_trunc_phase(1).init(device),
        readout: SabReadoutConfig::new(8, 3).init(device),
    })
}

impl Stack {
    /// The task: at the last step, name the symbol of the first step, one of three.
    fn loss(&self, device: &Device, path: Path) -> Tensor<1> {
        let symbols = Array::new(&[3, 7, 3], (0..63).map(|i| f64::from(u8::from(i % 21 == i / 21))).collect());
        let options = ForwardOptions::new().with_path(path);
        let lower = self.lower.forward_with(symbols.tensor::<3>(DType::F32, device), None, &options).expect("fits");
        let upper = self.upper.forward_with(lower.hidden, None, &options).expect("fits");
        let last = |x: Tensor<3>| x.narrow(1, 6, 1).squeeze_dim::<2>(1);
        let y = self.readout.forward_by(last(upper.hidden), last(upper.summary), path).expect("fits");
        CrossEntropyLossConfig::new().init(device).forward(y, Tensor::<1, Int>::from_ints([0, 1, 2], device))
    }
}

#[test]
fn two_layers_train_with_adam() {
    let device = Device::flex().autodiff();
    for path in PATHS {
        let (mut model, mut optimizer) = (stack(&device), AdamConfig::new().init());
        let first = model.loss(&device, path).into_scalar::<f32>();
        for _ in 0..40 {
            let grads = model.loss(&device, path).backward();
            for lstm in [&model.lower, &model.upper] {
                for name in ["w1", "weight_ih"] {
                    let param = lstm.matrix(name).expect("a matrix").val();
                    assert!(param.grad(&grads).is_some(), "{path:?}: {name}");
                }
            }
            let grads = GradientsParams::from_grads(grads, &model);
            model = optimizer.step(0.02, model, grads);
        }
        let last = model.loss(&device, path).into_scalar::<f32>();
        assert!(last < 0.3 * first, "{path:?}: from {first} to {last}");
    }
}

#[test]
fn plain_gradient_descent_lowers_the_loss_at_every_step() {
    let device = Device::flex().autodiff();
    for path in PATHS {
        let (mut model, mut optimizer) = (stack(&device), SgdConfig::new().init());
        let mut losses = vec![model.loss(&device, path).into_scalar::<f32>()];
        for _ in 0..5 {
            let grads = GradientsParams::from_grads(model.loss(&device, path).backward(), &model);
            model = optimizer.step(0.1, model, grads);
            losses.push(model.loss(&device, path).into_scalar::<f32>());
        }
        assert!(losses.is_sorted_by(|a, b| a > b), "{path:?}: {losses:?}");
    }
}

#[test]
fn both_layers_of_a_stack_get_the_same_gradients_on_both_paths() {
    let device = Device::flex().autodiff();
    let model = stack(&device);
    let [a, b] = PATHS.map(|path| {
        let grads = model.loss(&device, path).backward();
        [&model.lower, &model.upper].map(|lstm| gradients_of(lstm, &grads)).concat()
    });
    for ((name, a), (_, b)) in a.iter().zip(&b) {
        assert!(common::difference(a, b, 1.0) < 1e-5, "{name}");
    }
}

#[test]
fn inference_follows_the_parameters_when_they_change() {
    // Packed weights are kept between calls without autodiff. They must not outlive the parameters they were packed
    // from.
    let device = Device::flex().autodiff();
    let make = |seed| seeded(seed, &device, || SabLstmConfig::new(3, 20).init(&device));
    let mut lstm = make(1);
    let x = Tensor::<3>::ones([2, 6, 3], &device.clone().inner());
    let tokens = Tensor::<2, Int>::ones([2, 6], &device.clone().inner());
    let mut optimizer = AdamConfig::new().init();
    let mut seen: Vec<Vec<f32>> = Vec::new();
    for _ in 0..3 {
        let infer = |lstm: &SabLstm| {
            let dense = lstm.valid().forward(x.clone(), None).expect("a good input").hidden;
            let of_tokens = lstm.valid().forward(tokens.clone(), None).expect("a good input").hidden;
            [dense, of_tokens].map(|h| h.into_data().try_to_vec::<f32>().expect("floats")).concat()
        };
        let got = infer(&lstm);
        assert_eq!(got, infer(&lstm), "twice the same");
        // A new layer has not packed anything yet.
        let fresh = make(2).load_record(lstm.clone().into_record());
        assert_eq!(got, infer(&fresh));
        assert!(!seen.contains(&got), "the update changed nothing");
        seen.push(got);
        let loss = lstm.forward(x.clone(), None).expect("a good input").hidden.sum();
        let gradients = GradientsParams::from_grads(loss.backward(), &lstm);
        lstm = optimizer.step(0.1, lstm, gradients);
    }
}
