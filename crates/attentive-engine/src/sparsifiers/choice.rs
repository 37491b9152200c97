//! [`Choice`]: the memories that a step was reminded of, and the derivative of their weights with respect to the
//! scores.

/// Up to this many best scores are kept by insertion. More are found by selection.
const INSERTION_LIMIT: usize = 64;

/// How the weights of a choice follow from its scores.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Weighting {
    /// R5: all scores were equal, so nothing was chosen and no gradient flows.
    #[default]
    Nothing,
    /// Softmax of the chosen scores (R6, R17).
    Softmax,
    /// R4: prominence over the threshold, divided by the sum `total`. The threshold's slot is the last one of the
    /// choice.
    Prominence { total: f32 },
}

/// The memories that a step was reminded of.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Choice {
    /// The slots whose scores have an effect: the chosen ones, then the threshold's slot if there is one (R4).
    pub(crate) slots: Vec<u32>,
    /// Their weights; the threshold's is 0.
    pub(crate) weights: Vec<f32>,
    pub(crate) weighting: Weighting,
}

impl Choice {
    /// The number of chosen memories, without the threshold's.
    pub(crate) fn chosen(&self) -> usize {
        match self.weighting {
            Weighting::Nothing => 0,
            Weighting::Softmax => self.slots.len(),
            Weighting::Prominence { .. } => self.slots.len() - 1,
        }
    }

    /// Turns the adjoints of the chosen weights into those of the scores, in place, and appends the threshold's.
    pub(crate) fn backward(&self, adjoints: &mut Vec<f32>) {
        let mean: f32 = adjoints.iter().zip(&self.weights).map(|(d, w)| d * w).sum();
        match self.weighting {
            Weighting::Nothing => adjoints.clear(),
            Weighting::Softmax => adjoints.iter_mut().zip(&self.weights).for_each(|(d, w)| *d = w * (*d - mean)),
            Weighting::Prominence { total } => {
                let mut sum = 0.0;
                for (d, weight) in adjoints.iter_mut().zip(&self.weights) {
                    // The derivative of relu at 0 is 0.
                    *d = if *weight > 0.0 { (*d - mean) / total } else { 0.0 };
                    sum += *d;
                }
                adjoints.push(-sum);
            }
        }
    }

    /// Softmax of all scores, in the order of the slots (R6).
    pub(super) fn softmax_of_all(&mut self, scores: &[f32]) {
        self.slots.clear();
        self.weights.clear();
        self.slots.extend(0..scores.len() as u32);
        self.weights.extend_from_slice(scores);
        self.softmax();
    }

    /// Replaces the scores, which are stored in `weights`, by their softmax.
    pub(super) fn softmax(&mut self) {
        let largest = self.weights.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        self.weights.iter_mut().for_each(|w| *w = (*w - largest).exp());
        let sum: f32 = self.weights.iter().sum();
        self.weights.iter_mut().for_each(|w| *w /= sum);
        self.weighting = Weighting::Softmax;
    }

    /// Stores the slots of the `kept` largest scores in `slots`, and the scores in `weights`. The largest comes first,
    /// and the older of two equal ones first.
    pub(super) fn keep_best(&mut self, scores: &[f32], kept: usize) {
        self.slots.clear();
        self.weights.clear();
        if kept <= INSERTION_LIMIT {
            self.insert_best(scores, kept);
        } else {
            self.select_best(scores, kept);
        }
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
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// Compares each kind of choice with finite differences of the weights. The threshold's score is varied too.
    #[test]
    fn r4_r6_r17_derivatives_of_weights_agree_with_finite_differences() {
        use crate::Sparsifier;
        let scores = [0.3_f32, 1.7, -0.4, 0.9, 1.2, 0.1];
        let d_weights = [0.5_f64, -1.0, 0.25, 2.0, -0.75, 1.5];
        for (sparsifier, k_top) in [
            (Sparsifier::Prominence, Some(3)),
            (Sparsifier::Prominence, Some(9)),
            (Sparsifier::Softmax, Some(3)),
            (Sparsifier::Softmax, None),
        ] {
            let loss = |scores: &[f32]| {
                let mut choice = Choice::default();
                sparsifier.part().choose(scores, k_top, &mut choice);
                let chosen = choice.slots.iter().zip(&choice.weights);
                chosen.map(|(slot, w)| d_weights[*slot as usize] * f64::from(*w)).sum::<f64>()
            };
            let mut choice = Choice::default();
            sparsifier.part().choose(&scores, k_top, &mut choice);
            let mut adjoints: Vec<f32> =
                choice.slots[..choice.chosen()].iter().map(|slot| d_weights[*slot as usize] as f32).collect();
            choice.backward(&mut adjoints);
            let mut got = [0.0_f64; 6];
            choice.slots.iter().zip(&adjoints).for_each(|(slot, d)| got[*slot as usize] += f64::from(*d));
            for slot in 0..scores.len() {
                let moved = |by: f32| {
                    let mut moved = scores;
                    moved[slot] += by;
                    loss(&moved)
                };
                let right = (moved(1e-2) - moved(-1e-2)) / 2e-2;
                assert!((got[slot] - right).abs() < 2e-3, "{sparsifier} {k_top:?} slot {slot}: {} {right}", got[slot]);
            }
        }
    }
}
