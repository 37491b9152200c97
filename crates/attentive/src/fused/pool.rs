//! Large buffers kept from one call to the next: fresh pages from the system cost more than writing them.

use super::aligned::Aligned;
use std::sync::Mutex;

/// What is kept at most; larger buffers go back to the system.
const KEPT_BYTES: usize = 512 << 20;

/// Below this many floats size does not matter.
const SMALL: usize = 4096;

static FREE: Mutex<Vec<Aligned>> = Mutex::new(Vec::new());

/// A buffer of floats with unspecified contents, returned for reuse when dropped.
#[derive(Debug, Default)]
pub(super) struct Buffer(Aligned);

impl Buffer {
    /// Where a buffer begins, in bytes.
    pub(super) const ALIGNMENT: usize = Aligned::ALIGNMENT;

    /// A buffer of that length. Its contents are whatever the last user left: write before you read.
    pub(super) fn take(len: usize) -> Self {
        if len == 0 {
            return Self::default();
        }
        let mut free = FREE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // The smallest that fits, and none that is far too large: it stays for whoever needs it.
        let fits = |buffer: &Aligned| (len..=2 * len.max(SMALL)).contains(&buffer.len());
        let fitting = (0..free.len()).filter(|i| fits(&free[*i])).min_by_key(|i| free[*i].len());
        let mut buffer = fitting.map(|i| free.swap_remove(i)).unwrap_or_default();
        drop(free);
        if buffer.len() < len {
            buffer = Aligned::zeros(len);
        }
        if cfg!(test) {
            buffer.fill(f32::NAN);
        }
        Self(buffer)
    }

    pub(super) fn as_slice(&self) -> &[f32] {
        &self.0
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [f32] {
        &mut self.0
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.0);
        if buffer.is_empty() {
            return;
        }
        let mut free = FREE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let kept: usize = free.iter().map(|buffer| buffer.len()).sum();
        if (kept + buffer.len()) * size_of::<f32>() <= KEPT_BYTES {
            free.push(buffer);
        } else {
            // Sizes have changed: what is kept no longer serves, so make room for what does.
            free.clear();
        }
    }
}
