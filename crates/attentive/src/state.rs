//! [`SabState`]: the state that a sequence leaves for the next call (R14).

#[cfg(feature = "flex")]
use crate::engine::Carried;
use crate::error::{Result, SabError};
use crate::segments::SegmentsRecord;
use attentive_engine::{Model, RowStart, Segments, StoreRule};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use serde::{Deserialize, Serialize};

/// Hidden state, cell, memories and step count of every row of a batch.
///
/// A state is data: it carries no gradient from one call into an earlier one, as is usual when a long sequence is
/// trained in stretches. Rows are independent. They may hold different memories, and each can be reset separately.
///
/// After a call of the engine without autodiff, a state also holds the keys of its memories and the index over them
/// (R19), so that the next call costs no more than its own steps. Records leave them out.
#[derive(Clone, Debug)]
pub struct SabState {
    held: Held,
    k_att: usize,
}

/// The form in which a state is held.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // there is one per state
enum Held {
    Tensors(Tensors),
    #[cfg(feature = "flex")]
    Engine(Carried),
}

/// A state in tensors without autodiff.
#[derive(Clone, Debug)]
struct Tensors {
    hidden: Tensor<2>,
    /// `None` for a cell without a cell state (R15).
    cell: Option<Tensor<2>>,
    /// `[batch, slots, hidden]`
    memory: Tensor<3>,
    rows: Vec<RowStart>,
    /// The steps that led to the memories, on the host (R21).
    segments: Option<Segments>,
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
    /// The steps that led to the memories (R21), if the layer keeps them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segments: Option<SegmentsRecord>,
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
        let memory = hidden.clone().unsqueeze_dim::<3>(1);
        let rows = vec![RowStart::fresh(); hidden.dims()[0]];
        Self::from_tensors(hidden, cell, memory, rows, k_att)
    }

    /// Fresh rows of zeros.
    pub(crate) fn fresh(model: &Model, batch: usize, device: &Device, dtype: DType) -> Self {
        let hidden = Tensor::zeros([batch, model.hidden], (device, dtype));
        let held = Held::Tensors(Tensors {
            cell: model.cell.carries().then(|| hidden.clone()),
            memory: hidden.clone().unsqueeze_dim::<3>(1),
            hidden,
            rows: vec![RowStart::fresh(); batch],
            segments: None,
        });
        Self { held, k_att: model.store.k_att }
    }

    /// Builds a state from tensors without autodiff.
    pub(crate) fn from_tensors(
        hidden: Tensor<2>, cell: Option<Tensor<2>>, memory: Tensor<3>, rows: Vec<RowStart>, k_att: usize,
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
        let needed = rows.iter().map(|row| row.slot_steps.len()).max().unwrap_or(1);
        let shape = memory.dims();
        if shape[0] != batch || shape[1] < needed || shape[2] != units {
            return wrong("memory", &shape, format!("[{batch}, at least {needed}, {units}]"));
        }
        Ok(Self { held: Held::Tensors(Tensors { hidden, cell, memory, rows, segments: None }), k_att })
    }

    /// The same with the steps that led to the memories (R21).
    pub(crate) fn with_segments(mut self, segments: Option<Segments>) -> Self {
        if let Held::Tensors(tensors) = &mut self.held {
            tensors.segments = segments;
        }
        self
    }

    /// The steps that led to the memories (R21).
    pub(crate) fn segments(&self) -> Option<&Segments> {
        match &self.held {
            Held::Tensors(tensors) => tensors.segments.as_ref(),
            #[cfg(feature = "flex")]
            Held::Engine(carried) => carried.segments(),
        }
    }

    /// The state after a call of the engine.
    #[cfg(feature = "flex")]
    pub(crate) fn of_engine(carried: Carried, k_att: usize) -> Self {
        Self { held: Held::Engine(carried), k_att }
    }

    /// The state in the engine's form.
    #[cfg(feature = "flex")]
    pub(crate) fn into_engine(self, model: &Model) -> Result<Carried> {
        match self.held {
            Held::Engine(carried) => Ok(carried),
            Held::Tensors(Tensors { hidden, cell, memory, rows, segments }) => {
                Carried::of_tensors(model, rows, hidden, cell, memory, segments)
            }
        }
    }

    /// The part of each row's state that is not tensors.
    pub(crate) fn rows(&self) -> &[RowStart] {
        match &self.held {
            Held::Tensors(tensors) => &tensors.rows,
            #[cfg(feature = "flex")]
            Held::Engine(carried) => carried.rows(),
        }
    }

    /// Refuses segments that contradict the state, the model or the kind of its input (R21).
    pub(crate) fn check_segments(&self, model: &Model, dense: bool) -> Result<()> {
        let Some(segments) = self.segments().filter(|_| model.credit_across_calls) else { return Ok(()) };
        // Those that the engine left are consistent.
        if let Held::Tensors(tensors) = &self.held {
            let slots: Vec<usize> = tensors.rows.iter().map(|row| row.slot_steps.len()).collect();
            segments.check(model, &slots)?;
        }
        Ok(segments.check_inputs(dense)?)
    }

    /// Refuses rows that the model cannot have left.
    pub(crate) fn check_rows(&self, model: &Model) -> Result<()> {
        let check = match &self.held {
            Held::Tensors(_) => RowStart::check,
            // The engine left consistent rows. To check them again would take a time that grows with the memory.
            #[cfg(feature = "flex")]
            Held::Engine(_) => RowStart::check_length,
        };
        Ok(self.rows().iter().try_for_each(|row| check(row, model))?)
    }

    /// Whether all numbers that a later step would use are finite.
    pub(crate) fn is_finite(&self) -> bool {
        let finite = |x: Tensor<2>| x.is_finite().all().into_scalar::<bool>();
        let memory = self.memory();
        let filled = |row: usize| finite(memory.clone().narrow(0, row, 1).narrow(1, 0, self.slots(row)).squeeze_dim(0));
        finite(self.hidden()) && self.cell().is_none_or(finite) && (0..self.batch()).all(filled)
    }

    /// The size of the hidden state.
    pub(crate) fn units(&self) -> usize {
        match &self.held {
            Held::Tensors(tensors) => tensors.hidden.dims()[1],
            #[cfg(feature = "flex")]
            Held::Engine(carried) => carried.units(),
        }
    }

    /// Whether the cell has a cell state (R15).
    pub(crate) fn has_cell(&self) -> bool {
        match &self.held {
            Held::Tensors(tensors) => tensors.cell.is_some(),
            #[cfg(feature = "flex")]
            Held::Engine(carried) => carried.has_cell(),
        }
    }

    /// The first element type that is not the wanted one.
    pub(crate) fn other_dtype(&self, wanted: DType) -> Option<DType> {
        let got = match &self.held {
            Held::Tensors(Tensors { hidden, cell, memory, .. }) => {
                let cell = cell.as_ref().map_or(wanted, |cell| cell.dtype());
                [hidden.dtype(), cell, memory.dtype()]
            }
            #[cfg(feature = "flex")]
            Held::Engine(_) => [DType::F32; 3],
        };
        got.into_iter().find(|got| *got != wanted)
    }

    /// The device of the tensors.
    pub(crate) fn device(&self) -> Device {
        match &self.held {
            Held::Tensors(tensors) => tensors.hidden.device(),
            #[cfg(feature = "flex")]
            Held::Engine(_) => Device::flex(),
        }
    }

    /// The number of rows in the batch.
    pub fn batch(&self) -> usize {
        self.rows().len()
    }

    /// The hidden state h of the last step, `[batch, hidden]`, without gradient.
    pub fn hidden(&self) -> Tensor<2> {
        match &self.held {
            Held::Tensors(tensors) => tensors.hidden.clone(),
            #[cfg(feature = "flex")]
            Held::Engine(carried) => carried.hidden(),
        }
    }

    /// The cell state c of the last step, `[batch, hidden]`, without gradient; `None` for a cell that carries none
    /// (R15).
    pub fn cell(&self) -> Option<Tensor<2>> {
        match &self.held {
            Held::Tensors(tensors) => tensors.cell.clone(),
            #[cfg(feature = "flex")]
            Held::Engine(carried) => carried.cell(),
        }
    }

    /// The memories, `[batch, slots, hidden]`. A row fills its first [`slots`](SabState::slots); the rest is
    /// unspecified.
    pub fn memory(&self) -> Tensor<3> {
        match &self.held {
            Held::Tensors(tensors) => tensors.memory.clone(),
            #[cfg(feature = "flex")]
            Held::Engine(carried) => carried.memory(),
        }
    }

    /// The number of slots that a row fills, including its null slot; 0 for a row that does not exist.
    pub fn slots(&self, row: usize) -> usize {
        self.slot_steps(row).len()
    }

    /// The steps whose hidden states a row's memories hold, oldest first; the null slot is step 0.
    pub fn slot_steps(&self, row: usize) -> &[u64] {
        self.rows().get(row).map_or(&[], |row| &row.slot_steps)
    }

    /// The decayed sums of weights that a row's memories have received (R18); empty unless the eviction rule uses them.
    pub fn received(&self, row: usize) -> &[f32] {
        self.rows().get(row).map_or(&[], |row| &row.received)
    }

    /// Steps that each row has taken since it was fresh.
    pub fn steps(&self) -> Vec<u64> {
        self.rows().iter().map(|row| row.steps).collect()
    }

    /// Only every `k_att`-th state can be in the memory.
    pub fn k_att(&self) -> usize {
        self.k_att
    }

    /// Makes room for so many memories in each row, the null slot included. It changes no result: a long stream whose
    /// length is known takes less memory if its memories need not be copied as they grow. A state of the portable path
    /// stays as it is. An error if no machine has that much memory.
    pub fn reserve(&mut self, memories: usize) -> Result<()> {
        match &mut self.held {
            Held::Tensors(_) => Ok(()),
            #[cfg(feature = "flex")]
            Held::Engine(carried) => carried.reserve(memories),
        }
    }

    /// Resets rows to zero states, a memory with only a null slot, and step count 0. Does not touch the other rows.
    pub fn reset(&mut self, rows: &[usize]) -> Result<()> {
        let batch = self.batch();
        if let Some(row) = rows.iter().find(|row| **row >= batch) {
            return Err(SabError::State(format!("there is no row {row} to reset: the batch has {batch} rows")));
        }
        match &mut self.held {
            Held::Tensors(tensors) => tensors.reset(rows),
            #[cfg(feature = "flex")]
            Held::Engine(carried) => carried.reset(rows)?,
        }
        Ok(())
    }

    /// The state as plain data.
    pub fn to_record(&self) -> SabStateRecord {
        let rows = self.rows();
        let received = rows.iter().any(|row| !row.received.is_empty());
        SabStateRecord {
            hidden: self.hidden().to_data(),
            cell: self.cell().map(|cell| cell.to_data()),
            memory: self.memory().to_data(),
            steps: self.steps(),
            k_att: self.k_att,
            slot_steps: rows.iter().map(|row| row.slot_steps.clone()).collect(),
            received: if received { rows.iter().map(|row| row.received.clone()).collect() } else { Vec::new() },
            segments: self.segments().map(SegmentsRecord::of),
        }
    }

    /// Restores the state of a record on a device. A damaged record is an error.
    pub fn from_record(record: SabStateRecord, device: &Device) -> Result<Self> {
        let SabStateRecord { hidden, cell, memory, steps, k_att, slot_steps, received, segments } = record;
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
                slot_steps: listed.unwrap_or_else(slots),
                received: received.get(row).cloned().unwrap_or_default(),
            }
        };
        let rows: Vec<RowStart> = steps.into_iter().enumerate().map(start).collect();
        let slots: Vec<usize> = rows.iter().map(|row| row.slot_steps.len()).collect();
        let segments = segments.map(|segments| segments.restore(&slots)).transpose()?;
        let tensor = |data: TensorData| Tensor::from_data(data, (&device, dtype));
        let memory = Tensor::from_data(memory, (&device, dtype));
        Ok(Self::from_tensors(tensor(hidden), cell.map(tensor), memory, rows, k_att)?.with_segments(segments))
    }
}

impl Tensors {
    fn reset(&mut self, rows: &[usize]) {
        let [batch, units] = self.hidden.dims();
        let kept: Vec<i32> = (0..batch).map(|row| i32::from(!rows.contains(&row))).collect();
        let kept = TensorData::new(kept, [batch]);
        let fresh = Tensor::<1, Int>::from_data(kept, &self.hidden.device()).equal_elem(0);
        let mask = fresh.clone().unsqueeze_dim::<2>(1).expand([batch, units]);
        self.hidden = self.hidden.clone().mask_fill(mask.clone(), 0.0);
        self.cell = self.cell.take().map(|cell| cell.mask_fill(mask, 0.0));
        let shape = self.memory.dims();
        let mask = fresh.unsqueeze_dim::<2>(1).unsqueeze_dim::<3>(2).expand(shape);
        self.memory = self.memory.clone().mask_fill(mask, 0.0);
        rows.iter().for_each(|row| self.rows[*row] = RowStart::fresh());
        if let Some(segments) = &mut self.segments {
            segments.reset(rows);
        }
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
