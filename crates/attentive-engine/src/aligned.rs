//! Floats that begin where a cache line does.

use std::ops::{Deref, DerefMut};

/// Floats of a cache line: two vectors of the kernels.
const LINE: usize = 16;

/// Floats that begin where a cache line does. The allocator promises less, and then every second vector lies across two
/// lines, which costs two accesses.
#[derive(Debug, Default)]
pub(crate) struct Aligned {
    /// Room for `len` floats behind `start`.
    floats: Vec<f32>,
    start: usize,
    len: usize,
}

impl Aligned {
    /// Where they begin, in bytes.
    pub(crate) const ALIGNMENT: usize = LINE * size_of::<f32>();

    pub(crate) fn zeros(len: usize) -> Self {
        // Zeroed pages come from the system untouched.
        let floats = vec![0.0; if len == 0 { 0 } else { len + LINE - 1 }];
        // At most LINE - 1, if a distance is known at all; any place would be right, only slower.
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
