//! The portable path on a GPU with wgpu, or on a software driver for Vulkan, against both paths on the CPU, in `f32`.
//!
//! `.ci/gpu` runs it on machines without a GPU.
#![cfg(feature = "wgpu")]

mod common;

use attentive::{
    ForwardOptions, Hops, KTop, KTrunc, Path, SabError, SabLstm, SabLstmConfig, SabReadout, SabReadoutConfig, SabState,
    ScoreGradient,
};
use burn::module::{Module, Param};
use burn::tensor::{DType, Device, DeviceKind, Int, Tensor};
use common::{
    Array, Input, Numbers, Parameters, Run, compare, difference, random_state, random_state_for, run, run_on,
};

const BATCH: usize = 3;
const TIME: usize = 9;
const INPUT: usize = 4;
const HIDDEN: usize = 7;

/// As in `parity.rs`, for two computations in single precision.
const OUTPUTS: f64 = 1e-5;
const GRADIENTS: f64 = 1e-4;
const FLOOR: f64 = 0.1;

fn gpu() -> Device {
    Device::wgpu(DeviceKind::DefaultDevice)
}

fn config() -> SabLstmConfig {
    SabLstmConfig::new(INPUT, HIDDEN).with_k_top(3).with_k_att(2).with_k_trunc(4).with_trunc_phase(0)
}

fn parameters() -> Parameters {
    Parameters::random(INPUT, HIDDEN, 21)
}

fn layer(config: &SabLstmConfig, device: &Device) -> SabLstm {
    parameters().layer(config, DType::F32, device)
}

/// A state with the same numbers on another device.
fn moved(state: &SabState, device: &Device) -> SabState {
    SabState::from_record(state.to_record(), device).expect("a good record")
}

/// One computation that can run anywhere.
struct Case<'a> {
    config: &'a SabLstmConfig,
    parameters: Parameters,
    input: Input,
    state: Option<&'a [u64]>,
    adjoints: [Array; 2],
}

impl<'a> Case<'a> {
    fn new(config: &'a SabLstmConfig, tokens: bool, state: Option<&'a [u64]>, seed: u64) -> Self {
        let mut numbers = Numbers::new(23);
        let mut adjoint = || Array::new(&[BATCH, TIME, HIDDEN], numbers.take(BATCH * TIME * HIDDEN, 1.0));
        let adjoints = [adjoint(), adjoint()];
        let (parameters, input) = (Parameters::random_for(config, seed), Input::random(BATCH, TIME, INPUT, tokens, 22));
        Self { config, parameters, input, state, adjoints }
    }

    fn run(&self, device: &Device, path: Path, dtype: DType) -> Run {
        let state = self.state.map(|steps| moved(&random_state_for(self.config, steps, 24, dtype), device));
        let (options, adjoints) = (ForwardOptions::new().with_path(path), [&self.adjoints[0], &self.adjoints[1]]);
        run_on(device, self.config, &self.parameters, &self.input, state, adjoints, dtype, &options)
    }

    /// Whether both paths in `f32` can follow `f64`. If scores nearly tie, no two computations agree.
    fn is_stable(&self) -> bool {
        let cpu = Device::flex();
        let right = self.run(&cpu, Path::Portable, DType::F64);
        let near = |path| compare(&self.run(&cpu, path, DType::F32), &right, OUTPUTS / 10.0, GRADIENTS / 5.0, FLOOR);
        [Path::Portable, Path::Fused].into_iter().all(|path| near(path).is_ok())
    }
}

/// Compares outputs, states and all gradients on the GPU with both paths on the CPU.
fn agrees(what: &str, config: &SabLstmConfig, tokens: bool, steps: Option<&[u64]>) {
    let case = (21..80).map(|seed| Case::new(config, tokens, steps, seed)).find(Case::is_stable);
    let case = case.unwrap_or_else(|| panic!("{what}: no case that f32 can follow"));
    let got = case.run(&gpu(), Path::Auto, DType::F32);
    for path in [Path::Portable, Path::Fused] {
        let right = case.run(&Device::flex(), path, DType::F32);
        if let Err(why) = compare(&got, &right, OUTPUTS, GRADIENTS, FLOOR) {
            panic!("{what}, tokens {tokens}, steps {steps:?}, against {path:?}: {why}");
        }
    }
}

#[test]
fn a_plain_lstm_agrees() {
    for k_trunc in [KTrunc::None, KTrunc::Every(4)] {
        agrees("k_top 0", &config().with_k_top(0).with_k_trunc(k_trunc), true, None);
        agrees("k_top 0", &config().with_k_top(0).with_k_trunc(k_trunc), false, Some(&[5; BATCH]));
    }
}

#[test]
fn sparse_attention_agrees() {
    for tokens in [true, false] {
        agrees("k_top 3", &config(), tokens, None);
        agrees("k_top 3, k_att 1, all steps", &config().with_k_att(1).with_k_trunc(KTrunc::None), tokens, None);
    }
}

#[test]
fn full_attention_agrees() {
    for k_trunc in [KTrunc::None, KTrunc::Every(4)] {
        agrees("k_top all", &config().with_k_top(KTop::All).with_k_trunc(k_trunc), true, None);
    }
}

#[test]
fn variants_of_the_gradient_agree() {
    agrees("no mental updates", &config().with_mental_updates(false), true, None);
    agrees("scores by all", &config().with_score_gradient(ScoreGradient::Full), true, None);
    agrees("one hop", &config().with_hops(Hops::One), false, None);
    let both = config().with_hops(Hops::One).with_score_gradient(ScoreGradient::Full);
    agrees("one hop, scores by all", &both, true, Some(&[6; BATCH]));
}

#[test]
fn carried_states_agree_also_of_rows_of_different_age() {
    agrees("carried", &config(), true, Some(&[8; BATCH]));
    agrees("carried", &config(), false, Some(&[0, 5, 12]));
}

#[test]
fn every_part_agrees_and_every_pair() {
    for (name, config) in common::parts::each_combination(&config().with_k_att(1)) {
        agrees(&name, &config, true, None);
        agrees(&name, &config, false, Some(&[0, 5, 12]));
    }
}

#[test]
fn step_by_step_and_reminders_agree_with_the_whole_sequence_on_the_cpu() {
    let (device, cpu) = (gpu(), Device::flex());
    let input = Input::random(BATCH, TIME, INPUT, true, 22);
    let options = ForwardOptions::new().with_reminders(3);
    let (tokens, _) = input.tensor(DType::F32, &cpu);
    let right = layer(&config(), &cpu).forward_with(tokens, None, &options).expect("a good input");
    let right_reminders = right.reminders.as_ref().expect("requested");

    let lstm = layer(&config(), &device);
    let Input::Tokens { tokens, .. } = &input else { unreachable!("the input has tokens") };
    let mut state = None;
    for t in 0..TIME {
        let step: Vec<i32> = (0..BATCH).map(|row| tokens[row * TIME + t] as i32).collect();
        let step = Tensor::<1, Int>::from_ints(step.as_slice(), &device);
        let out = lstm.step_with(step, state.take(), &options).expect("a good input");
        let there = Array::of(&right.hidden.clone().narrow(1, t, 1).squeeze_dim::<2>(1));
        assert!(difference(&Array::of(&out.hidden), &there, 1.0) < OUTPUTS, "step {t}");
        let reminders = out.reminders.expect("requested");
        for row in 0..BATCH {
            let (got, right) = (reminders.at(row, 0), right_reminders.at(row, t));
            assert_eq!(got.len(), right.len(), "row {row}, step {t}");
            for (got, right) in got.iter().zip(right) {
                assert_eq!(got.step, right.step, "row {row}, step {t}");
                assert!((got.weight - right.weight).abs() < 1e-4, "row {row}, step {t}");
            }
        }
        state = Some(out.state);
    }
    let mut state = state.expect("steps were made");
    assert_eq!(state.steps(), right.state.steps());
    assert!(difference(&Array::of(&state.memory()), &Array::of(&right.state.memory()), 1.0) < OUTPUTS);
    state.reset(&[1]).expect("row 1 is there");
    let hidden = Array::of(&state.hidden());
    assert!(hidden.values[HIDDEN..2 * HIDDEN].iter().all(|x| *x == 0.0) && hidden.values[0] != 0.0);
}

fn readout(device: &Device) -> SabReadout {
    let mut readout = SabReadoutConfig::new(HIDDEN, 5).init(device);
    let mut numbers = Numbers::new(25);
    let mut matrix = || Array::new(&[HIDDEN, 5], numbers.take(HIDDEN * 5, 0.3)).tensor(DType::F32, device);
    (readout.v1, readout.v2) = (Param::from_tensor(matrix()), Param::from_tensor(matrix()));
    readout.bias = Param::from_tensor(Array::new(&[5], vec![0.1, -0.2, 0.3, 0.0, 0.5]).tensor(DType::F32, device));
    readout
}

#[test]
fn readouts_agree() {
    let outputs = |device: &Device| {
        let device = device.clone().autodiff();
        let (tokens, _) = Input::random(BATCH, TIME, INPUT, true, 22).tensor(DType::F32, &device);
        let (lstm, readout) = (layer(&config(), &device), readout(&device));
        let out = lstm.forward(tokens, None).expect("a good input");
        let (all, last) = (readout.read(&out).expect("fits"), readout.read_last(&out).expect("fits"));
        let grads = (all.clone().sum() + last.clone().powi_scalar(2).sum()).backward();
        let of_v1 = readout.v1.val().grad(&grads).expect("a gradient");
        let of_w1 = lstm.matrix("w1").expect("a matrix").val().grad(&grads).expect("a gradient");
        [Array::of(&all.flatten::<2>(0, 1)), Array::of(&last), Array::of(&of_v1), Array::of(&of_w1)]
    };
    for (got, right) in outputs(&gpu()).iter().zip(&outputs(&Device::flex())) {
        let scale = right.values.iter().fold(0.1_f64, |most, x| most.max(x.abs()));
        assert!(difference(got, right, scale) < GRADIENTS);
    }
}

#[test]
fn the_fused_path_cannot_be_forced_on_a_gpu() {
    let device = gpu();
    let (tokens, _) = Input::random(BATCH, TIME, INPUT, true, 22).tensor(DType::F32, &device);
    let fused = ForwardOptions::new().with_path(Path::Fused);
    let refused = layer(&config(), &device).forward_with(tokens, None, &fused).map(|_| ());
    assert!(matches!(refused, Err(SabError::NoFusedPath(_))), "{refused:?}");
    let rows = Tensor::<2>::zeros([2, HIDDEN], &device);
    let refused = readout(&device).forward_by(rows.clone(), rows, Path::Fused).map(|_| ());
    assert!(matches!(refused, Err(SabError::NoFusedPath(_))), "{refused:?}");
}

#[test]
fn tensors_on_another_device_are_errors() {
    let (device, cpu) = (gpu(), Device::flex());
    let (here, _) = Input::random(BATCH, TIME, INPUT, true, 22).tensor(DType::F32, &device);
    let (there, _) = Input::random(BATCH, TIME, INPUT, true, 22).tensor(DType::F32, &cpu);
    let lstm = layer(&config(), &device);
    let is_device = |result: attentive::Result<()>, name: &str| {
        assert!(matches!(&result, Err(SabError::Device { what, .. }) if *what == name), "{name}: {result:?}");
    };
    is_device(lstm.forward(there.clone(), None).map(|_| ()), "input");
    let foreign = random_state(HIDDEN, &[2; BATCH], 2, 24, DType::F32);
    let refused = lstm.forward(here.clone(), Some(foreign.clone())).map(|_| ());
    assert!(matches!(refused, Err(SabError::State(_))), "{refused:?}");
    assert!(lstm.forward(here.clone(), Some(moved(&foreign, &device))).is_ok());
    let mixed = SabState::starting_from(foreign.hidden(), moved(&foreign, &device).cell(), 2).map(|_| ());
    assert!(matches!(mixed, Err(SabError::State(_))), "{mixed:?}");
    let mut torn = lstm.clone();
    let foreign = layer(&config(), &cpu).matrix("w2").expect("a matrix").clone();
    torn.set_matrix("w2", foreign).expect("a parameter of the layer");
    is_device(torn.forward(here.clone(), None).map(|_| ()), "w2");

    let out = lstm.forward(here, None).expect("a good input");
    is_device(readout(&cpu).read(&out).map(|_| ()), "hidden");
    // Moved as Burn moves any module.
    let lstm = lstm.to_device(&cpu);
    let out = lstm.forward(there, None).expect("a good input");
    assert!(readout(&device).to_device(&cpu).read(&out).is_ok());
}

#[test]
fn bad_numbers_are_errors_as_on_the_cpu() {
    let device = gpu();
    let lstm = layer(&config(), &device);
    let tokens = Tensor::<2, Int>::from_ints([[0, 1, INPUT as i32]], &device);
    let refused = lstm.forward(tokens, None).map(|_| ());
    assert!(matches!(refused, Err(SabError::Token { step: 2, .. })), "{refused:?}");
    for bad in [f64::NAN, f64::INFINITY] {
        let mut values = vec![0.0; 2 * INPUT];
        values[3] = bad;
        let dense: Tensor<3> = Array::new(&[1, 2, INPUT], values).tensor(DType::F32, &device);
        let refused = lstm.forward(dense, None).map(|_| ());
        assert!(matches!(refused, Err(SabError::NonFinite { what: "input", .. })), "{bad}: {refused:?}");
        let mut broken = lstm.clone();
        let mut values = vec![0.0; 4 * HIDDEN];
        values[0] = bad;
        let bias = Param::from_tensor(Array::new(&[4 * HIDDEN], values).tensor(DType::F32, &device));
        broken.set_vector("bias", bias).expect("a parameter of the layer");
        let tokens = Tensor::<2, Int>::zeros([1, 2], &device);
        let refused = broken.forward(tokens, None).map(|_| ());
        // An infinite gate is just an open gate. Only a NaN must be noticed.
        assert!(bad.is_infinite() || matches!(refused, Err(SabError::NonFinite { .. })), "{bad}: {refused:?}");
    }
    let record = random_state(HIDDEN, &[2], 2, 24, DType::F64).to_record();
    if !device.supports_dtype(DType::F64) {
        let refused = SabState::from_record(record, &device).map(|_| ());
        assert!(matches!(refused, Err(SabError::State(_))), "{refused:?}");
    }
}

#[test]
fn a_build_with_wgpu_still_takes_the_fused_path_on_the_cpu() {
    let (parameters, input) = (parameters(), Input::random(BATCH, TIME, INPUT, true, 22));
    let ones = Array::new(&[BATCH, TIME, HIDDEN], vec![1.0; BATCH * TIME * HIDDEN]);
    let by = |path: Path| {
        let options = ForwardOptions::new().with_path(path);
        run(&config(), &parameters, &input, None, [&ones, &ones], DType::F32, &options).hidden.bits()
    };
    assert_eq!(by(Path::Auto), by(Path::Fused));
}
