//! The memory in tensors (R2, R18): one column for each step at which some row stores, and a mask of the columns that
//! each row holds.
//!
//! Rows may have taken different numbers of steps and may hold different memories. A column that a row does not hold is
//! masked out of its scores, so its contents do not matter.

use super::credit::Trail;
use super::held::{Held, rows_mask};
use super::parts::Scorer;
use crate::error::Result;
use crate::state::{SabState, pick_slots};
use attentive_engine::{Evict, Model, RECEIVED_DECAY, Reminder, Reminders, RowStart, Store, keep_largest};
use burn::tensor::{Device, Tensor, TensorData};

/// One row's slots. For each column: the step whose state the row holds there, if any, and the received weights.
struct Row {
    steps_before: u64,
    slots: Vec<Option<u64>>,
    received: Vec<f32>,
}

impl Row {
    fn held(&self) -> impl Iterator<Item = usize> {
        (0..self.slots.len()).filter(|column| self.slots[*column].is_some())
    }
}

pub(super) struct Memory<'a> {
    model: &'a Model,
    /// `m_i`, `[batch, slots, hidden]`, and their keys for the scorer. Without attention, new memories wait and are
    /// concatenated at the end.
    states: Tensor<3>,
    keys: Option<Tensor<3>>,
    waiting: Vec<Tensor<3>>,
    rows: Vec<Row>,
    /// Each row's newest memory, `[batch, hidden]`, if the store reads it.
    newest: Option<Tensor<2>>,
}

impl<'a> Memory<'a> {
    /// The memories that a state carries, `[batch, slots, hidden]`.
    pub(super) fn carried(state: &SabState) -> Tensor<3> {
        let filled: Vec<Vec<usize>> = state.rows().iter().map(|start| (0..start.slot_steps.len()).collect()).collect();
        let carried = state.memory();
        // The contents behind a row's slots are unspecified, and zero times NaN is NaN: pick the slots.
        let all = filled.iter().all(|slots| slots.len() == carried.dims()[1]);
        if all { carried } else { pick_slots(&carried, &filled) }
    }

    pub(super) fn new(model: &'a Model, state: &SabState, states: Tensor<3>, scorer: Option<&Scorer>) -> Self {
        let [batch, room, units] = states.dims();
        let row = |start: &RowStart| {
            let mut slots: Vec<Option<u64>> = start.slot_steps.iter().copied().map(Some).collect();
            slots.resize(room, None);
            let mut received = start.received.to_vec();
            received.resize(room, 0.0);
            Row { steps_before: start.steps, slots, received }
        };
        let rows: Vec<Row> = state.rows().iter().map(row).collect();
        let newest = (model.store.store == Store::Novelty).then(|| {
            let last = rows.iter().map(|row| row.held().last().into_iter().collect());
            pick_slots(&states, &last.collect::<Vec<_>>()).squeeze_dim(1)
        });
        // R10: only the scorer's own parameters get gradient through the keys, unless `score_gradient = full`. Carried
        // memories are data without credit across calls (R21).
        let scored = if model.scores_reach_memories() { states.clone() } else { states.clone().detach() };
        let key = |scorer: &Scorer| scorer.key(scored.reshape([batch * room, units])).reshape([batch, room, units]);
        Self { model, keys: scorer.map(key), states, waiting: Vec::new(), rows, newest }
    }

    /// The largest number of slots that a row may fill within `time` steps.
    pub(super) fn room(&self, time: usize) -> usize {
        let stored = |row: &Row| row.held().count() + (1..=time as u64).filter(|t| self.considers(row, *t)).count();
        self.rows.iter().map(stored).max().unwrap_or(1)
    }

    fn considers(&self, row: &Row, t: u64) -> bool {
        self.model.store.considers(row.steps_before + t)
    }

    pub(super) fn states(&self) -> Tensor<3> {
        self.states.clone()
    }

    pub(super) fn keys(&self) -> Tensor<3> {
        self.keys.clone().unwrap_or_else(|| self.states.clone())
    }

    /// Which slots each row holds; `None` means all of them.
    pub(super) fn held(&self) -> Option<Held> {
        let counts: Vec<usize> = self.rows.iter().map(|row| row.held().count()).collect();
        let (fewest, most) = (counts.iter().copied().min()?, counts.iter().copied().max()?);
        let slots = self.rows[0].slots.len();
        if fewest == slots {
            return None;
        }
        let held: Vec<bool> = self.rows.iter().flat_map(|row| row.slots.iter().map(Option::is_some)).collect();
        let mask = Tensor::from_data(TensorData::new(held, [self.rows.len(), slots]), &self.device());
        Some(Held { mask, fewest, most, counts })
    }

    fn device(&self) -> Device {
        self.states.device()
    }

    /// Updates the received weights of each memory at step `t` (R18), and records the reminders if requested.
    pub(super) fn attend(&mut self, weights: &Tensor<2>, reminders: Option<&mut Reminders>, t: usize) {
        let counted = self.model.store.capacity.is_some() && self.model.store.evict == Evict::LeastAttended;
        if !counted && reminders.is_none() {
            return;
        }
        let [_, slots] = weights.dims();
        let values: Vec<f32> = weights.to_data().iter::<f64>().map(|w| w as f32).collect();
        if counted {
            for (row, weights) in self.rows.iter_mut().zip(values.chunks_exact(slots)) {
                let received = row.received.iter_mut().zip(weights);
                received.for_each(|(received, weight)| *received = *received * RECEIVED_DECAY + weight);
            }
        }
        let Some(reminders) = reminders else { return };
        for (number, (row, weights)) in self.rows.iter().zip(values.chunks_exact(slots)).enumerate() {
            let chosen = row.slots.iter().zip(weights);
            let chosen = chosen.filter_map(|(step, weight)| step.map(|step| Reminder { step, weight: *weight }));
            reminders.set(number, t, |entries| keep_largest(entries, chosen));
        }
    }

    /// Stores h(t) of the rows whose store takes it (R2, R18). The memory gets no gradient without mental updates
    /// (R11), and none through its score unless `score_gradient = full` (R10).
    pub(super) fn store(&mut self, t: usize, h: &Tensor<2>, scorer: Option<&Scorer>) {
        let step = |row: &Row| row.steps_before + t as u64 + 1;
        let mut stores: Vec<bool> = self.rows.iter().map(|row| self.model.store.considers(step(row))).collect();
        if !stores.contains(&true) {
            return;
        }
        if let Some(newest) = self.newest.take() {
            // No gradient runs through the decision, and one read serves the whole batch.
            let data = h.clone().detach();
            let distance = squares(data.clone() - newest.clone());
            let (norm, novelty) = (squares(data.clone()), self.model.store.novelty);
            let novel = distance.iter().zip(&norm).map(|(distance, norm)| *distance > novelty * novelty * norm);
            stores.iter_mut().zip(novel).for_each(|(stores, novel)| *stores &= novel);
            let mask = rows_mask(&stores, &h.device()).unsqueeze_dim::<2>(1).expand(h.dims());
            self.newest = Some(newest.mask_where(mask, data));
        }
        if !stores.contains(&true) {
            return;
        }
        for (row, stores) in self.rows.iter_mut().zip(&stores) {
            if *stores {
                make_room(self.model, row);
            }
            row.slots.push(stores.then(|| step(row)));
            row.received.push(0.0);
        }
        let state = if self.model.mental_updates { h.clone() } else { h.clone().detach() };
        let column = state.clone().unsqueeze_dim::<3>(1);
        let Some((scorer, keys)) = scorer.zip(self.keys.take()) else {
            self.waiting.push(column);
            return;
        };
        let scored = if self.model.scores_reach_memories() { state } else { state.detach() };
        let key = scorer.key(scored).unsqueeze_dim::<3>(1);
        self.keys = Some(Tensor::cat(vec![keys, key], 1));
        self.states = Tensor::cat(vec![self.states.clone(), column], 1);
    }

    /// The rows whose sequential gradient is cut right after step `t` (R9).
    pub(super) fn cut_after(&self, t: usize) -> Vec<bool> {
        self.rows.iter().map(|row| self.model.cut_after(row.steps_before + t as u64 + 1)).collect()
    }

    /// The state for the next call.
    pub(super) fn into_state(
        self, h: Tensor<2>, c: Option<Tensor<2>>, time: usize, trail: Option<&Trail<'_>>,
    ) -> Result<SabState> {
        let parts = [self.states].into_iter().chain(self.waiting).map(Tensor::inner).collect();
        let states = Tensor::cat(parts, 1);
        let slots: Vec<Vec<usize>> = self.rows.iter().map(|row| row.held().collect()).collect();
        let all = slots.iter().all(|slots| slots.len() == states.dims()[1]);
        let counted = self.model.store.capacity.is_some() && self.model.store.evict == Evict::LeastAttended;
        let end = |(row, slots): (Row, &Vec<usize>)| RowStart {
            steps: row.steps_before + time as u64,
            slot_steps: slots.iter().filter_map(|slot| row.slots[*slot]).collect(),
            received: slots.iter().filter(|_| counted).map(|slot| row.received[*slot]).collect(),
        };
        let held = |(row, slots): (&Row, &Vec<usize>)| {
            let steps = slots.iter().filter_map(|slot| Some((row.slots[*slot]?, *slot))).collect();
            (row.steps_before, steps)
        };
        let segments = trail.map(|trail| trail.segments(&self.rows.iter().zip(&slots).map(held).collect::<Vec<_>>()));
        let rows = self.rows.into_iter().zip(&slots).map(end).collect();
        let memory = if all { states } else { pick_slots(&states, &slots) };
        Ok(SabState::from_tensors(h, c, memory, rows, self.model.store.k_att)?.with_segments(segments))
    }
}

/// Evicts a memory of a row that has reached its capacity (R18). The null slot stays.
fn make_room(model: &Model, row: &mut Row) {
    let Some(capacity) = model.store.capacity else { return };
    let held: Vec<usize> = row.held().skip(1).collect();
    if held.len() < capacity {
        return;
    }
    let victim = match model.store.evict {
        Evict::Oldest => held.first(),
        // `min_by` returns the first of equal elements: the older one.
        Evict::LeastAttended => held.iter().min_by(|a, b| row.received[**a].total_cmp(&row.received[**b])),
    };
    if let Some(victim) = victim {
        row.slots[*victim] = None;
    }
}

/// `sum(x^2)` of each row, on the host.
fn squares(x: Tensor<2>) -> Vec<f64> {
    (x.clone() * x).sum_dim(1).to_data().iter::<f64>().collect()
}
