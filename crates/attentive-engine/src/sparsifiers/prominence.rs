//! The paper's sparsifier (R4-R6): prominence over the (k_top+1)-th score.

use super::{Choice, WeightSparsifier, Weighting};

/// R4-R6.
pub(crate) struct Prominence;

impl WeightSparsifier for Prominence {
    fn choose(&self, scores: &[f32], k_top: Option<usize>, choice: &mut Choice) {
        let k_top = match k_top {
            Some(k_top) if scores.len() > k_top => k_top,
            // R6: nothing needs dropping.
            _ => return choice.softmax_of_all(scores),
        };
        choice.keep_best(scores, k_top + 1);
        let threshold = choice.weights[k_top];
        let mut total = 0.0;
        for w in &mut choice.weights {
            *w -= threshold;
            total += *w;
        }
        choice.weighting = if total > 0.0 {
            choice.weights.iter_mut().for_each(|w| *w /= total);
            Weighting::Prominence { total }
        } else if total.is_nan() {
            choice.weights.fill(f32::NAN);
            Weighting::Prominence { total }
        } else {
            // R5
            choice.weights.fill(0.0);
            Weighting::Nothing
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(scores: &[f32], k_top: Option<usize>) -> Choice {
        let mut choice = Choice::default();
        Prominence.choose(scores, k_top, &mut choice);
        choice
    }

    #[test]
    fn r4_weights_are_prominence_over_the_next_best() {
        let choice = choose(&[1.0, 5.0, 2.0, 4.0, 0.0], Some(2));
        assert_eq!(choice.slots, [1, 3, 2]);
        assert_eq!(choice.weights, [3.0 / 5.0, 2.0 / 5.0, 0.0]);
        assert_eq!((choice.weighting, choice.chosen()), (Weighting::Prominence { total: 5.0 }, 2));
    }

    #[test]
    fn r4_ties_go_to_the_older_memory() {
        let choice = choose(&[1.0, 3.0, 2.0, 3.0, 2.0, 0.0], Some(3));
        assert_eq!(choice.slots, [1, 3, 2, 4]);
        let many: Vec<f32> = (0..200).map(|i| (i % 4) as f32).collect();
        let choice = choose(&many, Some(100));
        assert_eq!(choice.slots[0], 3);
        assert_eq!(choice.slots[50], 2);
        assert_eq!(choice.slots[100], 1, "the threshold is the oldest of the third-best scores");
    }

    #[test]
    fn r5_equal_scores_choose_nothing() {
        for k_top in [1, 3, 80] {
            let choice = choose(&[0.25; 100], Some(k_top));
            assert_eq!((choice.weighting, choice.chosen()), (Weighting::Nothing, 0));
            assert!(choice.weights.iter().all(|w| *w == 0.0));
        }
    }

    #[test]
    fn r6_few_memories_get_a_softmax() {
        for k_top in [None, Some(2), Some(7)] {
            let choice = choose(&[0.0, f32::ln(3.0)], k_top);
            assert_eq!(choice.slots, [0, 1]);
            assert!((choice.weights[0] - 0.25).abs() < 1e-6 && (choice.weights[1] - 0.75).abs() < 1e-6);
        }
    }
}
