//! Large buffers that are kept between calls, because fresh pages from the system cost more than writing to them.

use crate::aligned::Aligned;
use std::sync::Mutex;

/// The most that is kept; the rest goes back to the system. Outputs are buffers too, and a caller may drop thousands at
/// once.
const KEPT_BYTES: usize = 512 << 20;
const MOST_KEPT: usize = 256;

/// Smaller buffers are left to the allocator, which handles them quickly.
const SMALL: usize = 4096;

static FREE: Mutex<Vec<Aligned>> = Mutex::new(Vec::new());

/// A buffer of floats with unspecified contents, which goes back to the pool when it is dropped.
#[derive(Debug, Default)]
pub struct Buffer(Aligned);

impl Buffer {
    /// The alignment of a buffer's first float, in bytes.
    pub const ALIGNMENT: usize = Aligned::ALIGNMENT;

    /// A buffer of at least this length. Its contents are whatever the last user left: write before you read.
    pub(crate) fn take(len: usize) -> Self {
        let mut buffer = if len < SMALL { Aligned::zeros(len) } else { Self::large(len) };
        if cfg!(test) {
            buffer.fill(f32::NAN);
        }
        Self(buffer)
    }

    fn large(len: usize) -> Aligned {
        let mut free = FREE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Take the smallest that fits. A buffer that is far too large stays in the pool for a caller who needs it.
        let fits = |buffer: &Aligned| (len..=2 * len).contains(&buffer.len());
        let fitting = (0..free.len()).filter(|i| fits(&free[*i])).min_by_key(|i| free[*i].len());
        let kept = fitting.map(|i| free.swap_remove(i));
        drop(free);
        kept.unwrap_or_else(|| Aligned::zeros(len))
    }

    /// Its floats; there may be more than requested.
    pub fn as_slice(&self) -> &[f32] {
        &self.0
    }

    /// Its floats, for writing.
    pub fn as_mut_slice(&mut self) -> &mut [f32] {
        &mut self.0
    }
}

/// Frees the buffers that are kept.
pub(crate) fn release() {
    FREE.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clear();
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.0);
        if buffer.len() < SMALL {
            return;
        }
        let mut free = FREE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let kept: usize = free.iter().map(|buffer| buffer.len()).sum();
        if free.len() < MOST_KEPT && (kept + buffer.len()) * size_of::<f32>() <= KEPT_BYTES {
            free.push(buffer);
        } else {
            // The sizes in use have changed, and the kept buffers no longer fit. Make room for new ones.
            free.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_and_few_are_kept() {
        // Larger than any buffer of other tests in this process, which might take it otherwise.
        let place = |buffer: &Buffer| buffer.as_slice().as_ptr();
        let first = Buffer::take(3_000_001);
        let was = place(&first);
        assert!(place(&Buffer::take(3_000_001)) != was, "it is in use");
        drop(first);
        let kept = || FREE.lock().expect("no panic").iter().any(|buffer| buffer.as_ptr() == was);
        assert!(kept());
        drop((0..2 * MOST_KEPT).map(|_| Buffer::take(SMALL)).collect::<Vec<_>>());
        assert!(FREE.lock().expect("no panic").len() <= MOST_KEPT);
    }
}
