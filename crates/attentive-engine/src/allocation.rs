//! [`keep_freed_memory`].

/// Tells the C library's allocator to keep freed memory for the next allocation instead of returning it to the system, and the
/// system to back the memory with huge pages where it can.
///
/// A training step frees and allocates the same tensors again and again, and fresh pages from the system can cost more
/// than what is computed in them; a step that walks through hundreds of megabytes in small pages waits for their addresses,
/// most of all on a virtual machine. Call this once at the start of `main` of a program that trains. It changes the whole
/// process, so the library never does it by itself. Returns whether it had an effect: it does on Linux with the GNU C
/// library, unless another allocator is in use.
pub fn keep_freed_memory() -> bool {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // The largest threshold that the library takes: blocks up to this size come from the heap, not from mmap.
        const LARGEST_HEAP_BLOCK: i32 = 1 << 30;
        // SAFETY: mallopt only sets parameters of the allocator and may be called at any time.
        let keeps = unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, LARGEST_HEAP_BLOCK) == 1
                && libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX) == 1
        };
        if keeps {
            ask_for_huge_pages();
        }
        keeps
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    false
}

/// Takes addresses from the heap, none of which gets memory yet, asks for huge pages there, and gives them back to the heap,
/// which keeps them. Nothing happens where the system has no huge pages or no room.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn ask_for_huge_pages() {
    /// Less than what comes from mmap; most trainings need less.
    const ADDRESSES: usize = 768 << 20;
    const HUGE_PAGE: usize = 2 << 20;
    // SAFETY: madvise is told of whole pages inside a block that is ours, and changes nothing of what is in them.
    unsafe {
        let block = libc::malloc(ADDRESSES).cast::<u8>();
        if !block.is_null() {
            let skipped = block.align_offset(HUGE_PAGE);
            let len = (ADDRESSES - skipped) / HUGE_PAGE * HUGE_PAGE;
            libc::madvise(block.add(skipped).cast(), len, libc::MADV_HUGEPAGE);
            libc::free(block.cast());
        }
    }
}
