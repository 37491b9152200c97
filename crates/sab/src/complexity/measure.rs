//! One point, measured in this process.

use super::case::{CLASSES, Case, LossOn, SYMBOLS, Settings};
use super::memory;
use crate::device::cpu;
use crate::error::{LabError, Result};
use crate::models::{SabModel, loss, numbers};
use crate::rng::{Draws, Purpose};
use crate::tasks::{Answers, Asked, Batch, Input};
use attentive::{ForwardOptions, SabInput};
use burn::tensor::{Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};
use std::time::Instant;

const SEED: u64 = 1;

/// What one point takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Milliseconds of the forward pass as in training: with its tape, the readout and the loss. The best round.
    pub forward_ms: f64,
    /// Milliseconds of the backward pass. The best round.
    pub backward_ms: f64,
    /// The most bytes that the process had in memory, beyond what it had before its first batch. `None` where the system
    /// does not tell.
    pub peak_bytes: Option<u64>,
    /// Pairs of a row and a step that a gradient reached, of `batch * length`.
    pub reached: usize,
    /// Rounds that were measured; fewer than were asked for where time ran short.
    pub rounds: usize,
}

/// Measures a point. Rounds end early so that all is done within `seconds` if possible; one is measured in any case.
pub fn measure(case: Case, settings: Settings, seconds: f64) -> Result<Measurement> {
    let began = Instant::now();
    let device = cpu().autodiff();
    device.seed(SEED);
    let model = SabModel::new(&case.model.config(settings.hidden), CLASSES, &device)?;
    let batch = batch(case, settings.batch);
    let options = ForwardOptions::new().with_threads(settings.threads).with_batch(SEED, 0);
    let before = memory::resident_here();

    let (mut forward_ms, mut backward_ms) = (f64::INFINITY, f64::INFINITY);
    let mut rounds = 0;
    // The first round finds its memory and does not count.
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
        // Another round and the count below must have time.
        if rounds > 0 && began.elapsed().as_secs_f64() + 2.5 * both > seconds {
            break;
        }
    }
    let peak_bytes = memory::peak_here().zip(before).map(|(peak, before)| peak.saturating_sub(before));
    let reached = reached(&model, case, &batch, &options, &device)?;
    Ok(Measurement { forward_ms, backward_ms, peak_bytes, reached, rounds })
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

/// Counts the rows and steps whose gradient is not zero. The engine does not tell which it visited, but the gradient of a
/// dense input does: it is the step's own, times the input weights.
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
    let gradient = input.grad(&gradients).ok_or_else(|| LabError::Run("the input has no gradient".into()))?;
    Ok(numbers(gradient)?.chunks(SYMBOLS).filter(|step| step.iter().any(|number| *number != 0.0)).count())
}

#[cfg(test)]
mod tests {
    use super::super::case::Subject;
    use super::*;

    fn reached(model: Subject, loss: LossOn, length: usize) -> usize {
        let settings = Settings { hidden: 8, batch: 2, rounds: 1, threads: 1 };
        let measured = measure(Case { model, loss, length }, settings, 60.0).expect("measured");
        assert!(measured.forward_ms > 0.0 && measured.backward_ms > 0.0 && measured.rounds == 1);
        measured.reached
    }

    #[test]
    fn a_loss_on_every_step_reaches_every_step_and_one_on_the_last_what_the_rules_allow() {
        for model in Subject::ALL {
            assert_eq!(reached(model, LossOn::All, 40), 80, "{model:?}");
        }
        // Nothing is cut: all steps, also many of them (a gradient that fades to zero would be cheaper).
        assert_eq!(reached(Subject::Lstm, LossOn::Last, 5000), 10_000);
        assert_eq!(reached(Subject::SelfAttention, LossOn::Last, 500), 1000);
        // With every tenth state stored there are at most 10 segments of 5 steps in 103, and the last one.
        let sparse = reached(Subject::SabSparse, LossOn::Last, 103);
        assert!((3..=2 * (10 * 5 + 3)).contains(&sparse), "{sparse}");
    }

    #[test]
    fn rounds_end_when_time_does() {
        let settings = Settings { hidden: 8, batch: 1, rounds: 1000, threads: 1 };
        let case = Case { model: Subject::Sab, loss: LossOn::All, length: 20 };
        assert_eq!(measure(case, settings, 0.0).expect("measured").rounds, 1);
    }
}
