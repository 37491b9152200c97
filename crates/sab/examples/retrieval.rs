//! The index over memories against scoring every memory (R19): the same bits, and how much faster.
//!
//! ```text
//! cargo run --release -p attentive-sab --example retrieval -- RUN [--steps T,T,...] [--sequences N] [--threads N]
//!     [--repeats N]
//! ```
//!
//! RUN is the run directory of a model with memories. Test sequences of its task, of these lengths, run in each way,
//! without autodiff. `ratio` is the time of scoring every memory divided by that of the index, each the best of
//! `--repeats`. Prints one line of JSON per length.
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use attentive::{ForwardOptions, Retrieval, SabOutput};
use burn::tensor::{Device, Int, Tensor, TensorData};
use sab::models::{Model, SabModel};
use sab::run_dir::{RunDir, load_model};
use sab::tasks::{Batch, Input, Split};
use std::error::Error;
use std::path::Path;
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    attentive::keep_freed_memory();
    let mut arguments = std::env::args().skip(1);
    let run = arguments.next().ok_or("give the run directory of a model")?;
    let (mut steps, mut sequences, mut repeats, mut call) = (vec![20_000], 2, 1, ForwardOptions::new());
    while let Some(argument) = arguments.next() {
        let value = arguments.next().ok_or(format!("{argument} needs a value"))?;
        match argument.as_str() {
            "--steps" => steps = value.split(',').map(str::parse).collect::<std::result::Result<Vec<usize>, _>>()?,
            "--sequences" => sequences = value.parse()?,
            "--repeats" => repeats = value.parse()?,
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
        for sequence in 0..sequences {
            let found = task.held_out_sequences(Split::Test, sequence..sequence + 1);
            let (mut best, mut right) = ([f64::INFINITY; 2], None::<Vec<f32>>);
            for _ in 0..repeats {
                for (way, best) in [Retrieval::Auto, Retrieval::Exhaustive].into_iter().zip(&mut best) {
                    let options = call.with_retrieval(way);
                    let began = Instant::now();
                    let out = forward(&model, &found, &options, &device)?;
                    *best = best.min(began.elapsed().as_secs_f64());
                    memories = out.state.slots(0) - 1;
                    let hidden = out.hidden.to_data().try_to_vec::<f32>().map_err(|why| format!("{why:?}"))?;
                    let right = right.get_or_insert_with(|| hidden.clone());
                    if !right.iter().zip(&hidden).all(|(a, b)| a.to_bits() == b.to_bits()) {
                        return Err(format!("the hidden states differ at {steps} steps").into());
                    }
                }
            }
            seconds.iter_mut().zip(best).for_each(|(sum, best)| *sum += best);
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

fn forward(model: &SabModel, batch: &Batch, options: &ForwardOptions, device: &Device) -> Result<SabOutput> {
    let shape = [batch.rows, batch.steps];
    Ok(match &batch.input {
        Input::Tokens(tokens) => {
            let tokens = Tensor::<2, Int>::from_data(TensorData::new(tokens.clone(), shape), device);
            model.lstm.forward_with(tokens, None, options)?
        }
        Input::Dense { width, values } => {
            let x = TensorData::new(values.clone(), [shape[0], shape[1], *width]);
            model.lstm.forward_with(Tensor::<3>::from_data(x, device), None, options)?
        }
    })
}
