//! The machine's arithmetic limit, by the kernels' own instructions.

use crate::kernels::{CHAINS, InstructionSet, Kernels, LANES};
use crate::team;
use std::hint::black_box;
use std::time::Instant;

/// Of one measurement: some milliseconds.
const ROUNDS: usize = 100_000;

/// Multiply-add operations that `threads` threads do at once when nothing but the arithmetic unit holds them up, in
/// GFLOP/s (a multiplication and an addition are two): one figure for each of `rounds` measurements of some milliseconds.
///
/// The engine cannot be faster, so this is what to hold its speed against. On a shared host the figures of two threads
/// can differ much from one moment to the next: look at several.
///
/// ```
/// let figures = attentive_engine::arithmetic_limit(1, 3);
/// assert!(figures.len() == 3 && figures.iter().all(|gflops| *gflops > 0.1));
/// ```
pub fn arithmetic_limit(threads: usize, rounds: usize) -> Vec<f64> {
    let threads = threads.max(1);
    let kernels = Kernels::of(InstructionSet::Detect.into());
    let operations = (2 * threads * ROUNDS * CHAINS * LANES) as f64;
    let measure = |_| {
        let start = Instant::now();
        // SAFETY: the kernels are those of this CPU.
        team::run(threads, |_| _ = black_box(unsafe { (kernels.multiply_adds)(black_box(ROUNDS)) }));
        operations / start.elapsed().as_secs_f64() / 1e9
    };
    (0..rounds).map(measure).collect()
}
