//! What the integration tests share: layers from given weights, runs with gradients, comparisons.
#![allow(dead_code)]

use attentive::{ForwardOptions, SabInput, SabLstm, SabLstmConfig, SabOutput, SabState};
use burn::module::Param;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};

/// Numbers without a pattern, in -1..1.
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d)
    }

    pub fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }

    pub fn below(&mut self, n: usize) -> usize {
        (((self.next() + 1.0) / 2.0 * n as f64) as usize).min(n - 1)
    }

    pub fn take(&mut self, len: usize, scale: f64) -> Vec<f64> {
        (0..len).map(|_| self.next() * scale).collect()
    }
}

/// An array of doubles with its shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    pub shape: Vec<usize>,
    pub values: Vec<f64>,
}

impl Array {
    pub fn new(shape: &[usize], values: Vec<f64>) -> Self {
        assert_eq!(shape.iter().product::<usize>(), values.len());
        Self { shape: shape.to_vec(), values }
    }

    pub fn of<const D: usize>(tensor: &Tensor<D>) -> Self {
        Self { shape: tensor.dims().to_vec(), values: tensor.to_data().iter::<f64>().collect() }
    }

    pub fn tensor<const D: usize>(&self, dtype: DType, device: &Device) -> Tensor<D> {
        Tensor::from_data(TensorData::new(self.values.clone(), self.shape.clone()), (device, dtype))
    }

    /// Rows and columns of a matrix exchanged: PyTorch's `[out, in]` to Burn's `[in, out]` and back.
    pub fn transposed(&self) -> Self {
        let [rows, columns] = [self.shape[0], self.shape[1]];
        let values =
            (0..columns).flat_map(|c| (0..rows).map(move |r| r * columns + c)).map(|i| self.values[i]).collect();
        Self { shape: vec![columns, rows], values }
    }

    pub fn bits(&self) -> Vec<u64> {
        self.values.iter().map(|x| x.to_bits()).collect()
    }
}

/// Parameters in Burn's layout.
#[derive(Clone, Debug)]
pub struct Parameters {
    pub weight_ih: Array,
    pub weight_hh: Array,
    pub bias: Array,
    pub w1: Array,
    pub w2: Array,
    pub w3: Array,
}

impl Parameters {
    /// Random ones; the scorer's are large, so that scores lie far apart.
    pub fn random(input: usize, hidden: usize, seed: u64) -> Self {
        let mut numbers = Numbers::new(seed);
        let bound = 1.0 / (hidden as f64).sqrt();
        let mut array = |shape: &[usize], scale: f64| Array::new(shape, numbers.take(shape.iter().product(), scale));
        Self {
            weight_ih: array(&[input, 4 * hidden], 1.0),
            weight_hh: array(&[hidden, 4 * hidden], bound),
            bias: array(&[4 * hidden], bound),
            w1: array(&[hidden, hidden], 2.0 * bound),
            w2: array(&[hidden, hidden], 2.0 * bound),
            w3: array(&[hidden], 1.5),
        }
    }

    pub fn all(&self) -> [(&'static str, &Array); 6] {
        [
            ("weight_ih", &self.weight_ih),
            ("weight_hh", &self.weight_hh),
            ("bias", &self.bias),
            ("w1", &self.w1),
            ("w2", &self.w2),
            ("w3", &self.w3),
        ]
    }

    pub fn all_mut(&mut self) -> [&mut Array; 6] {
        [&mut self.weight_ih, &mut self.weight_hh, &mut self.bias, &mut self.w1, &mut self.w2, &mut self.w3]
    }

    pub fn layer(&self, config: &SabLstmConfig, dtype: DType, device: &Device) -> SabLstm {
        let mut lstm = config.init(device);
        lstm.weight_ih = Param::from_tensor(self.weight_ih.tensor(dtype, device));
        lstm.weight_hh = Param::from_tensor(self.weight_hh.tensor(dtype, device));
        lstm.bias = Param::from_tensor(self.bias.tensor(dtype, device));
        lstm.w1 = Param::from_tensor(self.w1.tensor(dtype, device));
        lstm.w2 = Param::from_tensor(self.w2.tensor(dtype, device));
        lstm.w3 = Param::from_tensor(self.w3.tensor(dtype, device));
        lstm
    }
}

/// Inputs of a test.
#[derive(Clone, Debug)]
pub enum Input {
    Dense(Array),
    Tokens { shape: [usize; 2], tokens: Vec<i64> },
}

impl Input {
    pub fn random(batch: usize, time: usize, input: usize, tokens: bool, seed: u64) -> Self {
        let mut numbers = Numbers::new(seed);
        if tokens {
            let tokens = (0..batch * time).map(|_| numbers.below(input) as i64).collect();
            Input::Tokens { shape: [batch, time], tokens }
        } else {
            Input::Dense(Array::new(&[batch, time, input], numbers.take(batch * time * input, 1.0)))
        }
    }

    pub fn dims(&self) -> (usize, usize) {
        match self {
            Input::Dense(x) => (x.shape[0], x.shape[1]),
            Input::Tokens { shape, .. } => (shape[0], shape[1]),
        }
    }

    /// The input, and its dense tensor marked for a gradient.
    pub fn tensor(&self, dtype: DType, device: &Device) -> (SabInput, Option<Tensor<3>>) {
        match self {
            Input::Dense(x) => {
                let x: Tensor<3> = x.tensor(dtype, device).require_grad();
                (x.clone().into(), Some(x))
            }
            Input::Tokens { shape, tokens } => {
                let data = TensorData::new(tokens.clone(), *shape);
                // Not every GPU has integers of 64 bits.
                let int = if device.supports_dtype(DType::I64) { DType::I64 } else { DType::I32 };
                (Tensor::<2, Int>::from_data(data, (device, int)).into(), None)
            }
        }
    }
}

/// Outputs and gradients of one run.
#[derive(Clone, Debug)]
pub struct Run {
    pub hidden: Array,
    pub summary: Array,
    pub last_hidden: Array,
    pub last_cell: Array,
    pub memory: Array,
    pub steps: Vec<u64>,
    /// By name, in Burn's layout: the parameters, then `x` for a dense input.
    pub gradients: Vec<(&'static str, Array)>,
}

/// Runs forward and backward on the CPU with given adjoints of the outputs.
#[allow(clippy::too_many_arguments)]
pub fn run(
    config: &SabLstmConfig, parameters: &Parameters, input: &Input, state: Option<SabState>, adjoints: [&Array; 2],
    dtype: DType, options: &ForwardOptions,
) -> Run {
    run_on(&Device::flex(), config, parameters, input, state, adjoints, dtype, options)
}

/// [`run`] on any device.
#[allow(clippy::too_many_arguments)]
pub fn run_on(
    device: &Device, config: &SabLstmConfig, parameters: &Parameters, input: &Input, state: Option<SabState>,
    adjoints: [&Array; 2], dtype: DType, options: &ForwardOptions,
) -> Run {
    let device = device.clone().autodiff();
    let lstm = parameters.layer(config, dtype, &device);
    let (x, dense) = input.tensor(dtype, &device);
    let out = lstm.forward_with(x, state, options).expect("a good input");
    let loss = (out.hidden.clone() * adjoints[0].tensor::<3>(dtype, &device)).sum()
        + (out.summary.clone() * adjoints[1].tensor::<3>(dtype, &device)).sum();
    let grads = loss.backward();
    fn gradient<const D: usize>(param: &Tensor<D>, grads: &burn::tensor::Gradients) -> Array {
        param.grad(grads).map_or_else(
            || Array::new(&param.dims(), vec![0.0; param.dims().iter().product()]),
            |gradient| Array::of(&gradient),
        )
    }
    let mut gradients = vec![
        ("weight_ih", gradient(&lstm.weight_ih.val(), &grads)),
        ("weight_hh", gradient(&lstm.weight_hh.val(), &grads)),
        ("bias", gradient(&lstm.bias.val(), &grads)),
        ("w1", gradient(&lstm.w1.val(), &grads)),
        ("w2", gradient(&lstm.w2.val(), &grads)),
        ("w3", gradient(&lstm.w3.val(), &grads)),
    ];
    if let Some(x) = dense {
        gradients.push(("x", gradient(&x, &grads)));
    }
    let SabOutput { hidden, summary, state, .. } = out;
    Run {
        hidden: Array::of(&hidden),
        summary: Array::of(&summary),
        last_hidden: Array::of(&state.hidden()),
        last_cell: Array::of(&state.cell()),
        memory: Array::of(&state.memory()),
        steps: state.steps().to_vec(),
        gradients,
    }
}

fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |m, x| m.max(x.abs()))
}

/// The largest difference, as a part of `scale`.
pub fn difference(got: &Array, right: &Array, scale: f64) -> f64 {
    assert_eq!(got.shape, right.shape);
    let worst = got.values.iter().zip(&right.values).fold(0.0_f64, |worst, (a, b)| {
        let d = (a - b).abs();
        // A NaN must not pass.
        if d.is_nan() { f64::INFINITY } else { worst.max(d) }
    });
    worst / scale
}

/// Outputs within `outputs` of their largest element or of 1; gradients within `gradients` of their largest element,
/// or of the part `floor` of the largest of all: some are zero but for rounding (with `k_top = 1` the weight is always 1).
pub fn compare(got: &Run, right: &Run, outputs: f64, gradients: f64, floor: f64) -> Result<(), String> {
    let pairs = [
        ("hidden", &got.hidden, &right.hidden),
        ("summary", &got.summary, &right.summary),
        ("last hidden", &got.last_hidden, &right.last_hidden),
        ("last cell", &got.last_cell, &right.last_cell),
    ];
    for (name, got, right) in pairs {
        let d = difference(got, right, largest(&right.values).max(1.0));
        if d > outputs {
            return Err(format!("{name} differs by {d:e}"));
        }
    }
    if got.steps != right.steps {
        return Err(format!("steps {:?} instead of {:?}", got.steps, right.steps));
    }
    let floor = right.gradients.iter().map(|(_, g)| largest(&g.values)).fold(0.0, f64::max) * floor;
    for ((name, got), (_, right)) in got.gradients.iter().zip(&right.gradients) {
        let d = difference(got, right, largest(&right.values).max(floor).max(1e-30));
        if d > gradients {
            return Err(format!("the gradient of {name} differs by {d:e} of its largest element"));
        }
    }
    Ok(())
}

/// A state with random contents whose rows have taken these numbers of steps.
pub fn random_state(hidden: usize, steps: &[u64], k_att: usize, seed: u64, dtype: DType) -> SabState {
    let device = Device::flex();
    let mut numbers = Numbers::new(seed);
    let batch = steps.len();
    let slots = steps.iter().map(|s| 1 + (s / k_att as u64) as usize).max().unwrap_or(1);
    let mut data = |shape: &[usize]| {
        let values = numbers.take(shape.iter().product(), 0.8);
        // The same numbers for every type: f32 must hold them exactly.
        let values: Vec<f64> = values.into_iter().map(|x| f64::from(x as f32)).collect();
        TensorData::new(values, shape.to_vec()).convert_dtype(dtype)
    };
    let record = attentive::SabStateRecord {
        hidden: data(&[batch, hidden]),
        cell: data(&[batch, hidden]),
        memory: data(&[batch, slots, hidden]),
        steps: steps.to_vec(),
        k_att,
    };
    SabState::from_record(record, &device).expect("a good record")
}
