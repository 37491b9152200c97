//! The cross-entropy and its derivative, in one pass over the scores.

use crate::error::{EngineError, Result, check_length};
use crate::kernels::{InstructionSet, Kernels, LANES};

/// The loss, and its derivative with respect to the scores, `[rows, classes]`.
///
/// `classes` holds the target class of each row, and `weights` the weight of each row's loss; `None` means the mean.
/// Losses are summed in double precision, in the order of the rows.
pub fn cross_entropy(scores: &[f32], classes: &[u32], weights: Option<&[f32]>) -> Result<(f32, Vec<f32>)> {
    let rows = classes.len();
    if rows == 0 || scores.is_empty() || !scores.len().is_multiple_of(rows) {
        return Err(EngineError::Length { what: "scores", got: scores.len(), expected: rows.max(1) });
    }
    weights.map_or(Ok(()), |weights| check_length("weights", weights.len(), rows))?;
    let count = scores.len() / rows;
    if let Some(row) = classes.iter().position(|class| *class as usize >= count) {
        return Err(EngineError::Token { row, step: 0, token: classes[row], input: count });
    }
    let even = 1.0 / rows as f32;
    let weight = |row: usize| weights.map_or(even, |weights| weights[row]);
    let kernels = Kernels::of(InstructionSet::Detect.into());
    // Whole vectors, so that the exponentials need no remainder loop. The surplus is truncated below.
    let mut gradient = vec![0.0_f32; scores.len().next_multiple_of(LANES)];
    for (to, from) in gradient.chunks_exact_mut(count).zip(scores.chunks_exact(count)) {
        let largest = from.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        to.iter_mut().zip(from).for_each(|(to, from)| *to = from - largest);
    }
    let chosen = |gradient: &[f32], row: usize| gradient[row * count + classes[row] as usize];
    // Read the target scores before the exponentials overwrite them.
    let margins: Vec<f32> = (0..classes.len()).map(|row| chosen(&gradient, row)).collect();
    // SAFETY: the length is a multiple of 8; the kernels are those of this CPU.
    unsafe { (kernels.exponentials)(gradient.len(), gradient.as_mut_ptr()) };
    gradient.truncate(scores.len());
    let mut loss = 0.0_f64;
    for (row, shares) in gradient.chunks_exact_mut(count).enumerate() {
        let (sum, weight) = (shares.iter().sum::<f32>(), weight(row));
        loss += f64::from(weight) * f64::from(sum.ln() - margins[row]);
        let scale = weight / sum;
        shares.iter_mut().for_each(|share| *share *= scale);
        shares[classes[row] as usize] -= weight;
    }
    Ok((loss as f32, gradient))
}
