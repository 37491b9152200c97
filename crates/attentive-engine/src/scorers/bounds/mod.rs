//! Bounds of the scores of a block of memories (R19).

mod additive;
mod boxes;

pub(super) use additive::AdditiveBounds;
pub(super) use boxes::{CosineBounds, DotBounds};

use super::Cached;
use crate::kernels::Isa;

/// How the scores of a block of memories are bounded by some numbers that are kept for the block.
pub(crate) trait ScoreBounds: Sync {
    /// How many numbers a block keeps. The first `padded` of them are a vector like the block's memories.
    fn width(&self, padded: usize) -> usize;

    /// Whether the scores for this query have bounds.
    fn bounds_query(&self, query: Cached<'_>, vector: &[f32]) -> bool;

    /// Whether the scores of this memory have bounds.
    fn bounds_key(&self, key: Cached<'_>) -> bool;

    /// The numbers of a block with one memory.
    fn first(&self, key: &[f32], block: &mut [f32]);

    /// Adds a memory to a block.
    fn widen(&self, key: &[f32], vector: &[f32], block: &mut [f32]);

    /// Adds all memories of another block to a block.
    fn join(&self, other: &[f32], vector: &[f32], block: &mut [f32]);

    /// A number that no memory of the block scores above, rounding included. If all memories of the block are equal,
    /// it is their score.
    fn highest(&self, isa: Isa, block: &[f32], query: Cached<'_>, vector: &[f32]) -> f32;
}
