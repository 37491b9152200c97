//! [`SabModel`]: the layer and its output.

use crate::tasks::{Asked, Batch, Input};
use attentive::{
    ForwardOptions, KTop, Result, SabInput, SabLstm, SabLstmConfig, SabOutput, SabReadout, SabReadoutConfig,
};
use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};

/// A SAB-LSTM and its output layer.
#[derive(Module, Debug)]
pub struct SabModel {
    /// The recurrent layer.
    pub lstm: SabLstm,
    /// `y = V1 h + V2 s + b` (R8).
    pub readout: SabReadout,
}

impl SabModel {
    /// A model with fresh weights.
    pub fn new(config: &SabLstmConfig, outputs: usize, device: &Device) -> Result<Self> {
        let lstm = config.try_init(device)?;
        Ok(Self { lstm, readout: SabReadoutConfig::new(config.hidden, outputs).init(device) })
    }

    /// Whether the model has attention; without it, it is a plain recurrent network.
    pub fn attends(&self) -> bool {
        self.lstm.config().k_top != KTop::Count(0)
    }

    /// Runs the sequences of a batch.
    pub fn run(&self, batch: &Batch, options: &ForwardOptions, device: &Device) -> Result<SabOutput> {
        self.lstm.forward_with(input_of(batch, device), None, options)
    }

    /// The outputs where the batch asks for them, `[answers, outputs]`.
    pub fn answer(&self, batch: &Batch, options: &ForwardOptions, device: &Device) -> Result<Tensor<2>> {
        self.read(batch, &self.run(batch, options, device)?, device)
    }

    /// The outputs of a run where the batch asks for them, `[answers, outputs]`.
    pub fn read(&self, batch: &Batch, out: &SabOutput, device: &Device) -> Result<Tensor<2>> {
        match &batch.asked {
            Asked::From(from) if from + 1 == batch.steps => self.readout.read_last(out),
            Asked::From(from) => {
                let all = self.readout.read(out)?;
                let asked = if *from == 0 { all } else { all.narrow(1, *from, batch.steps - from) };
                Ok(asked.flatten(0, 1))
            }
            Asked::TwoGroups { .. } | Asked::Until(_) => Ok(self.readout.read(out)?.flatten(0, 1)),
            Asked::At(steps) => {
                let places = places_of(steps, batch.steps, device);
                let at = |x: Tensor<3>| x.flatten::<2>(0, 1).select(0, places.clone());
                self.readout.forward(at(out.hidden.clone()), at(out.summary.clone()))
            }
        }
    }
}

/// One step of each row, as places in `[rows * steps]`.
pub(super) fn places_of(asked: &[usize], steps: usize, device: &Device) -> Tensor<1, Int> {
    let places: Vec<i32> = asked.iter().enumerate().map(|(row, step)| (row * steps + step) as i32).collect();
    Tensor::from_data(TensorData::new(places, [asked.len()]), device)
}

/// The input of a batch as a tensor.
pub(super) fn input_of(batch: &Batch, device: &Device) -> SabInput {
    match &batch.input {
        Input::Tokens(tokens) => {
            let tokens = TensorData::new(tokens.clone(), [batch.rows, batch.steps]);
            SabInput::Tokens(Tensor::from_data(tokens, device))
        }
        Input::Dense { width, values } => {
            let values = TensorData::new(values.clone(), [batch.rows, batch.steps, *width]);
            SabInput::Dense(Tensor::from_data(values, device))
        }
    }
}
