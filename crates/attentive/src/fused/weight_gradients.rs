//! Gradients of the weights: sums of outer products over all (row, step) pairs that have an adjoint.
//!
//! The sweep hands pairs over in chunks, while they are still in the cache. Pairs come in one fixed order and every
//! thread has columns of its own, so the number of threads does not change a bit.

use super::kernels::Kernels;
use super::kernels::gemm::{PANEL, TILE_ROWS};
use super::problem::{Inputs, Problem};
use super::scores::memory;
use super::team::Shared;
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

/// Left-hand columns that are packed at a time.
const ROWS: usize = 16 * TILE_ROWS;

/// A sum of outer products `sum over pairs of left^T right`, for some panels of its columns.
struct OuterSum {
    kernels: &'static Kernels,
    panels: Vec<usize>,
    packed_right: Vec<f32>,
    packed_left: Vec<f32>,
    pairs: usize,
}

impl OuterSum {
    fn new(kernels: &'static Kernels, panels: Vec<usize>) -> Self {
        let packed_right = vec![0.0; panels.len() * PAIRS * PANEL];
        Self { kernels, panels, packed_right, packed_left: vec![0.0; ROWS * PAIRS], pairs: 0 }
    }

    /// Takes the right-hand sides of at most [`PAIRS`] pairs: pointers to rows.
    ///
    /// # Safety
    /// Each row must be readable where this sum has panels.
    unsafe fn load(&mut self, right: impl ExactSizeIterator<Item = *const f32>) {
        self.pairs = right.len();
        assert!(self.pairs <= PAIRS);
        for (pair, row) in right.enumerate() {
            for (place, panel) in self.panels.iter().enumerate() {
                let to = &mut self.packed_right[(place * self.pairs + pair) * PANEL..][..PANEL];
                // SAFETY: the caller's promise.
                to.copy_from_slice(unsafe { std::slice::from_raw_parts(row.add(panel * PANEL), PANEL) });
            }
        }
    }

    /// One panel of what was loaded, `[pairs, 16]`.
    fn panel(&self, place: usize) -> &[f32] {
        &self.packed_right[place * self.pairs * PANEL..][..self.pairs * PANEL]
    }

    /// Adds the products of the left-hand sides (`width` floats each) with what was loaded.
    fn accumulate(&mut self, left: &[&[f32]], width: usize, sum: Shared<'_, f32>, stride: usize) {
        for block in (0..width).step_by(ROWS) {
            let rows = ROWS.min(width - block);
            // SAFETY: the kernels are those of this CPU.
            unsafe { (self.kernels.pack_left)(rows, block, left, &mut self.packed_left) };
            for (place, panel) in self.panels.iter().enumerate() {
                let extent = (rows - 1) * stride + PANEL;
                let sum = sum.at(block * stride + panel * PANEL, extent);
                // SAFETY: packed_left holds rows * pairs floats, the panel pairs * 16, and `at` checked the sum's
                // extent; no other thread has these columns.
                unsafe {
                    let right = self.panel(place).as_ptr();
                    (self.kernels.accumulate_outer)(rows, self.pairs, self.packed_left.as_ptr(), right, sum, stride);
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

/// One thread's part of all products.
pub(super) struct Products<'a> {
    problem: &'a Problem,
    states: States<'a>,
    sums: Sums<'a>,
    units: Range<usize>,
    gates: OuterSum,
    squares: OuterSum,
}

impl<'a> Products<'a> {
    /// `unit_panels`: the thread's part of the hidden units, in panels.
    pub(super) fn new(problem: &'a Problem, states: States<'a>, sums: Sums<'a>, unit_panels: Range<usize>) -> Self {
        let of_gate = |gate: usize| unit_panels.clone().map(move |panel| gate * problem.padded / PANEL + panel);
        let gates = OuterSum::new(problem.kernels, (0..4).flat_map(of_gate).collect());
        let squares = OuterSum::new(problem.kernels, unit_panels.clone().collect());
        let units = unit_panels.start * PANEL..unit_panels.end * PANEL;
        Self { problem, states, sums, units, gates, squares }
    }

    /// `dW_hh`, `dW_ih` and the bias: h(t-1), x(t) and 1 against the gates' adjoints, `[pairs, 4 * padded]`.
    ///
    /// # Safety
    /// This thread's columns of `d_gates` must be written, and by this thread or before a sync.
    pub(super) unsafe fn add_gates(&mut self, pairs: &[Pair], d_gates: Shared<'_, f32>) {
        let (problem, width) = (self.problem, 4 * self.problem.padded);
        let padded = problem.padded;
        for pairs in pairs.chunks(PAIRS) {
            // SAFETY: `at` checks that the rows are in the chunk; the rest is the caller's promise.
            unsafe { self.gates.load(pairs.iter().map(|pair| d_gates.at(pair.place * width, width).cast_const())) };
            let left: Vec<&[f32]> = pairs
                .iter()
                .map(|pair| match pair.t.checked_sub(1) {
                    Some(before) => &self.states.hidden[problem.sequence_row(pair.row, before)..][..padded],
                    None => &self.states.initial_hidden[pair.row * padded..][..padded],
                })
                .collect();
            self.gates.accumulate(&left, problem.hidden, self.sums.weight_hh, width);
            match &problem.inputs {
                Inputs::Dense => {
                    self.gates.accumulate_columns(self.sums.bias);
                    let input = problem.input;
                    let x = |pair: &Pair| &self.states.dense[(pair.row * problem.time + pair.t) * input..][..input];
                    let left: Vec<&[f32]> = pairs.iter().map(x).collect();
                    self.gates.accumulate(&left, input, self.sums.weight_ih, width);
                }
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
    /// Both must be written, before a sync.
    pub(super) unsafe fn add_queries(&mut self, pairs: &[Pair], h_hat: Shared<'_, f32>, d_query: Shared<'_, f32>) {
        let padded = self.problem.padded;
        for pairs in pairs.chunks(PAIRS) {
            // SAFETY: `at` and `slice` check that the rows are in the chunk; the rest is the caller's promise.
            let left: Vec<&[f32]> = unsafe {
                self.squares.load(pairs.iter().map(|pair| d_query.at(pair.place * padded, padded).cast_const()));
                pairs.iter().map(|pair| h_hat.slice(pair.place * padded, padded)).collect()
            };
            self.squares.accumulate(&left, self.problem.hidden, self.sums.w2, padded);
        }
    }

    /// `dW1`: memories against their keys' adjoints, `[batch, slot_room, padded]`, once the sweep is over.
    pub(super) fn add_keys(&mut self, touched: &[bool], d_key: &[f32]) {
        let (problem, padded) = (self.problem, self.problem.padded);
        let touched: Vec<(usize, usize)> = (0..problem.batch)
            .flat_map(|row| (0..problem.slot_room).map(move |slot| (row, slot)))
            .filter(|(row, slot)| touched[problem.slot(*row, *slot)])
            .collect();
        for slots in touched.chunks(PAIRS) {
            let hidden = Shared::read_only(self.states.hidden);
            let right = slots.iter().map(|&(row, slot)| d_key[problem.slot(row, slot) * padded..][..padded].as_ptr());
            // SAFETY: rows of `padded` floats; `memory` returns such a row too, and nobody writes hidden states.
            let left: Vec<&[f32]> = unsafe {
                self.squares.load(right);
                let state = |&(row, slot): &(usize, usize)| {
                    let state = memory(problem, hidden, self.states.carried, row, problem.clocks[row], slot);
                    std::slice::from_raw_parts(state, padded)
                };
                slots.iter().map(state).collect()
            };
            self.squares.accumulate(&left, problem.hidden, self.sums.w1, padded);
        }
    }
}
