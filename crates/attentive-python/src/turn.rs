//! Matrices with rows and columns exchanged: PyTorch keeps `[d_output, d_input]`, the engine `[d_input, d_output]`.

/// Rows and columns of a tile, which fits into the first-level cache twice.
const TILE: usize = 32;
/// Smaller matrices are turned before another thread has started.
const WORTH_A_THREAD: usize = 1 << 19;

/// The transpose of `from`, `[rows, columns]`.
pub(crate) fn turned(from: &[f32], rows: usize, columns: usize, threads: usize) -> Vec<f32> {
    let mut to = vec![0.0; from.len()];
    if from.is_empty() {
        return to;
    }
    let threads = if from.len() < WORTH_A_THREAD { 1 } else { threads.clamp(1, columns) };
    // Each thread writes some columns of `from`, which are rows of `to`.
    let share = columns.div_ceil(threads).next_multiple_of(TILE);
    std::thread::scope(|scope| {
        let mut parts = to.chunks_mut(share * rows).enumerate();
        let first = parts.next();
        for (part, to) in parts {
            scope.spawn(move || turn_columns(from, rows, columns, part * share, to));
        }
        if let Some((_, to)) = first {
            turn_columns(from, rows, columns, 0, to);
        }
    });
    to
}

/// Writes the columns of `from` from `first` on as rows of `to`.
fn turn_columns(from: &[f32], rows: usize, columns: usize, first: usize, to: &mut [f32]) {
    for (tile, to) in to.chunks_mut(TILE * rows).enumerate() {
        let column = first + tile * TILE;
        let width = to.len() / rows;
        for start in (0..rows).step_by(TILE) {
            let end = rows.min(start + TILE);
            for row in start..end {
                let values = &from[row * columns + column..][..width];
                for (to, value) in to.chunks_exact_mut(rows).zip(values) {
                    to[row] = *value;
                }
            }
        }
    }
}
