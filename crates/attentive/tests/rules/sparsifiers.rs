//! R17: sparsifiers.

use crate::common::{Array, Input, Parameters, random_state_for, run};
use crate::seen::{Seen, UNITS, rows_close};
use crate::{Gradients, PATHS, by, by_hand, chosen, observe, only};
use attentive::{Hops, SabLstmConfig, ScoreGradient, Sparsifier};
use burn::tensor::DType;

fn softmax(units: usize) -> SabLstmConfig {
    SabLstmConfig::new(3, units).with_sparsifier(Sparsifier::Softmax)
}

#[test]
fn r17_weights_are_the_softmax_of_the_k_top_best_scores() {
    for path in PATHS {
        for units in UNITS {
            // Beyond 63 the fused path uses another selection algorithm.
            for (k_top, time) in [(1, 12), (2, 12), (3, 12), (70, 80)] {
                for k_att in [1, 2] {
                    let seen = Seen::new(&softmax(units).with_k_top(k_top).with_k_att(k_att), time, path);
                    for (row, t) in seen.each_step() {
                        let scores = seen.scores(row, t);
                        let ranked = by_hand::best_first(&scores);
                        // If rounding decides which memory is the last of the best, the weight may go to either.
                        let last = [k_top - 1, k_top].map(|rank| ranked.get(rank).map(|slot| scores[*slot]));
                        if matches!(last, [Some(a), Some(b)] if a - b < 1e-5) {
                            continue;
                        }
                        let right = by_hand::softmax_of_best(&scores, k_top);
                        let what = format!("{path:?}, k_top {k_top}, row {row}, t {t}");
                        rows_close(&seen.weights(row, t), &right, 1e-5, &what);
                    }
                }
            }
        }
    }
}

#[test]
fn r17_equal_scores_go_to_the_older_memories_and_share() {
    let mut parameters = Parameters::random_for(&softmax(5), 1);
    parameters["w3"].values.fill(0.0);
    let x = Input::random(2, 6, 3, false, 2);
    for path in PATHS {
        for k_top in [1, 2, 3] {
            let config = softmax(5).with_k_top(k_top);
            let state = random_state_for(&config, &[4, 7], 3, DType::F32);
            let reminders = observe(&config, &parameters, &x, Some(state), path).reminders.expect("the layer attends");
            for (row, t) in [(0, 0), (0, 5), (1, 0), (1, 5)] {
                let steps: Vec<u64> = reminders.at(row, t).iter().map(|reminder| reminder.step).collect();
                assert_eq!(steps, (0..k_top as u64).collect::<Vec<_>>(), "{path:?}, row {row}, t {t}");
                let share = 1.0 / k_top as f32;
                assert!(reminders.at(row, t).iter().all(|reminder| (reminder.weight - share).abs() < 1e-6), "{path:?}");
            }
        }
    }
}

#[test]
fn r17_gradient_reaches_the_chosen_memories_and_no_threshold() {
    let x = Input::random(1, 10, 3, false, 22);
    let (loss, zero) = (only([1, 10, 5], 0, 9, &[1.0, -0.5, 0.7, 0.3, -0.9]), only([1, 10, 5], 0, 9, &[0.0; 5]));
    for path in PATHS {
        for k_top in [2, 3] {
            let config = softmax(5).with_k_top(k_top).with_k_trunc(1).with_trunc_phase(0);
            let config = config.with_score_gradient(ScoreGradient::Full).with_hops(Hops::One);
            let parameters = Parameters::random_for(&config, 25);
            let reminders = observe(&config, &parameters, &x, None, path).reminders.expect("the layer attends");
            let mut right = chosen(&reminders, 0, 10);
            assert!(right.len() + 1 >= k_top, "at most the null slot is left out");
            right.push(10);
            right.sort_unstable();
            let got = Gradients::of(&config, &parameters, &x, None, [&loss, &zero], &by(path));
            assert_eq!(got.steps(0), right, "{path:?}, k_top {k_top}");
        }
    }
}

#[test]
fn r17_with_few_memories_both_sparsifiers_are_the_same() {
    let x = Input::random(2, 6, 3, false, 2);
    let ones = Array::new(&[2, 6, 5], vec![1.0; 60]);
    for path in PATHS {
        let [a, b] = [Sparsifier::Prominence, Sparsifier::Softmax].map(|sparsifier| {
            let config = SabLstmConfig::new(3, 5).with_sparsifier(sparsifier).with_k_top(6).with_trunc_phase(0);
            run(&config, &Parameters::random_for(&config, 1), &x, None, [&ones, &ones], DType::F32, &by(path))
        });
        assert_eq!(a.hidden.bits(), b.hidden.bits(), "{path:?}");
        for ((name, a), (_, b)) in a.gradients.iter().zip(&b.gradients) {
            assert_eq!(a.bits(), b.bits(), "{path:?}: {name}");
        }
    }
}
