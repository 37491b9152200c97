//! The attention of a step (R3-R7), and the storing of its state (R2, R18).

use super::sequence::Sequence;
use super::steps::RowWork;
use crate::index::Search;
use crate::memory::RowMemory;
use crate::reminders::{Reminder, keep_largest};
use crate::scorers::Room;
use crate::sparsifiers::Choice;
use crate::team::Worker;

/// A thread's scratch space for the scores and the choice of one row.
#[derive(Default)]
pub(super) struct Scratch {
    scores: Vec<f32>,
    room: Room,
    search: Search,
    choice: Choice,
    memories: Vec<*const f32>,
}

impl Sequence<'_> {
    /// rows: computes scores, weights, summary and final hidden state of one row (R3-R7).
    pub(super) fn remind(&self, row: usize, t: usize, work: &mut RowWork, scratch: &mut Scratch) {
        let RowWork { memory, index, .. } = work;
        let (problem, padded) = (self.problem, self.problem.padded);
        let choice = &mut scratch.choice;
        // SAFETY: see `Sequence`; rows. This thread wrote the keys of this row, or a sync followed the write.
        unsafe { self.projections.queries.finish(row, t) };
        let (sparsifier, k_top) = (problem.model.sparsifier.part(), problem.model.most_chosen());
        // A sparsifier needs the k_top best and the threshold (R4, R17). Among many memories an index finds them (R19).
        let search = &mut scratch.search;
        let found = k_top.is_some_and(|k_top| {
            self.projections.search((row, t), memory, index, k_top.saturating_add(1), &mut scratch.room, search)
        });
        if found {
            sparsifier.choose(&search.scores, k_top, choice);
            choice.slots.iter_mut().for_each(|slot| *slot = memory.place_among_live(search.slots[*slot as usize]));
        } else {
            self.projections.scores(row, t, memory.runs(), &mut scratch.room, &mut scratch.scores);
            sparsifier.choose(&scratch.scores, k_top, choice);
        }
        memory.attend(choice);
        // SAFETY: see `Sequence`; rows.
        unsafe { self.choices.write(problem.choice_row(t, row), choice) };
        let chosen = choice.chosen();
        let state = |slot: &u32| self.states.memory(problem, row, memory, *slot as usize);
        scratch.memories.clear();
        scratch.memories.extend(choice.slots[..chosen].iter().map(state));
        let in_place = problem.hidden == padded;
        let sequence_row = problem.sequence_row(row, t);
        let summary_row = if in_place { sequence_row } else { row * padded };
        // SAFETY: see `Sequence`; rows. Memories were written by earlier steps of this row.
        unsafe {
            (problem.kernels.summarise)(
                padded,
                &choice.weights[..chosen],
                &scratch.memories,
                self.h_hat.at(row * padded, padded),
                self.summary.at(summary_row, padded),
                self.states.hidden.at(sequence_row, padded),
                self.recurrent.at(row * problem.recurrent_width(), padded),
            );
            if !in_place {
                let to = (row * problem.time + t) * problem.hidden;
                let summary = self.summary.slice(summary_row, problem.hidden);
                self.unpadded[1].slice_mut(to, problem.hidden).copy_from_slice(summary);
                let hidden = self.states.hidden.slice(sequence_row, problem.hidden);
                self.unpadded[0].slice_mut(to, problem.hidden).copy_from_slice(hidden);
            }
        }
        if let Some(reminders) = &self.reminders {
            let step = row * problem.time + t;
            let chosen = choice.slots[..chosen].iter().zip(&choice.weights);
            let chosen =
                chosen.map(|(slot, weight)| Reminder { step: memory.step_of(*slot as usize), weight: *weight });
            // SAFETY: see `Sequence`; rows.
            unsafe {
                let entries = reminders.entries.slice_mut(step * reminders.most, reminders.most);
                reminders.counts.set(step, keep_largest(entries, chosen));
            }
        }
    }

    /// rows: decides whether h(t) is stored (R2, R18). The state itself is not copied.
    pub(super) fn decide(&self, row: usize, t: usize, memory: &mut RowMemory) {
        let (problem, padded) = (self.problem, self.problem.padded);
        let rule = &problem.model.store;
        let (state, newest): (&[f32], &[f32]) = if rule.reads_states() {
            let newest = self.states.memory(problem, row, memory, memory.newest());
            // SAFETY: see `Sequence`; rows. The newest memory is a row of `padded` floats that nobody writes any more.
            unsafe {
                let state = self.states.hidden.slice(problem.sequence_row(row, t), padded);
                (state, std::slice::from_raw_parts(newest, padded))
            }
        } else {
            (&[], &[])
        };
        let stores = rule.stores(memory.step(t), state, newest);
        if stores {
            memory.store(&problem.model, t);
        }
        // SAFETY: see `Sequence`; rows.
        unsafe { self.stores.set(row, stores.then(|| memory.newest() as u32)) };
    }

    /// Computes the keys of the memories that step `t` stored.
    pub(super) fn store(&self, worker: &Worker<'_>, t: usize) {
        let (problem, padded) = (self.problem, self.problem.padded);
        // SAFETY: see `Sequence`; a sync followed the write.
        let any = worker.rows.clone().any(|row| unsafe { self.stores.get(row) }.is_some());
        // Only a later call can use the last step's memory, and it computes the key itself.
        if t + 1 == problem.time || !any {
            return;
        }
        // columns: projects h of all rows, including rows that store nothing
        let (width, rows, key) = (problem.recurrent_width(), worker.rows.len(), &self.weights.key);
        let from = self.recurrent.at(worker.rows.start * width, rows * width);
        let to = self.projected.at(worker.rows.start * padded, rows * padded);
        self.multiply(worker.part(key.panels()), rows, (from, width), key, 0..key.k(), to);
        worker.sync();
        for row in worker.own_rows() {
            // SAFETY: see `Sequence`; rows.
            unsafe {
                if let Some(slot) = self.stores.get(row).map(|slot| slot as usize) {
                    let projected = self.projected.at(row * padded, padded);
                    self.projections.keys_at(row, slot..slot + 1).copy_from_nonoverlapping(projected, padded);
                    self.projections.finish_key(row, slot);
                }
            }
        }
        worker.sync();
    }
}
