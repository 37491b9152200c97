//! Cross-entropy and its derivative in one pass over the scores.

use super::kernels::Kernels;
use super::kernels::LANES;

/// The loss, and its derivative by the scores, `[rows, classes]`.
///
/// `weight(row)` is what a row's loss counts. Losses are added up in double precision, in the order of the rows.
pub(crate) fn cross_entropy(
    kernels: &Kernels, scores: &[f32], classes: &[u32], weight: impl Fn(usize) -> f32,
) -> (f32, Vec<f32>) {
    let count = scores.len() / classes.len().max(1);
    // Whole vectors, so that the exponentials need no remainder; what lies behind is cut off again.
    let mut gradient = vec![0.0_f32; scores.len().next_multiple_of(LANES)];
    for (to, from) in gradient.chunks_exact_mut(count).zip(scores.chunks_exact(count)) {
        let largest = from.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        to.iter_mut().zip(from).for_each(|(to, from)| *to = from - largest);
    }
    let chosen = |gradient: &[f32], row: usize| gradient[row * count + classes[row] as usize];
    // The logarithm of the class's share is needed before the exponentials take its place.
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
    (loss as f32, gradient)
}
