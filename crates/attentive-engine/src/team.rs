//! Threads that work on one call together, and the memory they share.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Runs `body(index)` on `threads` threads, including the calling one, and waits for all of them.
pub(crate) fn run(threads: usize, body: impl Fn(usize) + Sync) {
    if threads <= 1 {
        return body(0);
    }
    std::thread::scope(|scope| {
        for index in 1..threads {
            let body = &body;
            scope.spawn(move || body(index));
        }
        body(0);
    });
}

/// Part `index` of `0..count` when it is divided into `parts`.
pub(crate) fn share(count: usize, index: usize, parts: usize) -> Range<usize> {
    count * index / parts..count * (index + 1) / parts
}

/// Lets the threads of a team wait for each other.
#[derive(Debug)]
pub(crate) struct Barrier {
    size: usize,
    arrived: AtomicUsize,
    generation: AtomicUsize,
    broken: AtomicBool,
}

impl Barrier {
    pub(crate) fn new(size: usize) -> Self {
        Self { size, arrived: AtomicUsize::new(0), generation: AtomicUsize::new(0), broken: AtomicBool::new(false) }
    }

    /// Waits until all threads of the team have arrived. Waits are short, so it spins before it yields.
    pub(crate) fn wait(&self) {
        if self.size <= 1 {
            return;
        }
        let generation = self.generation.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.size {
            self.arrived.store(0, Ordering::Relaxed);
            self.generation.store(generation.wrapping_add(1), Ordering::Release);
            return;
        }
        let mut spins = 0_u32;
        while self.generation.load(Ordering::Acquire) == generation {
            assert!(!self.broken.load(Ordering::Relaxed), "another thread of the team panicked");
            spins += 1;
            if spins < 2_000 { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }
}

/// One thread's place among those that work on a call.
///
/// With a small model, each thread takes its own rows through all steps and meets the others only to sum the weights'
/// gradients. With a large model (`together`), all threads work on all rows, each on its part of the columns, and stay
/// in step. Each thread then reads only its part of weights that do not fit into a cache.
pub(crate) struct Worker<'a> {
    /// The rows that this thread works on, alone or with the others.
    pub(crate) rows: Range<usize>,
    index: usize,
    together: bool,
    barrier: &'a Barrier,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(batch: usize, index: usize, together: bool, barrier: &'a Barrier) -> Self {
        let rows = if together { 0..batch } else { share(batch, index, barrier.size) };
        Self { rows, index, together, barrier }
    }

    /// Waits for the threads that work on the same rows.
    pub(crate) fn sync(&self) {
        if self.together {
            self.barrier.wait();
        }
    }

    /// Waits for all threads.
    pub(crate) fn sync_all(&self) {
        self.barrier.wait();
    }

    /// This thread's part of `count` pieces that the threads working on the same rows share.
    pub(crate) fn part(&self, count: usize) -> Range<usize> {
        if self.together { share(count, self.index, self.barrier.size) } else { 0..count }
    }

    /// This thread's part of its rows.
    pub(crate) fn own_rows(&self) -> Range<usize> {
        let own = self.part(self.rows.len());
        self.rows.start + own.start..self.rows.start + own.end
    }

    /// This thread's part of `count` pieces that all threads share.
    pub(crate) fn part_of_all(&self, count: usize) -> Range<usize> {
        share(count, self.index, self.barrier.size)
    }
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        // A thread that panics must not leave the others spinning.
        if std::thread::panicking() {
            self.barrier.broken.store(true, Ordering::Relaxed);
        }
    }
}

/// A buffer whose parts several threads write, each its own rows or columns.
///
/// Every access is checked against the length. Code that dereferences the pointer must guarantee that no other thread
/// writes the same element at the same time.
#[derive(Debug)]
pub(crate) struct Shared<'a, T> {
    start: *mut T,
    len: usize,
    lifetime: PhantomData<&'a mut [T]>,
}

impl<T> Clone for Shared<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<'_, T> {}

// SAFETY: a `Shared` is a pointer and a length. Each use of the pointer states why it is safe.
unsafe impl<T: Send> Send for Shared<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<'_, T> {}

impl<'a, T: Copy> Shared<'a, T> {
    pub(crate) fn new(buffer: &'a mut [T]) -> Self {
        Self { start: buffer.as_mut_ptr(), len: buffer.len(), lifetime: PhantomData }
    }

    /// A buffer that nobody writes. The writing methods must not be used on it.
    pub(crate) fn read_only(buffer: &'a [T]) -> Self {
        Self { start: buffer.as_ptr().cast_mut(), len: buffer.len(), lifetime: PhantomData }
    }

    /// A pointer to `len` elements from `start` on.
    pub(crate) fn at(&self, start: usize, len: usize) -> *mut T {
        assert!(start <= self.len && len <= self.len - start, "{start}+{len} is outside a buffer of {}", self.len);
        // SAFETY: inside the buffer, as just checked.
        unsafe { self.start.add(start) }
    }

    /// One element.
    ///
    /// # Safety
    /// No other thread may be writing this element.
    pub(crate) unsafe fn get(&self, index: usize) -> T {
        // SAFETY: in bounds by `at`, not written elsewhere by the caller's promise.
        unsafe { *self.at(index, 1) }
    }

    /// Writes one element.
    ///
    /// # Safety
    /// No other thread may be reading or writing this element.
    pub(crate) unsafe fn set(&self, index: usize, value: T) {
        // SAFETY: in bounds by `at`, not used elsewhere by the caller's promise.
        unsafe { *self.at(index, 1) = value }
    }

    /// A slice for reading.
    ///
    /// # Safety
    /// No other thread may be writing them while the slice lives.
    pub(crate) unsafe fn slice(&self, start: usize, len: usize) -> &'a [T] {
        // SAFETY: in bounds by `at`; `T: Copy` values are initialised in the buffer the pointer came from.
        unsafe { std::slice::from_raw_parts(self.at(start, len), len) }
    }

    /// A slice for writing.
    ///
    /// # Safety
    /// Nothing else may use them while the slice lives.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn slice_mut(&self, start: usize, len: usize) -> &'a mut [T] {
        // SAFETY: in bounds by `at`, exclusive by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.at(start, len), len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_barrier_lets_no_thread_pass_before_all_have_arrived() {
        for threads in [1, 2, 3, 8] {
            let barrier = Barrier::new(threads);
            let counter = AtomicUsize::new(0);
            run(threads, |_| {
                for round in 1..200 {
                    counter.fetch_add(1, Ordering::SeqCst);
                    barrier.wait();
                    assert_eq!(counter.load(Ordering::SeqCst), round * threads);
                    barrier.wait();
                }
            });
        }
    }

    #[test]
    fn shares_cover_everything_once() {
        for count in 0..20 {
            for parts in 1..9 {
                let all: Vec<usize> = (0..parts).flat_map(|index| share(count, index, parts)).collect();
                assert_eq!(all, (0..count).collect::<Vec<_>>());
            }
        }
    }
}
