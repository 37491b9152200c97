//! [`keep_freed_memory`] and [`release_freed_memory`].

/// Tells the C library's allocator to keep freed memory for the next allocation instead of returning it to the system,
/// and asks the system to use huge pages where it can.
///
/// A training step frees and allocates the same tensors again and again, and fresh pages from the system can cost more
/// than the computation in them. A step that walks through hundreds of megabytes in small pages also waits for address
/// translation, most of all on a virtual machine. A program that trains should call this once at the start of `main`.
/// The library never calls it by itself, because it changes the whole process. Returns whether it had an effect. It
/// does on Linux with the GNU C library, unless another allocator is in use.
pub fn keep_freed_memory() -> bool {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // The largest threshold that the library accepts: blocks up to this size come from the heap, not from mmap.
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

/// Gives freed memory back to the system: the buffers that the engine keeps for its next call, and, with the GNU C
/// library on Linux, what the allocator keeps. The next calls are slower, because they take fresh pages.
///
/// A program calls this between two pieces of work of different size, if it cares about its memory or measures it.
pub fn release_freed_memory() {
    crate::pool::release();
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: malloc_trim returns free pages and may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Reserves addresses on the heap without touching memory, asks for huge pages there, and frees them. The heap keeps
/// the addresses. Does nothing if the system has no huge pages or no room.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn ask_for_huge_pages() {
    /// Small enough to come from the heap instead of mmap; most trainings need less.
    const ADDRESSES: usize = 768 << 20;
    const HUGE_PAGE: usize = 2 << 20;
    // SAFETY: madvise gets whole pages inside a block that is ours, and does not change their contents.
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
