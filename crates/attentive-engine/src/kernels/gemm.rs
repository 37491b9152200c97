//! Matrix products, with packed weights and 6x16 tiles in registers.
//!
//! Every element of a result is summed over k in one fixed order, regardless of the other rows and columns of the call.
//! Rows of a batch therefore never influence each other's bits, and neither does the number of threads.

use super::simd::{LANES, Simd};
use super::tile::{Left, Sums, Tile, WIDTH};
use crate::aligned::Aligned;

/// Columns of one panel of a packed matrix.
pub(crate) const PANEL: usize = WIDTH;
/// Rows of the largest register tile: 6x16 fills 12 of 16 registers with sums.
pub(crate) const TILE_ROWS: usize = 6;
/// The depth of k that is multiplied before moving to the next rows: 16 columns of this depth stay in the L1 cache.
const K_BLOCK: usize = 320;

/// `[k, n]` stored as panels of 16 columns, `panel[k][16]`, zero beyond n.
#[derive(Debug, Default)]
pub(crate) struct PackedMatrix {
    data: Aligned,
    k: usize,
    panels: usize,
}

impl PackedMatrix {
    /// A matrix of zeros, `[k, n]`; fill it through [`PackedMatrix::panels_mut`].
    pub(crate) fn new(k: usize, n: usize) -> Self {
        let panels = n.div_ceil(PANEL);
        Self { data: Aligned::zeros(panels * k * PANEL), k, panels }
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

    /// Each panel as a slice of `[k, 16]`. Panels can be filled independently.
    pub(crate) fn panels_mut(&mut self) -> impl Iterator<Item = &mut [f32]> {
        let k = self.k;
        self.data.chunks_mut((k * PANEL).max(1))
    }
}

/// Writes a tile's sums to `c`, or adds them if `add`.
#[inline(always)]
unsafe fn finish<S: Simd, const MR: usize>(sums: &Sums<S, MR>, c: *mut f32, c_stride: usize, add: bool) {
    for (m, sum) in sums.iter().enumerate() {
        // SAFETY: the caller guarantees MR rows of 16 floats.
        unsafe {
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

/// One tile of rows: `c[MR][16] (+)= a[MR][k] * b[k][16]`.
#[inline(always)]
unsafe fn row_tile<S: Tile, const MR: usize>(
    k: usize, a: *const f32, a_stride: usize, b: *const f32, c: *mut f32, c_stride: usize, add: bool,
) {
    // The results often go to memory that is in no cache yet. Prefetch it during the computation.
    (0..MR).for_each(|m| S::prefetch(c.wrapping_add(m * c_stride)));
    // SAFETY: the caller guarantees a, b and c valid for the extents that the strides span.
    unsafe { finish::<S, MR>(&S::multiply::<MR>(k, a, Left::Rows(a_stride), b), c, c_stride, add) };
}

/// The number of rows to multiply by all panels before moving to the next rows. If the weights fit into the
/// second-level cache, this is as many rows as fit into half of the L1 cache; otherwise it is all rows.
pub(crate) fn rows_at_a_time(rows: usize, k: usize) -> usize {
    const NEAR_WEIGHTS: usize = 256;
    const L1_FLOATS: usize = 4096;
    if k > NEAR_WEIGHTS { rows.max(1) } else { (L1_FLOATS / k.max(1)).next_multiple_of(TILE_ROWS).min(rows).max(1) }
}

/// One tile of packed columns: `c[MR][16] += a[k][MR]^T * b[k][16]`.
#[inline(always)]
unsafe fn packed_tile<S: Tile, const MR: usize>(k: usize, a: *const f32, b: *const f32, c: *mut f32, c_stride: usize) {
    // SAFETY: the caller guarantees a, b and c valid for these extents.
    unsafe { finish::<S, MR>(&S::multiply::<MR>(k, a, Left::Packed, b), c, c_stride, true) };
}

/// Calls a tile of `rows` rows, from 1 to 6.
macro_rules! of_height {
    ($rows:expr, $tile:ident::<$simd:ident>($($arg:expr),* $(,)?)) => {
        match $rows {
            6 => $tile::<$simd, 6>($($arg),*),
            5 => $tile::<$simd, 5>($($arg),*),
            4 => $tile::<$simd, 4>($($arg),*),
            3 => $tile::<$simd, 3>($($arg),*),
            2 => $tile::<$simd, 2>($($arg),*),
            _ => $tile::<$simd, 1>($($arg),*),
        }
    };
}

/// `c[m][0..16] (+)= a[m][0..k] * panel` for all rows of `a`.
///
/// # Safety
/// `a` must be readable for `(rows - 1) * a_stride + k` floats, `panel` for `k * 16`, `c` writable for
/// `(rows - 1) * c_stride + 16`, and the instruction set of `S` available.
#[inline(always)]
#[allow(clippy::too_many_arguments)] // the shape of a matrix product
pub(super) unsafe fn multiply_panel<S: Tile>(
    rows: usize, k: usize, a: *const f32, a_stride: usize, panel: *const f32, c: *mut f32, c_stride: usize, add: bool,
) {
    let blocks = k.div_ceil(K_BLOCK).max(1);
    let tiles = rows.div_ceil(TILE_ROWS);
    let mut k_done = 0;
    for block in 0..blocks {
        let k_end = k * (block + 1) / blocks;
        let mut row = 0;
        for tile in 0..tiles {
            // Tiles of nearly equal height waste fewer registers than full tiles and a remainder.
            let row_end = rows * (tile + 1) / tiles;
            // SAFETY: row_end <= rows and k_end <= k keep every access inside what the caller guaranteed.
            unsafe {
                let (a, b, c) = (a.add(row * a_stride + k_done), panel.add(k_done * PANEL), c.add(row * c_stride));
                of_height!(row_end - row, row_tile::<S>(k_end - k_done, a, a_stride, b, c, c_stride, add || block > 0));
            }
            row = row_end;
        }
        k_done = k_end;
    }
}

/// The most rows that [`multiply_few`] takes.
pub(crate) const FEW_ROWS: usize = 3;

/// `c[m][0..16 * panels] = a[m][0..k] * panels` for at most [`FEW_ROWS`] rows of `a`: the same bits as
/// [`multiply_panel`] panel by panel. With so few rows one panel has too few sums to keep the units busy, because each
/// product waits for the one before it; so several panels are multiplied at once.
///
/// # Safety
/// As for [`multiply_panel`]; the panels must begin `panel_stride` floats apart, and `c` be writable for
/// `(rows - 1) * c_stride + panels * 16`.
#[inline(always)]
#[allow(clippy::too_many_arguments)] // the shape of a matrix product
pub(super) unsafe fn multiply_few<S: Simd>(
    rows: usize, k: usize, a: *const f32, a_stride: usize, panels: usize, panel: *const f32, panel_stride: usize,
    c: *mut f32, c_stride: usize,
) {
    let mut done = 0;
    while done < panels {
        // SAFETY: the panels `done..panels` are inside what the caller guaranteed.
        unsafe {
            let (b, c) = (panel.add(done * panel_stride), c.add(done * PANEL));
            done += match (rows, panels - done) {
                (1, 4..) => few_panels::<S, 1, 4>(k, a, a_stride, b, panel_stride, c, c_stride),
                (1, _) => few_panels::<S, 1, 1>(k, a, a_stride, b, panel_stride, c, c_stride),
                (2, 2..) => few_panels::<S, 2, 2>(k, a, a_stride, b, panel_stride, c, c_stride),
                (2, _) => few_panels::<S, 2, 1>(k, a, a_stride, b, panel_stride, c, c_stride),
                (_, 2..) => few_panels::<S, 3, 2>(k, a, a_stride, b, panel_stride, c, c_stride),
                _ => few_panels::<S, 3, 1>(k, a, a_stride, b, panel_stride, c, c_stride),
            };
        }
    }
}

/// `ROWS` rows times `PANELS` panels. Returns the number of panels.
///
/// # Safety
/// As for [`multiply_few`].
#[inline(always)]
unsafe fn few_panels<S: Simd, const ROWS: usize, const PANELS: usize>(
    k: usize, a: *const f32, a_stride: usize, b: *const f32, b_stride: usize, c: *mut f32, c_stride: usize,
) -> usize {
    let blocks = k.div_ceil(K_BLOCK).max(1);
    for block in 0..blocks {
        // SAFETY: the caller guarantees the instruction set.
        let mut sums = [[[unsafe { S::splat(0.0) }; 2]; PANELS]; ROWS];
        for i in k * block / blocks..k * (block + 1) / blocks {
            // SAFETY: i < k, row < ROWS and panel < PANELS.
            unsafe {
                for (row, sums) in sums.iter_mut().enumerate() {
                    let x = S::splat(*a.add(row * a_stride + i));
                    for (panel, sum) in sums.iter_mut().enumerate() {
                        let b = b.add(panel * b_stride + i * PANEL);
                        sum[0] = S::fma(x, S::load(b), sum[0]);
                        sum[1] = S::fma(x, S::load(b.add(LANES)), sum[1]);
                    }
                }
            }
        }
        for (row, sums) in sums.iter().enumerate() {
            for (panel, sum) in sums.iter().enumerate() {
                // SAFETY: the caller guarantees ROWS rows of PANELS * 16 floats.
                unsafe { finish::<S, 1>(&[*sum], c.add(row * c_stride + panel * PANEL), c_stride, block > 0) };
            }
        }
    }
    PANELS
}

/// `c[m][16] += sum over k of a[k][m] * b[k][16]`, with `a` packed in tiles of at most 6 columns, `tile[k][rows]`.
///
/// # Safety
/// `packed_a` must hold `rows * k` floats, `b` `k * 16`, `c` `(rows - 1) * c_stride + 16`, and the instruction
/// set of `S` be available.
#[inline(always)]
pub(super) unsafe fn accumulate_outer<S: Tile>(
    rows: usize, k: usize, packed_a: *const f32, b: *const f32, c: *mut f32, c_stride: usize,
) {
    let tiles = rows.div_ceil(TILE_ROWS);
    let (mut row, mut offset) = (0, 0);
    for tile in 0..tiles {
        let row_end = rows * (tile + 1) / tiles;
        let height = row_end - row;
        // SAFETY: tiles partition the rows, so offsets and rows stay inside what the caller guaranteed.
        unsafe {
            of_height!(height, packed_tile::<S>(k, packed_a.add(offset), b, c.add(row * c_stride), c_stride));
        }
        offset += height * k;
        row = row_end;
    }
}

/// Rows of a batch often lie a multiple of the page size apart. They then compete for the same eight ways of the L1
/// cache, so four rows are used up while the next four are loaded.
const AT_A_TIME: usize = 4;

/// Blocks of rows to pack: each item is the block's number, the rows of the next block, and its own rows.
fn blocks_of_rows<T>(rows: &[T]) -> impl Iterator<Item = (usize, &[T], &[T])> {
    let next = rows.chunks(AT_A_TIME).skip(1).chain([&[][..]]);
    rows.chunks(AT_A_TIME).zip(next).enumerate().map(|(block, (rows, next))| (block, next, rows))
}

/// Prefetches `len` floats that a later loop reads line by line. Hardware prefetchers do not predict them.
#[inline(always)]
pub(super) fn prefetch_row<S: Simd>(row: *const f32, len: usize) {
    (0..len).step_by(PANEL).for_each(|i| S::prefetch(row.wrapping_add(i)));
}

/// Packs columns `first..first + rows` of the left-hand sides for [`accumulate_outer`].
///
/// # Safety
/// The instruction set of `S` must be available; the slices are checked.
#[inline(always)]
pub(crate) unsafe fn pack_left<S: Simd>(rows: usize, first: usize, left: &[&[f32]], packed: &mut [f32]) {
    /// A copy of constant length takes a few instructions instead of a call.
    #[inline(always)]
    fn pack<const HEIGHT: usize>(column: usize, left: &[&[f32]], packed: &mut [f32]) {
        for (to, from) in packed.chunks_exact_mut(HEIGHT).zip(left) {
            to.copy_from_slice(&from[column..column + HEIGHT]);
        }
    }
    let (pairs, tiles) = (left.len(), rows.div_ceil(TILE_ROWS));
    for (block, next, left) in blocks_of_rows(left) {
        next.iter().for_each(|row| prefetch_row::<S>(row[first..].as_ptr(), rows));
        let mut row = 0;
        for tile in 0..tiles {
            let row_end = rows * (tile + 1) / tiles;
            let (column, height) = (first + row, row_end - row);
            let to = &mut packed[row * pairs + block * AT_A_TIME * height..][..left.len() * height];
            match height {
                6 => pack::<6>(column, left, to),
                5 => pack::<5>(column, left, to),
                4 => pack::<4>(column, left, to),
                3 => pack::<3>(column, left, to),
                2 => pack::<2>(column, left, to),
                _ => pack::<1>(column, left, to),
            }
            row = row_end;
        }
    }
}

/// Packs some panels of the right-hand sides for [`accumulate_outer`]: `packed[panel][pair][16]`.
///
/// # Safety
/// Each of `rows` must be readable where `panels` are, and the instruction set of `S` be available; `packed` is
/// checked.
#[inline(always)]
pub(crate) unsafe fn pack_right<S: Simd>(panels: &[usize], rows: &[*const f32], packed: &mut [f32]) {
    let pairs = rows.len();
    for (block, next, rows) in blocks_of_rows(rows) {
        for (place, panel) in panels.iter().enumerate() {
            next.iter().for_each(|row| S::prefetch(row.wrapping_add(panel * PANEL)));
            let start = (place * pairs + block * AT_A_TIME) * PANEL;
            let to = &mut packed[start..start + rows.len() * PANEL];
            for (to, row) in to.chunks_exact_mut(PANEL).zip(rows) {
                // SAFETY: guaranteed by the caller; `to` has 16 floats.
                unsafe {
                    let from = row.add(panel * PANEL);
                    S::store(to.as_mut_ptr(), S::load(from));
                    S::store(to.as_mut_ptr().add(LANES), S::load(from.add(LANES)));
                }
            }
        }
    }
}

/// `sum[16] += sum over pairs of panel[pair][16]`
///
/// # Safety
/// `panel` must span `pairs * 16` floats and `sum` 16; the instruction set of `S` must be available.
#[inline(always)]
pub(crate) unsafe fn add_columns<S: Simd>(pairs: usize, panel: *const f32, sum: *mut f32) {
    // SAFETY: pair < pairs.
    unsafe {
        let mut sums = [S::load(sum), S::load(sum.add(LANES))];
        for pair in 0..pairs {
            sums[0] = S::add(sums[0], S::load(panel.add(pair * PANEL)));
            sums[1] = S::add(sums[1], S::load(panel.add(pair * PANEL + LANES)));
        }
        S::store(sum, sums[0]);
        S::store(sum.add(LANES), sums[1]);
    }
}
