//! The hand-written inner loops, one table of them for each instruction set.
//!
//! All `unsafe` arithmetic of the crate lives below this module. The loops are generic over [`simd::Simd`] and
//! compiled twice: for AVX2 with FMA, chosen at run time, and for whatever the target has by default.

pub(crate) mod attention;
pub(crate) mod cell;
pub(crate) mod gemm;
mod math;
mod simd;
#[cfg(test)]
mod tests;
mod tile;

use attention::{Projection, ScoresBackward};
use cell::CellBackward;
pub(crate) use math::CHAINS;
pub(crate) use simd::LANES;

/// Declares the table and fills it for each instruction set.
macro_rules! kernel_table {
    ($($(#[$doc:meta])* $name:ident = $module:ident :: $function:ident
        ($($arg:ident: $type:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        /// One implementation of every inner loop. The functions are unsafe to call as their generic forms say.
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct Kernels {
            $($(#[$doc])* pub(crate) $name: unsafe fn($($type),*) $(-> $result)?,)*
        }

        mod portable {
            #[allow(clippy::wildcard_imports)]
            use super::*;
            $(#[allow(clippy::too_many_arguments)]
            pub(super) unsafe fn $name($($arg: $type),*) $(-> $result)? {
                // SAFETY: passed on; plain Rust needs no instruction set.
                unsafe { $module::$function::<simd::Portable>($($arg),*) }
            })*
        }

        #[cfg(target_arch = "x86_64")]
        mod avx2 {
            #[allow(clippy::wildcard_imports)]
            use super::*;
            $(#[allow(clippy::too_many_arguments)]
            #[target_feature(enable = "avx2,fma")]
            pub(super) unsafe fn $name($($arg: $type),*) $(-> $result)? {
                // SAFETY: passed on; the attribute makes the instruction set the caller's promise.
                unsafe { $module::$function::<simd::Avx2>($($arg),*) }
            })*
        }

        impl Kernels {
            const PORTABLE: Kernels = Kernels { $($name: portable::$name),* };
            #[cfg(target_arch = "x86_64")]
            const AVX2: Kernels = Kernels { $($name: avx2::$name),* };
        }
    };
}

kernel_table! {
    multiply_panel = gemm::multiply_panel(rows: usize, k: usize, a: *const f32, a_stride: usize, panel: *const f32,
        c: *mut f32, c_stride: usize, add: bool);
    accumulate_outer = gemm::accumulate_outer(rows: usize, k: usize, packed_a: *const f32, b: *const f32,
        c: *mut f32, c_stride: usize);
    cell_forward = cell::cell_forward(hidden: usize, units: (usize, usize), gates: *mut f32, input: *const f32,
        cell_before: *const f32, cell: *mut f32, h_hat: *mut f32);
    cell_backward = cell::cell_backward(hidden: usize, units: (usize, usize), row: CellBackward);
    exponentials = math::exponentials(len: usize, values: *mut f32);
    to_exponentials = attention::to_exponentials(len: usize, projection: *mut f32) -> bool;
    pair_exponentials = attention::pair_exponentials(key: Projection<'_>, query: Projection<'_>, pair: &mut [f32]);
    scores = attention::scores(len: usize, slots: usize, keys: *const f32, query: *const f32, w3: *const f32,
        scores: *mut f32);
    scores_backward = attention::scores_backward(len: usize, row: ScoresBackward<'_>);
    summarise = attention::summarise(len: usize, weights: &[f32], memories: &[*const f32], h_hat: *const f32,
        summary: *mut f32, hidden: *mut f32, hidden_copy: *mut f32);
    dot = attention::dot(len: usize, a: *const f32, b: *const f32) -> f32;
    sum = attention::sum(len: usize, a: *const f32, b: *const f32, to: *mut f32);
    pack_left = gemm::pack_left(rows: usize, first: usize, left: &[&[f32]], packed: &mut [f32]);
    pack_right = gemm::pack_right(panels: &[usize], rows: &[*const f32], packed: &mut [f32]);
    prefetch_rows = attention::prefetch_rows(len: usize, rows: &[*const f32]);
    add_columns = gemm::add_columns(pairs: usize, panel: *const f32, sum: *mut f32);
    multiply_adds = math::multiply_adds(rounds: usize) -> f32;
    scaled = attention::scaled(len: usize, scale: f32, from: *const f32, to: *mut f32, add: bool);
}

impl Kernels {
    /// The fastest kernels that this CPU can run.
    pub(crate) fn detect() -> &'static Kernels {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
            return &Kernels::AVX2;
        }
        &Kernels::PORTABLE
    }

    /// The kernels that run anywhere.
    pub(crate) fn portable() -> &'static Kernels {
        &Kernels::PORTABLE
    }
}
