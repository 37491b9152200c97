//! [`SabState`]: the state that a sequence leaves for the next call (R14).

use crate::error::{Result, SabError};
use attentive_engine::{Cell, Model, RowStart, StoreRule};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
#[cfg(feature = "flex")]
use {attentive_engine::Place, attentive_engine::RowEnd};

/// Hidden state, cell, memories and step count of every row of a batch.
///
/// A state is data: it carries no gradient from one call into an earlier one, as is usual when a long sequence is
/// trained in stretches. Rows are independent. They may hold different memories, and each can be reset separately.
#[derive(Clone, Debug)]
pub struct SabState {
    hidden: Tensor<2>,
    /// `None` for a cell without a cell state (R15).
    cell: Option<Tensor<2>>,
    memory: Memory,
    rows: Vec<RowStart>,
    k_att: usize,
    /// Whether all states are zero and no step has been taken.
    fresh: bool,
}

/// The memories, `[batch, slots, hidden]`, assembled when needed.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // there is one per state
enum Memory {
    /// Parts of the tensor, in order of the slots.
    Parts(Vec<Tensor<3>>),
    /// Slots of the previous memory and of the hidden states computed since.
    #[cfg(feature = "flex")]
    Gathered { carried: Tensor<3>, hidden: Tensor<3>, places: Vec<Vec<Place>> },
}

/// A [`SabState`] as plain data, for saving with any serde format.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SabStateRecord {
    /// `[batch, hidden]`
    pub hidden: TensorData,
    /// `[batch, hidden]`; `None` for a cell without a cell state.
    #[serde(default)]
    pub cell: Option<TensorData>,
    /// `[batch, slots, hidden]`. Each row fills as many slots as it has entries in `slot_steps`.
    pub memory: TensorData,
    /// Steps that each row has taken since it was fresh.
    pub steps: Vec<u64>,
    /// Only every `k_att`-th state can be in the memory.
    pub k_att: usize,
    /// For each row, the steps whose hidden states its memories hold, oldest first; the null slot is step 0. Empty
    /// means every `k_att`-th step of each row, as in records of earlier versions.
    #[serde(default)]
    pub slot_steps: Vec<Vec<u64>>,
    /// For each row, the decayed sums of weights that its memories have received (R18). Empty means all zero.
    #[serde(default)]
    pub received: Vec<Vec<f32>>,
}

/// The slot map after `steps` steps with the store `every` (R2).
fn regular_slots(steps: u64, k_att: usize) -> Vec<u64> {
    (0..=steps / k_att.max(1) as u64).map(|slot| slot * k_att as u64).collect()
}

impl SabState {
    /// Fresh rows that start from given states, `[batch, hidden]`, instead of zeros. `hidden` is also the null slot of
    /// the memory (R2). Pass `None` for a cell without a cell state. The tensors are taken as data, without their
    /// gradient.
    pub fn starting_from(hidden: Tensor<2>, cell: impl Into<Option<Tensor<2>>>, k_att: usize) -> Result<Self> {
        let (hidden, cell) = (hidden.inner(), cell.into().map(Tensor::inner));
        let memory = Memory::Parts(vec![hidden.clone().unsqueeze_dim::<3>(1)]);
        let rows = vec![RowStart::fresh(); hidden.dims()[0]];
        Self::from_parts(hidden, cell, memory, rows, k_att)
    }

    /// Fresh rows of zeros.
    pub(crate) fn fresh(batch: usize, units: usize, cell: Cell, k_att: usize, device: &Device, dtype: DType) -> Self {
        let hidden = Tensor::zeros([batch, units], (device, dtype));
        Self {
            cell: cell.carries().then(|| hidden.clone()),
            memory: Memory::Parts(vec![hidden.clone().unsqueeze_dim::<3>(1)]),
            hidden,
            rows: vec![RowStart::fresh(); batch],
            k_att,
            fresh: true,
        }
    }

    /// Builds a state from tensors without autodiff.
    fn from_parts(
        hidden: Tensor<2>, cell: Option<Tensor<2>>, memory: Memory, rows: Vec<RowStart>, k_att: usize,
    ) -> Result<Self> {
        let [batch, units] = hidden.dims();
        let wrong = |what: &str, got: &[usize], right: String| {
            Err(SabError::State(format!("its `{what}` has shape {got:?}, but {right} is needed")))
        };
        if let Some(cell) = &cell {
            if cell.dims() != [batch, units] {
                return wrong("cell", &cell.dims(), format!("[{batch}, {units}]"));
            }
            if cell.device() != hidden.device() {
                let (got, right) = (cell.device(), hidden.device());
                return Err(SabError::State(format!("its `cell` is on {got:?}, its `hidden` on {right:?}")));
            }
        }
        if let Err(why) = (StoreRule { k_att, ..StoreRule::default() }).check() {
            return Err(SabError::State(format!("its {why}")));
        }
        if rows.len() != batch {
            return wrong("steps", &[rows.len()], format!("[{batch}]"));
        }
        rows.iter().try_for_each(|row| row.check(&Model::new(1, 1)))?;
        if let Memory::Parts(parts) = &memory {
            let slots: usize = parts.iter().map(|part| part.dims()[1]).sum();
            let needed = rows.iter().map(|row| row.slot_steps.len()).max().unwrap_or(1);
            let right = format!("[{batch}, at least {needed}, {units}]");
            if let Some(part) = parts.iter().find(|part| part.dims()[0] != batch || part.dims()[2] != units) {
                return wrong("memory", &part.dims(), right);
            }
            if slots < needed {
                return wrong("memory", &[batch, slots, units], right);
            }
        }
        Ok(Self { hidden, cell, memory, rows, k_att, fresh: false })
    }

    /// The state after a call, from all its memories and slot maps.
    pub(crate) fn with_memory(
        hidden: Tensor<2>, cell: Option<Tensor<2>>, memory: Tensor<3>, rows: Vec<RowStart>, k_att: usize,
    ) -> Result<Self> {
        Self::from_parts(hidden, cell, Memory::Parts(vec![memory]), rows, k_att)
    }

    /// The state after a call of the engine that started from this state and computed these hidden states,
    /// `[batch, time, hidden]`. The new memories remain rows of `hidden` until they are needed.
    #[cfg(feature = "flex")]
    pub(crate) fn after(mut self, hidden: &Tensor<3>, cell: Option<Tensor<2>>, ends: Vec<RowEnd>) -> Result<Self> {
        let hidden = hidden.clone().inner();
        let [_, time, _] = hidden.dims();
        let memory = self.memory_after(&hidden, &ends);
        for (row, end) in self.rows.iter_mut().zip(ends) {
            let (carried, before) = (row.slot_steps.len(), row.steps);
            let step_of = |t: usize| before + t as u64 + 1;
            let steps = Arc::make_mut(&mut row.slot_steps);
            match &end.kept {
                None => steps.extend(end.stored.iter().map(|t| step_of(*t))),
                Some(kept) => {
                    let step = |place: &Place| match *place {
                        Place::Carried(slot) => steps[slot.min(carried - 1)],
                        Place::Step(t) => step_of(t),
                    };
                    *steps = kept.iter().map(step).collect();
                }
            }
            (row.steps, row.received) = (end.steps, Arc::new(end.received));
        }
        let last = hidden.narrow(1, time - 1, 1).squeeze_dim(1);
        Self::from_parts(last, cell, memory, self.rows, self.k_att)
    }

    #[cfg(feature = "flex")]
    fn memory_after(&self, hidden: &Tensor<3>, ends: &[RowEnd]) -> Memory {
        let [_, time, _] = hidden.dims();
        let carried = self.memory();
        // The usual case: all rows keep all carried memories and store the same steps, at equal distances.
        let stored = &ends[0].stored;
        let same = ends.iter().all(|end| end.kept.is_none() && end.stored == *stored)
            && self.rows.iter().all(|row| row.slot_steps.len() == carried.dims()[1]);
        let regular = stored.iter().copied().eq(stored.first().map_or(0..0, |first| *first..time).step_by(self.k_att));
        if same && regular {
            let new = stored.first().map(|first| hidden.clone().slice(burn::tensor::s![.., *first..;self.k_att]));
            return Memory::Parts([carried].into_iter().chain(new).collect());
        }
        let places = ends.iter().zip(&self.rows).map(|(end, row)| match &end.kept {
            Some(kept) => kept.clone(),
            None => {
                let stored = end.stored.iter().copied().map(Place::Step);
                (0..row.slot_steps.len()).map(Place::Carried).chain(stored).collect()
            }
        });
        Memory::Gathered { carried, hidden: hidden.clone(), places: places.collect() }
    }

    /// The same state with its memory in one tensor, so that it is assembled only once.
    #[cfg(feature = "flex")]
    pub(crate) fn materialised(mut self) -> Self {
        self.memory = Memory::Parts(vec![self.memory()]);
        self
    }

    /// Whether a call without a state would start from this state.
    #[cfg(feature = "flex")]
    pub(crate) fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// The part of each row's state that is not tensors.
    pub(crate) fn rows(&self) -> &[RowStart] {
        &self.rows
    }

    /// Whether all numbers that a later step would use are finite.
    pub(crate) fn is_finite(&self) -> bool {
        let finite = |x: Tensor<2>| x.is_finite().all().into_scalar::<bool>();
        let memory = self.memory();
        let filled = |row: usize| finite(memory.clone().narrow(0, row, 1).narrow(1, 0, self.slots(row)).squeeze_dim(0));
        finite(self.hidden()) && self.cell().is_none_or(finite) && (0..self.batch()).all(filled)
    }

    /// The element type of the memories.
    pub(crate) fn memory_dtype(&self) -> DType {
        match &self.memory {
            Memory::Parts(parts) => parts[0].dtype(),
            #[cfg(feature = "flex")]
            Memory::Gathered { carried, .. } => carried.dtype(),
        }
    }

    /// The number of rows in the batch.
    pub fn batch(&self) -> usize {
        self.rows.len()
    }

    /// The hidden state h of the last step, `[batch, hidden]`, without gradient.
    pub fn hidden(&self) -> Tensor<2> {
        self.hidden.clone()
    }

    /// The cell state c of the last step, `[batch, hidden]`, without gradient; `None` for a cell that carries none
    /// (R15).
    pub fn cell(&self) -> Option<Tensor<2>> {
        self.cell.clone()
    }

    /// The memories, `[batch, slots, hidden]`. A row fills its first [`slots`](SabState::slots); the rest is
    /// unspecified.
    pub fn memory(&self) -> Tensor<3> {
        match &self.memory {
            Memory::Parts(parts) => match parts.as_slice() {
                [memory] => memory.clone(),
                parts => Tensor::cat(parts.to_vec(), 1),
            },
            #[cfg(feature = "flex")]
            Memory::Gathered { carried, hidden, places } => {
                // Concatenate both and pick each row's own slots.
                let room = carried.dims()[1];
                let slot = |place: &Place| match *place {
                    Place::Carried(slot) => slot,
                    Place::Step(t) => room + t,
                };
                let slots: Vec<Vec<usize>> = places.iter().map(|row| row.iter().map(slot).collect()).collect();
                pick_slots(&Tensor::cat(vec![carried.clone(), hidden.clone()], 1), &slots)
            }
        }
    }

    /// The number of slots that a row fills, including its null slot; 0 for a row that does not exist.
    pub fn slots(&self, row: usize) -> usize {
        self.slot_steps(row).len()
    }

    /// The steps whose hidden states a row's memories hold, oldest first; the null slot is step 0.
    pub fn slot_steps(&self, row: usize) -> &[u64] {
        self.rows.get(row).map_or(&[], |row| &row.slot_steps)
    }

    /// The decayed sums of weights that a row's memories have received (R18); empty unless the eviction rule uses them.
    pub fn received(&self, row: usize) -> &[f32] {
        self.rows.get(row).map_or(&[], |row| &row.received)
    }

    /// Steps that each row has taken since it was fresh.
    pub fn steps(&self) -> Vec<u64> {
        self.rows.iter().map(|row| row.steps).collect()
    }

    /// Only every `k_att`-th state can be in the memory.
    pub fn k_att(&self) -> usize {
        self.k_att
    }

    /// Resets rows to zero states, a memory with only a null slot, and step count 0. Does not touch the other rows.
    pub fn reset(&mut self, rows: &[usize]) -> Result<()> {
        let batch = self.batch();
        if let Some(row) = rows.iter().find(|row| **row >= batch) {
            return Err(SabError::State(format!("there is no row {row} to reset: the batch has {batch} rows")));
        }
        let device = self.hidden.device();
        let kept: Vec<i32> = (0..batch).map(|row| i32::from(!rows.contains(&row))).collect();
        let fresh = Tensor::<1, Int>::from_data(TensorData::new(kept, [batch]), &device).equal_elem(0);
        let units = self.hidden.dims()[1];
        let mask = fresh.clone().unsqueeze_dim::<2>(1).expand([batch, units]);
        self.hidden = self.hidden.clone().mask_fill(mask.clone(), 0.0);
        self.cell = self.cell().map(|cell| cell.mask_fill(mask, 0.0));
        let memory = self.memory();
        let shape = memory.dims();
        let mask = fresh.unsqueeze_dim::<2>(1).unsqueeze_dim::<3>(2).expand(shape);
        self.memory = Memory::Parts(vec![memory.mask_fill(mask, 0.0)]);
        rows.iter().for_each(|row| self.rows[*row] = RowStart::fresh());
        Ok(())
    }

    /// The state as plain data.
    pub fn to_record(&self) -> SabStateRecord {
        let received = self.rows.iter().any(|row| !row.received.is_empty());
        SabStateRecord {
            hidden: self.hidden.to_data(),
            cell: self.cell.as_ref().map(|cell| cell.to_data()),
            memory: self.memory().to_data(),
            steps: self.steps(),
            k_att: self.k_att,
            slot_steps: self.rows.iter().map(|row| row.slot_steps.to_vec()).collect(),
            received: if received { self.rows.iter().map(|row| row.received.to_vec()).collect() } else { Vec::new() },
        }
    }

    /// Restores the state of a record on a device. A damaged record is an error.
    pub fn from_record(record: SabStateRecord, device: &Device) -> Result<Self> {
        let SabStateRecord { hidden, cell, memory, steps, k_att, slot_steps, received } = record;
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
        check("hidden", &hidden, 2)?;
        cell.as_ref().map_or(Ok(()), |cell| check("cell", cell, 2))?;
        check("memory", &memory, 3)?;
        let dtype = hidden.dtype();
        if !device.supports_dtype(dtype) {
            return Err(SabError::State(format!("its type is {dtype:?}, which {device:?} does not support")));
        }
        for (what, len) in [("slot_steps", slot_steps.len()), ("received", received.len())] {
            if len != 0 && len != steps.len() {
                return Err(SabError::State(format!("its `{what}` has {len} rows, but `steps` has {}", steps.len())));
            }
        }
        // A step count far beyond the memory's size must not create a list of that length. Shorter ones give a clear
        // error.
        let room = (memory.shape()[1] as u64).max(1 << 16);
        let start = |(row, steps): (usize, u64)| {
            let listed = slot_steps.get(row).cloned();
            let slots = || regular_slots(steps.min(room.saturating_mul(k_att as u64)), k_att);
            RowStart {
                steps,
                slot_steps: Arc::new(listed.unwrap_or_else(slots)),
                received: Arc::new(received.get(row).cloned().unwrap_or_default()),
            }
        };
        let rows = steps.into_iter().enumerate().map(start).collect();
        let tensor = |data: TensorData| Tensor::from_data(data, (&device, dtype));
        let memory = Memory::Parts(vec![Tensor::from_data(memory, (&device, dtype))]);
        Self::from_parts(tensor(hidden), cell.map(tensor), memory, rows, k_att)
    }
}

/// Picks slots of each row of `[batch, slots, hidden]`. If rows have different numbers of slots, the rest is zeros.
pub(crate) fn pick_slots(memory: &Tensor<3>, slots: &[Vec<usize>]) -> Tensor<3> {
    let (device, dtype, units) = (memory.device(), memory.dtype(), memory.dims()[2]);
    let room = slots.iter().map(Vec::len).max().unwrap_or(1);
    let rows = slots.iter().enumerate().map(|(row, slots)| {
        let indices: Vec<i32> = slots.iter().map(|slot| *slot as i32).collect();
        let indices = Tensor::<1, Int>::from_data(TensorData::new(indices, [slots.len()]), &device);
        let picked = memory.clone().narrow(0, row, 1).select(1, indices);
        match room - slots.len() {
            0 => picked,
            missing => Tensor::cat(vec![picked, Tensor::zeros([1, missing, units], (&device, dtype))], 1),
        }
    });
    Tensor::cat(rows.collect(), 0)
}
