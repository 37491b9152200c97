//! With full score gradients, all hops and nothing cut the backward pass is the exact derivative of Algorithm 1: here it
//! is held to finite differences of the forward pass, every element of every parameter and of the input.

mod common;

use attentive::{ForwardOptions, Hops, KTop, Path, SabLstmConfig, SabState, ScoreGradient};
use burn::tensor::{DType, Device};
use common::{Array, Input, Numbers, Parameters, difference, random_state, run};

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
    fn new(k_top: KTop, k_att: usize, tokens: bool, carried: bool) -> Self {
        let config = SabLstmConfig::new(INPUT, HIDDEN)
            .with_k_top(k_top)
            .with_k_att(k_att)
            .with_k_trunc(None)
            .with_score_gradient(ScoreGradient::Full)
            .with_hops(Hops::All);
        let mut numbers = Numbers::new(1);
        let mut adjoint = || Array::new(&[BATCH, TIME, HIDDEN], numbers.take(BATCH * TIME * HIDDEN, 1.0));
        Self {
            parameters: Parameters::random(INPUT, HIDDEN, 2),
            input: Input::random(BATCH, TIME, INPUT, tokens, 3),
            steps: carried.then(|| vec![5, 0, 2]),
            adjoints: [adjoint(), adjoint()],
            config,
        }
    }

    fn state(&self, dtype: DType) -> Option<SabState> {
        self.steps.as_ref().map(|steps| random_state(HIDDEN, steps, self.config.k_att, 4, dtype))
    }

    fn gradients(&self, dtype: DType, path: Path) -> Vec<(&'static str, Array)> {
        let [d_hidden, d_summary] = &self.adjoints;
        let options = ForwardOptions::new().with_path(path);
        let state = self.state(dtype);
        run(&self.config, &self.parameters, &self.input, state, [d_hidden, d_summary], dtype, &options).gradients
    }

    /// The loss that [`run`] takes the gradient of.
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
        let mut all: Vec<&mut Array> = self.parameters.all_mut().into();
        if let Input::Dense(x) = &mut self.input {
            all.push(x);
        }
        all
    }

    /// Central differences of the loss by every element, extrapolated from two widths.
    fn differences(&mut self) -> Vec<Array> {
        const WIDTH: f64 = 1e-4;
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

/// The largest difference, as a part of the largest element of the right gradient; a gradient of nothing is not a test.
fn check(what: &str, got: &[(&'static str, Array)], right: &[Array], tolerance: f64) {
    assert_eq!(got.len(), right.len());
    for ((name, got), right) in got.iter().zip(right) {
        let largest = right.values.iter().fold(0.0, |m: f64, d| m.max(d.abs()));
        assert!(largest > 1e-3, "{what}: {name} has no gradient");
        let d = difference(got, right, largest);
        assert!(d < tolerance, "{what}: the gradient of {name} differs by {d:e} of its largest element");
    }
}

/// Portable in `f64` and fused in `f32` against finite differences.
fn check_case(k_top: KTop, k_att: usize, tokens: bool, carried: bool) {
    let mut case = Case::new(k_top, k_att, tokens, carried);
    let right = case.differences();
    let name = format!("{k_top:?}, k_att {k_att}, tokens {tokens}, carried {carried}");
    check(&format!("portable, {name}"), &case.gradients(DType::F64, Path::Portable), &right, 1e-7);
    check(&format!("fused, {name}"), &case.gradients(DType::F32, Path::Fused), &right, 1e-4);
}

fn check_all(k_top: KTop) {
    for (k_att, tokens, carried) in [(1, false, false), (2, true, false), (2, false, true), (1, true, true)] {
        check_case(k_top, k_att, tokens, carried);
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
