//! The machine's arithmetic limit, measured with the kernels' own instructions.

use crate::kernels::{CHAINS, InstructionSet, Kernels, LANES};
use crate::team;
use std::hint::black_box;
use std::time::Instant;

/// Rounds of one measurement, which takes some milliseconds.
const ROUNDS: usize = 100_000;

/// The rate of multiply-adds that `threads` threads reach together when only the arithmetic units limit them, in
/// GFLOP/s (a multiply-add counts as two operations). Returns one rate for each of `rounds` measurements of some
/// milliseconds.
///
/// The engine cannot be faster than this, so compare its speed with it. On a shared host the rates of two threads can
/// vary widely from one moment to the next: look at several.
///
/// ```
/// let rates = attentive_engine::arithmetic_limit(1, 3);
/// assert!(rates.len() == 3 && rates.iter().all(|gflops| *gflops > 0.1));
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
