//! The loop of the forward pass over the steps.

use super::attention::Scratch;
use super::sequence::Sequence;
use crate::index::MemoryIndex;
use crate::memory::RowMemory;
use crate::team::Worker;

impl Sequence<'_> {
    /// Takes a thread's rows through all steps. Returns the memories of its own rows.
    pub(super) fn run(&self, worker: &Worker<'_>) -> Vec<RowMemory> {
        let (problem, attends) = (self.problem, self.problem.model.attends());
        let mut scratch = Scratch::default();
        let mut memories: Vec<RowMemory> =
            worker.own_rows().map(|row| RowMemory::new(&problem.model, &problem.rows[row])).collect();
        let mut indexes = vec![MemoryIndex::default(); memories.len()];
        self.start(worker, &memories);
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
            for ((row, memory), index) in worker.own_rows().zip(&mut memories).zip(&mut indexes) {
                if attends {
                    self.remind(row, t, memory, index, &mut scratch);
                } else {
                    self.without_attention(row, t);
                }
                self.decide(row, t, memory);
            }
            self.feed(worker, t + 1);
            worker.sync();
            if attends {
                self.store(worker, t);
            }
        }
        memories
    }

    /// rows: sets the initial hidden state and the first input, and computes the keys of the carried memories.
    fn start(&self, worker: &Worker<'_>, memories: &[RowMemory]) {
        let (problem, padded) = (self.problem, self.problem.padded);
        let width = problem.recurrent_width();
        for (row, memory) in worker.own_rows().zip(memories) {
            // SAFETY: see `Sequence`; rows.
            let recurrent = unsafe { self.recurrent.slice_mut(row * width, width) };
            recurrent[..padded].copy_from_slice(&self.states.initial_hidden[row * padded..(row + 1) * padded]);
            if problem.model.attends() {
                let (slots, key) = (memory.carried(), &self.weights.key);
                let to = self.projections.keys_at(row, 0..slots);
                let carried = &self.states.carried[row * problem.carried_room * padded..][..slots * padded];
                self.multiply(0..key.panels(), slots, (carried.as_ptr(), padded), key, 0..key.k(), to);
                // SAFETY: see `Sequence`; rows.
                (0..slots).for_each(|slot| unsafe { self.projections.finish_key(row, slot) });
            }
        }
        self.feed(worker, 0);
    }
}
