//! A model that PyTorch has written, run here: the way back from `oracle/exchange.py`.
//!
//! ```text
//! cargo run --release --example from_pytorch [FOLDER]
//! ```
//!
//! FOLDER holds `model.safetensors` and `config.json` as `sab` writes them; without one it is a golden of the
//! repository, which the PyTorch program in `oracle/` has made, together with inputs and the outputs that PyTorch
//! computes for them. A folder of `python oracle/exchange.py write FOLDER` holds the same. For the golden it prints:
//!
//! ```text
//! Tokens(7) to Classes(5), 1385 parameters
//! 3 sequences of 25 steps: outputs [75, 5]
//! the largest difference from PyTorch is 1.5e-6
//! ```
#![allow(clippy::print_stdout, reason = "an example says what it finds")]

use attentive::ForwardOptions;
use burn::tensor::Device;
use sab::run_dir::load_model;
use sab::tasks::{Answers, Asked, Batch, Input};
use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use std::error::Error;
use std::path::{Path, PathBuf};

fn floats(tensor: &TensorView) -> Vec<f32> {
    tensor.data().chunks_exact(4).map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]])).collect()
}

/// Runs the folder's example and gives the largest difference from PyTorch's outputs.
pub fn run(folder: &Path) -> Result<f32, Box<dyn Error>> {
    let device = Device::flex();
    let (config, model, _) = load_model(folder, &device)?;
    println!("{:?} to {:?}, {} parameters", config.input, config.output, model.size());

    let bytes = std::fs::read(folder.join("example.safetensors"))?;
    let example = SafeTensors::deserialize(&bytes)?;
    let (input, shape) = match example.tensor("tokens") {
        Ok(tokens) => {
            let numbers = tokens.data().chunks_exact(8).map(|eight| eight[0].into()); // 64 bits each, all below 256 here
            (Input::Tokens(numbers.collect()), tokens.shape().to_vec())
        }
        Err(_) => {
            let dense = example.tensor("dense")?;
            (Input::Dense { width: dense.shape()[2], values: floats(&dense) }, dense.shape().to_vec())
        }
    };
    // The outputs of every step from the first on; nobody knows the right answers here.
    let (asked, answers) = (Asked::From(0), Answers::Unknown);
    let batch = Batch { rows: shape[0], steps: shape[1], input, asked, answers };
    let outputs = model.answer(&batch, &ForwardOptions::new(), &device)?; // [rows * steps, outputs]
    println!("{} sequences of {} steps: outputs {:?}", batch.rows, batch.steps, outputs.dims());

    let (ours, theirs) = (outputs.into_data().try_to_vec::<f32>()?, floats(&example.tensor("outputs")?));
    assert_eq!(ours.len(), theirs.len());
    let most = ours.iter().zip(&theirs).map(|(ours, theirs)| (ours - theirs).abs()).fold(0.0, f32::max);
    println!("the largest difference from PyTorch is {most:.1e}");
    assert!(most < 1e-4);
    Ok(most)
}

/// The folder to run without an argument.
pub fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../oracle/goldens/model")
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&std::env::args().nth(1).map_or_else(golden, PathBuf::from)).map(|_| ())
}
