//! The sparsifier (R4-R6) on one row of scores. The portable path has the same rules in tensor operations.

/// What a step was reminded of.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Choice {
    /// The chosen slots, and after them the threshold's slot if something was dropped (R4).
    pub(crate) slots: Vec<u32>,
    /// Their weights; the threshold's is 0.
    pub(crate) weights: Vec<f32>,
    /// `sum(w)` of the sparsifier, 0 where all scores are equal (R5); negative marks a softmax (R6).
    pub(crate) normaliser: f32,
}

/// The normaliser of a softmax, which needs none in its derivative.
pub(crate) const SOFTMAX: f32 = -1.0;

/// Up to this many, the best scores are kept by insertion; beyond it, they are selected from all.
const INSERTION_LIMIT: usize = 64;

impl Choice {
    /// Chooses among `scores` (one for each slot, oldest first) at most `k_top`; all if `k_top` is `None`.
    pub(crate) fn choose(&mut self, scores: &[f32], k_top: Option<usize>) {
        self.slots.clear();
        self.weights.clear();
        match k_top {
            Some(k_top) if scores.len() > k_top => self.sparse(scores, k_top),
            _ => self.softmax(scores),
        }
    }

    /// R6: nothing needs dropping.
    fn softmax(&mut self, scores: &[f32]) {
        let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        self.slots.extend(0..scores.len() as u32);
        self.weights.extend(scores.iter().map(|a| (a - largest).exp()));
        let sum: f32 = self.weights.iter().sum();
        self.weights.iter_mut().for_each(|w| *w /= sum);
        self.normaliser = SOFTMAX;
    }

    /// R4: prominence over the (k_top+1)-th score; the older of two equal memories comes first.
    fn sparse(&mut self, scores: &[f32], k_top: usize) {
        let kept = k_top + 1;
        if kept <= INSERTION_LIMIT {
            self.insert_best(scores, kept);
        } else {
            self.select_best(scores, kept);
        }
        let threshold = self.weights[k_top];
        let mut sum = 0.0;
        for w in &mut self.weights {
            *w -= threshold;
            sum += *w;
        }
        if sum > 0.0 {
            self.weights.iter_mut().for_each(|w| *w /= sum);
        } else if sum.is_nan() {
            self.weights.fill(f32::NAN);
        } else {
            // R5
            self.weights.fill(0.0);
            sum = 0.0;
        }
        self.normaliser = sum;
    }

    fn insert_best(&mut self, scores: &[f32], kept: usize) {
        for (slot, &score) in scores.iter().enumerate() {
            if self.weights.len() < kept {
                self.slots.push(0);
                self.weights.push(0.0);
            } else if score <= self.weights[kept - 1] || score.is_nan() {
                continue;
            }
            let mut place = self.weights.len() - 1;
            while place > 0 && self.weights[place - 1] < score {
                self.weights[place] = self.weights[place - 1];
                self.slots[place] = self.slots[place - 1];
                place -= 1;
            }
            self.weights[place] = score;
            self.slots[place] = slot as u32;
        }
    }

    fn select_best(&mut self, scores: &[f32], kept: usize) {
        let mut order: Vec<u32> = (0..scores.len() as u32).collect();
        let best_first = |a: &u32, b: &u32| scores[*b as usize].total_cmp(&scores[*a as usize]).then_with(|| a.cmp(b));
        order.select_nth_unstable_by(kept - 1, best_first);
        order.truncate(kept);
        order.sort_unstable_by(best_first);
        self.weights.extend(order.iter().map(|slot| scores[*slot as usize]));
        self.slots = order;
    }

    /// The chosen memories without the threshold's.
    pub(crate) fn chosen(&self) -> usize {
        if self.normaliser == SOFTMAX { self.slots.len() } else { self.slots.len().saturating_sub(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(scores: &[f32], k_top: Option<usize>) -> Choice {
        let mut choice = Choice::default();
        choice.choose(scores, k_top);
        choice
    }

    #[test]
    fn r4_weights_are_prominence_over_the_next_best() {
        let choice = choose(&[1.0, 5.0, 2.0, 4.0, 0.0], Some(2));
        assert_eq!(choice.slots, [1, 3, 2]);
        assert_eq!(choice.weights, [3.0 / 5.0, 2.0 / 5.0, 0.0]);
        assert_eq!(choice.normaliser, 5.0);
    }

    #[test]
    fn r4_ties_go_to_the_older_memory() {
        let choice = choose(&[1.0, 3.0, 2.0, 3.0, 2.0, 0.0], Some(3));
        assert_eq!(choice.slots, [1, 3, 2, 4]);
        let many: Vec<f32> = (0..200).map(|i| (i % 4) as f32).collect();
        let choice = choose(&many, Some(100));
        assert_eq!(choice.slots[0], 3);
        assert_eq!(choice.slots[50], 2);
        assert_eq!(choice.slots[100], 1, "the threshold is the oldest of the third-best");
    }

    #[test]
    fn r4_insertion_and_selection_agree() {
        let scores: Vec<f32> = (0..300).map(|i| ((i * 7919) % 101) as f32 * 0.37).collect();
        for kept in [1, 2, 17, 64] {
            let (mut inserted, mut selected) = (Choice::default(), Choice::default());
            inserted.insert_best(&scores, kept);
            selected.select_best(&scores, kept);
            assert_eq!(inserted, selected);
        }
    }

    #[test]
    fn r5_equal_scores_choose_nothing() {
        for k_top in [1, 3, 80] {
            let choice = choose(&[0.25; 100], Some(k_top));
            assert_eq!(choice.normaliser, 0.0);
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
