//! R16: scorers.

use crate::common::{Array, Input, Numbers, Parameters, random_state_for, run};
use crate::seen::{Seen, UNITS, rows_close};
use crate::{Gradients, PATHS, at, by, by_hand, observe, only};
use attentive::{KTop, Path, SabLstmConfig, ScoreGradient, Scorer, Sparsifier};
use burn::tensor::DType;

/// Compares scores with those by hand. A softmax reveals differences of scores as logarithms of quotients of weights.
fn scores_are_those_by_hand(scorer: Scorer) {
    for path in PATHS {
        for units in UNITS {
            let config = SabLstmConfig::new(3, units).with_scorer(scorer).with_k_top(KTop::All);
            let seen = Seen::new(&config, 6, path);
            for (row, t) in seen.each_step() {
                let (scores, weights) = (seen.scores(row, t), seen.weights(row, t));
                for (a, w) in scores.iter().zip(&weights) {
                    assert!((a - scores[0] - (w / weights[0]).ln()).abs() < 3e-5, "{path:?}, row {row}, t {t}");
                }
            }
        }
    }
}

#[test]
fn r16_dot_is_the_product_of_both_projections_over_the_root_of_the_units() {
    scores_are_those_by_hand(Scorer::Dot);
}

#[test]
fn r16_cosine_is_the_temperature_times_the_cosine_of_both_projections() {
    scores_are_those_by_hand(Scorer::Cosine);
}

#[test]
fn r16_the_query_decides_what_is_chosen() {
    for path in PATHS {
        for scorer in [Scorer::Dot, Scorer::Cosine] {
            let config = SabLstmConfig::new(3, 5).with_scorer(scorer).with_k_top(2);
            let Input::Dense(x) = Input::random(1, 12, 3, false, 2) else { panic!("a dense input") };
            let last = |x: &Array| {
                let out = observe(&config, &Parameters::random_for(&config, 1), &Input::Dense(x.clone()), None, path);
                out.reminders.expect("the layer attends").at(0, 11).to_vec()
            };
            // Only the last input changes, so all memories stay the same.
            let mut moved = x.clone();
            moved.values[33..].iter_mut().for_each(|x| *x *= -2.0);
            assert_ne!(last(&x), last(&moved), "{path:?}, {scorer}");
        }
    }
}

#[test]
fn r16_a_zero_vector_has_a_cosine_of_0() {
    // The null slot of a fresh row is zero.
    let config = SabLstmConfig::new(3, 5).with_scorer(Scorer::Cosine).with_k_top(KTop::All);
    let parameters = Parameters::random_for(&config, 1);
    let x = Input::random(1, 4, 3, false, 2);
    for path in PATHS {
        let out = observe(&config, &parameters, &x, None, path);
        let (hidden, summary) = (Array::of(&out.hidden), Array::of(&out.summary));
        let reminders = out.reminders.expect("the layer attends");
        for t in 1..4 {
            let h_hat: Vec<f64> = at(&hidden, 0, t).iter().zip(at(&summary, 0, t)).map(|(h, s)| h - s).collect();
            let memory = |step: usize| if step == 0 { vec![0.0; 5] } else { at(&hidden, 0, step - 1).to_vec() };
            let scores: Vec<f64> =
                (0..=t).map(|step| by_hand::score_by(Scorer::Cosine, &parameters, &memory(step), &h_hat)).collect();
            assert_eq!(scores[0], 0.0);
            let right = by_hand::softmax(&scores);
            for reminder in reminders.at(0, t) {
                let right = right[reminder.step as usize];
                assert!((f64::from(reminder.weight) - right).abs() < 1e-5, "{path:?}, t {t}");
            }
        }
    }
}

#[test]
fn r16_zero_vectors_pass_no_gradient_and_no_nan() {
    let config = SabLstmConfig::new(3, 5).with_scorer(Scorer::Cosine).with_k_top(KTop::All).with_k_trunc(None);
    let config = config.with_score_gradient(ScoreGradient::Full);
    let mut parameters = Parameters::random_for(&config, 1);
    parameters["w1"].values.fill(0.0);
    let x = Input::random(2, 6, 3, false, 2);
    let adjoint = Array::new(&[2, 6, 5], Numbers::new(3).take(60, 1.0));
    for path in PATHS {
        let state = random_state_for(&config, &[0, 3], 3, DType::F32);
        let got = run(&config, &parameters, &x, Some(state.clone()), [&adjoint, &adjoint], DType::F32, &by(path));
        for (name, gradient) in &got.gradients {
            let zero = gradient.values.iter().all(|d| *d == 0.0);
            assert_eq!(zero, ["w1", "temperature"].contains(name), "{path:?}: {name}");
            assert!(gradient.values.iter().all(|d| d.is_finite()), "{path:?}: {name}");
        }
        // All scores are 0, so all memories weigh the same.
        let reminders = observe(&config, &parameters, &x, Some(state), path).reminders.expect("the layer attends");
        assert!(reminders.at(0, 3).iter().all(|reminder| (reminder.weight - 0.25).abs() < 1e-6), "{path:?}");
    }
}

/// One step of one row with four carried memories and a loss on its summary.
struct OneStep {
    config: SabLstmConfig,
    parameters: Parameters,
    x: Input,
    adjoint: Array,
}

impl OneStep {
    fn new(scorer: Scorer, sparsifier: Sparsifier) -> Self {
        let config = SabLstmConfig::new(3, 5).with_scorer(scorer).with_sparsifier(sparsifier).with_k_top(2);
        let parameters = Parameters::random_for(&config, 7);
        let adjoint = Array::new(&[1, 1, 5], Numbers::new(3).take(5, 1.0));
        Self { config, parameters, x: Input::random(1, 1, 3, false, 2), adjoint }
    }

    fn state(&self) -> attentive::SabState {
        random_state_for(&self.config, &[3], 4, DType::F32)
    }

    fn gradients(&self, path: Path) -> Gradients {
        let zero = only([1, 1, 5], 0, 0, &[0.0; 5]);
        let loss = [&zero, &self.adjoint];
        Gradients::of(&self.config, &self.parameters, &self.x, Some(self.state()), loss, &by(path))
    }

    /// The loss by hand, from any score of memory and query, softmax over the two best.
    fn loss(&self, score: impl Fn(&[f64], &[f64]) -> f64) -> f64 {
        let state = self.state();
        let [h, c] = [state.hidden(), state.cell().expect("an LSTM has one")].map(|tensor| Array::of(&tensor).values);
        let Input::Dense(x) = &self.x else { panic!("a dense input") };
        let (h_hat, _) = by_hand::cell(&self.parameters, &x.values, &h, &c);
        let memory = Array::of(&state.memory());
        let memories: Vec<Vec<f64>> = (0..4).map(|slot| at(&memory, 0, slot).to_vec()).collect();
        let scores: Vec<f64> = memories.iter().map(|memory| score(memory, &h_hat)).collect();
        let summary = by_hand::weighted_sum(&by_hand::softmax_of_best(&scores, 2), &memories);
        summary.iter().zip(&self.adjoint.values).map(|(s, d)| s * d).sum()
    }
}

/// The derivative of `f` by every element of `at`.
fn slopes(at: &[f64], f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let moved = |i: usize, by: f64| {
        let mut moved = at.to_vec();
        moved[i] += by;
        f(&moved)
    };
    (0..at.len()).map(|i| (moved(i, 1e-5) - moved(i, -1e-5)) / 2e-5).collect()
}

#[test]
fn r16_w1_of_the_cosine_learns_from_memories_and_from_the_query() {
    let step = OneStep::new(Scorer::Cosine, Sparsifier::Softmax);
    let (w1, temperature) = (&step.parameters["w1"].values, step.parameters["temperature"].values[0]);
    let loss = |of_memory: &[f64], of_query: &[f64]| {
        step.loss(|memory, h_hat| temperature * by_hand::cosine(of_memory, of_query, memory, h_hat))
    };
    let (of_memories, of_query) = (slopes(w1, |w| loss(w, w1)), slopes(w1, |w| loss(w1, w)));
    for side in [&of_memories, &of_query] {
        assert!(side.iter().any(|d| d.abs() > 1e-3), "a side without gradient shows nothing");
    }
    let both: Vec<f64> = of_memories.iter().zip(&of_query).map(|(a, b)| a + b).collect();
    for path in PATHS {
        rows_close(&step.gradients(path).get("w1").values, &both, 2e-5, &format!("{path:?}"));
    }
}

#[test]
fn r16_w1_and_w2_of_the_dot_learn_each_from_its_side() {
    let step = OneStep::new(Scorer::Dot, Sparsifier::Softmax);
    let (w1, w2) = (&step.parameters["w1"].values, &step.parameters["w2"].values);
    let loss = |w1: &[f64], w2: &[f64]| step.loss(|memory, h_hat| by_hand::dot(w1, w2, memory, h_hat));
    let right = [("w1", slopes(w1, |w| loss(w, w2))), ("w2", slopes(w2, |w| loss(w1, w)))];
    for path in PATHS {
        for (name, right) in &right {
            assert!(right.iter().any(|d| d.abs() > 1e-3), "{name} without gradient shows nothing");
            rows_close(&step.gradients(path).get(name).values, right, 2e-5, &format!("{path:?}: {name}"));
        }
    }
}

#[test]
fn r16_the_temperature_learns() {
    let step = OneStep::new(Scorer::Cosine, Sparsifier::Softmax);
    let w1 = &step.parameters["w1"].values;
    let loss = |temperature: &[f64]| step.loss(|memory, h_hat| temperature[0] * by_hand::cosine(w1, w1, memory, h_hat));
    let right = slopes(&step.parameters["temperature"].values, loss);
    assert!(right[0].abs() > 1e-3, "a temperature without gradient shows nothing");
    for path in PATHS {
        rows_close(&step.gradients(path).get("temperature").values, &right, 1e-5, &format!("{path:?}"));
    }
}

#[test]
fn r16_prominence_does_not_feel_the_temperature() {
    // Prominence does not change when all scores are scaled, so there is nothing for it to learn.
    let step = OneStep::new(Scorer::Cosine, Sparsifier::Prominence);
    let mut hotter = OneStep::new(Scorer::Cosine, Sparsifier::Prominence);
    hotter.parameters["temperature"].values[0] *= 4.0;
    for path in PATHS {
        assert!(step.gradients(path).get("temperature").values[0].abs() < 1e-6, "{path:?}");
        let [a, b] = [&step, &hotter].map(|step| {
            let out = observe(&step.config, &step.parameters, &step.x, Some(step.state()), path);
            Array::of(&out.summary).values
        });
        rows_close(&a, &b, 1e-6, &format!("{path:?}"));
    }
}

#[test]
fn r10_the_scores_gradient_means_the_same_for_every_scorer() {
    for path in PATHS {
        for scorer in [Scorer::Dot, Scorer::Cosine] {
            let config = SabLstmConfig::new(3, 5).with_scorer(scorer).with_k_top(2).with_k_trunc(1).with_trunc_phase(0);
            let (x, loss) = (Input::random(1, 10, 3, false, 22), only([1, 10, 5], 0, 9, &[1.0, -0.5, 0.7, 0.3, -0.9]));
            let zero = only([1, 10, 5], 0, 0, &[0.0; 5]);
            let steps = |score_gradient| {
                // Only the summary of the last step counts: h_hat can get a gradient through the query alone.
                let config = config.clone().with_score_gradient(score_gradient).with_mental_updates(false);
                let parameters = Parameters::random_for(&config, 25);
                let got = Gradients::of(&config, &parameters, &x, None, [&zero, &loss], &by(path));
                assert!(got.get("w1").values.iter().any(|d| *d != 0.0), "{path:?}, {scorer}: W1 learns");
                got.steps(0)
            };
            assert!(steps(ScoreGradient::Weights).is_empty(), "{path:?}, {scorer}");
            assert_eq!(steps(ScoreGradient::Full), [10], "{path:?}, {scorer}");
        }
    }
}
