//! Shared by the integration tests: layers from given weights, runs with gradients, comparisons.
#![allow(dead_code)]

pub mod parts;

use attentive::{Cell, Evict, ForwardOptions, Parameter, SabInput, SabLstm, SabLstmConfig, SabOutput, SabState, Store};
use attentive_engine::Drift;
use burn::module::Param;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};

/// Pseudorandom numbers in -1..1.
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

    /// The transpose of a matrix: PyTorch's `[out, in]` to Burn's `[in, out]` and back.
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

/// Parameters in Burn's layout, by name, in the order of the layer's declaration.
#[derive(Clone, Debug)]
pub struct Parameters(pub Vec<(&'static str, Array)>);

impl Parameters {
    /// Random parameters of a layer with the default parts. The scorer's are large, so that scores lie far apart.
    pub fn random(input: usize, hidden: usize, seed: u64) -> Self {
        Self::random_for(&SabLstmConfig::new(input, hidden), seed)
    }

    /// Random parameters of any layer.
    pub fn random_for(config: &SabLstmConfig, seed: u64) -> Self {
        let mut numbers = Numbers::new(seed);
        let bound = 1.0 / (config.hidden as f64).sqrt();
        let mut array = |parameter: &Parameter| {
            let scale = match parameter.name {
                "weight_ih" => 1.0,
                "weight_hh" | "bias" => bound,
                "w1" | "w2" => 2.0 * bound,
                _ => 1.5,
            };
            let mut values = numbers.take(parameter.len(), scale);
            if parameter.name == "temperature" {
                // Far from 0, where all scores would be equal.
                values.iter_mut().for_each(|value| *value += 3.0);
            }
            (parameter.name, Array::new(&parameter.shape, values))
        };
        Self(config.init(&Device::flex()).declared().iter().map(&mut array).collect())
    }

    pub fn all_mut(&mut self) -> Vec<&mut Array> {
        self.0.iter_mut().map(|(_, array)| array).collect()
    }

    pub fn layer(&self, config: &SabLstmConfig, dtype: DType, device: &Device) -> SabLstm {
        let mut lstm = config.init(device);
        for (name, array) in &self.0 {
            match array.shape.len() {
                2 => lstm.set_matrix(name, Param::from_tensor(array.tensor(dtype, device))),
                _ => lstm.set_vector(name, Param::from_tensor(array.tensor(dtype, device))),
            }
            .expect("a parameter of the layer");
        }
        lstm
    }
}

impl std::ops::Index<&str> for Parameters {
    type Output = Array;

    fn index(&self, name: &str) -> &Array {
        &self.0.iter().find(|(own, _)| *own == name).expect("a parameter of that name").1
    }
}

impl std::ops::IndexMut<&str> for Parameters {
    fn index_mut(&mut self, name: &str) -> &mut Array {
        &mut self.0.iter_mut().find(|(own, _)| *own == name).expect("a parameter of that name").1
    }
}

/// The gradient of every parameter of a layer, by name; zeros where it has none.
pub fn gradients_of(lstm: &SabLstm, grads: &burn::tensor::Gradients) -> Vec<(&'static str, Array)> {
    fn gradient<const D: usize>(param: &Tensor<D>, grads: &burn::tensor::Gradients) -> Array {
        param.grad(grads).map_or_else(
            || Array::new(&param.dims(), vec![0.0; param.dims().iter().product()]),
            |gradient| Array::of(&gradient),
        )
    }
    let of = |parameter: &Parameter| match (lstm.matrix(parameter.name), lstm.vector(parameter.name)) {
        (Some(param), _) => (parameter.name, gradient(&param.val(), grads)),
        (_, Some(param)) => (parameter.name, gradient(&param.val(), grads)),
        _ => unreachable!("a declared parameter"),
    };
    lstm.declared().iter().map(of).collect()
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
    pub slot_steps: Vec<Vec<u64>>,
    pub received: Vec<Vec<f32>>,
    /// By name, in Burn's layout: the parameters, then `x` for a dense input.
    pub gradients: Vec<(&'static str, Array)>,
    /// Of the memories of earlier calls that were replayed (R21).
    pub drift: Option<Drift>,
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
    let mut gradients = gradients_of(&lstm, &grads);
    if let Some(x) = dense {
        let gradient = x.grad(&grads).map_or_else(|| Array::of(&x.zeros_like()), |gradient| Array::of(&gradient));
        gradients.push(("x", gradient));
    }
    let SabOutput { hidden, summary, state, drift, .. } = out;
    Run {
        hidden: Array::of(&hidden),
        summary: Array::of(&summary),
        last_hidden: Array::of(&state.hidden()),
        last_cell: state.cell().map_or_else(|| Array::new(&[0], Vec::new()), |cell| Array::of(&cell)),
        memory: Array::of(&state.memory()),
        steps: state.steps(),
        slot_steps: (0..state.batch()).map(|row| state.slot_steps(row).to_vec()).collect(),
        received: (0..state.batch()).map(|row| state.received(row).to_vec()).collect(),
        gradients,
        drift: drift.get(),
    }
}

fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |m, x| m.max(x.abs()))
}

/// The largest difference, relative to `scale`.
pub fn difference(got: &Array, right: &Array, scale: f64) -> f64 {
    assert_eq!(got.shape, right.shape);
    let worst = got.values.iter().zip(&right.values).fold(0.0_f64, |worst, (a, b)| {
        let d = (a - b).abs();
        // A NaN must not pass.
        if d.is_nan() { f64::INFINITY } else { worst.max(d) }
    });
    worst / scale
}

/// Asserts that outputs agree within `outputs` times their largest element or 1, and gradients within `gradients` times
/// their largest element or `floor` times the largest element of all gradients. Some gradients are zero except for
/// rounding (with `k_top = 1` the weight is always 1).
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
    if got.slot_steps != right.slot_steps {
        return Err(format!("memories of the steps {:?} instead of {:?}", got.slot_steps, right.slot_steps));
    }
    // Sums in single precision, whatever type the layer computes in.
    let near = |(a, b): (&f32, &f32)| f64::from((a - b).abs()) <= (10.0 * outputs).max(1e-5);
    for (got, right) in got.received.iter().zip(&right.received) {
        if got.len() != right.len() || !got.iter().zip(right).all(near) {
            return Err(format!("memories have received {got:?} instead of {right:?}"));
        }
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

/// A state with random contents whose rows have taken these numbers of steps, for a layer with the default parts.
pub fn random_state(hidden: usize, steps: &[u64], k_att: usize, seed: u64, dtype: DType) -> SabState {
    random_state_for(&SabLstmConfig::new(1, hidden).with_k_att(k_att), steps, seed, dtype)
}

/// The same for any layer, with memories and received weights that its store could have left.
pub fn random_state_for(config: &SabLstmConfig, steps: &[u64], seed: u64, dtype: DType) -> SabState {
    let (batch, hidden, k_att) = (steps.len(), config.hidden, config.k_att);
    let mut choices = Numbers::new(seed + 1);
    let mut slots_of = |steps: u64| -> Vec<u64> {
        let mut slots: Vec<u64> = (0..=steps / k_att as u64).map(|slot| slot * k_att as u64).collect();
        if config.store == Store::Novelty {
            slots.retain(|step| *step == 0 || choices.below(3) > 0);
        }
        while config.capacity.is_some_and(|capacity| slots.len() > capacity + 1) {
            match config.evict {
                Evict::Oldest => slots.remove(1),
                Evict::LeastAttended => slots.remove(1 + choices.below(slots.len() - 1)),
            };
        }
        slots
    };
    let slot_steps: Vec<Vec<u64>> = steps.iter().map(|steps| slots_of(*steps)).collect();
    let mut received_by = |slots: &Vec<u64>| slots.iter().map(|_| 0.5 + 0.5 * choices.next() as f32).collect();
    let counted = config.capacity.is_some() && config.evict == Evict::LeastAttended;
    let received = if counted { slot_steps.iter().map(&mut received_by).collect() } else { Vec::new() };
    let room = slot_steps.iter().map(Vec::len).max().unwrap_or(1);
    let mut numbers = Numbers::new(seed);
    let mut data = |shape: &[usize]| {
        let values = numbers.take(shape.iter().product(), 0.8);
        // The same numbers for every type: f32 must hold them exactly.
        let values: Vec<f64> = values.into_iter().map(|x| f64::from(x as f32)).collect();
        TensorData::new(values, shape.to_vec()).convert_dtype(dtype)
    };
    let record = attentive::SabStateRecord {
        hidden: data(&[batch, hidden]),
        cell: (config.cell == Cell::Lstm).then(|| data(&[batch, hidden])),
        memory: data(&[batch, room, hidden]),
        steps: steps.to_vec(),
        k_att,
        slot_steps,
        received,
        segments: None,
    };
    SabState::from_record(record, &Device::flex()).expect("a good record")
}
