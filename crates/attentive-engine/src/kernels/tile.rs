//! The innermost loop of every matrix product: a tile of up to 6x16 sums that stays in registers.
//!
//! The loop exists in plain vector operations and in assembly for AVX2. The compiler's version of the former has a few
//! superfluous instructions and a branch for every k. This costs most where two threads share a core's units, as on
//! many virtual machines. Both versions sum over k in the same order, so their bits are the same.

use super::simd::{LANES, Portable, Simd};

/// Columns of a tile.
pub(super) const WIDTH: usize = 2 * LANES;

/// The sums of a tile: two vectors per row.
pub(super) type Sums<S, const ROWS: usize> = [[<S as Simd>::V; 2]; ROWS];

/// The layout of a tile's left-hand side.
#[derive(Clone, Copy)]
pub(super) enum Left {
    /// Rows of k values, this many floats apart.
    Rows(usize),
    /// Packed: for each k, the values of all rows of the tile.
    Packed,
}

impl Left {
    /// The distance from one row to the next and from one k to the next, in floats.
    fn strides(self, rows: usize) -> (usize, usize) {
        match self {
            Self::Rows(stride) => (stride, 1),
            Self::Packed => (1, rows),
        }
    }
}

/// An instruction set that can multiply tiles.
pub(super) trait Tile: Simd {
    /// `sums[row][16] = sum over k of a[row][k] * b[k][16]`
    ///
    /// # Safety
    /// `ROWS` must be 1 to 6. `a` must be readable for `ROWS` rows of k values in the layout `left`, and `b` for `k *
    /// 16` floats. The instruction set must be available.
    unsafe fn multiply<const ROWS: usize>(k: usize, a: *const f32, left: Left, b: *const f32) -> Sums<Self, ROWS>;
}

/// Adds the products of `from..k` to the sums.
///
/// # Safety
/// As for [`Tile::multiply`].
#[inline(always)]
unsafe fn multiply_from<S: Simd, const ROWS: usize>(
    sums: &mut Sums<S, ROWS>, from: usize, k: usize, a: *const f32, left: Left, b: *const f32,
) {
    let (row_stride, k_stride) = left.strides(ROWS);
    for i in from..k {
        // SAFETY: i < k and row < ROWS.
        unsafe {
            let (b0, b1) = (S::load(b.add(i * WIDTH)), S::load(b.add(i * WIDTH + LANES)));
            for (row, sum) in sums.iter_mut().enumerate() {
                let x = S::splat(*a.add(row * row_stride + i * k_stride));
                sum[0] = S::fma(x, b0, sum[0]);
                sum[1] = S::fma(x, b1, sum[1]);
            }
        }
    }
}

impl Tile for Portable {
    #[inline(always)]
    unsafe fn multiply<const ROWS: usize>(k: usize, a: *const f32, left: Left, b: *const f32) -> Sums<Self, ROWS> {
        let mut sums = [[[0.0; LANES]; 2]; ROWS];
        // SAFETY: guaranteed by the caller.
        unsafe { multiply_from::<Self, ROWS>(&mut sums, 0, k, a, left, b) };
        sums
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{Left, Sums, Tile, multiply_from};
    use crate::kernels::simd::{Avx2, Simd};
    use std::arch::asm;
    use std::arch::x86_64::{__m256, _mm256_setzero_ps};

    /// The number of k that the assembly takes at a time.
    const UNROLLED: usize = 4;

    /// One k of a tile. `{b}` and `{a}` point to the start of the four k, `{s}` is the distance between rows in bytes,
    /// and `{a3}` points to the fourth row.
    #[rustfmt::skip]
    macro_rules! one_k {
        ($rows:tt, $a:literal, $b:literal) => {
            concat!(
                "vmovups ymm12, [{b} + ", $b, "]\n", "vmovups ymm13, [{b} + 32 + ", $b, "]\n",
                "vbroadcastss ymm14, [{a} + ", $a, "]\n", "vbroadcastss ymm15, [{a} + {s} + ", $a, "]\n",
                "vfmadd231ps ymm0, ymm14, ymm12\n", "vfmadd231ps ymm1, ymm14, ymm13\n",
                "vbroadcastss ymm14, [{a} + 2 * {s} + ", $a, "]\n",
                "vfmadd231ps ymm2, ymm15, ymm12\n", "vfmadd231ps ymm3, ymm15, ymm13\n",
                "vbroadcastss ymm15, [{a3} + ", $a, "]\n",
                "vfmadd231ps ymm4, ymm14, ymm12\n", "vfmadd231ps ymm5, ymm14, ymm13\n",
                one_k!(@fifth $rows, $a),
                "vfmadd231ps ymm6, ymm15, ymm12\n", "vfmadd231ps ymm7, ymm15, ymm13\n",
                one_k!(@sixth $rows, $a),
            )
        };
        (@fifth 4, $a:literal) => { "" };
        (@fifth $rows:tt, $a:literal) => { concat!("vbroadcastss ymm14, [{a3} + {s} + ", $a, "]\n") };
        (@sixth 4, $a:literal) => { "" };
        (@sixth 5, $a:literal) => { "vfmadd231ps ymm8, ymm14, ymm12\nvfmadd231ps ymm9, ymm14, ymm13\n" };
        (@sixth 6, $a:literal) => {
            concat!(
                "vbroadcastss ymm15, [{a3} + 2 * {s} + ", $a, "]\n",
                "vfmadd231ps ymm8, ymm14, ymm12\n", "vfmadd231ps ymm9, ymm14, ymm13\n",
                "vfmadd231ps ymm10, ymm15, ymm12\n", "vfmadd231ps ymm11, ymm15, ymm13\n",
            )
        };
    }

    /// The loop. From the first k, the left-hand side advances by `a1`, `a2` and `a3` bytes for the next three, and by
    /// `a4` after all four.
    macro_rules! many_k {
        ($count:expr, $a:expr, $stride:expr, $b:expr, $sums:ident, $rows:tt,
         [$a1:literal, $a2:literal, $a3:literal, $a4:literal]) => {{
            let [r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11] = &mut $sums;
            asm!(
                "2:",
                one_k!($rows, "0", "0"), one_k!($rows, $a1, "64"), one_k!($rows, $a2, "128"), one_k!($rows, $a3, "192"),
                concat!("add {a}, ", $a4), concat!("add {a3}, ", $a4), "add {b}, 256",
                "dec {count}",
                "jnz 2b",
                a = inout(reg) $a => _,
                a3 = inout(reg) $a.add(3 * $stride) => _,
                s = in(reg) $stride * size_of::<f32>(),
                b = inout(reg) $b => _,
                count = inout(reg) $count => _,
                inout("ymm0") *r0, inout("ymm1") *r1, inout("ymm2") *r2, inout("ymm3") *r3, inout("ymm4") *r4,
                inout("ymm5") *r5, inout("ymm6") *r6, inout("ymm7") *r7, inout("ymm8") *r8, inout("ymm9") *r9,
                inout("ymm10") *r10, inout("ymm11") *r11,
                out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
                options(nostack, readonly)
            );
        }};
    }

    /// The sums over the first `count * UNROLLED` of k, for 4 to 6 rows; unused rows are zero. `count` must not be 0.
    ///
    /// # Safety
    /// As for [`Tile::multiply`].
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn multiply_unrolled<const ROWS: usize>(
        count: usize, a: *const f32, left: Left, b: *const f32,
    ) -> [__m256; 12] {
        let mut sums = [_mm256_setzero_ps(); 12];
        let (stride, _) = left.strides(ROWS);
        // SAFETY: only registers are written. The reads cover ROWS rows, four k at a time, as the caller guaranteed.
        unsafe {
            match (ROWS, left) {
                (4, Left::Rows(_)) => many_k!(count, a, stride, b, sums, 4, ["4", "8", "12", "16"]),
                (5, Left::Rows(_)) => many_k!(count, a, stride, b, sums, 5, ["4", "8", "12", "16"]),
                (6, Left::Rows(_)) => many_k!(count, a, stride, b, sums, 6, ["4", "8", "12", "16"]),
                (4, Left::Packed) => many_k!(count, a, stride, b, sums, 4, ["16", "32", "48", "64"]),
                (5, Left::Packed) => many_k!(count, a, stride, b, sums, 5, ["20", "40", "60", "80"]),
                (6, Left::Packed) => many_k!(count, a, stride, b, sums, 6, ["24", "48", "72", "96"]),
                _ => unreachable!("tiles of less than 4 rows are not unrolled"),
            }
        }
        sums
    }

    impl Tile for Avx2 {
        #[inline(always)]
        unsafe fn multiply<const ROWS: usize>(k: usize, a: *const f32, left: Left, b: *const f32) -> Sums<Self, ROWS> {
            let unrolled = if ROWS < 4 { 0 } else { k / UNROLLED };
            // SAFETY: guaranteed by the caller.
            unsafe {
                let mut sums = [[Self::splat(0.0); 2]; ROWS];
                if unrolled > 0 {
                    let found = multiply_unrolled::<ROWS>(unrolled, a, left, b);
                    sums = std::array::from_fn(|row| [found[2 * row], found[2 * row + 1]]);
                }
                multiply_from::<Self, ROWS>(&mut sums, unrolled * UNROLLED, k, a, left, b);
                sums
            }
        }
    }
}
