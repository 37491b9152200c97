//! Gradients of the weights: sums of outer products over all (row, step) pairs that have an adjoint.
//!
//! The sweep hands pairs over in chunks, while they are still in the cache. The threads pack the left-hand sides of a chunk
//! together; then each multiplies columns of its own. Pairs come in one fixed order, so the number of threads does not
//! change a bit.

use super::aligned::Aligned;
use super::kernels::Kernels;
use super::kernels::gemm::{PANEL, TILE_ROWS};
use super::problem::{Inputs, Problem};
use super::scores::memory;
use super::team::{Shared, Worker};
use std::ops::Range;

/// Pairs that are multiplied at a time.
const PAIRS: usize = 256;
/// Pairs that the sweep collects before it hands them over: the more, the less its threads wait for each other, but all
/// of them should still be in a cache.
pub(super) fn chunk_pairs(padded: usize) -> usize {
    const CACHED_FLOATS: usize = 1 << 20;
    const MOST: usize = 1024;
    (CACHED_FLOATS / (4 * padded)).clamp(PAIRS, MOST)
}

/// Left-hand columns that are multiplied at a time.
const ROWS: usize = 16 * TILE_ROWS;

/// Left-hand sides of a chunk's pairs, `width` floats each, packed by all threads for all of them: groups of [`PAIRS`]
/// pairs, in each group blocks of [`ROWS`] columns.
#[derive(Clone, Copy)]
pub(super) struct PackedLeft<'a> {
    data: Shared<'a, f32>,
    width: usize,
}

impl<'a> PackedLeft<'a> {
    /// `data` has room for the pairs of a chunk.
    pub(super) fn new(data: &'a mut [f32], width: usize) -> Self {
        Self { data: Shared::new(data), width }
    }

    /// Where a block begins, its first column, and how many columns and pairs it has.
    fn block(&self, pairs: usize, group: usize, block: usize) -> (usize, usize, usize, usize) {
        let (in_group, column) = (PAIRS.min(pairs - group * PAIRS), block * ROWS);
        (group * PAIRS * self.width + column * in_group, column, ROWS.min(self.width - column), in_group)
    }

    /// Packs this thread's part of the blocks; `row(pair)` is a left-hand side.
    ///
    /// # Safety
    /// The rows must be written and nobody may read the packed ones, each before a sync of all.
    unsafe fn pack<'b>(&self, kernels: &Kernels, worker: &Worker<'_>, pairs: usize, row: impl Fn(usize) -> &'b [f32]) {
        let blocks = self.width.div_ceil(ROWS);
        let mut left: Vec<&[f32]> = Vec::with_capacity(PAIRS);
        for part in worker.part_of_all(pairs.div_ceil(PAIRS) * blocks) {
            let (start, column, columns, in_group) = self.block(pairs, part / blocks, part % blocks);
            left.clear();
            left.extend((0..in_group).map(|pair| row(part / blocks * PAIRS + pair)));
            // SAFETY: blocks do not overlap and each is one thread's; the kernels are those of this CPU.
            unsafe {
                let packed = self.data.slice_mut(start, columns * in_group);
                (kernels.pack_left)(columns, column, &left, packed);
            }
        }
    }
}

/// A sum of outer products `sum over pairs of left^T right`, for some panels of its columns.
struct OuterSum {
    kernels: &'static Kernels,
    panels: Vec<usize>,
    packed_right: Aligned,
    /// The right-hand sides of what is loaded.
    rows: Vec<*const f32>,
    pairs: usize,
}

impl OuterSum {
    fn new(kernels: &'static Kernels, panels: Vec<usize>) -> Self {
        let packed_right = Aligned::zeros(panels.len() * PAIRS * PANEL);
        Self { kernels, panels, packed_right, rows: Vec::with_capacity(PAIRS), pairs: 0 }
    }

    /// Takes the right-hand sides of at most [`PAIRS`] pairs: pointers to rows.
    ///
    /// # Safety
    /// Each row must be readable where this sum has panels.
    unsafe fn load(&mut self, right: impl Iterator<Item = *const f32>) {
        self.rows.clear();
        self.rows.extend(right);
        self.pairs = self.rows.len();
        assert!(self.pairs <= PAIRS);
        // SAFETY: the caller's promise; the kernels are those of this CPU.
        unsafe { (self.kernels.pack_right)(&self.panels, &self.rows, &mut self.packed_right) };
    }

    /// One panel of what was loaded, `[pairs, 16]`.
    fn panel(&self, place: usize) -> &[f32] {
        &self.packed_right[place * self.pairs * PANEL..][..self.pairs * PANEL]
    }

    /// Adds the products of a group of left-hand sides with what was loaded.
    ///
    /// # Safety
    /// The left-hand sides must have been packed before a sync of all, and no other thread may have these columns.
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
                // SAFETY: `at` checked the extents of both, the panel has pairs * 16 floats; the rest is the caller's
                // promise.
                unsafe {
                    let right = self.panel(place).as_ptr();
                    (self.kernels.accumulate_outer)(columns, in_group, packed, right, sum, stride);
                }
            }
        }
    }

    /// Adds what was loaded, column by column.
    fn accumulate_columns(&self, sum: Shared<'_, f32>) {
        for (place, panel) in self.panels.iter().enumerate() {
            // SAFETY: the panel spans pairs * 16 floats; no other thread has these columns.
            unsafe { (self.kernels.add_columns)(self.pairs, self.panel(place).as_ptr(), sum.at(panel * PANEL, PANEL)) };
        }
    }
}

/// The gradients under way, padded: `[_, 4 * padded]` and `[hidden, padded]`.
#[derive(Clone, Copy)]
pub(super) struct Sums<'a> {
    pub(super) weight_hh: Shared<'a, f32>,
    pub(super) weight_ih: Shared<'a, f32>,
    pub(super) bias: Shared<'a, f32>,
    pub(super) w1: Shared<'a, f32>,
    pub(super) w2: Shared<'a, f32>,
}

/// The states that are the left-hand sides of the products.
#[derive(Clone, Copy)]
pub(super) struct States<'a> {
    /// `[batch, time, input]`, empty for tokens.
    pub(super) dense: &'a [f32],
    /// `[batch, time, padded]`
    pub(super) hidden: &'a [f32],
    /// `[batch, padded]`
    pub(super) initial_hidden: &'a [f32],
    /// `[batch, carried_room, padded]`
    pub(super) carried: &'a [f32],
}

/// A pair that has an adjoint: where the chunk has it, and whose it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) place: usize,
    pub(super) t: usize,
    pub(super) row: usize,
}

/// Room for the left-hand sides of a chunk's pairs.
#[derive(Clone, Copy)]
pub(super) struct LeftSides<'a> {
    /// h(t-1)
    pub(super) hidden: PackedLeft<'a>,
    /// x(t); of width 0 for tokens.
    pub(super) input: PackedLeft<'a>,
    /// h_hat, and memories once the sweep is over; of width 0 without attention.
    pub(super) squares: PackedLeft<'a>,
}

/// One thread's part of all products.
pub(super) struct Products<'a> {
    problem: &'a Problem,
    states: States<'a>,
    sums: Sums<'a>,
    left: LeftSides<'a>,
    /// Pairs of which there is room.
    chunk: usize,
    units: Range<usize>,
    gates: OuterSum,
    squares: OuterSum,
}

impl<'a> Products<'a> {
    pub(super) fn new(
        problem: &'a Problem, states: States<'a>, sums: Sums<'a>, left: LeftSides<'a>, chunk: usize,
        worker: &Worker<'_>,
    ) -> Self {
        let unit_panels = worker.part_of_all(problem.padded / PANEL);
        let of_gate = |gate: usize| unit_panels.clone().map(move |panel| gate * problem.padded / PANEL + panel);
        let gates = OuterSum::new(problem.kernels, (0..4).flat_map(of_gate).collect());
        let squares = OuterSum::new(problem.kernels, unit_panels.clone().collect());
        let units = unit_panels.start * PANEL..unit_panels.end * PANEL;
        Self { problem, states, sums, left, chunk, units, gates, squares }
    }

    /// Packs this thread's part of the left-hand sides: h(t-1), x(t), and h_hat for those pairs whose query has an
    /// adjoint.
    ///
    /// # Safety
    /// `h_hat` must be written, before a sync of all.
    pub(super) unsafe fn pack(&self, worker: &Worker<'_>, pairs: &[Pair], queries: &[Pair], h_hat: Shared<'_, f32>) {
        let (problem, states, padded) = (self.problem, self.states, self.problem.padded);
        let before = |pair: usize| match pairs[pair].t.checked_sub(1) {
            Some(before) => &states.hidden[problem.sequence_row(pairs[pair].row, before)..][..padded],
            None => &states.initial_hidden[pairs[pair].row * padded..][..padded],
        };
        let input = |pair: usize| {
            let Pair { row, t, .. } = pairs[pair];
            &states.dense[(row * problem.time + t) * problem.input..][..problem.input]
        };
        // SAFETY: the caller's promise; the states are not written in a sweep.
        unsafe {
            self.left.hidden.pack(problem.kernels, worker, pairs.len(), before);
            self.left.input.pack(problem.kernels, worker, pairs.len(), input);
            let h_hat = |pair: usize| h_hat.slice(queries[pair].place * padded, padded);
            self.left.squares.pack(problem.kernels, worker, queries.len(), h_hat);
        }
    }

    /// `dW_hh`, `dW_ih` and the bias: h(t-1), x(t) and 1 against the gates' adjoints, `[pairs, 4 * padded]`.
    ///
    /// # Safety
    /// `d_gates` must be written and the left-hand sides of these pairs packed, before a sync of all.
    pub(super) unsafe fn add_gates(&mut self, pairs: &[Pair], d_gates: Shared<'_, f32>) {
        let (problem, width) = (self.problem, 4 * self.problem.padded);
        let (all, padded) = (pairs.len(), problem.padded);
        for (group, pairs) in pairs.chunks(PAIRS).enumerate() {
            // SAFETY: `at` checks that the rows are in the chunk; these columns are this thread's; the rest is the
            // caller's promise.
            unsafe {
                self.gates.load(pairs.iter().map(|pair| d_gates.at(pair.place * width, width).cast_const()));
                self.gates.accumulate(&self.left.hidden, all, group, self.sums.weight_hh, width);
                self.gates.accumulate(&self.left.input, all, group, self.sums.weight_ih, width);
            }
            match &problem.inputs {
                Inputs::Dense => self.gates.accumulate_columns(self.sums.bias),
                Inputs::Tokens(tokens) => {
                    let len = self.units.len();
                    for pair in pairs {
                        let token = tokens[pair.row * problem.time + pair.t] as usize;
                        for gate in 0..4 {
                            let column = gate * padded + self.units.start;
                            let from = d_gates.at(pair.place * width + column, len);
                            let to = self.sums.weight_ih.at(token * width + column, len);
                            // SAFETY: both span `len` floats, whole panels; no other thread has these columns.
                            unsafe { (problem.kernels.sum)(len, to, from, to) };
                        }
                    }
                }
            }
        }
    }

    /// `dW2`: h_hat against the queries' adjoints, `[pairs, padded]` each.
    ///
    /// # Safety
    /// `d_query` must be written and the left-hand sides of these pairs packed, before a sync of all.
    pub(super) unsafe fn add_queries(&mut self, pairs: &[Pair], d_query: Shared<'_, f32>) {
        let (all, padded) = (pairs.len(), self.problem.padded);
        for (group, pairs) in pairs.chunks(PAIRS).enumerate() {
            // SAFETY: as in `add_gates`.
            unsafe {
                self.squares.load(pairs.iter().map(|pair| d_query.at(pair.place * padded, padded).cast_const()));
                self.squares.accumulate(&self.left.squares, all, group, self.sums.w2, padded);
            }
        }
    }

    /// `dW1`: memories against their keys' adjoints, `[batch, slot_room, padded]`, once the sweep is over.
    ///
    /// # Safety
    /// All threads must call this, after a sync of all behind what wrote the keys' adjoints.
    pub(super) unsafe fn add_keys(&mut self, worker: &Worker<'_>, touched: &[bool], d_key: &[f32]) {
        let (problem, padded) = (self.problem, self.problem.padded);
        let touched: Vec<(usize, usize)> = (0..problem.batch)
            .flat_map(|row| (0..problem.slot_room).map(move |slot| (row, slot)))
            .filter(|(row, slot)| touched[problem.slot(*row, *slot)])
            .collect();
        let hidden = Shared::read_only(self.states.hidden);
        for slots in touched.chunks(self.chunk) {
            let state = |index: usize| {
                let (row, slot) = slots[index];
                let state = memory(problem, hidden, self.states.carried, row, problem.clocks[row], slot);
                // SAFETY: a row of `padded` floats that nobody writes.
                unsafe { std::slice::from_raw_parts(state, padded) }
            };
            // SAFETY: the threads are in step, by the caller's promise and the syncs here.
            unsafe { self.left.squares.pack(problem.kernels, worker, slots.len(), state) };
            worker.sync_all();
            for (group, in_group) in slots.chunks(PAIRS).enumerate() {
                let adjoint =
                    |&(row, slot): &(usize, usize)| d_key[problem.slot(row, slot) * padded..][..padded].as_ptr();
                // SAFETY: rows of `padded` floats; these columns are this thread's.
                unsafe {
                    self.squares.load(in_group.iter().map(adjoint));
                    self.squares.accumulate(&self.left.squares, slots.len(), group, self.sums.w1, padded);
                }
            }
            worker.sync_all();
        }
    }
}
