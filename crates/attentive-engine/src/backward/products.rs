//! Gradients of the weights: sums of outer products over all (row, step) pairs that have an adjoint.
//!
//! The sweep hands over pairs in chunks, while they are still in the cache. The threads pack the left-hand sides of a
//! chunk together. Then each thread multiplies its own columns. Pairs come in one fixed order, so the number of threads
//! does not change a bit.

use super::buffers::{ChunkView, MemoryView};
use super::left::{LeftSides, PAIRS, PackedLeft, ROWS};
use crate::aligned::Aligned;
use crate::cells::Layout;
use crate::kernels::Kernels;
use crate::kernels::gemm::PANEL;
use crate::memory::RowMemory;
use crate::problem::{Inputs, Problem};
use crate::projections::States;
use crate::team::{Shared, Worker};
use std::ops::Range;

/// A sum of outer products `sum over pairs of left^T right`, for some panels of its columns.
struct OuterSum {
    kernels: &'static Kernels,
    panels: Vec<usize>,
    packed_right: Aligned,
    /// The right-hand sides of the loaded pairs, packed.
    rows: Vec<*const f32>,
    pairs: usize,
}

impl OuterSum {
    fn new(kernels: &'static Kernels, panels: Vec<usize>) -> Self {
        let packed_right = Aligned::zeros(panels.len() * PAIRS * PANEL);
        Self { kernels, panels, packed_right, rows: Vec::with_capacity(PAIRS), pairs: 0 }
    }

    /// Loads the right-hand sides of at most [`PAIRS`] pairs, given as pointers to rows.
    ///
    /// # Safety
    /// Each row must be readable in the panels of this sum.
    unsafe fn load(&mut self, right: impl Iterator<Item = *const f32>) {
        self.rows.clear();
        self.rows.extend(right);
        self.pairs = self.rows.len();
        assert!(self.pairs <= PAIRS);
        // SAFETY: guaranteed by the caller; the kernels are those of this CPU.
        unsafe { (self.kernels.pack_right)(&self.panels, &self.rows, &mut self.packed_right) };
    }

    /// One panel of the loaded right-hand sides, `[pairs, 16]`.
    fn panel(&self, place: usize) -> &[f32] {
        &self.packed_right[place * self.pairs * PANEL..][..self.pairs * PANEL]
    }

    /// Adds the products of a group of left-hand sides with the loaded right-hand sides.
    ///
    /// # Safety
    /// The left-hand sides must have been packed before a sync of all threads, and no other thread may use these
    /// columns.
    unsafe fn accumulate(
        &self, left: &PackedLeft<'_>, pairs: usize, group: usize, sum: Shared<'_, f32>, stride: usize,
    ) {
        for block in 0..left.width.div_ceil(ROWS) {
            let (start, column, columns, in_group) = left.block(pairs, group, block);
            assert_eq!(in_group, self.pairs);
            let packed = left.data.at(start, columns * in_group);
            for (place, panel) in self.panels.iter().enumerate() {
                let extent = (columns - 1) * stride + PANEL;
                let sum = sum.at(column * stride + panel * PANEL, extent);
                // SAFETY: `at` checked the extents of both, and the panel has pairs * 16 floats. The caller guarantees
                // the rest.
                unsafe {
                    let right = self.panel(place).as_ptr();
                    (self.kernels.accumulate_outer)(columns, in_group, packed, right, sum, stride);
                }
            }
        }
    }

    /// Adds the loaded right-hand sides, column by column, to the wanted panels.
    fn accumulate_columns(&self, sum: Shared<'_, f32>, wanted: impl Fn(usize) -> bool) {
        for (place, panel) in self.panels.iter().enumerate().filter(|(_, panel)| wanted(**panel)) {
            // SAFETY: the panel spans pairs * 16 floats; no other thread uses these columns.
            unsafe { (self.kernels.add_columns)(self.pairs, self.panel(place).as_ptr(), sum.at(panel * PANEL, PANEL)) };
        }
    }
}

/// The sums of the gradients, padded. Each thread adds to its own columns, or to its own rows where marked *rows*.
#[derive(Clone, Copy)]
pub(super) struct Sums<'a> {
    /// `[hidden, gates]`, `[input, gates]` and `[gates]`
    pub(super) weight_hh: Shared<'a, f32>,
    pub(super) weight_ih: Shared<'a, f32>,
    pub(super) bias: Shared<'a, f32>,
    /// The scorer's matrices, `[hidden, padded]`; the same buffer if one matrix serves both.
    pub(super) key: Shared<'a, f32>,
    pub(super) query: Shared<'a, f32>,
    /// The scorer's vector, `[batch, vector_room]`: *rows*.
    pub(super) vector: Shared<'a, f32>,
    pub(super) vector_room: usize,
    /// `[batch, time, input]`, if it was requested.
    pub(super) input: Shared<'a, f32>,
}

/// A (row, step) pair that has an adjoint, and its place in the chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) place: usize,
    pub(super) t: usize,
    pub(super) row: usize,
}

/// One thread's part of all products.
pub(super) struct Products<'a> {
    problem: &'a Problem,
    states: States<'a>,
    sums: Sums<'a>,
    left: LeftSides<'a>,
    /// Pairs of which there is room.
    chunk: usize,
    /// This thread's units of each block.
    units: Range<usize>,
    /// The gate blocks that the hidden state fills, and those that a dense input fills if these differ.
    by_hidden: OuterSum,
    by_input: Option<OuterSum>,
    squares: OuterSum,
}

impl<'a> Products<'a> {
    pub(super) fn new(
        problem: &'a Problem, states: States<'a>, sums: Sums<'a>, left: LeftSides<'a>, chunk: usize,
        worker: &Worker<'_>,
    ) -> Self {
        let unit_panels = worker.part_of_all(problem.padded / PANEL);
        let panels = |blocks: Range<usize>| {
            let of_block = |block: usize| unit_panels.clone().map(move |panel| block * problem.padded / PANEL + panel);
            OuterSum::new(problem.kernels, blocks.flat_map(of_block).collect())
        };
        let units = unit_panels.start * PANEL..unit_panels.end * PANEL;
        let (hidden, input) = (Layout::range(problem.layout.hidden), Layout::range(problem.layout.input));
        let others = hidden != input && matches!(problem.inputs, Inputs::Dense);
        let (by_hidden, by_input) = (panels(hidden), others.then(|| panels(input)));
        Self { problem, states, sums, left, chunk, units, by_hidden, by_input, squares: panels(0..1) }
    }

    /// Packs this thread's part of the left-hand sides: h(t-1), x(t), and h_hat for the pairs whose query has an
    /// adjoint.
    ///
    /// # Safety
    /// The chunk must be written, before a sync of all threads.
    pub(super) unsafe fn pack(&self, worker: &Worker<'_>, pairs: &[Pair], queries: &[Pair], chunk: ChunkView<'_>) {
        let (problem, states, padded) = (self.problem, self.states, self.problem.padded);
        let before = |pair: usize| {
            let before = states.hidden_before(problem, pairs[pair].row, pairs[pair].t);
            // SAFETY: a row of `padded` floats that nobody writes during the sweep.
            unsafe { std::slice::from_raw_parts(before, padded) }
        };
        let input = |pair: usize| {
            let Pair { row, t, .. } = pairs[pair];
            &states.dense[(row * problem.time + t) * problem.input..][..problem.input]
        };
        // SAFETY: guaranteed by the caller; the states are not written during the sweep.
        unsafe {
            self.left.hidden.pack(problem.kernels, worker, pairs.len(), before);
            self.left.input.pack(problem.kernels, worker, pairs.len(), input);
            let h_hat = |pair: usize| chunk.h_hat.slice(queries[pair].place * padded, padded);
            self.left.squares.pack(problem.kernels, worker, queries.len(), h_hat);
        }
    }

    /// `dW_hh`, `dW_ih` and the bias: h(t-1), x(t) and 1 against the gates' adjoints, `[pairs, gates]`.
    ///
    /// # Safety
    /// The chunk must be written and the left-hand sides of these pairs packed, before a sync of all threads.
    pub(super) unsafe fn add_gates(&mut self, pairs: &[Pair], chunk: ChunkView<'_>) {
        let (problem, all, width) = (self.problem, pairs.len(), self.problem.gate_width());
        let dense = matches!(problem.inputs, Inputs::Dense);
        let fed = Layout::range(problem.layout.input);
        for (group, pairs) in pairs.chunks(PAIRS).enumerate() {
            let rows = || pairs.iter().map(|pair| chunk.d_gates_at(pair.place).cast_const());
            // SAFETY: `at` checks that the rows are in the chunk, and these columns belong to this thread. The caller
            // guarantees the rest.
            unsafe {
                self.by_hidden.load(rows());
                self.by_hidden.accumulate(&self.left.hidden, all, group, self.sums.weight_hh, width);
                if let Some(by_input) = &mut self.by_input {
                    by_input.load(rows());
                }
                let by_input = self.by_input.as_ref().unwrap_or(&self.by_hidden);
                if dense {
                    by_input.accumulate(&self.left.input, all, group, self.sums.weight_ih, width);
                    by_input.accumulate_columns(self.sums.bias, |_| true);
                }
                // The bias of blocks that no input fills.
                self.by_hidden
                    .accumulate_columns(self.sums.bias, |panel| !fed.contains(&(panel * PANEL / problem.padded)));
            }
            if let Inputs::Tokens(tokens) = &problem.inputs {
                self.add_tokens(tokens, pairs, chunk);
            }
        }
    }

    /// Adds the gates' adjoints to the rows of the input weights that the tokens select.
    fn add_tokens(&self, tokens: &[u32], pairs: &[Pair], chunk: ChunkView<'_>) {
        let (problem, width, len) = (self.problem, self.problem.gate_width(), self.units.len());
        for pair in pairs {
            let token = tokens[pair.row * problem.time + pair.t] as usize;
            for block in Layout::range(problem.layout.input) {
                let column = block * problem.padded + self.units.start;
                let from = chunk.d_gates.at(pair.place * width + column, len);
                let to = self.sums.weight_ih.at(token * width + column, len);
                // SAFETY: both span `len` floats, in whole panels; no other thread uses these columns.
                unsafe { (problem.kernels.sum)(len, to, from, to) };
            }
        }
    }

    /// The scorer's matrix for queries: h_hat against the queries' adjoints, `[pairs, padded]` each.
    ///
    /// # Safety
    /// The chunk must be written and the left-hand sides of these pairs packed, before a sync of all threads.
    pub(super) unsafe fn add_queries(&mut self, pairs: &[Pair], chunk: ChunkView<'_>) {
        let (all, padded) = (pairs.len(), self.problem.padded);
        for (group, pairs) in pairs.chunks(PAIRS).enumerate() {
            // SAFETY: as in `add_gates`.
            unsafe {
                self.squares.load(pairs.iter().map(|pair| chunk.d_query_at(pair.place).cast_const()));
                self.squares.accumulate(&self.left.squares, all, group, self.sums.query, padded);
            }
        }
    }

    /// The scorer's matrix for memories: memories against their keys' adjoints, at the end of the sweep.
    ///
    /// # Safety
    /// All threads must call this, after a sync of all threads that follows the last write to the keys' adjoints.
    pub(super) unsafe fn add_keys(&mut self, worker: &Worker<'_>, memories: &[RowMemory], adjoints: MemoryView<'_>) {
        let (problem, padded) = (self.problem, self.problem.padded);
        // SAFETY: guaranteed by the caller.
        let touched = |row: usize, slot: usize| unsafe { adjoints.key(problem.slot(row, slot)) };
        let touched: Vec<(usize, usize, &[f32])> = (0..problem.batch)
            .flat_map(|row| (0..problem.slot_room).map(move |slot| (row, slot)))
            .filter_map(|(row, slot)| touched(row, slot).map(|adjoint| (row, slot, adjoint)))
            .collect();
        for slots in touched.chunks(self.chunk) {
            let state = |index: usize| {
                let (row, slot, _) = slots[index];
                let state = self.states.memory(problem, row, &memories[row], slot);
                // SAFETY: a row of `padded` floats that nobody writes.
                unsafe { std::slice::from_raw_parts(state, padded) }
            };
            // SAFETY: the threads are in step, as guaranteed by the caller and by the syncs here.
            unsafe { self.left.squares.pack(problem.kernels, worker, slots.len(), state) };
            worker.sync_all();
            for (group, in_group) in slots.chunks(PAIRS).enumerate() {
                // SAFETY: rows of `padded` floats; these columns belong to this thread.
                unsafe {
                    self.squares.load(in_group.iter().map(|(_, _, adjoint)| adjoint.as_ptr()));
                    self.squares.accumulate(&self.left.squares, slots.len(), group, self.sums.key, padded);
                }
            }
            worker.sync_all();
        }
    }
}
