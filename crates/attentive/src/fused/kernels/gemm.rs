//! Matrix products: weights packed once, 6x16 tiles kept in registers.
//!
//! Every element of a result is added up over k in one fixed order, whatever rows or columns share the call.
//! Rows of a batch therefore never influence each other's bits, and neither does the number of threads.

use super::simd::{LANES, Simd};

/// Columns of one panel of a packed matrix.
pub(crate) const PANEL: usize = 2 * LANES;
/// Rows of the largest register tile: 6x16 fills 12 of 16 registers with sums.
pub(crate) const TILE_ROWS: usize = 6;
/// How much of k is multiplied before the next rows are: 16 columns of that depth stay in the L1 cache.
const K_BLOCK: usize = 320;

/// `[k, n]` stored as panels of 16 columns, `panel[k][16]`, zero beyond n.
#[derive(Clone, Debug, Default)]
pub(crate) struct PackedMatrix {
    data: Vec<f32>,
    k: usize,
    panels: usize,
}

impl PackedMatrix {
    /// Room for `[k, n]`, to be filled by [`PackedMatrix::fill`].
    pub(crate) fn new(k: usize, n: usize) -> Self {
        let panels = n.div_ceil(PANEL);
        Self { data: vec![0.0; panels * k * PANEL], k, panels }
    }

    pub(crate) fn k(&self) -> usize {
        self.k
    }

    pub(crate) fn panels(&self) -> usize {
        self.panels
    }

    pub(crate) fn panel(&self, panel: usize) -> &[f32] {
        &self.data[panel * self.k * PANEL..(panel + 1) * self.k * PANEL]
    }

    /// Each panel as a slice of `[k, 16]`, to be filled independently.
    pub(crate) fn panels_mut(&mut self) -> impl Iterator<Item = &mut [f32]> {
        let k = self.k;
        self.data.chunks_mut((k * PANEL).max(1))
    }
}

/// One tile: `c[MR][16] (+)= a[MR][k] * b[k][16]`, where `a[m][k]` lies at `m * row_stride + k * k_stride`.
#[inline(always)]
unsafe fn tile<S: Simd, const MR: usize>(
    k: usize, a: *const f32, row_stride: usize, k_stride: usize, b: *const f32, c: *mut f32, c_stride: usize, add: bool,
) {
    // SAFETY: the caller promises a, b and c valid for the extents that the strides span.
    unsafe {
        let mut sums = [[S::splat(0.0); 2]; MR];
        let (mut a, mut b) = (a, b);
        for _ in 0..k {
            let (b0, b1) = (S::load(b), S::load(b.add(LANES)));
            for (m, sum) in sums.iter_mut().enumerate() {
                let x = S::splat(*a.add(m * row_stride));
                sum[0] = S::fma(x, b0, sum[0]);
                sum[1] = S::fma(x, b1, sum[1]);
            }
            a = a.add(k_stride);
            b = b.add(PANEL);
        }
        for (m, sum) in sums.iter().enumerate() {
            let c = c.add(m * c_stride);
            if add {
                S::store(c, S::add(S::load(c), sum[0]));
                S::store(c.add(LANES), S::add(S::load(c.add(LANES)), sum[1]));
            } else {
                S::store(c, sum[0]);
                S::store(c.add(LANES), sum[1]);
            }
        }
    }
}

#[inline(always)]
unsafe fn tile_of<S: Simd>(
    rows: usize, k: usize, a: *const f32, row_stride: usize, k_stride: usize, b: *const f32, c: *mut f32, c_stride: usize,
    add: bool,
) {
    // SAFETY: passed on from the caller.
    unsafe {
        match rows {
            6 => tile::<S, 6>(k, a, row_stride, k_stride, b, c, c_stride, add),
            5 => tile::<S, 5>(k, a, row_stride, k_stride, b, c, c_stride, add),
            4 => tile::<S, 4>(k, a, row_stride, k_stride, b, c, c_stride, add),
            3 => tile::<S, 3>(k, a, row_stride, k_stride, b, c, c_stride, add),
            2 => tile::<S, 2>(k, a, row_stride, k_stride, b, c, c_stride, add),
            _ => tile::<S, 1>(k, a, row_stride, k_stride, b, c, c_stride, add),
        }
    }
}

/// `c[m][0..16] (+)= a[m][0..k] * panel` for all rows of `a`.
///
/// # Safety
/// `a` must be readable for `(rows - 1) * a_stride + k` floats, `panel` for `k * 16`, `c` writable for
/// `(rows - 1) * c_stride + 16`, and the instruction set of `S` available.
#[inline(always)]
pub(super) unsafe fn multiply_panel<S: Simd>(
    rows: usize, k: usize, a: *const f32, a_stride: usize, panel: *const f32, c: *mut f32, c_stride: usize, add: bool,
) {
    let blocks = k.div_ceil(K_BLOCK).max(1);
    let tiles = rows.div_ceil(TILE_ROWS);
    let mut k_done = 0;
    for block in 0..blocks {
        let k_end = k * (block + 1) / blocks;
        let mut row = 0;
        for tile in 0..tiles {
            // Tiles of nearly equal height waste fewer registers than full ones and a remainder.
            let row_end = rows * (tile + 1) / tiles;
            // SAFETY: row_end <= rows and k_end <= k keep every access inside what the caller promised.
            unsafe {
                tile_of::<S>(
                    row_end - row, k_end - k_done, a.add(row * a_stride + k_done), a_stride, 1,
                    panel.add(k_done * PANEL), c.add(row * c_stride), c_stride, add || block > 0,
                );
            }
            row = row_end;
        }
        k_done = k_end;
    }
}

/// `c[m][16] += sum over k of a[k][m] * b[k][16]`, with `a` packed in tiles of at most 6 columns, `tile[k][rows]`.
///
/// # Safety
/// `packed_a` must hold `rows * k` floats, `b` `k * 16`, `c` `(rows - 1) * c_stride + 16`, and the instruction
/// set of `S` be available.
#[inline(always)]
pub(super) unsafe fn accumulate_outer<S: Simd>(
    rows: usize, k: usize, packed_a: *const f32, b: *const f32, c: *mut f32, c_stride: usize,
) {
    let tiles = rows.div_ceil(TILE_ROWS);
    let (mut row, mut offset) = (0, 0);
    for tile in 0..tiles {
        let row_end = rows * (tile + 1) / tiles;
        let height = row_end - row;
        // SAFETY: tiles partition the rows, so offsets and rows stay inside what the caller promised.
        unsafe {
            tile_of::<S>(height, k, packed_a.add(offset), 1, height, b, c.add(row * c_stride), c_stride, true);
        }
        offset += height * k;
        row = row_end;
    }
}
