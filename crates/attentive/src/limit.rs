//! [`arithmetic_limit`]: what this machine could do at most.

/// Multiply-add operations that `threads` threads do at once when nothing but the arithmetic unit holds them up, in
/// GFLOP/s (a multiplication and an addition are two): one figure for each of `rounds` measurements of some milliseconds.
///
/// The fused engine cannot be faster, so this is what to hold its speed against. On a shared host the figures of two
/// threads can differ by a factor of two from one moment to the next: look at several.
pub fn arithmetic_limit(threads: usize, rounds: usize) -> Vec<f64> {
    crate::fused::arithmetic_limit(threads.max(1), rounds)
}
