//! A SAB-LSTM inside a larger Burn model, trained with Burn's own Adam, saved and loaded.
//!
//! ```text
//! cargo run --release -p attentive --example in_a_model
//! ```
//!
//! The model consists of an embedding, a [`SabLstm`] and a linear layer. It sees a name (one of four symbols), then
//! twenty symbols of noise, and must repeat the name. The sequential gradient runs only three steps back, so only a
//! reminder can carry credit from the last step to the first. Without reminders (`k_top` 0) the same model stays at one
//! in four. It prints:
//!
//! ```text
//! with reminders:
//!   update  50  loss 0.000
//!   update 100  loss 0.000
//!   update 150  loss 0.000
//!   accuracy 100.0 %
//! without reminders:
//!   update  50  loss 1.384
//!   update 100  loss 1.406
//!   update 150  loss 1.385
//!   accuracy 23.8 %
//! saved and loaded: the same outputs, bit for bit
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use attentive::{ForwardOptions, SabLstm, SabLstmConfig};
use burn::grad_clipping::GradientClippingConfig;
use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Device, Int, Tensor, TensorData};
use std::error::Error;

const NAMES: usize = 4;
const SYMBOLS: usize = 10;
const STEPS: usize = 21;
const BATCH: usize = 32;

#[derive(Module, Debug)]
struct Recall {
    embedding: Embedding,
    lstm: SabLstm,
    head: Linear,
}

impl Recall {
    fn new(k_top: usize, device: &Device) -> attentive::Result<Self> {
        // Burn has one random number generator per process. Its own layers draw from it at their first use.
        device.seed(1);
        Ok(Self {
            embedding: EmbeddingConfig::new(SYMBOLS, 16).init(device),
            lstm: SabLstmConfig::new(16, 32).with_k_top(k_top).with_k_trunc(3).try_init(device)?,
            head: LinearConfig::new(32, NAMES).init(device),
        })
    }

    /// Maps symbols, `[batch, time]`, to scores of the names, `[batch, NAMES]`. The random truncation phase is drawn
    /// from `update` (R9), so that training can be repeated.
    fn forward(&self, symbols: Tensor<2, Int>, update: u64) -> attentive::Result<Tensor<2>> {
        let embedded = self.embedding.forward(symbols); // [batch, time, 16]
        let out = self.lstm.forward_with(embedded, None, &ForwardOptions::new().with_batch(1, update))?;
        let last = out.hidden.narrow(1, STEPS - 1, 1).squeeze_dim::<2>(1); // [batch, 32]
        Ok(self.head.forward(last))
    }
}

/// The batch of one update: sequences of a name and noise, and the names.
fn batch(number: u64, device: &Device) -> (Tensor<2, Int>, Tensor<1, Int>) {
    let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut below = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    };
    let (mut symbols, mut names) = (Vec::new(), Vec::new());
    for _ in 0..BATCH {
        let name = below(NAMES) as i32;
        names.push(name);
        symbols.push(name);
        symbols.extend((1..STEPS).map(|_| (NAMES + below(SYMBOLS - NAMES)) as i32));
    }
    let symbols = Tensor::from_data(TensorData::new(symbols, [BATCH, STEPS]), device);
    (symbols, Tensor::from_data(TensorData::new(names, [BATCH]), device))
}

fn train(mut model: Recall, updates: u64, device: &Device) -> attentive::Result<Recall> {
    let loss_of = CrossEntropyLossConfig::new().init(device);
    let mut adam = AdamConfig::new().with_grad_clipping(Some(GradientClippingConfig::Norm(1.0))).init();
    for update in 0..updates {
        let (symbols, names) = batch(update, device);
        let loss = loss_of.forward(model.forward(symbols, update)?, names);
        if update % 50 == 49 {
            println!("  update {:>3}  loss {:.3}", update + 1, loss.clone().into_scalar::<f32>());
        }
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = adam.step(5e-3, model, gradients);
    }
    Ok(model)
}

/// The fraction of correct names in ten batches that were not used for training.
fn accuracy(model: &Recall, device: &Device) -> attentive::Result<f64> {
    let mut right = 0;
    for number in 0..10 {
        let (symbols, names) = batch(1_000_000 + number, device);
        let said = model.forward(symbols, 0)?.argmax(1).squeeze_dim::<1>(1);
        right += said.equal(names).int().sum().into_scalar::<i32>();
    }
    Ok(f64::from(right) / (10 * BATCH) as f64)
}

/// Trains with and without reminders, saves the model and loads it.
pub fn run() -> Result<(), Box<dyn Error>> {
    attentive::keep_freed_memory();
    let training = Device::flex().autodiff();
    let device = Device::flex();

    println!("with reminders:");
    let model = train(Recall::new(3, &training)?, 150, &training)?.valid();
    let with = accuracy(&model, &device)?;
    println!("  accuracy {:.1} %", 100.0 * with);

    println!("without reminders:");
    let without = accuracy(&train(Recall::new(0, &training)?, 150, &training)?.valid(), &device)?;
    println!("  accuracy {:.1} %", 100.0 * without);
    assert!(with > 0.9 && without < 0.5, "{with} and {without}");

    // The file holds the parameters. The program itself must know the configuration.
    let file = std::env::temp_dir().join(format!("in_a_model-{}.bpk", std::process::id()));
    model.clone().save_file(&file)?;
    let loaded = Recall::new(3, &device)?.try_load_file(&file)?;
    let (symbols, _) = batch(7, &device);
    assert_eq!(loaded.forward(symbols.clone(), 0)?.to_data(), model.forward(symbols, 0)?.to_data());
    println!("saved and loaded: the same outputs, bit for bit");
    // Delete the file only now: Burn reads a parameter from it at its first use.
    std::fs::remove_file(&file)?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    run()
}
