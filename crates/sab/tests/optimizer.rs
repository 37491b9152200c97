//! Adam against Burn's own and against plain code, the global norm, clipping, and going on from saved moments.

mod common;

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::{AdamConfig, AdamWConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Gradients, Tensor, TensorData};
use common::{Place, checkpoints, metrics, tiny_copy};
use sab::experiment::{Experiment, TrainSettings, parse_value};
use sab::models::{Model, Snapshot, file};
use sab::tasks::{InputKind, OutputKind};
use sab::train::{Adam, GradientSet, LARGEST_NORM};

fn model(hidden: usize) -> Model {
    let settings = [("model.hidden".to_string(), parse_value(&hidden.to_string()))];
    let experiment = Experiment::of_task("copy", &settings).expect("settings that hold");
    let device = Device::flex().autodiff();
    Model::new(&experiment.model, InputKind::Tokens(10), OutputKind::Classes(9), 1, &device).expect("a model")
}

fn snapshot(model: &Model) -> Snapshot {
    model.snapshot().expect("numbers")
}

fn numbers(model: &Model) -> Vec<Vec<f32>> {
    snapshot(model).into_iter().map(|parameter| parameter.values).collect()
}

/// Numbers for every parameter, of many sizes and both signs, other ones for each `round`.
fn some(model: &Model, round: usize) -> Vec<Vec<f32>> {
    let number = |place: usize| {
        let drawn = ((place + round * 7919) as u32).wrapping_mul(2_654_435_761) >> 8;
        let size = 10_f32.powi((drawn % 7) as i32 - 4);
        (drawn as f32 / (1 << 23) as f32 - 1.0) * size
    };
    let parameters = snapshot(model);
    parameters.iter().map(|parameter| (0..parameter.values.len()).map(number).collect()).collect()
}

/// A loss whose gradient is what was chosen; parameters for which nothing was chosen have no part in it.
struct Chosen<'a> {
    chosen: &'a [Vec<f32>],
    place: usize,
    loss: Option<Tensor<1>>,
}

impl ModuleVisitor for Chosen<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let (value, chosen) = (param.val(), &self.chosen[self.place]);
        self.place += 1;
        if chosen.is_empty() {
            return;
        }
        let slope = Tensor::<D>::from_data(TensorData::new(chosen.clone(), value.dims()), &value.device());
        let part = (value * slope).sum();
        self.loss = Some(match self.loss.take() {
            Some(loss) => loss + part,
            None => part,
        });
    }
}

fn backward(model: &Model, chosen: &[Vec<f32>]) -> Gradients {
    let mut visitor = Chosen { chosen, place: 0, loss: None };
    model.visit(&mut visitor);
    visitor.loss.expect("a parameter with a gradient").backward()
}

fn gradients(model: &Model, chosen: &[Vec<f32>]) -> GradientSet {
    GradientSet::of(model, backward(model, chosen)).expect("gradients")
}

/// Adam in single precision, one number after the other.
struct Plain {
    steps: i32,
    moments: Vec<(f32, f32)>,
}

impl Plain {
    fn new(numbers: usize) -> Self {
        Self { steps: 0, moments: vec![(0.0, 0.0); numbers] }
    }

    fn step(&mut self, values: &mut [f32], gradient: &[f32], learning_rate: f64, scale: f64) {
        self.steps += 1;
        let usual = TrainSettings::default();
        let (beta1, beta2, epsilon) = (usual.beta1 as f32, usual.beta2 as f32, usual.epsilon as f32);
        let rate = (learning_rate / (1.0 - usual.beta1.powi(self.steps))) as f32;
        let root = (1.0 / (1.0 - usual.beta2.powi(self.steps)).sqrt()) as f32;
        for ((value, gradient), (first, second)) in values.iter_mut().zip(gradient).zip(&mut self.moments) {
            let gradient = gradient * scale as f32;
            *first = beta1 * *first + (1.0 - beta1) * gradient;
            *second = beta2 * *second + (1.0 - beta2) * gradient * gradient;
            *value -= rate * *first / (second.sqrt() * root + epsilon);
        }
    }
}

/// Twenty steps of ours and of an optimizer of Burn's end with the same numbers.
fn twenty_steps_agree(settings: &TrainSettings, mut optimizer: ModuleOptimizer) {
    let mut ours = model(8);
    let Model::Sab(mut burns) = ours.clone() else { panic!("a recurrent model") };
    let mut adam = Adam::new(settings, &ours).expect("an optimizer");
    let start = numbers(&ours);
    for round in 0..20 {
        let (chosen, rate) = (some(&ours, round), 0.01 / (round + 1) as f64);
        let theirs = backward(&Model::Sab(burns.clone()), &chosen);
        let theirs = GradientsParams::from_grads(theirs, &burns);
        burns = optimizer.step(rate, burns, theirs);
        let set = gradients(&ours, &chosen);
        ours = adam.step(ours, &set, rate, 1.0).expect("a step");
    }
    assert_eq!(adam.steps(), 20);
    let (ours, burns) = (numbers(&ours).concat(), numbers(&Model::Sab(burns)).concat());
    let most = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(most(&ours, &start.concat()) > 1e-2, "the steps are not small");
    let apart = most(&ours, &burns);
    assert!(apart < 1e-6, "{apart}");
}

#[test]
fn twenty_steps_agree_with_burns_adam() {
    twenty_steps_agree(&TrainSettings::default(), AdamConfig::new().with_epsilon(1e-8).init());
}

#[test]
fn twenty_steps_with_weight_decay_agree_with_burns_adamw() {
    // So strong that a twentieth of each weight goes.
    let burns = AdamWConfig::new().with_epsilon(1e-8).with_weight_decay(1.5).init();
    twenty_steps_agree(&TrainSettings { weight_decay: 1.5, ..TrainSettings::default() }, burns);
}

#[test]
fn steps_have_the_bits_of_plain_code() {
    let mut ours = model(8);
    let mut adam = Adam::new(&TrainSettings::default(), &ours).expect("an optimizer");
    let mut values = numbers(&ours);
    let mut plain: Vec<Plain> = values.iter().map(|values| Plain::new(values.len())).collect();
    for round in 0..10 {
        let (chosen, scale) = (some(&ours, round), 1.0 / (round + 1) as f64);
        let set = gradients(&ours, &chosen);
        ours = adam.step(ours, &set, 3e-3, scale).expect("a step");
        for ((plain, values), gradient) in plain.iter_mut().zip(&mut values).zip(&chosen) {
            plain.step(values, gradient, 3e-3, scale);
        }
        assert!(numbers(&ours) == values, "step {round}");
    }
}

#[test]
fn parameters_that_threads_share_have_the_bits_of_plain_code() {
    let mut ours = model(600);
    let largest = snapshot(&ours).iter().map(|parameter| parameter.values.len()).max();
    assert!(largest > Some(1 << 20), "{largest:?}");
    let mut adam = Adam::new(&TrainSettings::default(), &ours).expect("an optimizer");
    let mut values = numbers(&ours);
    let mut plain: Vec<Plain> = values.iter().map(|values| Plain::new(values.len())).collect();
    for round in 0..2 {
        let chosen = some(&ours, round);
        let set = gradients(&ours, &chosen);
        let sum: f64 = chosen.iter().flatten().map(|x| f64::from(*x).powi(2)).sum();
        assert!((set.norm() / sum.sqrt() - 1.0).abs() < 1e-12);
        ours = adam.step(ours, &set, 1e-3, 0.25).expect("a step");
        for ((plain, values), gradient) in plain.iter_mut().zip(&mut values).zip(&chosen) {
            plain.step(values, gradient, 1e-3, 0.25);
        }
        assert!(numbers(&ours) == values, "step {round}");
    }
}

#[test]
fn the_first_step_has_the_size_of_the_learning_rate() {
    let before = model(6);
    let mut adam = Adam::new(&TrainSettings::default(), &before).expect("an optimizer");
    // Far above epsilon, and of any size.
    let ones: Vec<Vec<f32>> =
        some(&before, 0).into_iter().map(|all| all.iter().map(|x| x.signum() * (1.0 + x.abs())).collect()).collect();
    let set = gradients(&before, &ones);
    let after = adam.step(before.clone(), &set, 0.125, 1.0).expect("a step");
    for ((before, after), gradient) in numbers(&before).concat().iter().zip(numbers(&after).concat()).zip(ones.concat())
    {
        assert!((before - after - 0.125 * gradient.signum()).abs() < 1e-5, "{before} {after}");
    }
}

#[test]
fn the_norm_is_that_of_all_gradients_together() {
    let model = model(10);
    for round in 0..5 {
        let chosen = some(&model, round);
        let sum: f64 = chosen.iter().flatten().map(|x| f64::from(*x).powi(2)).sum();
        let norm = gradients(&model, &chosen).norm();
        assert!((norm / sum.sqrt() - 1.0).abs() < 1e-12, "{norm}");
    }
}

#[test]
fn the_norm_of_huge_and_of_tiny_gradients_neither_overflows_nor_vanishes() {
    let model = model(10);
    let count = model.size() as f64;
    for size in [1e30_f32, f32::MAX, 1e-30, 1e-40] {
        let chosen: Vec<Vec<f32>> = numbers(&model).iter().map(|values| vec![size; values.len()]).collect();
        let norm = gradients(&model, &chosen).norm();
        assert!((norm / (f64::from(size) * count.sqrt()) - 1.0).abs() < 1e-9, "{size}: {norm}");
    }
}

#[test]
fn the_norm_tells_gradients_that_are_not_numbers() {
    let model = model(4);
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut chosen = some(&model, 0);
        chosen[1][3] = bad;
        assert!(!gradients(&model, &chosen).norm().is_finite(), "{bad}");
    }
}

#[test]
fn the_largest_gradient_that_is_taken_leaves_moments_that_a_checkpoint_can_hold() {
    let start = model(4);
    let mut chosen: Vec<Vec<f32>> = numbers(&start).iter().map(|values| vec![0.0; values.len()]).collect();
    chosen[0][0] = 0.99 * LARGEST_NORM as f32;
    let set = gradients(&start, &chosen);
    assert!(set.norm() < LARGEST_NORM, "the trainer does not refuse it");
    let mut adam = Adam::new(&TrainSettings::default(), &start).expect("an optimizer");
    let after = adam.step(start.clone(), &set, 0.01, 1.0).expect("a step");
    let bytes = file::to_bytes(&adam.moments(&snapshot(&after)), &serde_json::json!({})).expect("a file");
    let read = file::from_bytes::<serde_json::Value>(&bytes);
    assert!(read.is_ok(), "{}", read.err().unwrap_or_default());
}

#[test]
fn huge_gradients_that_are_clipped_move_weights_as_small_ones_do() {
    let start = model(6);
    let small = some(&start, 0);
    // A power of two: the same numbers with another exponent.
    let factor = (2.0_f32).powi(90);
    let huge: Vec<Vec<f32>> = small.iter().map(|all| all.iter().map(|x| x * factor).collect()).collect();
    let moved = |chosen: &[Vec<f32>]| {
        let set = gradients(&start, chosen);
        let mut adam = Adam::new(&TrainSettings::default(), &start).expect("an optimizer");
        numbers(&adam.step(start.clone(), &set, 0.01, 1.0 / set.norm()).expect("a step"))
    };
    assert!(moved(&small) == moved(&huge));
}

#[test]
fn a_scale_is_a_multiplication_of_every_gradient() {
    let start = model(6);
    let scaled = |by: f32, scale: f64| {
        let (mut model, mut adam) =
            (start.clone(), Adam::new(&TrainSettings::default(), &start).expect("an optimizer"));
        for round in 0..3 {
            let chosen: Vec<Vec<f32>> =
                some(&start, round).iter().map(|all| all.iter().map(|x| x * by).collect()).collect();
            let set = gradients(&model, &chosen);
            model = adam.step(model, &set, 0.01, scale).expect("a step");
        }
        (numbers(&model), adam)
    };
    assert!(scaled(0.3, 1.0) == scaled(1.0, f64::from(0.3_f32)));
    assert!(scaled(1.0, 1.0) != scaled(1.0, 0.3));
}

#[test]
fn a_parameter_without_gradient_stays_and_so_do_its_moments() {
    let start = model(6);
    let mut chosen = some(&start, 0);
    chosen[2].clear();
    let set = gradients(&start, &chosen);
    let mut adam = Adam::new(&TrainSettings::default(), &start).expect("an optimizer");
    let after = adam.step(start.clone(), &set, 0.01, 1.0).expect("a step");
    let moments = adam.moments(&snapshot(&after));
    for (place, (before, after)) in numbers(&start).iter().zip(numbers(&after)).enumerate() {
        assert_eq!(before == &after, place == 2, "parameter {place}");
        assert_eq!(moments[place].values.iter().all(|x| *x == 0.0), place == 2, "mean {place}");
    }
}

#[test]
fn saved_moments_go_on_bit_for_bit() {
    let start = model(8);
    let go = |mut model: Model, adam: &mut Adam, rounds: std::ops::Range<usize>| {
        for round in rounds {
            let set = gradients(&model, &some(&start, round));
            model = adam.step(model, &set, 0.01, 0.5).expect("a step");
        }
        model
    };
    let mut whole = Adam::new(&TrainSettings::default(), &start).expect("an optimizer");
    let right = go(start.clone(), &mut whole, 0..12);

    let mut first = Adam::new(&TrainSettings::default(), &start).expect("an optimizer");
    let half = go(start.clone(), &mut first, 0..5);
    let (parameters, mut saved) = (snapshot(&half), first.moments(&snapshot(&half)));
    // A file has them in another order.
    saved.reverse();
    let mut restored =
        Adam::restore(&TrainSettings::default(), first.steps(), &parameters, saved).expect("all moments");
    assert!(restored == first);
    let loaded = model(8).with_parameters(&parameters).expect("all parameters");
    let after = go(loaded, &mut restored, 5..12);
    assert!(numbers(&after) == numbers(&right) && restored == whole);
    assert_eq!(restored.steps(), 12);
}

#[test]
fn moments_that_are_missing_or_of_another_shape_are_named() {
    let model = model(4);
    let (parameters, moments) = (
        snapshot(&model),
        Adam::new(&TrainSettings::default(), &model).expect("an optimizer").moments(&snapshot(&model)),
    );
    for place in [0, moments.len() - 1] {
        let (mut missing, mut turned) = (moments.clone(), moments.clone());
        missing.remove(place);
        turned[place].shape.push(1);
        for saved in [missing, turned] {
            let why = Adam::restore(&TrainSettings::default(), 3, &parameters, saved).expect_err("an error");
            assert!(why.contains(&moments[place].name), "{why}");
        }
    }
}

/// After one update the mean gradient is a tenth of the gradient that Adam was given.
#[test]
fn the_trainer_clips_the_global_norm_to_the_limit() {
    let place = Place::new();
    for (run, clip) in [("tight", "0.001"), ("loose", "1e9"), ("none", "none")] {
        let clip_setting = format!("train.clip={clip}");
        place.ok(&tiny_copy(run, "1", &["--set", &clip_setting, "--set", "train.log_every=1"]));
        let bytes = std::fs::read(checkpoints(&place.path(run)).last().expect("a checkpoint")).expect("readable");
        let content = file::from_bytes::<serde_json::Value>(&bytes).expect("a checkpoint");
        let first = content.parameters.iter().filter(|parameter| parameter.name.starts_with("adam.first."));
        let sum: f64 = first.flat_map(|parameter| &parameter.values).map(|x| f64::from(*x).powi(2)).sum();
        let seen = sum.sqrt() * 10.0;
        let norm = metrics(&place.path(run))
            .iter()
            .find_map(|line| line["gradient_norm"].as_f64())
            .expect("the norm before clipping");
        let right = if run == "tight" { 0.001 } else { norm };
        assert!(norm > 0.01, "{norm}");
        assert!((seen / right - 1.0).abs() < 1e-5, "{run}: {seen} instead of {right}");
    }
}
