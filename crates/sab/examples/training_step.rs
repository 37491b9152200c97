//! One full training step, timed: forward, cross-entropy, backward, global clip, Adam, as `sab train` does it.
//! `oracle/compare.py` runs it beside the same step in PyTorch.
//!
//! ```text
//! cargo run --release --example training_step -- CASE [--threads N] [--repeats N]
//! ```
//!
//! Prints one line of JSON for each case, like `oracle/peer.py`. CASE is copy100, copy300, lstm100, last784, chars,
//! all, or `limit`: what the machine's arithmetic units can do at most, in GFLOP/s, or `portable`: the portable path
//! at 100, 200 and 400 steps.
#![allow(clippy::print_stdout)]

use attentive::{ForwardOptions, KTop, KTrunc, Path, SabLstmConfig, arithmetic_limit};
use burn::tensor::Device;
use sab::experiment::TrainSettings;
use sab::models::{Model, SabModel};
use sab::tasks::{Answers, Asked, Batch, Input};
use sab::train::{Adam, Learner};
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
    /// Floating-point operations of the products of one step with all rows active: the recurrent weights, W1 and W2,
    /// forward and backward. Inputs, readout and everything else are left out.
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

/// Times of the portable path, whole and for each pair of a step and a memory. What it computes grows with the steps
/// (the products) and with the pairs (the scores of all memories): if the time of a pair does not grow with the
/// length, time grows no faster than the arithmetic.
fn portable(threads: usize, repeats: usize) -> Result<(), Box<dyn Error>> {
    for steps in [100, 200, 400] {
        let config = SabLstmConfig::new(10, 128).with_trunc_phase(0);
        let name = "portable";
        let case = Case { name, config, classes: 9, batch: 8, steps, tokens: true, loss_on_last_step: false };
        let mut step = Step::new(&case, ForwardOptions::new().with_threads(threads).with_path(Path::Portable))?;
        let mut best = f64::INFINITY;
        for _ in 0..repeats.max(1) {
            let start = Instant::now();
            step.run()?;
            best = best.min(start.elapsed().as_secs_f64() * 1e3);
        }
        // Step t sees the null slot and the t states before it.
        let pairs = case.batch * steps * (steps + 1) / 2;
        let of_pair = best * 1e3 / pairs as f64;
        println!(
            "{{\"case\": \"{name}\", \"steps\": {steps}, \"best\": {best:.1}, \"pairs\": {pairs}, \
             \"microseconds_per_pair\": {of_pair:.2}}}"
        );
    }
    Ok(())
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

/// A case's model and the batch that it learns again and again.
struct Step {
    learner: Learner,
    batch: Batch,
    options: ForwardOptions,
}

impl Step {
    fn new(case: &Case, options: ForwardOptions) -> Result<Self, Box<dyn Error>> {
        let device = Device::flex().autodiff();
        device.seed(1);
        let mut state = 7_u32;
        let mut draw = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % below
        };
        let (rows, steps, width) = (case.batch, case.steps, case.config.input);
        let input = if case.tokens {
            Input::Tokens((0..rows * steps).map(|_| draw(width as u32) as i32).collect())
        } else {
            let number = |_| draw(1 << 16) as f32 / (1 << 15) as f32 - 1.0;
            Input::Dense { width, values: (0..rows * steps * width).map(number).collect() }
        };
        let asked = Asked::From(if case.loss_on_last_step { steps - 1 } else { 0 });
        let mut batch = Batch { rows, steps, input, asked, answers: Answers::Unknown };
        let answers = batch.answer_count();
        batch.answers = Answers::Classes((0..answers).map(|_| draw(case.classes as u32) as i32).collect());
        let model = Model::Sab(SabModel::new(&case.config, case.classes, &device)?);
        let adam = Adam::new(&TrainSettings::default(), &model)?;
        Ok(Self { learner: Learner { model, adam, clip: Some(LARGEST_NORM), device }, batch, options })
    }

    fn run(&mut self) -> Result<f64, Box<dyn Error>> {
        let learned = self.learner.learn(&self.batch, &self.options, LEARNING_RATE, None)?;
        Ok(learned.ok_or("the loss or the gradient is not a finite number")?.loss)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    attentive::keep_freed_memory();
    let mut arguments = std::env::args().skip(1);
    let (mut wanted, mut threads, mut repeats) = ("all".to_string(), 2, 10_usize);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--threads" => threads = arguments.next().ok_or("--threads needs a number")?.parse()?,
            "--repeats" => repeats = arguments.next().ok_or("--repeats needs a number")?.parse()?,
            other => wanted = other.to_string(),
        }
    }
    if wanted == "limit" {
        let mut metrics = arithmetic_limit(threads, repeats.max(1));
        metrics.sort_by(f64::total_cmp);
        let (median, best) = (metrics[metrics.len() / 2], metrics[metrics.len() - 1]);
        println!("{{\"limit\": \"GFLOP/s\", \"threads\": {threads}, \"best\": {best:.1}, \"median\": {median:.1}}}");
        return Ok(());
    }
    if wanted == "portable" {
        return portable(threads, repeats);
    }
    let mut found = false;
    for case in cases().into_iter().filter(|case| wanted == "all" || wanted == case.name) {
        found = true;
        let mut step = Step::new(&case, ForwardOptions::new().with_threads(threads))?;
        let mut times = Vec::new();
        let (mut first_loss, mut last_loss) = (None, 0.0);
        for repeat in 0..repeats + 2 {
            let start = Instant::now();
            last_loss = step.run()?;
            let milliseconds = start.elapsed().as_secs_f64() * 1e3;
            first_loss.get_or_insert(last_loss);
            if repeat >= 2 {
                times.push(milliseconds);
            }
        }
        times.sort_by(f64::total_cmp);
        let (best, median) = (times[0], times[times.len() / 2]);
        let name = case.name;
        println!(
            "{{\"case\": \"{name}\", \"threads\": {threads}, \"best\": {best:.3}, \"median\": {median:.3}, \"repeats\": \
             {repeats}, \"gflop\": {:.3}, \"first_loss\": {:.6}, \"last_loss\": {last_loss:.6}}}",
            case.gflop(),
            first_loss.unwrap_or(f64::NAN)
        );
    }
    if found {
        Ok(())
    } else {
        Err(format!("there is no case `{wanted}`: copy100, copy300, lstm100, last784, chars, all, limit or portable")
            .into())
    }
}
