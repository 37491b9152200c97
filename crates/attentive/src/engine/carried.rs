//! [`Carried`]: a state in the engine's form.

use super::tensors::{floats, lost, tensor};
use crate::error::{Result, SabError};
use attentive_engine::{Model, RowStart, Segments, State};
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::tensor::{DType, Tensor};

/// The engine's state, and the hidden states of the call that left it, as long as its memories are rows of them.
#[derive(Clone, Debug)]
pub(crate) struct Carried {
    state: State,
    /// `[batch, time, hidden]`
    hidden_states: Option<FlexTensor>,
}

impl Carried {
    /// The state after a call that computed these hidden states. Training that starts every sequence afresh never
    /// needs the memories, so they are copied only on demand then.
    pub(super) fn after(state: State, hidden_states: FlexTensor, tracked: bool) -> Result<Self> {
        let mut carried = Self { state, hidden_states: Some(hidden_states) };
        if !tracked {
            carried.settle()?;
        }
        Ok(carried)
    }

    /// The state of tensors: `[batch, hidden]`, `[batch, hidden]`, and `[batch, slots, hidden]`.
    pub(crate) fn of_tensors(
        model: &Model, rows: Vec<RowStart>, hidden: Tensor<2>, cell: Option<Tensor<2>>, memory: Tensor<3>,
        segments: Option<Segments>,
    ) -> Result<Self> {
        let hidden = primitive("hidden", hidden)?;
        let cell = cell.map(|cell| primitive("cell", cell)).transpose()?;
        let memory = primitive("memory", memory)?;
        let cell = cell.as_ref().map_or(&[] as &[f32], floats);
        let mut state = State::new(model, rows, floats(&hidden), cell, floats(&memory))?;
        if let Some(segments) = segments.filter(|_| model.credit_across_calls) {
            state = state.with_segments(model, segments)?;
        }
        Ok(Self { state, hidden_states: None })
    }

    /// The engine's state with all its memories.
    pub(super) fn settled(mut self) -> Result<State> {
        self.settle()?;
        Ok(self.state)
    }

    fn settle(&mut self) -> Result<()> {
        match self.hidden_states.take() {
            Some(hidden_states) => Ok(self.state.settle(floats(&hidden_states))?),
            None => Ok(()),
        }
    }

    /// Makes room for so many memories in each row.
    pub(crate) fn reserve(&mut self, memories: usize) -> Result<()> {
        Ok(self.state.reserve(memories)?)
    }

    /// Starts rows afresh.
    pub(crate) fn reset(&mut self, rows: &[usize]) -> Result<()> {
        self.settle()?;
        Ok(self.state.reset(rows)?)
    }

    pub(crate) fn rows(&self) -> &[RowStart] {
        self.state.rows()
    }

    /// The steps that led to the memories (R21).
    pub(crate) fn segments(&self) -> Option<&Segments> {
        self.state.segments()
    }

    pub(crate) fn units(&self) -> usize {
        self.state.units()
    }

    pub(crate) fn has_cell(&self) -> bool {
        self.state.has_cell()
    }

    /// `[batch, hidden]`
    pub(crate) fn hidden(&self) -> Tensor<2> {
        self.tensor(self.state.hidden())
    }

    /// `[batch, hidden]`
    pub(crate) fn cell(&self) -> Option<Tensor<2>> {
        self.has_cell().then(|| self.tensor(self.state.cell()))
    }

    /// `[batch, slots, hidden]`
    pub(crate) fn memory(&self) -> Tensor<3> {
        let (batch, units) = (self.rows().len(), self.units());
        let slots = self.rows().iter().map(|row| row.slot_steps.len()).max().unwrap_or(1);
        // The hidden states are those of the state's own call, so this does not fail.
        let memory = self.clone().settled().and_then(|state| Ok(state.memory()?));
        let memory = memory.unwrap_or_else(|_| lost(batch * slots * units));
        Tensor::from_primitive::<Flex>(tensor(memory, vec![batch, slots, units]))
    }

    fn tensor(&self, values: Vec<f32>) -> Tensor<2> {
        Tensor::from_primitive::<Flex>(tensor(values, vec![self.rows().len(), self.units()]))
    }
}

/// The primitive of a state's tensor: contiguous `f32` on the Flex backend.
fn primitive<const D: usize>(what: &str, tensor: Tensor<D>) -> Result<FlexTensor> {
    let primitive = tensor
        .inner()
        .try_into_primitive::<Flex>()
        .map_err(|error| SabError::State(format!("its `{what}` is not on the CPU: {error:?}")))?;
    if primitive.dtype() != DType::F32 {
        return Err(SabError::State(format!("its `{what}` is {:?}, but F32 is needed", primitive.dtype())));
    }
    Ok(primitive.to_contiguous())
}
