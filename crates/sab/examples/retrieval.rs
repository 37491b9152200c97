//! The index over memories against scoring every memory (R19): the same bits, and how much faster.
//!
//! ```text
//! cargo run --release -p attentive-sab --example retrieval -- RUN [--steps T,T,...] [--sequences N] [--threads N]
//!     [--batch N]
//! ```
//!
//! RUN is the run directory of a model with memories. Test sequences of its task, of these lengths, run once in each
//! way, without autodiff. The model stores every state. `ratio` is the time of scoring every memory divided by that of
//! the index. Prints one line of JSON per length.
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use attentive::{ForwardOptions, Retrieval};
use burn::tensor::{Device, Int, Tensor, TensorData};
use sab::models::Model;
use sab::run_dir::{RunDir, load_model};
use sab::tasks::{Input, Split};
use std::error::Error;
use std::path::Path;
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    attentive::keep_freed_memory();
    let mut arguments = std::env::args().skip(1);
    let run = arguments.next().ok_or("give the run directory of a model")?;
    let (mut steps, mut sequences, mut batch, mut call) = (vec![20_000], 2, 1, ForwardOptions::new());
    while let Some(argument) = arguments.next() {
        let value = arguments.next().ok_or(format!("{argument} needs a value"))?;
        match argument.as_str() {
            "--steps" => steps = value.split(',').map(str::parse).collect::<std::result::Result<Vec<usize>, _>>()?,
            "--sequences" => sequences = value.parse()?,
            "--batch" => batch = value.parse()?,
            "--threads" => call = call.with_threads(value.parse()?),
            other => return Err(format!("there is no option {other}").into()),
        }
    }
    let device = Device::flex();
    let (_, model, _) = load_model(Path::new(&run), &device)?;
    let experiment = RunDir::open(Path::new(&run))?.experiment()?;
    let Model::Sab(model) = model else { return Err("the model has no memories".into()) };
    for steps in steps {
        let task = experiment.task.clone().with_length(steps)?.with_test_sequences(sequences);
        let task = sab::tasks::open(&task, &experiment.data_dir)?;
        let (mut seconds, mut memories) = ([0.0, 0.0], 0);
        for first in (0..sequences).step_by(batch) {
            let found = task.held_out_sequences(Split::Test, first..(first + batch).min(sequences));
            let shape = [found.rows, found.steps];
            let mut right: Option<Vec<f32>> = None;
            for (way, seconds) in [Retrieval::Auto, Retrieval::Exhaustive].into_iter().zip(&mut seconds) {
                let options = call.with_retrieval(way);
                let began = Instant::now();
                let out = match &found.input {
                    Input::Tokens(tokens) => {
                        let tokens = TensorData::new(tokens.clone(), shape);
                        model.lstm.forward_with(Tensor::<2, Int>::from_data(tokens, &device), None, &options)?
                    }
                    Input::Dense { width, values } => {
                        let x = TensorData::new(values.clone(), [shape[0], shape[1], *width]);
                        model.lstm.forward_with(Tensor::<3>::from_data(x, &device), None, &options)?
                    }
                };
                *seconds += began.elapsed().as_secs_f64();
                memories = out.state.slots(0) - 1;
                let hidden = out.hidden.to_data().try_to_vec::<f32>().map_err(|why| format!("{why:?}"))?;
                match right.take() {
                    None => right = Some(hidden),
                    Some(right) if right.iter().zip(&hidden).all(|(a, b)| a.to_bits() == b.to_bits()) => {}
                    Some(_) => return Err(format!("the hidden states differ at {steps} steps").into()),
                }
            }
        }
        println!(
            "{{\"steps\": {steps}, \"sequences\": {sequences}, \"memories\": {memories}, \"index_s\": {:.3}, \
             \"exhaustive_s\": {:.3}, \"ratio\": {:.2}}}",
            seconds[0],
            seconds[1],
            seconds[1] / seconds[0]
        );
    }
    Ok(())
}
