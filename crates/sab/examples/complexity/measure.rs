//! One point, measured in this process.

use super::Result;
use super::case::{CLASSES, Case, LossOn, SYMBOLS, Settings};
use attentive::{ForwardOptions, SabInput};
use burn::tensor::{Device, Tensor, TensorData};
use sab::device::DeviceName;
use sab::models::{SabModel, loss};
use sab::rng::{Draws, Purpose};
use sab::run_dir::bytes_of_proc;
use sab::tasks::{Answers, Asked, Batch, Input};
use serde::{Deserialize, Serialize};
use std::time::Instant;

const SEED: u64 = 1;

/// Time and memory of one point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Milliseconds of the forward pass as in training: with its tape, the readout and the loss. The best round.
    pub forward_ms: f64,
    /// Milliseconds of the backward pass. The best round.
    pub backward_ms: f64,
    /// Peak memory of the process beyond what it used before its first batch. `None` where the system does not tell.
    pub peak_bytes: Option<u64>,
    /// Pairs of a row and a step that a gradient reached, of `batch * length`.
    pub reached: usize,
    /// Measured rounds; fewer than asked for if time ran short.
    pub rounds: usize,
}

/// Measures a point. Rounds end early so that everything fits into `seconds` if possible; at least one is measured.
pub fn measure(case: Case, settings: Settings, seconds: f64) -> Result<Measurement> {
    let began = Instant::now();
    let device = DeviceName::Cpu.open()?.autodiff();
    device.seed(SEED);
    let model = SabModel::new(&case.model.config(settings.hidden), CLASSES, &device)?;
    let batch = batch(case, settings.batch);
    let options = ForwardOptions::new().with_threads(settings.threads).with_batch(SEED, 0);
    let before = memory("self", "VmRSS");

    let (mut forward_ms, mut backward_ms) = (f64::INFINITY, f64::INFINITY);
    let mut rounds = 0;
    // The first round allocates its memory and does not count.
    for round in 0..=settings.rounds {
        let start = Instant::now();
        let loss = loss(model.answer(&batch, &options, &device)?, &batch, &device)?;
        let forward = start.elapsed().as_secs_f64();
        let gradients = loss.backward();
        let both = start.elapsed().as_secs_f64();
        drop(gradients);
        if round > 0 {
            forward_ms = forward_ms.min(forward * 1e3);
            backward_ms = backward_ms.min((both - forward) * 1e3);
            rounds += 1;
        }
        // Leaves time for another round and for the count below.
        if rounds > 0 && began.elapsed().as_secs_f64() + 2.5 * both > seconds {
            break;
        }
    }
    let peak_bytes = memory("self", "VmHWM").zip(before).map(|(peak, before)| peak.saturating_sub(before));
    let reached = reached(&model, case, &batch, &options, &device)?;
    Ok(Measurement { forward_ms, backward_ms, peak_bytes, reached, rounds })
}

/// Bytes of memory of a process, where the system tells it.
pub fn memory(process: &str, key: &str) -> Option<u64> {
    bytes_of_proc(&format!("/proc/{process}/status"), key)
}

/// Random symbols and random answers.
fn batch(case: Case, rows: usize) -> Batch {
    let steps = case.length;
    let mut draws = Draws::new(Purpose::Training, SEED, steps as u64);
    let tokens = (0..rows * steps).map(|_| draws.below(SYMBOLS) as i32).collect();
    let (asked, answers) = match case.loss {
        LossOn::All => (Asked::From(0), rows * steps),
        LossOn::Last => (Asked::From(steps - 1), rows),
    };
    let answers = Answers::Classes((0..answers).map(|_| draws.below(CLASSES) as i32).collect());
    Batch { rows, steps, input: Input::Tokens(tokens), asked, answers }
}

/// Counts the rows and steps whose gradient is not zero. The engine does not tell which steps it visited, but the
/// gradient of a dense input does: it is the gradient of the step, times the input weights.
fn reached(model: &SabModel, case: Case, batch: &Batch, options: &ForwardOptions, device: &Device) -> Result<usize> {
    let Input::Tokens(tokens) = &batch.input else { return Ok(0) };
    let mut one_hot = vec![0.0_f32; tokens.len() * SYMBOLS];
    for (step, token) in one_hot.chunks_mut(SYMBOLS).zip(tokens) {
        step[*token as usize] = 1.0;
    }
    let shape = [batch.rows, batch.steps, SYMBOLS];
    let input = Tensor::<3>::from_data(TensorData::new(one_hot, shape), device).require_grad();
    let out = model.lstm.forward_with(SabInput::Dense(input.clone()), None, options)?;
    let answers = match case.loss {
        LossOn::All => model.readout.read(&out)?.flatten(0, 1),
        LossOn::Last => model.readout.read_last(&out)?,
    };
    let gradients = loss(answers, batch, device)?.backward();
    let gradient = input.grad(&gradients).ok_or("the input has no gradient")?.into_data();
    let numbers = gradient.as_slice::<f32>().map_err(|why| format!("the gradient cannot be read: {why:?}"))?;
    Ok(numbers.chunks(SYMBOLS).filter(|step| step.iter().any(|number| *number != 0.0)).count())
}
