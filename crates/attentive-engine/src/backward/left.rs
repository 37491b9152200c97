//! The packed left-hand sides of the products that make the weights' gradients.

use crate::kernels::Kernels;
use crate::kernels::gemm::TILE_ROWS;
use crate::team::{Shared, Worker};

/// The number of pairs that are multiplied at a time.
pub(super) const PAIRS: usize = 256;

/// The number of left-hand columns that are multiplied at a time.
pub(super) const ROWS: usize = 16 * TILE_ROWS;

/// The left-hand sides of a chunk's pairs, `width` floats each. All threads pack them together, for use by all of them.
/// They are stored as groups of [`PAIRS`] pairs, and each group as blocks of [`ROWS`] columns.
#[derive(Clone, Copy)]
pub(super) struct PackedLeft<'a> {
    pub(super) data: Shared<'a, f32>,
    pub(super) width: usize,
}

impl<'a> PackedLeft<'a> {
    /// `data` must have room for the pairs of a chunk.
    pub(super) fn new(data: &'a mut [f32], width: usize) -> Self {
        Self { data: Shared::new(data), width }
    }

    /// The start of a block, its first column, and its number of columns and pairs.
    pub(super) fn block(&self, pairs: usize, group: usize, block: usize) -> (usize, usize, usize, usize) {
        let (in_group, column) = (PAIRS.min(pairs - group * PAIRS), block * ROWS);
        (group * PAIRS * self.width + column * in_group, column, ROWS.min(self.width - column), in_group)
    }

    /// Packs this thread's part of the blocks. `row(pair)` is a left-hand side.
    ///
    /// # Safety
    /// A sync of all threads must separate this from the writes to the rows and from the reads of the packed blocks.
    pub(super) unsafe fn pack<'b>(
        &self, kernels: &Kernels, worker: &Worker<'_>, pairs: usize, row: impl Fn(usize) -> &'b [f32],
    ) {
        let blocks = self.width.div_ceil(ROWS);
        let mut left: Vec<&[f32]> = Vec::with_capacity(PAIRS);
        for part in worker.part_of_all(pairs.div_ceil(PAIRS) * blocks) {
            let (start, column, columns, in_group) = self.block(pairs, part / blocks, part % blocks);
            left.clear();
            left.extend((0..in_group).map(|pair| row(part / blocks * PAIRS + pair)));
            // SAFETY: blocks do not overlap, and each belongs to one thread; the kernels are those of this CPU.
            unsafe {
                let packed = self.data.slice_mut(start, columns * in_group);
                (kernels.pack_left)(columns, column, &left, packed);
            }
        }
    }
}

/// The packed left-hand sides of a chunk's pairs.
#[derive(Clone, Copy)]
pub(super) struct LeftSides<'a> {
    /// h(t-1)
    pub(super) hidden: PackedLeft<'a>,
    /// x(t); of width 0 for tokens.
    pub(super) input: PackedLeft<'a>,
    /// h_hat, and at the end of the sweep memories; of width 0 without attention.
    pub(super) squares: PackedLeft<'a>,
}
