//! Bounds of dot products and cosines: a block keeps the largest and the smallest element of each unit.
//!
//! A multiply-add rounds no lower if its product or the sum so far grows. So taking, unit by unit, the better of the
//! two elements gives a sum that the sum of no memory exceeds, bit for bit.

use super::{Cached, ScoreBounds};
use crate::kernels::{Isa, Kernels};

/// Larger numbers have no bounds: sums of their products could overflow.
const LARGEST: f32 = 1e15;

/// R16, `dot`.
pub(crate) struct DotBounds;

/// R16, `cosine`.
pub(crate) struct CosineBounds;

fn within(values: &[f32]) -> bool {
    values.iter().all(|value| value.abs() <= LARGEST)
}

/// Makes a block so wide that it includes everything between `low` and `high`.
fn widen(high: &[f32], low: &[f32], block: &mut [f32]) {
    let (highest, lowest) = block.split_at_mut(high.len());
    highest.iter_mut().zip(high).for_each(|(highest, high)| *highest = highest.max(*high));
    lowest.iter_mut().zip(low).for_each(|(lowest, low)| *lowest = lowest.min(*low));
}

/// The highest (or lowest) dot product of the query with a vector of the block.
fn extreme(isa: Isa, block: &[f32], query: &[f32], highest: bool) -> f32 {
    let padded = query.len();
    assert_eq!(block.len(), 2 * padded);
    let (high, low) = block.split_at(padded);
    // SAFETY: all three are `padded` floats; `isa` is the CPU's.
    unsafe { (Kernels::of(isa).dot_bound)(padded, high.as_ptr(), low.as_ptr(), query.as_ptr(), highest) }
}

impl ScoreBounds for DotBounds {
    fn width(&self, padded: usize) -> usize {
        2 * padded
    }

    fn bounds_query(&self, query: Cached<'_>, _: &[f32]) -> bool {
        within(query.values)
    }

    fn bounds_key(&self, key: Cached<'_>) -> bool {
        within(key.values)
    }

    fn first(&self, key: &[f32], block: &mut [f32]) {
        block.chunks_exact_mut(key.len()).for_each(|half| half.copy_from_slice(key));
    }

    fn widen(&self, key: &[f32], _: &[f32], block: &mut [f32]) {
        widen(key, key, block);
    }

    fn join(&self, other: &[f32], _: &[f32], block: &mut [f32]) {
        let (high, low) = other.split_at(other.len() / 2);
        widen(high, low, block);
    }

    fn highest(&self, isa: Isa, block: &[f32], query: Cached<'_>, _: &[f32]) -> f32 {
        extreme(isa, block, query.values, true)
    }
}

impl ScoreBounds for CosineBounds {
    fn width(&self, padded: usize) -> usize {
        DotBounds.width(padded)
    }

    fn bounds_query(&self, query: Cached<'_>, temperature: &[f32]) -> bool {
        within(query.values) && within(temperature)
    }

    fn bounds_key(&self, key: Cached<'_>) -> bool {
        DotBounds.bounds_key(key)
    }

    fn first(&self, key: &[f32], block: &mut [f32]) {
        DotBounds.first(key, block);
    }

    fn widen(&self, key: &[f32], temperature: &[f32], block: &mut [f32]) {
        DotBounds.widen(key, temperature, block);
    }

    fn join(&self, other: &[f32], temperature: &[f32], block: &mut [f32]) {
        DotBounds.join(other, temperature, block);
    }

    fn highest(&self, isa: Isa, block: &[f32], query: Cached<'_>, temperature: &[f32]) -> f32 {
        // A negative temperature prefers the memory that is least alike.
        temperature[0] * extreme(isa, block, query.values, temperature[0] >= 0.0)
    }
}
