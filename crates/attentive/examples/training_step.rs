//! One full training step, timed: forward, cross-entropy, backward, global clip, Adam. `oracle/compare.py` runs it beside
//! the same step in PyTorch.
//!
//! ```text
//! cargo run --release -p attentive --example training_step -- CASE [--threads N] [--repeats N] [--phases]
//! ```
//!
//! Prints one line of JSON for each case, like `oracle/peer.py`. CASE is copy100, copy300, lstm100, last784, chars, all, or
//! `limit`: what the machine's arithmetic units can do at most, in GFLOP/s.
#![allow(clippy::print_stdout)]

use attentive::{
    ForwardOptions, KTop, KTrunc, SabInput, SabLstm, SabLstmConfig, SabReadout, SabReadoutConfig, arithmetic_limit,
    cross_entropy,
};
use burn::backend::Flex;
use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Int, Tensor, TensorData};
use std::error::Error;
use std::time::Instant;

const LEARNING_RATE: f64 = 1e-3;
const LARGEST_NORM: f64 = 1.0;

struct Case {
    name: &'static str,
    config: SabLstmConfig,
    classes: usize,
    batch: usize,
    steps: usize,
    tokens: bool,
    loss_on_last_step: bool,
}

impl Case {
    /// Floating-point operations of the products of one step with all rows active: the recurrent weights, W1 and W2, forward
    /// and backward. Inputs, readout and everything else are left out.
    fn gflop(&self) -> f64 {
        let hidden = self.config.hidden as f64;
        let (gates, square) = (4.0 * hidden * hidden, hidden * hidden);
        let attends = self.config.k_top != KTop::Count(0);
        let attention = if attends { square + square / self.config.k_att as f64 } else { 0.0 };
        let handed_down = match self.config.k_trunc {
            KTrunc::None => 1.0,
            KTrunc::Every(steps) => 1.0 - 1.0 / steps as f64,
        };
        let multiply_adds = 2.0 * (gates + attention) + handed_down * gates;
        2.0 * multiply_adds * (self.batch * self.steps) as f64 / 1e9
    }
}

fn cases() -> Vec<Case> {
    let sab = |input, hidden, k_trunc: usize, k_top: usize, k_att| {
        SabLstmConfig::new(input, hidden).with_k_trunc(k_trunc).with_k_top(k_top).with_k_att(k_att).with_trunc_phase(0)
    };
    let copy = |name, steps| Case {
        name,
        config: sab(10, 128, 5, 5, 2),
        classes: 9,
        batch: 64,
        steps,
        tokens: true,
        loss_on_last_step: false,
    };
    vec![
        copy("copy100", 120),
        copy("copy300", 320),
        Case { config: SabLstmConfig::new(10, 128).with_k_top(0).with_k_trunc(None), ..copy("lstm100", 120) },
        Case {
            name: "last784",
            config: sab(1, 128, 50, 10, 50),
            classes: 10,
            batch: 64,
            steps: 784,
            tokens: false,
            loss_on_last_step: true,
        },
        Case { config: sab(50, 1000, 20, 10, 20), classes: 50, batch: 32, ..copy("chars", 100) },
    ]
}

#[derive(Module, Debug)]
struct Model {
    lstm: SabLstm,
    readout: SabReadout,
}

/// Adds up the squares of all gradients in f64, so that a large one cannot overflow.
struct SquaredNorm<'a> {
    gradients: &'a GradientsParams,
    sum: f64,
}

impl ModuleVisitor for SquaredNorm<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.get::<D>(param.id) {
            // The primitive lends its memory; `into_data` would copy it.
            let primitive = gradient.try_into_primitive::<Flex>().ok();
            self.sum += primitive.as_ref().and_then(|p| p.as_slice::<f32>()).map_or(f64::NAN, sum_of_squares);
        }
    }
}

fn sum_of_squares(values: &[f32]) -> f64 {
    // Eight sums at a time, so that the compiler can use vectors.
    let add = |mut sums: [f32; 8], x: &[f32]| {
        sums.iter_mut().zip(x).for_each(|(sum, x)| *sum += x * x);
        sums
    };
    values
        .chunks(1024)
        .map(|chunk| chunk.chunks(8).fold([0.0; 8], add).iter().map(|x| f64::from(*x)).sum::<f64>())
        .sum()
}

struct Scale<'a> {
    gradients: &'a mut GradientsParams,
    factor: f64,
}

impl ModuleVisitor for Scale<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.remove::<D>(param.id) {
            self.gradients.register::<D>(param.id, gradient * self.factor);
        }
    }
}

struct Step {
    model: Option<Model>,
    optimizer: ModuleOptimizer,
    input: SabInput,
    targets: Tensor<1, Int>,
    options: ForwardOptions,
    phases: [f64; 4],
}

impl Step {
    fn new(case: &Case, options: ForwardOptions) -> Self {
        let device = Device::flex().autodiff();
        device.seed(1);
        let hidden = case.config.hidden;
        let model = Model {
            lstm: case.config.init(&device),
            readout: SabReadoutConfig::new(hidden, case.classes).init(&device),
        };
        let mut state = 7_u32;
        let mut draw = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % below
        };
        let (batch, steps) = (case.batch, case.steps);
        let input = if case.tokens {
            let tokens: Vec<i32> = (0..batch * steps).map(|_| draw(case.config.input as u32) as i32).collect();
            SabInput::Tokens(Tensor::from_data(TensorData::new(tokens, [batch, steps]), &device))
        } else {
            let len = batch * steps * case.config.input;
            let values: Vec<f32> = (0..len).map(|_| draw(1 << 16) as f32 / (1 << 15) as f32 - 1.0).collect();
            SabInput::Dense(Tensor::from_data(TensorData::new(values, [batch, steps, case.config.input]), &device))
        };
        let answers = if case.loss_on_last_step { 1 } else { steps };
        let targets: Vec<i32> = (0..batch * answers).map(|_| draw(case.classes as u32) as i32).collect();
        let targets = Tensor::from_data(TensorData::new(targets, [batch * answers]), &device);
        let optimizer = AdamConfig::new().with_epsilon(1e-8).init();
        Self { model: Some(model), optimizer, input, targets, options, phases: [0.0; 4] }
    }

    fn run(&mut self) -> Result<f32, Box<dyn Error>> {
        let model = self.model.take().ok_or("the model is there between steps")?;
        let mut clock = Instant::now();
        let mut lap = |phase: &mut f64| {
            *phase = clock.elapsed().as_secs_f64() * 1e3;
            clock = Instant::now();
        };
        let out = model.lstm.forward_with(self.input.clone(), None, &self.options)?;
        lap(&mut self.phases[0]);
        let [batch, steps, _] = out.hidden.dims();
        let y = if self.targets.dims()[0] == batch * steps {
            model.readout.read(&out)?.flatten::<2>(0, 1)
        } else {
            model.readout.read_last(&out)?
        };
        let loss = cross_entropy(y, self.targets.clone(), None)?;
        lap(&mut self.phases[1]);
        let gradients = loss.backward();
        lap(&mut self.phases[2]);
        let mut gradients = GradientsParams::from_grads(gradients, &model);
        let mut squared = SquaredNorm { gradients: &gradients, sum: 0.0 };
        model.visit(&mut squared);
        let norm = squared.sum.sqrt();
        if norm > LARGEST_NORM {
            model.visit(&mut Scale { gradients: &mut gradients, factor: LARGEST_NORM / norm });
        }
        self.model = Some(self.optimizer.step(LEARNING_RATE, model, gradients));
        lap(&mut self.phases[3]);
        Ok(loss.into_scalar::<f32>())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    attentive::keep_freed_memory();
    let mut arguments = std::env::args().skip(1);
    let (mut wanted, mut threads, mut repeats, mut phases) = ("all".to_string(), 2, 10_usize, false);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--threads" => threads = arguments.next().ok_or("--threads needs a number")?.parse()?,
            "--repeats" => repeats = arguments.next().ok_or("--repeats needs a number")?.parse()?,
            "--phases" => phases = true,
            other => wanted = other.to_string(),
        }
    }
    if wanted == "limit" {
        let mut figures = arithmetic_limit(threads, repeats.max(1));
        figures.sort_by(f64::total_cmp);
        let (median, best) = (figures[figures.len() / 2], figures[figures.len() - 1]);
        println!("{{\"limit\": \"GFLOP/s\", \"threads\": {threads}, \"best\": {best:.1}, \"median\": {median:.1}}}");
        return Ok(());
    }
    let mut found = false;
    for case in cases().into_iter().filter(|case| wanted == "all" || wanted == case.name) {
        found = true;
        let mut step = Step::new(&case, ForwardOptions::new().with_threads(threads));
        let mut times = Vec::new();
        let mut best_phases = [f64::INFINITY; 4];
        let (mut first_loss, mut last_loss) = (None, 0.0);
        for repeat in 0..repeats + 2 {
            let start = Instant::now();
            last_loss = step.run()?;
            let milliseconds = start.elapsed().as_secs_f64() * 1e3;
            first_loss.get_or_insert(last_loss);
            if repeat >= 2 {
                times.push(milliseconds);
                best_phases.iter_mut().zip(step.phases).for_each(|(best, phase)| *best = best.min(phase));
            }
        }
        times.sort_by(f64::total_cmp);
        let (best, median) = (times[0], times[times.len() / 2]);
        let name = case.name;
        println!(
            "{{\"case\": \"{name}\", \"threads\": {threads}, \"best\": {best:.3}, \"median\": {median:.3}, \"repeats\": \
             {repeats}, \"gflop\": {:.3}, \"first_loss\": {:.6}, \"last_loss\": {last_loss:.6}}}",
            case.gflop(),
            first_loss.unwrap_or(f32::NAN)
        );
        if phases {
            let [forward, loss, backward, update] = best_phases;
            eprintln!("  forward {forward:.2}, loss {loss:.2}, backward {backward:.2}, clip and Adam {update:.2} ms");
        }
    }
    if found {
        Ok(())
    } else {
        Err(format!("there is no case `{wanted}`: copy100, copy300, lstm100, last784, chars, all or limit").into())
    }
}
