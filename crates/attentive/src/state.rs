//! [`SabState`]: what a sequence leaves for the next call (R14).

use crate::config::MOST_K_ATT;
use crate::error::{Result, SabError};
use crate::memory::RowClock;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use serde::{Deserialize, Serialize};

/// The most steps that a row can take: more than any stream, and far from where numbers overflow.
const MOST_STEPS: u64 = 1 << 53;

/// Hidden state, cell, memories and step count of every row of a batch.
///
/// A state is data: it carries no gradient from one call into an earlier one, as is usual when a long sequence
/// is trained in stretches. Rows are independent, and can be made fresh one by one.
#[derive(Clone, Debug)]
pub struct SabState {
    hidden: Tensor<2>,
    cell: Tensor<2>,
    /// Parts of `[batch, slots, hidden]`, in order of the slots; put together when somebody asks.
    memory: Vec<Tensor<3>>,
    steps: Vec<u64>,
    k_att: usize,
}

/// A [`SabState`] as plain data, for saving with any serde format.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SabStateRecord {
    /// `[batch, hidden]`
    pub hidden: TensorData,
    /// `[batch, hidden]`
    pub cell: TensorData,
    /// `[batch, slots, hidden]`; a row fills the first `1 + steps / k_att`.
    pub memory: TensorData,
    /// Steps that each row has taken since it was fresh.
    pub steps: Vec<u64>,
    /// Every `k_att`-th state is in the memory.
    pub k_att: usize,
}

impl SabState {
    /// Fresh rows that start from given states `[batch, hidden]` instead of zeros. `hidden` is also the null slot of
    /// the memory (R2). The tensors are taken as data, without their gradient.
    pub fn starting_from(hidden: Tensor<2>, cell: Tensor<2>, k_att: usize) -> Result<Self> {
        let (hidden, cell) = (hidden.inner(), cell.inner());
        let memory = vec![hidden.clone().unsqueeze_dim::<3>(1)];
        let steps = vec![0; hidden.dims()[0]];
        Self::from_parts(hidden, cell, memory, steps, k_att)
    }

    /// Puts a state together from tensors without autodiff.
    pub(crate) fn from_parts(
        hidden: Tensor<2>, cell: Tensor<2>, memory: Vec<Tensor<3>>, steps: Vec<u64>, k_att: usize,
    ) -> Result<Self> {
        let [batch, units] = hidden.dims();
        let wrong = |what: &str, got: &[usize], right: String| {
            Err(SabError::State(format!("its `{what}` has shape {got:?}, but {right} is needed")))
        };
        if cell.dims() != [batch, units] {
            return wrong("cell", &cell.dims(), format!("[{batch}, {units}]"));
        }
        if cell.device() != hidden.device() {
            let (got, right) = (cell.device(), hidden.device());
            return Err(SabError::State(format!("its `cell` is on {got:?}, its `hidden` on {right:?}")));
        }
        if !(1..=MOST_K_ATT).contains(&k_att) {
            return Err(SabError::State(format!(
                "its `k_att` is {k_att}, but it is at least 1 and at most {MOST_K_ATT}"
            )));
        }
        if let Some(steps) = steps.iter().find(|steps| **steps > MOST_STEPS) {
            return Err(SabError::State(format!("its `steps` say {steps}, but {MOST_STEPS} are the most")));
        }
        if steps.len() != batch {
            return wrong("steps", &[steps.len()], format!("[{batch}]"));
        }
        let slots: usize = memory.iter().map(|part| part.dims()[1]).sum();
        let needed = steps.iter().map(|steps| RowClock::slots_after(*steps, k_att)).max().unwrap_or(1);
        if let Some(part) = memory.iter().find(|part| part.dims()[0] != batch || part.dims()[2] != units) {
            return wrong("memory", &part.dims(), format!("[{batch}, at least {needed}, {units}]"));
        }
        if slots < needed {
            return wrong("memory", &[batch, slots, units], format!("[{batch}, at least {needed}, {units}]"));
        }
        Ok(Self { hidden, cell, memory, steps, k_att })
    }

    /// The state after a call that started `before` (fresh if `None`) and made these hidden states,
    /// `[batch, time, hidden]`. Memories stay slices of them until somebody asks.
    #[cfg(feature = "flex")]
    pub(crate) fn after(
        before: Option<SabState>, hidden: &Tensor<3>, cell: Tensor<2>, steps_before: &[u64], k_att: usize,
    ) -> Result<Self> {
        let hidden = hidden.clone().inner();
        let [batch, time, units] = hidden.dims();
        let carried = match before {
            Some(state) => state.memory,
            None => vec![Tensor::zeros([batch, 1, units], (&hidden.device(), hidden.dtype()))],
        };
        let clocks = steps_before.iter().map(|&steps_before| RowClock { steps_before, k_att });
        let memory = if steps_before.iter().all(|steps| *steps == steps_before[0]) {
            let clock = RowClock { steps_before: steps_before[0], k_att };
            let room: usize = carried.iter().map(|part| part.dims()[1]).sum();
            // Behind the filled slots a carried memory may have room, after a reset for instance.
            let mut parts = match clock.carried_slots() {
                filled if filled == room => carried,
                filled => vec![Tensor::cat(carried, 1).narrow(1, 0, filled)],
            };
            if let Some(first) = (0..time).find(|t| clock.slot_filled_by(*t).is_some()) {
                parts.push(hidden.clone().slice(burn::tensor::s![.., first..;k_att]));
            }
            parts
        } else {
            let carried = Tensor::cat(carried, 1);
            let room = clocks.clone().map(|clock| clock.slots_at(time)).max().unwrap_or(1);
            vec![Tensor::cat(
                clocks.enumerate().map(|(row, clock)| row_memory(&carried, &hidden, row, clock, room)).collect(),
                0,
            )]
        };
        let last = hidden.narrow(1, time - 1, 1).squeeze_dim(1);
        let steps = steps_before.iter().map(|steps| steps + time as u64).collect();
        Self::from_parts(last, cell, memory, steps, k_att)
    }

    /// Whether no number that a later step would use is a NaN or an infinity.
    pub(crate) fn is_finite(&self) -> bool {
        let finite = |x: Tensor<2>| x.is_finite().all().into_scalar::<bool>();
        let filled = |row: usize| {
            let memory = self.memory().narrow(0, row, 1).narrow(1, 0, self.slots(row));
            finite(memory.squeeze_dim(0))
        };
        finite(self.hidden()) && finite(self.cell()) && (0..self.batch()).all(filled)
    }

    /// Slots for which the memory has room.
    #[cfg(feature = "flex")]
    pub(crate) fn slot_room(&self) -> usize {
        self.memory.iter().map(|part| part.dims()[1]).sum()
    }

    /// The type of the memories.
    pub(crate) fn memory_dtype(&self) -> DType {
        self.memory[0].dtype()
    }

    /// Rows of the batch.
    pub fn batch(&self) -> usize {
        self.steps.len()
    }

    /// The hidden state h of the last step, `[batch, hidden]`, without gradient.
    pub fn hidden(&self) -> Tensor<2> {
        self.hidden.clone()
    }

    /// The cell c of the last step, `[batch, hidden]`, without gradient.
    pub fn cell(&self) -> Tensor<2> {
        self.cell.clone()
    }

    /// The memories, `[batch, slots, hidden]`: a row fills its first [`slots`](SabState::slots), the rest is unspecified.
    pub fn memory(&self) -> Tensor<3> {
        match self.memory.as_slice() {
            [memory] => memory.clone(),
            parts => Tensor::cat(parts.to_vec(), 1),
        }
    }

    /// Memory slots that a row fills, its null slot included; 0 for a row that is not there.
    pub fn slots(&self, row: usize) -> usize {
        self.steps.get(row).map_or(0, |steps| RowClock::slots_after(*steps, self.k_att))
    }

    /// Steps that each row has taken since it was fresh.
    pub fn steps(&self) -> &[u64] {
        &self.steps
    }

    /// Every `k_att`-th state is in the memory.
    pub fn k_att(&self) -> usize {
        self.k_att
    }

    /// Makes rows fresh: zero states, an empty memory, step count 0. The other rows are not touched.
    pub fn reset(&mut self, rows: &[usize]) -> Result<()> {
        let batch = self.batch();
        if let Some(row) = rows.iter().find(|row| **row >= batch) {
            return Err(SabError::State(format!("there is no row {row} to reset, the batch has {batch}")));
        }
        let device = self.hidden.device();
        let kept: Vec<i32> = (0..batch).map(|row| i32::from(!rows.contains(&row))).collect();
        let fresh = Tensor::<1, Int>::from_data(TensorData::new(kept, [batch]), &device).equal_elem(0);
        let units = self.hidden.dims()[1];
        let mask = fresh.clone().unsqueeze_dim::<2>(1).expand([batch, units]);
        self.hidden = self.hidden.clone().mask_fill(mask.clone(), 0.0);
        self.cell = self.cell.clone().mask_fill(mask, 0.0);
        let memory = self.memory();
        let shape = memory.dims();
        let mask = fresh.unsqueeze_dim::<2>(1).unsqueeze_dim::<3>(2).expand(shape);
        self.memory = vec![memory.mask_fill(mask, 0.0)];
        rows.iter().for_each(|row| self.steps[*row] = 0);
        Ok(())
    }

    /// The state as plain data.
    pub fn to_record(&self) -> SabStateRecord {
        SabStateRecord {
            hidden: self.hidden.to_data(),
            cell: self.cell.to_data(),
            memory: self.memory().to_data(),
            steps: self.steps.clone(),
            k_att: self.k_att,
        }
    }

    /// The state that a record holds, on a device. A damaged record is an error.
    pub fn from_record(record: SabStateRecord, device: &Device) -> Result<Self> {
        let device = device.clone().inner();
        let check = |what: &str, data: &TensorData, rank: usize| {
            let shape = data.shape().to_vec();
            if shape.len() != rank || data.num_elements() * data.dtype().size() != data.as_bytes().len() {
                return Err(SabError::State(format!("its `{what}` is damaged: shape {shape:?}")));
            }
            if !data.dtype().is_float() {
                return Err(SabError::State(format!("its `{what}` is {:?}, but floats are needed", data.dtype())));
            }
            Ok(())
        };
        check("hidden", &record.hidden, 2)?;
        check("cell", &record.cell, 2)?;
        check("memory", &record.memory, 3)?;
        let dtype = record.hidden.dtype();
        if !device.supports_dtype(dtype) {
            return Err(SabError::State(format!("it is {dtype:?}, which {device:?} cannot compute with")));
        }
        let memory = Tensor::from_data(record.memory, (&device, dtype));
        let hidden = Tensor::from_data(record.hidden, (&device, dtype));
        let cell = Tensor::from_data(record.cell, (&device, dtype));
        Self::from_parts(hidden, cell, vec![memory], record.steps, record.k_att)
    }
}

/// The memory of one row, `[1, room, hidden]`: what was carried and what this call stored, zeros behind.
#[cfg(feature = "flex")]
fn row_memory(carried: &Tensor<3>, hidden: &Tensor<3>, row: usize, clock: RowClock, room: usize) -> Tensor<3> {
    let [_, time, units] = hidden.dims();
    let mut parts = vec![carried.clone().narrow(0, row, 1).narrow(1, 0, clock.carried_slots())];
    if let Some(first) = (0..time).find(|t| clock.slot_filled_by(*t).is_some()) {
        parts.push(hidden.clone().narrow(0, row, 1).slice(burn::tensor::s![.., first..;clock.k_att]));
    }
    let filled = clock.slots_at(time);
    if filled < room {
        parts.push(Tensor::zeros([1, room - filled, units], (&hidden.device(), hidden.dtype())));
    }
    Tensor::cat(parts, 1)
}
