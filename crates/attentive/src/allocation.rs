//! [`keep_freed_memory`].

/// Tells the C library's allocator to keep freed memory for the next allocation instead of returning it to the system.
///
/// A training step frees and allocates the same tensors again and again, and fresh pages from the system can cost more
/// than what is computed in them. Call this once at the start of `main` of a program that trains. It changes the whole
/// process, so the library never does it by itself. Returns whether it had an effect: it does on Linux with the GNU C
/// library, unless another allocator is in use.
pub fn keep_freed_memory() -> bool {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // The largest threshold that the library takes: blocks up to this size come from the heap, not from mmap.
        const LARGEST_HEAP_BLOCK: i32 = 1 << 30;
        // SAFETY: mallopt only sets parameters of the allocator and may be called at any time.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, LARGEST_HEAP_BLOCK) == 1
                && libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX) == 1
        }
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    false
}
