//! Projected memories (keys) and queries of one call, and the scores of a row's memories (R3). Both passes need them.

use crate::index::{MemoryIndex, Question, Search};
use crate::memory::{Place, RowMemory};
use crate::pool::Buffer;
use crate::problem::Problem;
use crate::scorers::{Cached, Keys as Cache, Room};
use crate::state::{Keys, Slots};
use crate::team::Shared;
use std::ops::Range;
#[cfg(test)]
use {crate::index::SEARCHES, std::sync::atomic::Ordering};

/// Keys and queries in the form that the scorer caches.
#[derive(Debug)]
pub(crate) struct Projections {
    /// `[batch, slot_room, padded]`
    pub(crate) keys: Keys,
    queries: Queries,
}

/// The queries of the steps on a tape, `[time, batch, padded]`, with one note each.
#[derive(Debug)]
pub(crate) struct Queries {
    values: Buffer,
    notes: Vec<f32>,
}

impl Queries {
    pub(crate) fn new(queries: usize, padded: usize) -> Self {
        Self { values: Buffer::take(queries * padded), notes: vec![0.0; queries] }
    }

    /// A view that several threads write, each its own rows.
    pub(crate) fn share<'a>(&'a mut self, problem: &'a Problem) -> QueryView<'a> {
        QueryView { problem, values: Shared::new(self.values.as_mut_slice()), notes: Shared::new(&mut self.notes) }
    }

    /// A read-only view.
    pub(crate) fn view<'a>(&'a self, problem: &'a Problem) -> QueryView<'a> {
        QueryView { problem, values: Shared::read_only(self.values.as_slice()), notes: Shared::read_only(&self.notes) }
    }
}

/// [`Queries`] as the threads of a call see them.
#[derive(Clone, Copy)]
pub(crate) struct QueryView<'a> {
    problem: &'a Problem,
    pub(crate) values: Shared<'a, f32>,
    notes: Shared<'a, f32>,
}

impl<'a> QueryView<'a> {
    /// Turns a projected query into its cached form.
    ///
    /// # Safety
    /// The row must belong to the calling thread.
    pub(crate) unsafe fn finish(&self, row: usize, t: usize) {
        let (problem, index) = (self.problem, self.problem.tape_row(t, row));
        // SAFETY: the caller's promise.
        unsafe {
            let query = self.values.slice_mut(index * problem.padded, problem.padded);
            self.notes.set(index, problem.model.scorer.part().cache_query(problem.isa, problem.hidden, query));
        }
    }

    /// # Safety
    /// No other thread may be writing this query.
    pub(crate) unsafe fn get(&self, row: usize, t: usize) -> Cached<'a> {
        let (padded, index) = (self.problem.padded, self.problem.tape_row(t, row));
        // SAFETY: the caller's promise.
        unsafe { Cached { values: self.values.slice(index * padded, padded), note: self.notes.get(index) } }
    }
}

impl Projections {
    /// With the keys that a state carries, if they serve. The problem's room for slots becomes that of the keys.
    pub(crate) fn new(problem: &mut Problem, carried: Option<Keys>, weights: u64) -> Self {
        let room = problem.if_attends(problem.slot_room);
        let keys = match carried {
            Some(mut keys) => {
                keys.grow(room);
                keys
            }
            None => Keys::take(problem.batch, room, problem.padded, weights),
        };
        if problem.model.attends() {
            problem.slot_room = keys.slots.room;
        }
        let queries = problem.if_attends(problem.tape_steps() * problem.batch);
        Self { keys, queries: Queries::new(queries, problem.padded) }
    }

    /// A view that several threads write, each its own rows.
    pub(crate) fn share<'a>(&'a mut self, problem: &'a Problem, vector: &'a [f32]) -> ProjectionView<'a> {
        ProjectionView {
            problem,
            vector,
            keys: Shared::new(self.keys.slots.values.as_mut_slice()),
            key_notes: Shared::new(&mut self.keys.notes),
            queries: self.queries.share(problem),
        }
    }

    /// A read-only view.
    pub(crate) fn view<'a>(&'a self, problem: &'a Problem, vector: &'a [f32]) -> ProjectionView<'a> {
        ProjectionView {
            problem,
            vector,
            keys: Shared::read_only(self.keys.slots.values.as_slice()),
            key_notes: Shared::read_only(&self.keys.notes),
            queries: self.queries.view(problem),
        }
    }
}

/// [`Projections`] as the threads of a call see them.
#[derive(Clone, Copy)]
pub(crate) struct ProjectionView<'a> {
    problem: &'a Problem,
    /// The scorer's vector.
    pub(crate) vector: &'a [f32],
    keys: Shared<'a, f32>,
    key_notes: Shared<'a, f32>,
    pub(crate) queries: QueryView<'a>,
}

impl<'a> ProjectionView<'a> {
    /// The destination for the projections of consecutive slots.
    pub(crate) fn keys_at(&self, row: usize, slots: Range<usize>) -> *mut f32 {
        let padded = self.problem.padded;
        self.keys.at(self.problem.slot(row, slots.start) * padded, slots.len() * padded)
    }

    /// The destination for the projected queries of consecutive rows.
    pub(crate) fn queries_at(&self, t: usize, rows: Range<usize>) -> *mut f32 {
        let padded = self.problem.padded;
        self.queries.values.at(self.problem.tape_row(t, rows.start) * padded, rows.len() * padded)
    }

    /// Turns a projected memory into its cached form.
    ///
    /// # Safety
    /// The row must belong to the calling thread.
    pub(crate) unsafe fn finish_key(&self, row: usize, slot: usize) {
        let (problem, index) = (self.problem, self.problem.slot(row, slot));
        // SAFETY: the caller's promise.
        unsafe {
            let key = self.keys.slice_mut(index * problem.padded, problem.padded);
            self.key_notes.set(index, problem.model.scorer.part().cache_key(problem.isa, key));
        }
    }

    /// The scores of a row's slots against its query at step `t`, run after run.
    pub(crate) fn scores(
        &self, row: usize, t: usize, runs: impl Iterator<Item = Range<usize>>, room: &mut Room, scores: &mut Vec<f32>,
    ) {
        let (problem, padded) = (self.problem, self.problem.padded);
        let mut lost = false;
        scores.clear();
        for run in runs {
            let (first, filled) = (problem.slot(row, run.start), scores.len());
            scores.resize(filled + run.len(), 0.0);
            // SAFETY: this row's keys and queries belong to the calling thread, or nobody writes them any more.
            unsafe {
                let keys = Cache {
                    values: self.keys.slice(first * padded, run.len() * padded),
                    notes: self.key_notes.slice(first, run.len()),
                };
                let (scorer, query) = (problem.model.scorer.part(), self.queries.get(row, t));
                lost |= scorer.scores(problem.isa, keys, query, self.vector, room, &mut scores[filled..]);
            }
        }
        if lost {
            // A single NaN score would silently not be chosen. Setting all of them to NaN makes the state NaN, which is
            // reported as an error.
            scores.fill(f32::NAN);
        }
    }

    /// Finds the `kept` best memories of a row by its index (R19). Returns false if every memory must be scored
    /// instead.
    pub(crate) fn search(
        &self, (row, t): (usize, usize), memory: &RowMemory, index: &mut MemoryIndex, kept: usize, room: &mut Room,
        search: &mut Search,
    ) -> bool {
        let (problem, padded) = (self.problem, self.problem.padded);
        let (first, slots) = (problem.slot(row, 0), memory.newest() + 1);
        if !problem.searches || !MemoryIndex::pays(slots, memory.live().map_or(slots, <[u32]>::len), kept) {
            return false;
        }
        let scorer = problem.model.scorer.part();
        let Some(bounds) = scorer.bounds() else { return false };
        // SAFETY: this row's keys and queries belong to the calling thread, or are no longer written.
        let (values, notes, query) = unsafe {
            let values = self.keys.slice(first * padded, slots * padded);
            (values, self.key_notes.slice(first, slots), self.queries.get(row, t))
        };
        let (keys, isa, vector, live) = (Cache { values, notes }, problem.isa, self.vector, memory.live());
        // The state of a call without a tape carries the index on.
        let steps_left = if problem.tracked { problem.time - t } else { usize::MAX };
        let found =
            index.search(&Question { scorer, bounds, isa, keys, query, vector, live, steps_left }, kept, room, search);
        #[cfg(test)]
        SEARCHES.fetch_add(usize::from(found), Ordering::SeqCst);
        found
    }

    /// # Safety
    /// No other thread may be writing this key.
    pub(crate) unsafe fn key(&self, row: usize, slot: usize) -> Cached<'a> {
        let (padded, index) = (self.problem.padded, self.problem.slot(row, slot));
        // SAFETY: the caller's promise.
        unsafe { Cached { values: self.keys.slice(index * padded, padded), note: self.key_notes.get(index) } }
    }
}

/// The states of a call: the carried ones and the computed ones.
#[derive(Clone, Copy)]
pub(crate) struct States<'a> {
    /// `[batch, time, input]`, empty for tokens.
    pub(crate) dense: &'a [f32],
    /// `[batch, time, padded]`
    pub(crate) hidden: Shared<'a, f32>,
    /// `[batch, padded]`
    pub(crate) initial_hidden: &'a [f32],
    /// The carried memories.
    pub(crate) carried: &'a Slots,
}

impl States<'_> {
    /// The state of a slot.
    pub(crate) fn memory(&self, problem: &Problem, row: usize, memory: &RowMemory, slot: usize) -> *const f32 {
        match memory.place(slot) {
            Place::Step(t) => self.hidden.at(problem.sequence_row(row, t), problem.padded),
            Place::Carried(slot) => self.carried.row(row)[slot * problem.padded..][..problem.padded].as_ptr(),
        }
    }

    /// h(t-1)
    pub(crate) fn hidden_before(&self, problem: &Problem, row: usize, t: usize) -> *const f32 {
        match t.checked_sub(1) {
            Some(before) => self.hidden.at(problem.sequence_row(row, before), problem.padded),
            None => self.initial_hidden[row * problem.padded..][..problem.padded].as_ptr(),
        }
    }
}
