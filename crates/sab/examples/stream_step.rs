//! The time of one step of a stream: a trained copy model waits while its memory grows.
//!
//! ```text
//! cargo run --release -p attentive-sab --example stream_step -- RUN [MEMORIES ...]
//! ```
//!
//! RUN is a run directory of the copy task. For each number of memories the program hands the model ten digits and so
//! many blanks that the memory has that size, and then times single steps of the layer, one row, with the state carried
//! on. Every round starts from a copy of the same state.
//! Prints one line of JSON per number: the median and the best round.
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use attentive::{ForwardOptions, SabState};
use burn::tensor::{Device, Int, Tensor, TensorData};
use sab::models::Model;
use std::error::Error;
use std::path::Path;
use std::time::Instant;

/// Steps per round, and rounds.
const STEPS: usize = 100;
const ROUNDS: usize = 31;
/// Steps of a call while the memory grows.
const STRETCH: usize = 4096;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let run = args.next().ok_or("give the run directory of a copy model")?;
    let mut memories: Vec<usize> = args.map(|count| count.parse()).collect::<Result<_, _>>()?;
    if memories.is_empty() {
        memories = vec![64, 1000, 10_000, 100_000];
    }
    let device = Device::flex();
    let (_, model, _) = sab::run_dir::load_model(Path::new(&run), &device)?;
    let Model::Sab(model) = model else { return Err("the model is a Transformer".into()) };
    let options = ForwardOptions::new().with_threads(1);
    let blank = Tensor::<1, Int>::from_data(TensorData::new(vec![0_i32], [1]), &device);
    for memories in memories {
        let steps = memories * model.lstm.config().k_att;
        let digits = (0..10).map(|place| 1 + (place * 3 % 8));
        let tokens: Vec<i32> = digits.chain(std::iter::repeat(0)).take(steps).collect();
        let mut state: Option<SabState> = None;
        for stretch in tokens.chunks(STRETCH) {
            let tokens = TensorData::new(stretch.to_vec(), [1, stretch.len()]);
            let out = model.lstm.forward_with(Tensor::<2, Int>::from_data(tokens, &device), state, &options)?;
            state = Some(out.state);
        }
        let mut rounds = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            // The first step makes room for those that follow, as one step in many does.
            let mut state = model.lstm.step_with(blank.clone(), state.clone(), &options)?.state;
            let began = Instant::now();
            for _ in 0..STEPS {
                state = model.lstm.step_with(blank.clone(), Some(state), &options)?.state;
            }
            rounds.push(began.elapsed().as_secs_f64() / STEPS as f64 * 1e6);
        }
        rounds.sort_unstable_by(f64::total_cmp);
        let (best, median) = (rounds[0], rounds[ROUNDS / 2]);
        println!("{{\"memories\": {memories}, \"microseconds\": {median:.2}, \"best_round\": {best:.2}}}");
    }
    Ok(())
}
