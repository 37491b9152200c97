//! The loop of the forward pass over the steps.

use super::attention::Scratch;
use super::sequence::Sequence;
use crate::index::MemoryIndex;
use crate::memory::RowMemory;
use crate::team::Worker;

/// What a row's owner works with.
pub(super) struct RowWork {
    pub(super) memory: RowMemory,
    pub(super) index: MemoryIndex,
    /// How many carried memories have a key already.
    pub(super) keys: usize,
}

impl Sequence<'_> {
    /// Takes a thread's rows through all steps.
    pub(super) fn run(&self, worker: &Worker<'_>, rows: &mut [RowWork]) {
        let (problem, attends) = (self.problem, self.problem.model.attends());
        let mut scratch = Scratch::default();
        self.start(worker, rows);
        worker.sync();
        for t in 0..problem.time {
            self.cell(worker, t);
            worker.sync();
            if attends {
                // columns: projects h_hat of all rows
                let (rows, padded, query) = (&worker.rows, problem.padded, self.weights.query());
                let from = self.h_hat.at(rows.start * padded, rows.len() * padded);
                let to = self.projections.queries_at(t, rows.clone());
                self.multiply(worker.part(query.panels()), rows.len(), (from, padded), query, 0..query.k(), to);
                worker.sync();
            }
            for (row, work) in worker.own_rows().zip(rows.iter_mut()) {
                if attends {
                    self.remind(row, t, work, &mut scratch);
                } else {
                    self.without_attention(row, t);
                }
                self.decide(row, t, &mut work.memory);
            }
            self.feed(worker, t + 1);
            worker.sync();
            if attends {
                self.store(worker, t);
            }
        }
    }

    /// rows: sets the initial hidden state and the first input, and computes the keys of the carried memories.
    fn start(&self, worker: &Worker<'_>, rows: &[RowWork]) {
        let (problem, padded) = (self.problem, self.problem.padded);
        let width = problem.recurrent_width();
        for (row, work) in worker.own_rows().zip(rows) {
            // SAFETY: see `Sequence`; rows.
            let recurrent = unsafe { self.recurrent.slice_mut(row * width, width) };
            recurrent[..padded].copy_from_slice(&self.states.initial_hidden[row * padded..(row + 1) * padded]);
            if problem.model.attends() {
                let (slots, key) = (work.keys..work.memory.carried(), &self.weights.key);
                let to = self.projections.keys_at(row, slots.clone());
                let carried = &self.states.carried.row(row)[slots.start * padded..slots.end * padded];
                self.multiply(0..key.panels(), slots.len(), (carried.as_ptr(), padded), key, 0..key.k(), to);
                // SAFETY: see `Sequence`; rows.
                slots.for_each(|slot| unsafe { self.projections.finish_key(row, slot) });
            }
        }
        self.feed(worker, 0);
    }
}
