//! [`State`]: what a batch carries from one call to the next (R14).

use crate::error::{EngineError, Result, all_finite, check_length};
use crate::index::MemoryIndex;
use crate::kernels::gemm::PANEL;
use crate::memory::{Kept, Place, RowStart};
use crate::model::Model;
use crate::pool::Buffer;
use crate::segments::Segments;
use std::sync::Arc;

/// Hidden state, cell state and memories of every row of a batch.
///
/// [`forward`](crate::forward()) takes a state and leaves the next one. The memories that the call stored are rows of
/// the call's hidden states. [`settle`](State::settle) copies them before the next call: a training that starts every
/// sequence afresh never needs them.
///
/// Besides the memories, a state that comes from a call without a tape holds their keys and the index over them, so
/// that one more step costs no more than the step itself. They serve as long as the weights are the same.
#[derive(Clone, Debug)]
pub struct State {
    units: usize,
    pub(crate) padded: usize,
    pub(crate) rows: Vec<RowStart>,
    /// `[batch, padded]`
    pub(crate) hidden: Vec<f32>,
    /// `[batch, padded]`; empty for a cell without a cell state (R15).
    pub(crate) cell: Vec<f32>,
    pub(crate) memory: Arc<Slots>,
    pub(crate) keys: Option<Keys>,
    /// The steps that led to the memories, if the model asks for them (R21).
    pub(crate) segments: Option<Segments>,
    pub(crate) unsettled: Option<Unsettled>,
}

/// The memories that a call left behind, and those that it stored.
#[derive(Clone, Debug)]
pub(crate) struct Unsettled {
    pub(crate) time: usize,
    pub(crate) rows: Vec<Kept>,
}

impl State {
    /// Fresh rows: zero states, and a memory with only the null slot (R2).
    pub fn fresh(model: &Model, batch: usize) -> Self {
        let padded = model.hidden.next_multiple_of(PANEL);
        let zeros = vec![0.0; batch * padded];
        Self {
            units: model.hidden,
            padded,
            rows: vec![RowStart::fresh(); batch],
            memory: Arc::new(Slots::padded(batch, 1, model.hidden, &[])),
            cell: if model.cell.carries() { zeros.clone() } else { Vec::new() },
            hidden: zeros,
            keys: None,
            segments: None,
            unsettled: None,
        }
    }

    /// A state from plain data: `hidden` and `cell`, `[batch, hidden]`, and `memory`, `[batch, slots, hidden]` with each
    /// row's slots first. `cell` is empty for a cell without a cell state. A state that contradicts itself or the model
    /// is an error.
    pub fn new(model: &Model, rows: Vec<RowStart>, hidden: &[f32], cell: &[f32], memory: &[f32]) -> Result<Self> {
        let (batch, units) = (rows.len(), model.hidden);
        if batch == 0 {
            return Err(EngineError::Length { what: "rows", got: 0, expected: 1 });
        }
        rows.iter().try_for_each(|row| row.check(model))?;
        check_length("hidden", hidden.len(), batch * units)?;
        check_length("cell", cell.len(), if model.cell.carries() { batch * units } else { 0 })?;
        let room = memory.len() / (batch * units);
        let most = rows.iter().map(|row| row.slot_steps.len()).max().unwrap_or(1);
        if room < most {
            let why = format!("it has room for {room} memories per row, but a row holds {most}");
            return Err(EngineError::State(why));
        }
        check_length("memory", memory.len(), batch * room * units)?;
        let mut memories = memory.chunks_exact(room * units).zip(&rows);
        let finite = all_finite(hidden)
            && all_finite(cell)
            && memories.all(|(memory, row)| all_finite(&memory[..row.slot_steps.len() * units]));
        if !finite {
            return Err(EngineError::NonFinite { what: "state", place: String::new() });
        }
        let padded = units.next_multiple_of(PANEL);
        Ok(Self {
            units,
            padded,
            memory: Arc::new(Slots::padded(batch, room, units, memory)),
            hidden: Slots::padded(batch, 1, units, hidden).values.as_slice()[..batch * padded].to_vec(),
            cell: match cell.is_empty() {
                true => Vec::new(),
                false => Slots::padded(batch, 1, units, cell).values.as_slice()[..batch * padded].to_vec(),
            },
            rows,
            keys: None,
            segments: None,
            unsettled: None,
        })
    }

    /// The state with the steps that led to its memories (R21). Segments that contradict themselves, the state or the
    /// model are an error.
    pub fn with_segments(mut self, model: &Model, segments: Segments) -> Result<Self> {
        let slots: Vec<usize> = self.rows.iter().map(|row| row.slot_steps.len()).collect();
        segments.check(model, &slots)?;
        self.segments = Some(segments);
        Ok(self)
    }

    /// The steps that led to the memories (R21), if the model of the last call asked for them.
    pub fn segments(&self) -> Option<&Segments> {
        self.segments.as_ref()
    }

    /// The number of rows.
    pub fn batch(&self) -> usize {
        self.rows.len()
    }

    /// The step count and the memories' steps of each row.
    pub fn rows(&self) -> &[RowStart] {
        &self.rows
    }

    /// The size of the hidden state.
    pub fn units(&self) -> usize {
        self.units
    }

    /// The hidden state, `[batch, hidden]`.
    pub fn hidden(&self) -> Vec<f32> {
        self.without_padding(&self.hidden)
    }

    /// The cell state, `[batch, hidden]`; empty for a cell without one (R15).
    pub fn cell(&self) -> Vec<f32> {
        self.without_padding(&self.cell)
    }

    /// Whether the cell has a cell state (R15).
    pub fn has_cell(&self) -> bool {
        !self.cell.is_empty()
    }

    /// The memories, `[batch, slots, hidden]`, with zeros where a row holds fewer than another. The state must be
    /// [settled](State::is_settled).
    pub fn memory(&self) -> Result<Vec<f32>> {
        self.check_settled()?;
        let slots = self.rows.iter().map(|row| row.slot_steps.len()).max().unwrap_or(1);
        let mut all = vec![0.0; self.batch() * slots * self.units];
        for (row, to) in all.chunks_exact_mut(slots * self.units).enumerate() {
            let filled = &self.memory.row(row)[..self.rows[row].slot_steps.len() * self.padded];
            let pairs = to.chunks_exact_mut(self.units).zip(filled.chunks_exact(self.padded));
            pairs.for_each(|(to, from)| to.copy_from_slice(&from[..self.units]));
        }
        Ok(all)
    }

    /// Whether the state holds all its memories.
    pub fn is_settled(&self) -> bool {
        self.unsettled.is_none()
    }

    /// Copies the memories that the last call stored from its hidden states, `[batch, time, hidden]`. Does nothing to a
    /// settled state.
    pub fn settle(&mut self, hidden: &[f32]) -> Result<()> {
        let (units, padded) = (self.units, self.padded);
        if let Some(unsettled) = &self.unsettled {
            check_length("hidden", hidden.len(), self.batch() * unsettled.time * units)?;
        }
        let Some(Unsettled { time, rows }) = self.unsettled.take() else { return Ok(()) };
        let needed = self.rows.iter().map(|row| row.slot_steps.len()).max().unwrap_or(1);
        let memory = Arc::make_mut(&mut self.memory);
        memory.grow(needed);
        for (row, Kept { carried, stored, kept }) in rows.iter().enumerate() {
            let to = memory.row_mut(row);
            let mut copy = |slot: usize, place: Place| match place {
                Place::Carried(from) => to.copy_within(from * padded..(from + 1) * padded, slot * padded),
                Place::Step(t) => {
                    let to = &mut to[slot * padded..(slot + 1) * padded];
                    to[..units].copy_from_slice(&hidden[(row * time + t) * units..][..units]);
                    to[units..].fill(0.0);
                }
            };
            match kept {
                // Slots ascend, so no copy overwrites a memory that is still needed.
                Some(kept) => (0..).zip(kept).for_each(|(slot, place)| copy(slot, *place)),
                None => (*carried..).zip(stored).for_each(|(slot, t)| copy(slot, Place::Step(*t))),
            }
        }
        Ok(())
    }

    /// Makes room for so many memories in each row, the null slot included, so that a stream whose length is known
    /// does not copy its memories as they grow. An error if no machine has that much memory.
    pub fn reserve(&mut self, memories: usize) -> Result<()> {
        let a_memory = self.batch() * self.padded * size_of::<f32>();
        if memories.checked_mul(a_memory).is_none_or(|bytes| bytes > isize::MAX as usize) {
            let why = format!("there is no room for {memories} memories in each of {} rows", self.batch());
            return Err(EngineError::State(why));
        }
        if memories > self.memory.room {
            Arc::make_mut(&mut self.memory).grow(memories);
        }
        if let Some(keys) = &mut self.keys {
            keys.grow(memories);
        }
        Ok(())
    }

    /// Starts rows afresh. The state must be settled.
    pub fn reset(&mut self, rows: &[usize]) -> Result<()> {
        self.check_settled()?;
        let (batch, padded) = (self.batch(), self.padded);
        if let Some(row) = rows.iter().find(|row| **row >= batch) {
            let why = format!("there is no row {row} to reset: the batch has {batch} rows");
            return Err(EngineError::State(why));
        }
        if let Some(segments) = &mut self.segments {
            segments.reset(rows);
        }
        let memory = Arc::make_mut(&mut self.memory);
        for row in rows.iter().copied() {
            self.rows[row] = RowStart::fresh();
            self.hidden[row * padded..][..padded].fill(0.0);
            if let Some(cell) = self.cell.get_mut(row * padded..(row + 1) * padded) {
                cell.fill(0.0);
            }
            memory.row_mut(row)[..padded].fill(0.0);
            if let Some(keys) = &mut self.keys {
                keys.forget(row);
            }
        }
        Ok(())
    }

    /// Refuses a state that does not fit the model of a call.
    pub(crate) fn check(&self, model: &Model) -> Result<()> {
        self.check_settled()?;
        let wrong = |what: &str, got: String, right: String| {
            Err(EngineError::State(format!("its {what} is {got}, but {right} is needed")))
        };
        if self.units != model.hidden {
            return wrong("hidden size", self.units.to_string(), model.hidden.to_string());
        }
        if self.has_cell() != model.cell.carries() {
            let cell = model.cell;
            return Err(EngineError::State(match self.has_cell() {
                true => format!("it has a cell state, but the cell `{cell}` takes none"),
                false => format!("it has no cell state, but the cell `{cell}` needs one"),
            }));
        }
        self.rows.iter().try_for_each(|row| row.check_length(model))
    }

    fn check_settled(&self) -> Result<()> {
        match self.is_settled() {
            true => Ok(()),
            false => Err(EngineError::State("give it the hidden states of its call first, by `settle`".into())),
        }
    }

    fn without_padding(&self, values: &[f32]) -> Vec<f32> {
        values.chunks_exact(self.padded).flat_map(|row| &row[..self.units]).copied().collect()
    }
}

/// A vector for each slot of each row, `[batch, room, padded]`.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    pub(crate) values: Buffer,
    batch: usize,
    pub(crate) room: usize,
    padded: usize,
}

impl Slots {
    pub(crate) fn take(batch: usize, room: usize, padded: usize) -> Self {
        Self { values: Buffer::take(batch * room * padded), batch, room, padded }
    }

    /// Rows of `units` floats with zeros behind them. An empty `from` means zeros.
    fn padded(batch: usize, room: usize, units: usize, from: &[f32]) -> Self {
        let mut slots = Self::take(batch, room, units.next_multiple_of(PANEL));
        let padded = slots.padded;
        let to = &mut slots.values.as_mut_slice()[..batch * room * padded];
        to.fill(0.0);
        let rows = to.chunks_exact_mut(padded).zip(from.chunks_exact(units));
        rows.for_each(|(to, from)| to[..units].copy_from_slice(from));
        slots
    }

    pub(crate) fn row(&self, row: usize) -> &[f32] {
        &self.values.as_slice()[row * self.room * self.padded..][..self.room * self.padded]
    }

    pub(crate) fn row_mut(&mut self, row: usize) -> &mut [f32] {
        let len = self.room * self.padded;
        &mut self.values.as_mut_slice()[row * len..][..len]
    }

    /// Makes room for more slots: half as many again, so that a stream seldom copies them.
    pub(crate) fn grow(&mut self, needed: usize) {
        if needed <= self.room {
            return;
        }
        let room = if self.room == 1 { needed } else { needed.max(self.room + self.room / 2) };
        let mut grown = Self::take(self.batch, room, self.padded);
        let len = self.room * self.padded;
        (0..self.batch).for_each(|row| grown.row_mut(row)[..len].copy_from_slice(self.row(row)));
        *self = grown;
    }
}

impl Clone for Slots {
    fn clone(&self) -> Self {
        let mut copy = Self::take(self.batch, self.room, self.padded);
        let len = self.batch * self.room * self.padded;
        copy.values.as_mut_slice()[..len].copy_from_slice(&self.values.as_slice()[..len]);
        copy
    }
}

/// The keys of all slots (R3), and the index of each row (R19).
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    pub(crate) slots: Slots,
    /// One note per key, `[batch, room]`.
    pub(crate) notes: Vec<f32>,
    /// How many slots of each row have a key. The memory of a call's last step has none yet.
    pub(crate) filled: Vec<usize>,
    pub(crate) indexes: Vec<MemoryIndex>,
    /// The weights that made the keys.
    pub(crate) weights: u64,
}

impl Keys {
    pub(crate) fn take(batch: usize, room: usize, padded: usize, weights: u64) -> Self {
        Self {
            slots: Slots::take(batch, room, padded),
            notes: vec![0.0; batch * room],
            filled: vec![0; batch],
            indexes: vec![MemoryIndex::default(); batch],
            weights,
        }
    }

    pub(crate) fn grow(&mut self, needed: usize) {
        let before = self.slots.room;
        self.slots.grow(needed);
        let room = self.slots.room;
        if room > before {
            let mut notes = vec![0.0; self.filled.len() * room];
            let rows = notes.chunks_exact_mut(room).zip(self.notes.chunks_exact(before));
            rows.for_each(|(to, from)| to[..before].copy_from_slice(from));
            self.notes = notes;
        }
    }

    /// Keeps some slots of a row, which ascend.
    pub(crate) fn keep(&mut self, row: usize, kept: &[u32]) {
        let padded = self.slots.padded;
        let (keys, room) = (self.slots.row_mut(row), self.notes.len() / self.filled.len());
        let notes = &mut self.notes[row * room..][..room];
        for (slot, from) in kept.iter().map(|from| *from as usize).enumerate() {
            keys.copy_within(from * padded..(from + 1) * padded, slot * padded);
            notes[slot] = notes[from];
        }
        self.filled[row] = kept.partition_point(|slot| (*slot as usize) < self.filled[row]);
        // The index speaks of slots by their old numbers.
        self.indexes[row] = MemoryIndex::default();
    }

    fn forget(&mut self, row: usize) {
        self.filled[row] = 0;
        self.indexes[row] = MemoryIndex::default();
    }
}
