//! Gradients of the weights: sums of outer products over all (row, step) pairs that have an adjoint.
//!
//! The pairs are taken in one fixed order and every thread has columns of its own, so the number of threads
//! does not change a bit.

use super::backward::GradientResult;
use super::forward::memory;
use super::kernels::Kernels;
use super::kernels::gemm::{PANEL, TILE_ROWS};
use super::problem::{Inputs, Problem};
use super::team::{self, Shared};
use super::weights::BackwardWeights;
use std::ops::Range;

/// Pairs that are multiplied at a time: 16 columns of them fill half of the L1 cache.
const PAIRS: usize = 256;
/// Left-hand columns that are packed at a time.
const ROWS: usize = 16 * TILE_ROWS;

/// What the sweep left behind; layouts as in [`super::tape::Tape`].
pub(super) struct Adjoints<'a> {
    pub(super) dense: &'a [f32],
    pub(super) hidden: &'a [f32],
    pub(super) initial_hidden: &'a [f32],
    pub(super) carried: &'a [f32],
    pub(super) gates: &'a [f32],
    /// `[time + 1, batch, padded]`, the first step unused.
    pub(super) h_hats: &'a [f32],
    pub(super) queries: &'a [f32],
    /// `[batch, slot_room, padded]`
    pub(super) keys: &'a [f32],
    /// `[batch, padded]`
    pub(super) w3: &'a [f32],
    pub(super) gates_touched: &'a [bool],
    pub(super) query_touched: &'a [bool],
    pub(super) key_touched: &'a [bool],
}

/// A sum of outer products `sum over pairs of left^T right`, for some panels of its columns.
struct OuterSum {
    kernels: &'static Kernels,
    panels: Range<usize>,
    packed_right: Vec<f32>,
    packed_left: Vec<f32>,
    pairs: usize,
}

impl OuterSum {
    fn new(kernels: &'static Kernels, panels: Range<usize>) -> Self {
        let packed_right = vec![0.0; panels.len() * PAIRS * PANEL];
        Self { kernels, panels, packed_right, packed_left: vec![0.0; ROWS * PAIRS], pairs: 0 }
    }

    /// Takes the right-hand sides of at most [`PAIRS`] pairs.
    fn load<'a>(&mut self, right: impl ExactSizeIterator<Item = &'a [f32]>) {
        self.pairs = right.len();
        for (pair, row) in right.enumerate() {
            for (place, panel) in self.panels.clone().enumerate() {
                let to = &mut self.packed_right[(place * self.pairs + pair) * PANEL..][..PANEL];
                to.copy_from_slice(&row[panel * PANEL..][..PANEL]);
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
            let tiles = rows.div_ceil(TILE_ROWS);
            let (mut row, mut offset) = (0, 0);
            for tile in 0..tiles {
                let row_end = rows * (tile + 1) / tiles;
                let height = row_end - row;
                let packed = &mut self.packed_left[offset..][..height * self.pairs];
                for (to, from) in packed.chunks_exact_mut(height).zip(left) {
                    to.copy_from_slice(&from[block + row..block + row_end]);
                }
                offset += height * self.pairs;
                row = row_end;
            }
            for (place, panel) in self.panels.clone().enumerate() {
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
        for (place, panel) in self.panels.clone().enumerate() {
            // SAFETY: no other thread has these columns.
            let sum = unsafe { sum.slice_mut(panel * PANEL, PANEL) };
            for row in self.panel(place).chunks_exact(PANEL) {
                sum.iter_mut().zip(row).for_each(|(sum, d)| *sum += d);
            }
        }
    }
}

pub(super) fn collect(
    problem: &Problem, weights: &BackwardWeights, adjoints: &Adjoints<'_>, input_gradient: bool,
) -> GradientResult {
    let (hidden, padded, input) = (problem.hidden, problem.padded, problem.input);
    let attends = problem.rules.attends();
    let mut weight_hh = vec![0.0; hidden * 4 * padded];
    let mut weight_ih = vec![0.0; input * 4 * padded];
    let mut bias = vec![0.0; 4 * padded];
    let mut w1 = vec![0.0; hidden * padded];
    let mut w2 = vec![0.0; hidden * padded];
    let mut input_out = if input_gradient { vec![0.0; problem.batch * problem.time * input] } else { Vec::new() };
    {
        let sums = Sums {
            problem,
            adjoints,
            weight_hh: Shared::new(&mut weight_hh),
            weight_ih: Shared::new(&mut weight_ih),
            bias: Shared::new(&mut bias),
            w1: Shared::new(&mut w1),
            w2: Shared::new(&mut w2),
            input: Shared::new(&mut input_out),
        };
        let steps = (0..problem.time).rev().flat_map(|t| (0..problem.batch).map(move |row| (t, row)));
        let touched = |flags: &[bool]| -> Vec<(usize, usize)> {
            steps.clone().filter(|(t, row)| flags[problem.tape_row(*t, *row)]).collect()
        };
        let gate_pairs = touched(adjoints.gates_touched);
        let query_pairs = if attends { touched(adjoints.query_touched) } else { Vec::new() };
        let threads = problem.workers();
        team::run(threads, |index| {
            sums.gates(&gate_pairs, team::share(4 * padded / PANEL, index, threads));
            if attends {
                let panels = team::share(padded / PANEL, index, threads);
                sums.queries(&query_pairs, panels.clone());
                sums.keys(panels);
            }
            if let Some(weight_ih) = &weights.weight_ih {
                sums.inputs(weight_ih, team::share(problem.time, index, threads));
            }
        });
    }
    let mut w3 = vec![0.0; hidden];
    for row in adjoints.w3.chunks_exact(padded) {
        w3.iter_mut().zip(row).for_each(|(sum, d)| *sum += d);
    }
    let without_padding = |values: Vec<f32>| -> Vec<f32> {
        if hidden == padded {
            return values;
        }
        values.chunks_exact(padded).flat_map(|block| &block[..hidden]).copied().collect()
    };
    GradientResult {
        weight_ih: without_padding(weight_ih),
        weight_hh: without_padding(weight_hh),
        bias: without_padding(bias),
        w1: without_padding(w1),
        w2: without_padding(w2),
        w3,
        input: input_gradient.then_some(input_out),
    }
}

/// The gradients under way. Threads have panels of columns (or steps, for the input) of their own.
struct Sums<'a> {
    problem: &'a Problem,
    adjoints: &'a Adjoints<'a>,
    weight_hh: Shared<'a, f32>,
    weight_ih: Shared<'a, f32>,
    bias: Shared<'a, f32>,
    w1: Shared<'a, f32>,
    w2: Shared<'a, f32>,
    input: Shared<'a, f32>,
}

impl Sums<'_> {
    fn tape_row<'a>(&self, values: &'a [f32], (t, row): (usize, usize), width: usize) -> &'a [f32] {
        &values[self.problem.tape_row(t, row) * width..][..width]
    }

    /// `dW_hh`, `dW_ih` and the bias: h(t-1), x(t) and 1 against the gates' adjoints.
    fn gates(&self, pairs: &[(usize, usize)], panels: Range<usize>) {
        let (problem, padded) = (self.problem, self.problem.padded);
        if panels.is_empty() {
            return;
        }
        let columns = (panels.start * PANEL, panels.len() * PANEL);
        let mut products = OuterSum::new(problem.kernels, panels);
        let mut left: Vec<&[f32]> = Vec::with_capacity(PAIRS);
        for pairs in pairs.chunks(PAIRS) {
            products.load(pairs.iter().map(|pair| self.tape_row(self.adjoints.gates, *pair, 4 * padded)));
            left.clear();
            left.extend(pairs.iter().map(|&(t, row)| match t.checked_sub(1) {
                Some(before) => &self.adjoints.hidden[problem.sequence_row(row, before)..][..padded],
                None => &self.adjoints.initial_hidden[row * padded..][..padded],
            }));
            products.accumulate(&left, problem.hidden, self.weight_hh, 4 * padded);
            products.accumulate_columns(self.bias);
            match &problem.inputs {
                Inputs::Dense => {
                    left.clear();
                    left.extend(pairs.iter().map(|&(t, row)| {
                        &self.adjoints.dense[(row * problem.time + t) * problem.input..][..problem.input]
                    }));
                    products.accumulate(&left, problem.input, self.weight_ih, 4 * padded);
                }
                Inputs::Tokens(tokens) => {
                    for pair in pairs {
                        let token = tokens[pair.1 * problem.time + pair.0] as usize;
                        let from = &self.tape_row(self.adjoints.gates, *pair, 4 * padded)[columns.0..][..columns.1];
                        let to = self.weight_ih.at(token * 4 * padded + columns.0, columns.1);
                        // SAFETY: both have columns.1 floats, whole panels; no other thread has these columns.
                        unsafe { (problem.kernels.scaled)(columns.1, 1.0, from.as_ptr(), to, true) };
                    }
                }
            }
        }
    }

    /// `dW2`: h_hat against the queries' adjoints.
    fn queries(&self, pairs: &[(usize, usize)], panels: Range<usize>) {
        let (problem, padded) = (self.problem, self.problem.padded);
        let mut products = OuterSum::new(problem.kernels, panels);
        for pairs in pairs.chunks(PAIRS) {
            products.load(pairs.iter().map(|pair| self.tape_row(self.adjoints.queries, *pair, padded)));
            let left: Vec<&[f32]> =
                pairs.iter().map(|&(t, row)| self.tape_row(self.adjoints.h_hats, (t + 1, row), padded)).collect();
            products.accumulate(&left, problem.hidden, self.w2, padded);
        }
    }

    /// `dW1`: memories against their keys' adjoints.
    fn keys(&self, panels: Range<usize>) {
        let (problem, padded) = (self.problem, self.problem.padded);
        let mut products = OuterSum::new(problem.kernels, panels);
        let touched: Vec<(usize, usize)> = (0..problem.batch)
            .flat_map(|row| (0..problem.slot_room).map(move |slot| (row, slot)))
            .filter(|(row, slot)| self.adjoints.key_touched[problem.slot(*row, *slot)])
            .collect();
        for pairs in touched.chunks(PAIRS) {
            products.load(pairs.iter().map(|&(row, slot)| &self.adjoints.keys[problem.slot(row, slot) * padded..][..padded]));
            let hidden = Shared::read_only(self.adjoints.hidden);
            let left: Vec<&[f32]> = pairs
                .iter()
                .map(|&(row, slot)| {
                    let state = memory(problem, hidden, self.adjoints.carried, row, problem.clocks[row], slot);
                    // SAFETY: `memory` returns a row of `padded` floats, and nobody writes hidden states any more.
                    unsafe { std::slice::from_raw_parts(state, padded) }
                })
                .collect();
            products.accumulate(&left, problem.hidden, self.w1, padded);
        }
    }

    /// The input's gradient at some steps: the gates' adjoints times W_ih.
    fn inputs(&self, weight_ih: &super::kernels::gemm::PackedMatrix, steps: Range<usize>) {
        let (problem, k) = (self.problem, 4 * self.problem.padded);
        let width = weight_ih.panels() * PANEL;
        let mut products = vec![0.0; problem.batch * width];
        for t in steps {
            let flags = &self.adjoints.gates_touched[problem.tape_row(t, 0)..][..problem.batch];
            if !flags.contains(&true) {
                continue;
            }
            let gates = &self.adjoints.gates[problem.tape_row(t, 0) * k..][..problem.batch * k];
            for panel in 0..weight_ih.panels() {
                let c = products[panel * PANEL..].as_mut_ptr();
                // SAFETY: `gates` has batch rows of k floats, `products` batch rows of `width` from its start.
                unsafe {
                    let panel = weight_ih.panel(panel).as_ptr();
                    (problem.kernels.multiply_panel)(problem.batch, k, gates.as_ptr(), k, panel, c, width, false);
                }
            }
            for row in (0..problem.batch).filter(|row| flags[*row]) {
                // SAFETY: no other thread has this step.
                let to = unsafe { self.input.slice_mut((row * problem.time + t) * problem.input, problem.input) };
                to.copy_from_slice(&products[row * width..][..problem.input]);
            }
        }
    }
}
