//! The hand-written inner loops, with one table of kernels per instruction set.
//!
//! The loops are generic over [`simd::Simd`] and compiled twice: for AVX2 with FMA, which is chosen at run time, and
//! for the target's default instructions. The table [`Kernels`] has the kernels that every model needs. A part (a cell,
//! a scorer) declares its own table beside its code, with the same macro.

pub(crate) mod gemm;
pub(crate) mod math;
pub(crate) mod simd;
#[cfg(test)]
pub(crate) mod tests;
mod tile;
pub(crate) mod vector;

pub(crate) use math::CHAINS;
pub(crate) use simd::LANES;

/// Which instructions the engine uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InstructionSet {
    /// The best set that the CPU has.
    #[default]
    Detect,
    /// The set that every CPU of the target has.
    Baseline,
}

/// An instruction set that this CPU has. It selects a table of kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isa {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl From<InstructionSet> for Isa {
    fn from(asked: InstructionSet) -> Self {
        #[cfg(target_arch = "x86_64")]
        if asked == InstructionSet::Detect
            && std::arch::is_x86_feature_detected!("avx2")
            && std::arch::is_x86_feature_detected!("fma")
        {
            return Isa::Avx2;
        }
        let _ = asked;
        Isa::Portable
    }
}

/// Declares a table of kernels and fills it for each instruction set. Each kernel is generic over [`simd::Simd`] and
/// given by its path from the module that declares the table.
macro_rules! kernel_table {
    ($(#[$table_doc:meta])* $table:ident {
        $($(#[$doc:meta])* $name:ident = $($segment:ident)::+
            ($($arg:ident: $type:ty),* $(,)?) $(-> $result:ty)?;)*
    }) => {
        $(#[$table_doc])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $table {
            $($(#[$doc])* pub(crate) $name: unsafe fn($($type),*) $(-> $result)?,)*
        }

        mod portable {
            #[allow(clippy::wildcard_imports, unused_imports)]
            use super::*;
            $(#[allow(clippy::too_many_arguments)]
            pub(super) unsafe fn $name($($arg: $type),*) $(-> $result)? {
                // SAFETY: same requirements; plain Rust needs no instruction set.
                unsafe { super::$($segment)::+::<$crate::kernels::simd::Portable>($($arg),*) }
            })*
        }

        #[cfg(target_arch = "x86_64")]
        mod avx2 {
            #[allow(clippy::wildcard_imports, unused_imports)]
            use super::*;
            $(#[allow(clippy::too_many_arguments)]
            #[target_feature(enable = "avx2,fma")]
            pub(super) unsafe fn $name($($arg: $type),*) $(-> $result)? {
                // SAFETY: same requirements; by the attribute, the caller guarantees the instruction set.
                unsafe { super::$($segment)::+::<$crate::kernels::simd::Avx2>($($arg),*) }
            })*
        }

        impl $table {
            const PORTABLE: $table = $table { $($name: portable::$name),* };
            #[cfg(target_arch = "x86_64")]
            const AVX2: $table = $table { $($name: avx2::$name),* };

            /// The kernels of an instruction set.
            pub(crate) fn of(isa: $crate::kernels::Isa) -> &'static $table {
                match isa {
                    $crate::kernels::Isa::Portable => &$table::PORTABLE,
                    #[cfg(target_arch = "x86_64")]
                    $crate::kernels::Isa::Avx2 => &$table::AVX2,
                }
            }
        }
    };
}
pub(crate) use kernel_table;

kernel_table! {
    /// The inner loops that every model needs. The safety requirements are those of the generic functions.
    Kernels {
        multiply_panel = gemm::multiply_panel(rows: usize, k: usize, a: *const f32, a_stride: usize, panel: *const f32,
            c: *mut f32, c_stride: usize, add: bool);
        multiply_few = gemm::multiply_few(rows: usize, k: usize, a: *const f32, a_stride: usize, panels: usize,
            panel: *const f32, panel_stride: usize, c: *mut f32, c_stride: usize);
        accumulate_outer = gemm::accumulate_outer(rows: usize, k: usize, packed_a: *const f32, b: *const f32,
            c: *mut f32, c_stride: usize);
        pack_left = gemm::pack_left(rows: usize, first: usize, left: &[&[f32]], packed: &mut [f32]);
        pack_right = gemm::pack_right(panels: &[usize], rows: &[*const f32], packed: &mut [f32]);
        add_columns = gemm::add_columns(pairs: usize, panel: *const f32, sum: *mut f32);
        exponentials = math::exponentials(len: usize, values: *mut f32);
        multiply_adds = math::multiply_adds(rounds: usize) -> f32;
        summarise = vector::summarise(len: usize, weights: &[f32], memories: &[*const f32], h_hat: *const f32,
            summary: *mut f32, hidden: *mut f32, hidden_copy: *mut f32);
        dot = vector::dot(len: usize, a: *const f32, b: *const f32) -> f32;
        dot_bound = vector::dot_bound(len: usize, high: *const f32, low: *const f32, b: *const f32, highest: bool) -> f32;
        sum = vector::sum(len: usize, a: *const f32, b: *const f32, to: *mut f32);
        scaled = vector::scaled(len: usize, scale: f32, from: *const f32, to: *mut f32, add: bool);
        prefetch_rows = vector::prefetch_rows(len: usize, rows: &[*const f32]);
    }
}
