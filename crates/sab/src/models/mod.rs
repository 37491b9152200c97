//! Models: the family of the paper and the Transformer it is compared with.

pub mod file;
mod parameters;
mod sab;
mod transformer;

pub(crate) use parameters::replace;
pub use parameters::{Parameter, Snapshot};
pub use sab::SabModel;
pub use transformer::TransformerModel;

use crate::device::cpu;
use crate::error::{LabError, Result};
use crate::experiment::ModelSettings;
use crate::tasks::{Answers, Batch, InputKind, OutputKind};
use attentive::{DriftReport, ForwardOptions, SabLstmConfig, SabState, cross_entropy};
use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
use std::sync::{Mutex, PoisonError};

/// A model of either kind.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a process has a handful of models")]
pub enum Model {
    /// LSTM, with self-attention, SAB and its variants.
    Sab(SabModel),
    /// A Transformer encoder.
    Transformer(TransformerModel),
}

/// The answers to a stretch of sequences, and what it leaves for the next one. A Transformer leaves nothing.
#[derive(Debug)]
pub struct Answered {
    /// The outputs at the steps that the stretch asks for, `[answers, outputs]`.
    pub outputs: Tensor<2>,
    /// The state after the stretch.
    pub state: Option<SabState>,
    /// After the backward pass: how far replayed memories have drifted (R21).
    pub drift: Option<DriftReport>,
}

/// Burn has one source of random numbers for the whole process, so only one model at a time may seed it and draw its
/// weights.
static BURNS_NUMBERS: Mutex<()> = Mutex::new(());

impl Model {
    /// A model with weights drawn from a seed: the same on every device.
    pub fn new(
        settings: &ModelSettings, input: InputKind, output: OutputKind, seed: u64, device: &Device,
    ) -> Result<Self> {
        // Each backend has a generator of its own; only the CPU's draws.
        let here = if device.is_autodiff() { cpu().autodiff() } else { cpu() };
        let drawn = {
            let _alone = BURNS_NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
            here.seed(seed);
            match settings {
                ModelSettings::Sab(lstm) => {
                    let layer = SabLstmConfig { input: input.size(), ..lstm.clone() };
                    Self::Sab(SabModel::new(&layer, output.size(), &here)?)
                }
                ModelSettings::Transformer(settings) => {
                    Self::Transformer(TransformerModel::new(settings, input, output.size(), &here))
                }
            }
        };
        Ok(if *device == here { drawn } else { drawn.fork(device) })
    }

    /// The outputs at the steps that the batch asks for, `[answers, outputs]`.
    pub fn answer(&self, batch: &Batch, options: &ForwardOptions, device: &Device) -> Result<Tensor<2>> {
        Ok(self.answer_and_count(batch, options, device)?.0)
    }

    /// The same from a carried state, or from a fresh one.
    pub fn answer_from(
        &self, state: Option<SabState>, batch: &Batch, options: &ForwardOptions, device: &Device,
    ) -> Result<Answered> {
        match self {
            Self::Sab(model) => {
                let out = model.run_from(state, batch, options, device)?;
                let outputs = model.read(batch, &out, device)?;
                Ok(Answered { outputs, state: Some(out.state), drift: Some(out.drift) })
            }
            Self::Transformer(model) => {
                Ok(Answered { outputs: model.answer(batch, device)?, state: None, drift: None })
            }
        }
    }

    /// The outputs, and how many states the sequences of the batch stored, null slots aside; `None` without memories.
    pub fn answer_and_count(
        &self, batch: &Batch, options: &ForwardOptions, device: &Device,
    ) -> Result<(Tensor<2>, Option<usize>)> {
        match self {
            Self::Sab(model) => {
                let out = model.run(batch, options, device)?;
                Ok((model.read(batch, &out, device)?, model.stored(&out.state)))
            }
            Self::Transformer(model) => Ok((model.answer(batch, device)?, None)),
        }
    }

    /// Numbers in all parameters.
    pub fn size(&self) -> usize {
        self.num_params()
    }

    /// The recurrent model, for operations that only it has.
    pub fn recurrent(&self) -> Result<&SabModel> {
        match self {
            Self::Sab(model) => Ok(model),
            Self::Transformer(_) => Err(LabError::Config(
                "the model is a Transformer: this needs a recurrent one (`model.kind = \"sab\"`)".into(),
            )),
        }
    }
}

/// The loss over the answers that count, as the batch weights them: cross-entropy for classes, squared error for
/// numbers. An error if the batch does not have the right answers.
pub fn loss(outputs: Tensor<2>, batch: &Batch, device: &Device) -> Result<Tensor<1>> {
    let answers = outputs.dims()[0];
    let weights = batch.weights().map(|weights| Tensor::<1>::from_data(TensorData::new(weights, [answers]), device));
    match &batch.answers {
        Answers::Classes(right) if right.len() == answers => {
            let right = Tensor::<1, Int>::from_data(TensorData::new(right.clone(), [answers]), device);
            Ok(cross_entropy(outputs, right, weights)?)
        }
        Answers::Values(right) if right.len() == answers => {
            let right = Tensor::<2>::from_data(TensorData::new(right.clone(), [answers, 1]), device);
            let losses = (outputs - right).square();
            Ok(match weights {
                None => losses.mean(),
                Some(weights) => (losses * weights.unsqueeze_dim(1)).sum(),
            })
        }
        _ => Err(batch.unanswered().into()),
    }
}

/// The numbers of a tensor.
pub(crate) fn numbers<const D: usize>(tensor: Tensor<D>) -> Result<Vec<f32>> {
    tensor
        .into_data()
        .try_into_vec::<f32>()
        .map_err(|why| LabError::Run(format!("a tensor is not of single precision: {why}")))
}
