//! Softmax over the k_top best scores (R17). Unlike prominence, it depends on how far the scores lie apart.

use super::{Choice, WeightSparsifier};

/// R17; with at most `k_top` memories the same as R6.
pub(crate) struct Softmax;

impl WeightSparsifier for Softmax {
    fn choose(&self, scores: &[f32], k_top: Option<usize>, choice: &mut Choice) {
        match k_top {
            Some(k_top) if scores.len() > k_top => {
                choice.keep_best(scores, k_top);
                choice.softmax();
            }
            _ => choice.softmax_of_all(scores),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r17_the_best_share_by_softmax_and_ties_go_to_the_older() {
        let mut choice = Choice::default();
        Softmax.choose(&[0.0, f32::ln(3.0), -9.0, 0.0], Some(2), &mut choice);
        assert_eq!(choice.slots, [1, 0], "slot 3 is as good as slot 0 but younger");
        assert!((choice.weights[0] - 0.75).abs() < 1e-6 && (choice.weights[1] - 0.25).abs() < 1e-6);
        assert_eq!(choice.chosen(), 2);
    }

    #[test]
    fn r17_equal_scores_share_equally() {
        let mut choice = Choice::default();
        Softmax.choose(&[0.25; 100], Some(4), &mut choice);
        assert_eq!((&choice.slots[..], &choice.weights[..]), (&[0, 1, 2, 3][..], &[0.25; 4][..]));
    }
}
