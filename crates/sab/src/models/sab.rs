//! [`SabModel`]: the layer and its output.

use crate::tasks::{Asked, Batch, Input};
use attentive::{
    ForwardOptions, KTop, Result, SabInput, SabLstm, SabLstmConfig, SabOutput, SabReadout, SabReadoutConfig, SabState,
    Store,
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

    /// How many states a sequence of so many steps holds at its end, the null slot aside; `None` if the states decide.
    pub fn memories_after(&self, steps: usize) -> Option<usize> {
        let config = self.lstm.config();
        let considered = steps / config.k_att.max(1);
        match (config.store, config.capacity) {
            _ if !self.attends() => Some(0),
            (Store::Every, capacity) => Some(capacity.map_or(considered, |capacity| considered.min(capacity))),
            (Store::Novelty, _) => None,
        }
    }

    /// Bytes of a memory: the state and its key.
    pub fn memory_bytes(&self) -> usize {
        2 * size_of::<f32>() * self.lstm.config().hidden
    }

    /// Bytes that the memories of a state take: each row has room for as many as the fullest.
    pub fn held_bytes(&self, state: &SabState) -> usize {
        let fullest = (0..state.batch()).map(|row| state.slots(row)).max().unwrap_or(0);
        state.batch().saturating_mul(fullest).saturating_mul(self.memory_bytes())
    }

    /// How many states the sequences that left a state have stored, null slots aside; `None` without attention.
    pub fn stored(&self, state: &SabState) -> Option<usize> {
        self.attends().then(|| (0..state.batch()).map(|row| state.slots(row) - 1).sum())
    }

    /// Whether the model has attention; without it, it is a plain recurrent network.
    pub fn attends(&self) -> bool {
        self.lstm.config().k_top != KTop::Count(0)
    }

    /// Runs the sequences of a batch.
    pub fn run(&self, batch: &Batch, options: &ForwardOptions, device: &Device) -> Result<SabOutput> {
        self.run_from(None, batch, options, device)
    }

    /// Runs a stretch from the state that the stretch before it left.
    pub fn run_from(
        &self, state: Option<SabState>, batch: &Batch, options: &ForwardOptions, device: &Device,
    ) -> Result<SabOutput> {
        self.lstm.forward_with(input_of(batch, device), state, options)
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
            Asked::At(_) | Asked::Only(_) => {
                let places = places_of(batch, device);
                let at = |x: Tensor<3>| x.flatten::<2>(0, 1).select(0, places.clone());
                self.readout.forward(at(out.hidden.clone()), at(out.summary.clone()))
            }
        }
    }
}

/// The asked steps of each row, as places in `[rows * steps]`.
pub(super) fn places_of(batch: &Batch, device: &Device) -> Tensor<1, Int> {
    let asked = batch.asked.places(batch.rows, batch.steps);
    let places: Vec<i32> = asked.iter().map(|(row, step)| (row * batch.steps + step) as i32).collect();
    let count = places.len();
    Tensor::from_data(TensorData::new(places, [count]), device)
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
