//! With full score gradients, all hops and no truncation, the backward pass is the exact derivative of Algorithm 1 for
//! all parts. These tests compare it with finite differences of the forward pass, for every element of every parameter
//! and of the input. Decisions about storing and evicting do not change within the differences, so they need no
//! derivative.

mod common;

use attentive::{ForwardOptions, Hops, KTop, Path, SabLstmConfig, SabState, ScoreGradient, Sparsifier};
use burn::tensor::{DType, Device};
use common::{Array, Input, Numbers, Parameters, difference, parts, random_state_for, run};

const INPUT: usize = 3;
const HIDDEN: usize = 4;
const BATCH: usize = 3;
const TIME: usize = 9;

struct Case {
    config: SabLstmConfig,
    parameters: Parameters,
    input: Input,
    steps: Option<Vec<u64>>,
    adjoints: [Array; 2],
}

impl Case {
    fn new(config: &SabLstmConfig, tokens: bool, carried: bool) -> Self {
        // If scores nearly tie, `f32` cannot determine the derivative. Take the first case in which it can.
        let stable = |case: &Self| {
            let [single, double] = [DType::F32, DType::F64].map(|dtype| case.gradients(dtype, Path::Portable));
            single
                .iter()
                .zip(&double)
                .all(|((_, got), (_, right))| difference(got, right, largest(right).max(1e-3)) < 1e-5)
        };
        (2..60).map(|seed| Self::drawn(config, tokens, carried, seed)).find(stable).expect("a case that f32 can follow")
    }

    fn drawn(config: &SabLstmConfig, tokens: bool, carried: bool, seed: u64) -> Self {
        let mut numbers = Numbers::new(1);
        let mut adjoint = || Array::new(&[BATCH, TIME, HIDDEN], numbers.take(BATCH * TIME * HIDDEN, 1.0));
        Self {
            parameters: Parameters::random_for(config, seed),
            input: Input::random(BATCH, TIME, INPUT, tokens, 3),
            steps: carried.then(|| vec![5, 0, 2]),
            adjoints: [adjoint(), adjoint()],
            config: config.clone(),
        }
    }

    fn state(&self, dtype: DType) -> Option<SabState> {
        self.steps.as_ref().map(|steps| random_state_for(&self.config, steps, 4, dtype))
    }

    fn gradients(&self, dtype: DType, path: Path) -> Vec<(&'static str, Array)> {
        let [d_hidden, d_summary] = &self.adjoints;
        let options = ForwardOptions::new().with_path(path);
        let state = self.state(dtype);
        run(&self.config, &self.parameters, &self.input, state, [d_hidden, d_summary], dtype, &options).gradients
    }

    /// The loss whose gradient [`run`] computes.
    fn loss(&self) -> f64 {
        let device = Device::flex();
        let lstm = self.parameters.layer(&self.config, DType::F64, &device);
        let input = match &self.input {
            Input::Dense(x) => x.tensor::<3>(DType::F64, &device).into(),
            Input::Tokens { .. } => self.input.tensor(DType::F64, &device).0,
        };
        let options = ForwardOptions::new().with_path(Path::Portable);
        let out = lstm.forward_with(input, self.state(DType::F64), &options).expect("a good input");
        let outputs = [Array::of(&out.hidden), Array::of(&out.summary)];
        let products = |(out, d): (&Array, &Array)| out.values.iter().zip(&d.values).map(|(x, d)| x * d).sum::<f64>();
        outputs.iter().zip(&self.adjoints).map(products).sum()
    }

    /// The arrays that have a gradient, in the order of [`Case::gradients`].
    fn variables(&mut self) -> Vec<&mut Array> {
        let mut all: Vec<&mut Array> = self.parameters.all_mut();
        if let Input::Dense(x) = &mut self.input {
            all.push(x);
        }
        all
    }

    /// Central differences of the loss for every element, extrapolated from two widths.
    fn differences(&mut self) -> Vec<Array> {
        const WIDTH: f64 = 3e-5;
        let shapes: Vec<Vec<usize>> = self.variables().iter().map(|array| array.shape.clone()).collect();
        let mut slope = |array: usize, element: usize, width: f64| {
            let value = self.variables()[array].values[element];
            let [up, down] = [value + width, value - width].map(|moved| {
                self.variables()[array].values[element] = moved;
                self.loss()
            });
            self.variables()[array].values[element] = value;
            (up - down) / (2.0 * width)
        };
        let mut derivative = |array: usize, element: usize| {
            (4.0 * slope(array, element, WIDTH / 2.0) - slope(array, element, WIDTH)) / 3.0
        };
        let all = shapes.into_iter().enumerate().map(|(array, shape)| {
            let len = shape.iter().product();
            Array::new(&shape, (0..len).map(|element| derivative(array, element)).collect())
        });
        all.collect()
    }
}

fn largest(array: &Array) -> f64 {
    array.values.iter().fold(0.0, |m: f64, x| m.max(x.abs()))
}

/// The largest difference, relative to the largest element of the expected gradient, which must not be all zero.
fn check(what: &str, got: &[(&'static str, Array)], right: &[Array], scale_matters: bool, tolerance: f64) {
    assert_eq!(got.len(), right.len());
    for ((name, got), right) in got.iter().zip(right) {
        let largest = match *name {
            "temperature" if !scale_matters => largest(right).max(1.0),
            _ => largest(right),
        };
        assert!(largest > 1e-3, "{what}: {name} has no gradient");
        let d = difference(got, right, largest);
        assert!(d < tolerance, "{what}: the gradient of {name} differs by {d:e} of its largest element");
    }
}

/// The model whose gradient is that of Algorithm 1.
fn exact(k_top: KTop) -> SabLstmConfig {
    let config = SabLstmConfig::new(INPUT, HIDDEN).with_k_top(k_top).with_k_trunc(None);
    config.with_score_gradient(ScoreGradient::Full).with_hops(Hops::All)
}

/// Portable in `f64` and fused in `f32` against finite differences.
fn check_case(name: &str, config: &SabLstmConfig, tokens: bool, carried: bool) {
    let mut case = Case::new(config, tokens, carried);
    let right = case.differences();
    let name = format!("{name}, {:?}, k_att {}, tokens {tokens}, carried {carried}", config.k_top, config.k_att);
    // If more memories than k_top compete by prominence, a common factor of all scores changes nothing.
    let scale_matters = config.sparsifier == Sparsifier::Softmax || config.k_top == KTop::All;
    let check =
        |what: &str, got: &[_], tolerance| check(&format!("{what}, {name}"), got, &right, scale_matters, tolerance);
    check("portable", &case.gradients(DType::F64, Path::Portable), 1e-7);
    check("fused", &case.gradients(DType::F32, Path::Fused), 1e-4);
}

fn check_all(k_top: KTop) {
    for (k_att, tokens, carried) in [(1, false, false), (2, true, false), (2, false, true), (1, true, true)] {
        check_case("the default parts", &exact(k_top).with_k_att(k_att), tokens, carried);
    }
}

#[test]
fn r10_gradients_are_exact_through_the_sparsifier_and_its_threshold() {
    check_all(KTop::Count(2));
}

#[test]
fn r10_gradients_are_exact_through_full_attention() {
    check_all(KTop::All);
}

#[test]
fn r10_gradients_are_exact_where_memories_are_fewer_than_k_top() {
    check_all(KTop::Count(50));
}

#[test]
fn r10_gradients_are_exact_where_memories_become_more_than_k_top() {
    check_all(KTop::Count(4));
}

#[test]
fn r15_to_r18_gradients_are_exact_with_every_part() {
    for k_top in [KTop::Count(2), KTop::All] {
        for (name, config) in parts::each_part(&exact(k_top)).into_iter().skip(1) {
            check_case(&name, &config, false, false);
            check_case(&name, &config, true, true);
        }
    }
}

#[test]
fn r15_to_r18_gradients_are_exact_with_every_pair_of_parts() {
    for (name, config) in parts::each_pair(&exact(KTop::Count(2))) {
        check_case(&name, &config, false, true);
    }
}
