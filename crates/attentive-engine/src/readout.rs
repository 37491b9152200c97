//! The output layer (R8) with the engine's kernels: `y = V1 h + V2 s + b`, forward and backward.
//!
//! There are few classes and many rows, a shape for which general matrix products are slow.

use crate::error::{Result, check_length};
use crate::kernels::gemm::{PANEL, PackedMatrix, TILE_ROWS};
use crate::kernels::{InstructionSet, Kernels};
use crate::team::{self, Shared};

/// Rows that one thread multiplies at a time: their products stay in the first-level cache.
const BLOCK: usize = 48;

/// The sizes and parameters of one call.
#[derive(Clone, Copy, Debug)]
pub struct Readout<'a> {
    /// Number of rows of states.
    pub rows: usize,
    /// Size of a state.
    pub hidden: usize,
    /// Size of the output.
    pub output: usize,
    /// `[hidden, output]`
    pub v1: &'a [f32],
    /// `[hidden, output]`
    pub v2: &'a [f32],
    /// Number of threads. It does not change a bit of the results.
    pub threads: usize,
    /// Which instructions to use.
    pub instructions: InstructionSet,
}

/// Gradients of all inputs and parameters.
#[derive(Debug)]
pub struct ReadoutGradients {
    /// `[rows, hidden]`
    pub hidden: Option<Vec<f32>>,
    /// `[rows, hidden]`
    pub summary: Option<Vec<f32>>,
    /// `[hidden, output]`
    pub v1: Vec<f32>,
    /// `[hidden, output]`
    pub v2: Vec<f32>,
    /// `[output]`
    pub bias: Vec<f32>,
}

/// `[k, n]` packed, `element(k, n)`.
pub(crate) fn pack(k: usize, n: usize, element: impl Fn(usize, usize) -> f32) -> PackedMatrix {
    let mut packed = PackedMatrix::new(k, n);
    for (panel, slice) in packed.panels_mut().enumerate() {
        for (k, row) in slice.chunks_exact_mut(PANEL).enumerate() {
            let columns = panel * PANEL..n.min((panel + 1) * PANEL);
            row.iter_mut().zip(columns).for_each(|(to, n)| *to = element(k, n));
        }
    }
    packed
}

impl Readout<'_> {
    fn kernels(&self) -> &'static Kernels {
        Kernels::of(self.instructions.into())
    }

    /// Checks that the slices fit the sizes. An empty `summary` means all zero.
    fn check(&self, hidden: &[f32], summary: &[f32]) -> Result<()> {
        check_length("hidden", self.hidden.min(1), 1)?;
        check_length("output", self.output.min(1), 1)?;
        check_length("v1", self.v1.len(), self.hidden * self.output)?;
        check_length("v2", self.v2.len(), self.hidden * self.output)?;
        check_length("hidden", hidden.len(), self.rows * self.hidden)?;
        check_length("summary", summary.len(), if summary.is_empty() { 0 } else { hidden.len() })
    }

    fn workers(&self) -> usize {
        if self.rows * self.hidden * self.output < 1 << 18 {
            1
        } else {
            self.threads.min(self.rows.div_ceil(BLOCK)).max(1)
        }
    }

    /// `y`, `[rows, output]`, from hidden states and summaries, `[rows, hidden]` each. An empty `summary` means all
    /// zero.
    pub fn forward(&self, hidden: &[f32], summary: &[f32], bias: &[f32]) -> Result<Vec<f32>> {
        self.check(hidden, summary)?;
        check_length("bias", bias.len(), self.output)?;
        let (k, n) = (self.hidden, self.output);
        let v1 = pack(k, n, |k, column| self.v1[k * n + column]);
        let v2 = pack(k, n, |k, column| self.v2[k * n + column]);
        let mut y = vec![0.0; self.rows * n];
        let shared = Shared::new(&mut y);
        let threads = self.workers();
        team::run(threads, |index| {
            let width = v1.panels() * PANEL;
            let mut products = vec![0.0; BLOCK * width];
            let own = team::share(self.rows, index, threads);
            for first in own.clone().step_by(BLOCK) {
                let rows = BLOCK.min(own.end - first);
                self.multiply(&hidden[first * k..][..rows * k], k, &v1, &mut products, false);
                if !summary.is_empty() {
                    self.multiply(&summary[first * k..][..rows * k], k, &v2, &mut products, true);
                }
                // SAFETY: these rows belong to this thread.
                let y = unsafe { shared.slice_mut(first * n, rows * n) };
                for (y, product) in y.chunks_exact_mut(n).zip(products.chunks_exact(width)) {
                    y.iter_mut().zip(product).zip(bias).for_each(|((y, product), bias)| *y = product + bias);
                }
            }
        });
        Ok(y)
    }

    /// `c[rows][panels] (+)= a[rows][k] * b`
    fn multiply(&self, a: &[f32], k: usize, b: &PackedMatrix, c: &mut [f32], add: bool) {
        let (rows, width) = (a.len() / k, b.panels() * PANEL);
        assert!(b.k() == k && c.len() >= rows * width);
        for panel in 0..b.panels() {
            // SAFETY: `a` has rows of k floats and `c` has rows of `width` floats, as just checked.
            unsafe {
                let c = c[panel * PANEL..].as_mut_ptr();
                (self.kernels().multiply_panel)(rows, k, a.as_ptr(), k, b.panel(panel).as_ptr(), c, width, add);
            }
        }
    }

    /// The gradients, from the gradient of `y`. `wanted` selects those of the hidden states and the summaries. An empty
    /// `summary` means all zero.
    pub fn backward(
        &self, hidden: &[f32], summary: &[f32], d_y: &[f32], wanted: [bool; 2],
    ) -> Result<ReadoutGradients> {
        self.check(hidden, summary)?;
        check_length("d_y", d_y.len(), self.rows * self.output)?;
        let (k, n) = (self.hidden, self.output);
        let threads = self.workers();
        let state_gradient = |wanted: bool, v: &[f32]| {
            wanted.then(|| {
                let transposed = pack(n, k, |n_, k_| v[k_ * n + n_]);
                let mut d = vec![0.0; self.rows * k];
                let shared = Shared::new(&mut d);
                team::run(threads, |index| {
                    let own = team::share(self.rows, index, threads);
                    self.state_gradient(&d_y[own.start * n..own.end * n], &transposed, shared, own.start);
                });
                d
            })
        };
        let (d_hidden, d_summary) = (state_gradient(wanted[0], self.v1), state_gradient(wanted[1], self.v2));
        let width = n.next_multiple_of(PANEL);
        let (mut v1, mut v2) = (vec![0.0; k * width], vec![0.0; k * width]);
        let sums = [Shared::new(&mut v1), Shared::new(&mut v2)];
        let tiles = k.div_ceil(TILE_ROWS);
        let threads = threads.min(tiles);
        team::run(threads, |index| {
            // Each thread has its own columns of the states, which are rows of V.
            let own = team::share(tiles, index, threads);
            let own = own.start * TILE_ROWS..k.min(own.end * TILE_ROWS);
            for (states, sum) in [hidden, summary].into_iter().zip(sums) {
                self.weight_gradient(states, d_y, own.clone(), sum);
            }
        });
        let mut bias = vec![0.0; n];
        d_y.chunks_exact(n).for_each(|row| bias.iter_mut().zip(row).for_each(|(sum, d)| *sum += d));
        let without_padding = |v: Vec<f32>| v.chunks_exact(width).flat_map(|row| &row[..n]).copied().collect();
        Ok(ReadoutGradients {
            hidden: d_hidden,
            summary: d_summary,
            v1: without_padding(v1),
            v2: without_padding(v2),
            bias,
        })
    }

    /// `d[rows][hidden] = d_y[rows][output] * V^T`, from row `first` on.
    fn state_gradient(&self, d_y: &[f32], transposed: &PackedMatrix, d: Shared<'_, f32>, first: usize) {
        let (k, n) = (self.hidden, self.output);
        let width = transposed.panels() * PANEL;
        let mut products = vec![0.0; BLOCK * width];
        for (block, d_y) in d_y.chunks(BLOCK * n).enumerate() {
            let (start, rows) = (first + block * BLOCK, d_y.len() / n);
            // SAFETY: these rows belong to this thread.
            let d = unsafe { d.slice_mut(start * k, rows * k) };
            if k == width {
                self.multiply(d_y, n, transposed, d, false);
            } else {
                self.multiply(d_y, n, transposed, &mut products, false);
                d.chunks_exact_mut(k)
                    .zip(products.chunks_exact(width))
                    .for_each(|(to, from)| to.copy_from_slice(&from[..k]));
            }
        }
    }

    /// `sum[hidden][output] += states^T d_y` for the columns `own` of the states.
    fn weight_gradient(&self, states: &[f32], d_y: &[f32], own: std::ops::Range<usize>, sum: Shared<'_, f32>) {
        const PAIRS: usize = 256;
        let (k, n) = (self.hidden, self.output);
        let width = n.next_multiple_of(PANEL);
        if own.is_empty() {
            return;
        }
        let mut right = vec![0.0; PAIRS * PANEL];
        let mut packed = vec![0.0; PAIRS * own.len()];
        for (states, d_y) in states.chunks(PAIRS * k).zip(d_y.chunks(PAIRS * n)) {
            let left: Vec<&[f32]> = states.chunks_exact(k).collect();
            // SAFETY: the kernels are those of this CPU.
            unsafe { (self.kernels().pack_left)(own.len(), own.start, &left, &mut packed) };
            for panel in 0..width / PANEL {
                let columns = panel * PANEL..n.min((panel + 1) * PANEL);
                for (to, from) in right.chunks_exact_mut(PANEL).zip(d_y.chunks_exact(n)) {
                    to[..columns.len()].copy_from_slice(&from[columns.clone()]);
                }
                let sum = sum.at(own.start * width + panel * PANEL, (own.len() - 1) * width + PANEL);
                // SAFETY: `packed` holds own.len() * pairs floats, and `right` holds 16 per pair. These rows of the sum
                // belong to this thread.
                unsafe {
                    let (left, right) = (packed.as_ptr(), right.as_ptr());
                    (self.kernels().accumulate_outer)(own.len(), states.len() / k, left, right, sum, width);
                }
                right.fill(0.0);
            }
        }
    }
}
