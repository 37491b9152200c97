//! One training step through a long copy sequence, timed: a trained copy model, beside a plain LSTM of the same size.
//!
//! ```text
//! cargo run --release -p attentive-sab --example long_step -- RUN [--steps T,T,...] [--rows N] [--every K]
//!     [--replay auto|never|always] [--last-ten] [--threads N] [--repeats N]
//! ```
//!
//! RUN is a run directory of the copy task. The step is forward, cross-entropy on all steps as in training,
//! backward, clip, Adam with a learning rate of 0. With `--last-ten` the loss is on the digits alone, the LSTM is left
//! out, and forward and backward are timed separately. Every K-th state is stored, whatever the model was trained
//! with. Prints one line of JSON per length.
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use attentive::{ForwardOptions, KTop, KTrunc, Replay, SabLstmConfig, cross_entropy};
use burn::tensor::{Device, Int, Tensor, TensorData};
use sab::experiment::TrainSettings;
use sab::models::{Model, SabModel};
use sab::run_dir::load_model;
use sab::tasks::copy::Copy;
use sab::tasks::{Input, Task};
use sab::train::{Adam, Learner};
use std::error::Error;
use std::path::Path;
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

struct Options {
    run: String,
    steps: Vec<usize>,
    rows: usize,
    every: usize,
    last_ten: bool,
    repeats: usize,
    call: ForwardOptions,
}

impl Options {
    fn of_command_line() -> Result<Self> {
        let mut arguments = std::env::args().skip(1);
        let mut options = Self {
            run: arguments.next().ok_or("give the run directory of a copy model")?,
            steps: vec![2000, 5000, 20_000],
            rows: 4,
            every: 1,
            last_ten: false,
            repeats: 3,
            call: ForwardOptions::new().with_batch(1, 0),
        };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "--steps" => {
                    options.steps = value()?.split(',').map(str::parse).collect::<std::result::Result<_, _>>()?
                }
                "--rows" => options.rows = value()?.parse()?,
                "--every" => options.every = value()?.parse()?,
                "--threads" => options.call = options.call.with_threads(value()?.parse()?),
                "--repeats" => options.repeats = value()?.parse()?,
                "--last-ten" => options.last_ten = true,
                "--replay" => {
                    options.call = options.call.with_replay(match value()?.as_str() {
                        "auto" => Replay::Auto,
                        "never" => Replay::Never,
                        "always" => Replay::Always,
                        other => return Err(format!("--replay is auto, never or always, not {other}").into()),
                    });
                }
                other => return Err(format!("there is no option {other}").into()),
            }
        }
        Ok(options)
    }
}

/// A model of another configuration with the parameters of a trained one.
fn with_config(model: &SabModel, config: &SabLstmConfig, device: &Device) -> Result<SabModel> {
    let mut changed = SabModel::new(config, 9, device)?;
    for declared in model.lstm.declared() {
        if let Some(matrix) = model.lstm.matrix(declared.name) {
            let id = changed.lstm.matrix(declared.name).ok_or("another parameter")?.id;
            let value = Tensor::from_data(matrix.val().to_data(), device).require_grad();
            changed.lstm.set_matrix(declared.name, burn::module::Param::initialized(id, value))?;
        } else if let Some(vector) = model.lstm.vector(declared.name) {
            let id = changed.lstm.vector(declared.name).ok_or("another parameter")?.id;
            let value = Tensor::from_data(vector.val().to_data(), device).require_grad();
            changed.lstm.set_vector(declared.name, burn::module::Param::initialized(id, value))?;
        }
    }
    Ok(changed)
}

/// The best of some repeats, in milliseconds.
fn best(repeats: usize, mut body: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..repeats.max(1) {
        let began = Instant::now();
        body()?;
        best = best.min(began.elapsed().as_secs_f64() * 1e3);
    }
    Ok(best)
}

/// The largest resident memory of the process so far, in MiB.
fn peak_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok()).map_or(f64::NAN, |kib| kib / 1024.0)
}

fn main() -> Result<()> {
    attentive::keep_freed_memory();
    let options = Options::of_command_line()?;
    let device = Device::flex().autodiff();
    let (_, model, _) = load_model(Path::new(&options.run), &Device::flex())?;
    let Model::Sab(trained) = model else { return Err("the model is a Transformer".into()) };
    let config = trained.lstm.config().clone().with_k_att(options.every);
    let sab = with_config(&trained, &config, &device)?;
    let plain = with_config(&trained, &config.clone().with_k_top(KTop::Count(0)).with_k_trunc(KTrunc::None), &device)?;
    for steps in &options.steps {
        let task = Copy { length: *steps, ..Copy::default() };
        let batch = task.training_batch(1, 0, options.rows);
        if options.last_ten {
            last_ten(&sab, &batch, &options, &device)?;
            continue;
        }
        let time = |model: &SabModel| -> Result<f64> {
            let model = Model::Sab(model.clone());
            let adam = Adam::new(&TrainSettings::default(), &model)?;
            let mut learner = Learner { model, adam, clip: Some(1.0), device: device.clone() };
            best(options.repeats, || {
                learner.learn(&batch, &options.call, 0.0, None)?.ok_or("the loss is not a finite number")?;
                Ok(())
            })
        };
        let (of_sab, of_lstm) = (time(&sab)?, time(&plain)?);
        println!(
            "{{\"steps\": {steps}, \"rows\": {}, \"sab_ms\": {of_sab:.1}, \"lstm_ms\": {of_lstm:.1}, \"ratio\": {:.2}, \
             \"peak_mib\": {:.0}}}",
            options.rows,
            of_sab / of_lstm,
            peak_memory()
        );
    }
    Ok(())
}

/// Forward and backward with the loss on the last ten steps.
fn last_ten(model: &SabModel, batch: &sab::tasks::Batch, options: &Options, device: &Device) -> Result<()> {
    const DIGITS: usize = 10;
    let Input::Tokens(tokens) = &batch.input else { return Err("copy sequences are tokens".into()) };
    let sab::tasks::Answers::Classes(answers) = &batch.answers else { return Err("copy has classes".into()) };
    let (rows, steps) = (batch.rows, batch.steps);
    let answers: Vec<i32> =
        (0..rows).flat_map(|row| &answers[(row + 1) * steps - DIGITS..(row + 1) * steps]).copied().collect();
    let answers = Tensor::<1, Int>::from_data(TensorData::new(answers, [rows * DIGITS]), device);
    let tokens = Tensor::<2, Int>::from_data(TensorData::new(tokens.clone(), [rows, steps]), device);
    let (mut forward_ms, mut backward_ms) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..options.repeats.max(1) {
        let began = Instant::now();
        let out = model.lstm.forward_with(tokens.clone(), None, &options.call)?;
        let y = model.readout.read(&out)?.narrow(1, steps - DIGITS, DIGITS).flatten(0, 1);
        let loss = cross_entropy(y, answers.clone(), None)?;
        forward_ms = forward_ms.min(began.elapsed().as_secs_f64() * 1e3);
        let began = Instant::now();
        let gradients = loss.backward();
        backward_ms = backward_ms.min(began.elapsed().as_secs_f64() * 1e3);
        drop(gradients);
    }
    println!(
        "{{\"steps\": {steps}, \"rows\": {rows}, \"every\": {}, \"forward_ms\": {forward_ms:.1}, \"backward_ms\": \
         {backward_ms:.1}, \"share\": {:.4}, \"peak_mib\": {:.0}}}",
        options.every,
        backward_ms / forward_ms,
        peak_memory()
    );
    Ok(())
}
