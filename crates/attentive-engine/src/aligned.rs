//! [`Aligned`]: floats that start at a cache line.

use std::ops::{Deref, DerefMut};

/// Floats in a cache line: two vectors of the kernels.
const LINE: usize = 16;

/// Floats that start at a cache line. The allocator guarantees less. Without the alignment, every second vector would
/// straddle two lines and cost two accesses.
#[derive(Debug, Default)]
pub(crate) struct Aligned {
    /// Has room for `len` floats from `start` on.
    floats: Vec<f32>,
    start: usize,
    len: usize,
}

impl Aligned {
    /// The alignment of the first float, in bytes.
    pub(crate) const ALIGNMENT: usize = LINE * size_of::<f32>();

    pub(crate) fn zeros(len: usize) -> Self {
        // Zeroed memory comes from the system without being touched.
        let floats = vec![0.0; if len == 0 { 0 } else { len + LINE - 1 }];
        // The distance is at most LINE - 1, if it is known at all. Any start would be correct, only slower.
        let to_line = floats.as_ptr().align_offset(Self::ALIGNMENT);
        Self { start: to_line.min(floats.len() - len), floats, len }
    }
}

impl Deref for Aligned {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.floats[self.start..self.start + self.len]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.floats[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_begin_with_a_cache_line() {
        for len in [0, 1, 15, 16, 17, 1000, 100_000] {
            let mut floats = Aligned::zeros(len);
            assert_eq!(floats.len(), len);
            assert!(floats.iter().all(|x| *x == 0.0));
            floats.iter_mut().for_each(|x| *x = 1.0);
            assert!(len == 0 || floats.as_ptr().addr().is_multiple_of(Aligned::ALIGNMENT), "{len} floats");
        }
    }
}
