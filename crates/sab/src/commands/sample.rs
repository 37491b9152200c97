//! `sab sample`

use super::print;
use crate::device::DeviceName;
use crate::error::{LabError, Result};
use crate::models::numbers;
use crate::rng::{Draws, Purpose};
use crate::run_dir::load_model;
use burn::tensor::{Int, Tensor};
use clap::Args;
use std::path::PathBuf;

/// Generate text with a language model
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  sab sample runs/text --prompt \"Once upon a time\" --length 300 --temperature 0.7")]
pub struct SampleArguments {
    /// A run directory or model folder
    run: PathBuf,

    /// The beginning of the text
    #[arg(long, default_value = "")]
    prompt: String,

    /// Number of characters to generate
    #[arg(long, default_value_t = 200, value_name = "CHARACTERS")]
    length: usize,

    /// Below 1 is more cautious, above 1 more daring; 0 always takes the most likely character
    #[arg(long, default_value_t = 1.0, value_name = "T", allow_negative_numbers = true)]
    temperature: f64,

    /// The seed of the random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// The device to run the model on
    #[arg(long, value_enum, value_name = "DEVICE", default_value = "cpu")]
    device: DeviceName,
}

pub(super) fn run(arguments: &SampleArguments) -> Result<()> {
    if !(arguments.temperature >= 0.0 && arguments.temperature.is_finite()) {
        return Err(LabError::Config(format!(
            "`--temperature` is {}: expected a number, 0 or more",
            arguments.temperature
        )));
    }
    let device = arguments.device.open()?;
    let (config, model, _) = load_model(&arguments.run, &device)?;
    let Some(alphabet) = config.facts.alphabet else {
        return Err(LabError::Config(format!(
            "the model learned `{}`: only a model of text can generate text",
            config.task
        )));
    };
    let model = model.recurrent()?;
    let prompt = alphabet.encode(&arguments.prompt).map_err(|why| {
        let known: String = alphabet.symbols().iter().take(100).collect();
        LabError::Config(format!("`--prompt`: {why}: {known:?}"))
    })?;
    let mut draws = Draws::new(Purpose::Sampling, arguments.seed, 0);
    // Without a prompt the text begins with a character drawn from all.
    let (mut waiting, length) = match (prompt.is_empty(), arguments.length) {
        (true, 0) => return Ok(()),
        (true, length) => (vec![draws.below(alphabet.len()) as u16], length - 1),
        (false, length) => (prompt, length),
    };
    print(&alphabet.decode(&waiting))?;
    let mut state = None;
    for _ in 0..length {
        let mut scores = Vec::new();
        for symbol in waiting.drain(..) {
            let token = Tensor::<1, Int>::from_ints([i32::from(symbol)], &device);
            let out = model.lstm.step(token, state.take())?;
            scores = numbers(model.readout.forward(out.hidden, out.summary)?)?;
            state = Some(out.state);
        }
        let next = choose(&scores, arguments.temperature, &mut draws);
        print(&alphabet.decode(&[next]))?;
        waiting.push(next);
    }
    print("\n")
}

/// A symbol drawn from the softmax of `scores / temperature`.
fn choose(scores: &[f32], temperature: f64, draws: &mut Draws) -> u16 {
    let best = (0..scores.len()).fold(0, |best, place| if scores[place] > scores[best] { place } else { best });
    if temperature == 0.0 || scores.is_empty() {
        return best as u16;
    }
    let weight = |score: &f32| ((f64::from(*score) - f64::from(scores[best])) / temperature).exp();
    let mut left = f64::from(draws.fraction()) * scores.iter().map(weight).sum::<f64>();
    for (symbol, score) in scores.iter().enumerate() {
        left -= weight(score);
        if left < 0.0 {
            return symbol as u16;
        }
    }
    best as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_follow_the_softmax_and_the_temperature() {
        let scores = [0.0, 1.0, 3.0_f32];
        let mut draws = Draws::new(Purpose::Sampling, 1, 0);
        let mut share = |temperature: f64| {
            let hits = (0..4000).filter(|_| choose(&scores, temperature, &mut draws) == 2).count();
            hits as f64 / 4000.0
        };
        let expected = |temperature: f64| 1.0 / (1.0 + (-2.0 / temperature).exp() + (-3.0 / temperature).exp());
        for temperature in [0.5, 1.0, 3.0] {
            assert!((share(temperature) - expected(temperature)).abs() < 0.03, "{temperature}");
        }
        assert_eq!(share(0.0), 1.0);
    }
}
