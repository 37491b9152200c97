//! The machine's arithmetic limit, by the kernels' own instructions.

use super::kernels::{CHAINS, Kernels, LANES};
use super::team;
use std::hint::black_box;
use std::time::Instant;

/// Of one measurement: some milliseconds.
const ROUNDS: usize = 100_000;

pub(crate) fn arithmetic_limit(threads: usize, rounds: usize) -> Vec<f64> {
    let kernels = Kernels::detect();
    let operations = (2 * threads * ROUNDS * CHAINS * LANES) as f64;
    let measure = |_| {
        let start = Instant::now();
        // SAFETY: the kernels are those of this CPU.
        team::run(threads, |_| _ = black_box(unsafe { (kernels.multiply_adds)(black_box(ROUNDS)) }));
        operations / start.elapsed().as_secs_f64() / 1e9
    };
    (0..rounds).map(measure).collect()
}
