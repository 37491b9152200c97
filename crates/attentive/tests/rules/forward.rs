//! R1 to R8: the forward pass.

use crate::common::{Array, Input, Numbers, Parameters, compare, difference, random_state, run};
use crate::seen::{Seen, UNITS, dense, rows_close};
use crate::{PATHS, at, by, by_hand, chosen, observe};
use attentive::{KTop, Path, SabLstmConfig, SabReadout, SabReadoutConfig, ScoreGradient};
use burn::module::Param;
use burn::tensor::{DType, Device, Tensor};

#[test]
fn r1_cell_is_an_lstm_with_gates_i_f_g_o_and_one_bias() {
    for path in PATHS {
        for units in UNITS {
            let seen = Seen::new(&SabLstmConfig::new(3, units).with_k_top(0), 6, path);
            for row in 0..2 {
                let mut h = seen.h_before(row, 0);
                let mut c = seen.cell_before().values[row * units..][..units].to_vec();
                for t in 0..6 {
                    (h, c) = by_hand::cell(&seen.parameters, at(&seen.x, row, t), &h, &c);
                    rows_close(at(&seen.hidden, row, t), &h, 2e-6, "h");
                }
            }
        }
    }
}

#[test]
fn r1_a_token_is_a_row_of_the_input_weights() {
    let config = SabLstmConfig::new(3, 5).with_k_top(2);
    let parameters = Parameters::random(3, 5, 1);
    let tokens = [2_usize, 0, 1, 1, 2, 0];
    let one_hot = tokens.iter().flat_map(|token| (0..3).map(move |i| f64::from(u8::from(i == *token)))).collect();
    let one_hot = Input::Dense(Array::new(&[2, 3, 3], one_hot));
    let tokens = Input::Tokens { shape: [2, 3], tokens: tokens.map(|token| token as i64).to_vec() };
    for path in PATHS {
        let [a, b] = [&one_hot, &tokens].map(|x| Array::of(&observe(&config, &parameters, x, None, path).hidden));
        assert!(difference(&a, &b, 1.0) < 1e-6);
    }
}

#[test]
fn r2_memory_holds_the_initial_state_and_every_k_att_th_hidden_state() {
    for path in PATHS {
        for k_att in 1..5 {
            // Rows of different ages are assembled differently from rows of the same age.
            for (k_top, steps) in [(0, [0, 3, 5]), (2, [0, 3, 5]), (0, [4; 3]), (2, [4; 3])] {
                let config = SabLstmConfig::new(3, 5).with_k_att(k_att).with_k_top(k_top);
                let before = random_state(5, &steps, k_att, 3, DType::F32);
                let carried = Array::of(&before.memory());
                let x = Input::random(3, 7, 3, false, 4);
                let out = observe(&config, &Parameters::random(3, 5, 2), &x, Some(before), path);
                let (hidden, memory) = (Array::of(&out.hidden), Array::of(&out.state.memory()));
                for (row, steps) in steps.into_iter().enumerate() {
                    assert_eq!(out.state.slots(row), 1 + (steps as usize + 7) / k_att);
                    for slot in 0..out.state.slots(row) {
                        let right = match (slot * k_att).checked_sub(steps as usize + 1) {
                            Some(t) => at(&hidden, row, t),
                            None => at(&carried, row, slot),
                        };
                        assert_eq!(at(&memory, row, slot), right, "{path:?}, k_att {k_att}, row {row}, slot {slot}");
                    }
                }
            }
        }
    }
}

#[test]
fn r2_a_step_is_reminded_of_all_that_was_stored_before_it_and_of_nothing_else() {
    for path in PATHS {
        for k_att in 1..4 {
            // Everything is chosen, so the reminders list the memory.
            let config = SabLstmConfig::new(3, 5).with_k_att(k_att).with_k_top(KTop::All);
            let steps = [0_usize, 4];
            let state = random_state(5, &steps.map(|s| s as u64), k_att, 5, DType::F32);
            let x = Input::random(2, 7, 3, false, 6);
            let out = observe(&config, &Parameters::random(3, 5, 7), &x, Some(state), path);
            let reminders = out.reminders.expect("the layer attends");
            for (row, before) in steps.into_iter().enumerate() {
                for step in 1..=7 {
                    let mut got = chosen(&reminders, row, step);
                    got.sort_unstable();
                    let right: Vec<usize> = (1..before + step).filter(|stored| stored % k_att == 0).collect();
                    assert_eq!(got, right, "{path:?}, k_att {k_att}, row {row}, step {step}");
                }
            }
        }
    }
}

#[test]
fn r3_scores_are_w3_tanh_of_memory_and_query_without_bias() {
    for path in PATHS {
        for units in UNITS {
            // A softmax reveals differences of scores: they are the logarithms of quotients of weights.
            let seen = Seen::new(&SabLstmConfig::new(3, units).with_k_top(KTop::All), 6, path);
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
fn r3_projections_may_be_huge_if_memory_and_query_balance() {
    // The fused path caches exponentials of projections up to a limit, and larger projections raw. This covers both.
    let mut parameters = Parameters::random(3, 5, 3);
    parameters["w1"].values.iter_mut().for_each(|w| *w *= 40.0);
    parameters["w2"].values = parameters["w1"].values.iter().map(|w| -0.9 * w).collect();
    let (x, adjoint) = (Input::random(2, 9, 3, false, 2), Array::new(&[2, 9, 5], Numbers::new(3).take(90, 1.0)));
    for k_top in [KTop::Count(2), KTop::All] {
        let config =
            SabLstmConfig::new(3, 5).with_k_top(k_top).with_trunc_phase(0).with_score_gradient(ScoreGradient::Full);
        let run = |path, dtype| run(&config, &parameters, &x, None, [&adjoint, &adjoint], dtype, &by(path));
        let (got, right) = (run(Path::Fused, DType::F32), run(Path::Portable, DType::F64));
        compare(&got, &right, 1e-4, 1e-2, 0.01).expect("both agree");
        let scorer = right.gradients.iter().filter(|(name, _)| ["w1", "w2", "w3"].contains(name));
        for (name, gradient) in scorer {
            assert!(gradient.values.iter().any(|d| d.abs() > 1e-3), "{name}: all saturated, the test shows nothing");
        }
    }
}

#[test]
fn r3_the_query_decides_what_is_chosen() {
    let config = SabLstmConfig::new(3, 5).with_k_top(2);
    let parameters = Parameters::random(3, 5, 1);
    let x = Input::random(1, 12, 3, false, 2);
    for path in PATHS {
        let last = |x: &Input, parameters: &Parameters| {
            let out = observe(&config, parameters, x, None, path);
            out.reminders.expect("the layer attends").at(0, 11).to_vec()
        };
        // Only the last input changes, so all memories stay the same.
        let mut moved = dense(&x).clone();
        moved.values[33..].iter_mut().for_each(|x| *x *= -2.0);
        assert_ne!(last(&x, &parameters), last(&Input::Dense(moved), &parameters), "{path:?}");
    }
}

#[test]
fn r4_weights_are_the_prominence_over_the_next_best_score() {
    for path in PATHS {
        for units in UNITS {
            // Beyond 63 the fused path uses another selection algorithm.
            for (k_top, time) in [(1, 12), (2, 12), (3, 12), (70, 80)] {
                for k_att in [1, 2] {
                    let config = SabLstmConfig::new(3, units).with_k_top(k_top).with_k_att(k_att);
                    let seen = Seen::new(&config, time, path);
                    for (row, t) in seen.each_step() {
                        let scores = seen.scores(row, t);
                        let Some(threshold) = by_hand::threshold(&scores, k_top) else { continue };
                        let w: Vec<f64> = scores.iter().map(|a| (a - threshold).max(0.0)).collect();
                        let sum: f64 = w.iter().sum();
                        // Scaled by their sum, because the rounding of a score matters more if the sum is small.
                        let got: Vec<f64> = seen.weights(row, t).iter().map(|weight| weight * sum).collect();
                        rows_close(&got, &w, 3e-5, &format!("{path:?}, k_top {k_top}, row {row}, t {t}"));
                        assert!((seen.weights(row, t).iter().sum::<f64>() - 1.0).abs() < 1e-5);
                    }
                }
            }
        }
    }
}

#[test]
fn r5_equal_scores_give_no_summary_and_no_gradient() {
    let mut parameters = Parameters::random(3, 5, 1);
    parameters["w3"].values.fill(0.0);
    let x = Input::random(2, 6, 3, false, 2);
    let ones = Array::new(&[2, 6, 5], vec![1.0; 60]);
    for path in PATHS {
        for k_top in [1, 3] {
            // More memories than k_top from the first step on: a softmax of equal scores would have a gradient.
            let state = random_state(5, &[4, 7], 1, 3, DType::F32);
            let config = SabLstmConfig::new(3, 5).with_k_top(k_top).with_trunc_phase(0);
            let got = run(&config, &parameters, &x, Some(state), [&ones, &ones], DType::F32, &by(path));
            assert!(got.summary.values.iter().all(|s| *s == 0.0), "{path:?}");
            for (name, gradient) in &got.gradients {
                if name.starts_with("w1") || name.starts_with("w2") || name.starts_with("w3") {
                    assert!(gradient.values.iter().all(|d| *d == 0.0), "{path:?}: {name}");
                } else {
                    assert!(gradient.values.iter().all(|d| d.is_finite()), "{path:?}: {name}");
                    assert!(gradient.values.iter().any(|d| *d != 0.0), "{path:?}: {name}");
                }
            }
        }
    }
}

#[test]
fn r6_up_to_k_top_memories_get_a_softmax_and_more_do_not() {
    for path in PATHS {
        for k_top in [3, 4] {
            let seen = Seen::new(&SabLstmConfig::new(3, 5).with_k_top(k_top), 8, path);
            for (row, t) in seen.each_step() {
                let (softmax, weights) = (by_hand::softmax(&seen.scores(row, t)), seen.weights(row, t));
                if t < k_top {
                    rows_close(&weights, &softmax, 1e-5, &format!("{path:?}, k_top {k_top}, t {t}"));
                } else {
                    assert!(weights.iter().filter(|w| **w > 0.0).count() <= k_top, "{path:?}, t {t}");
                }
            }
        }
    }
}

#[test]
fn r6_k_top_all_is_a_k_top_that_is_never_reached() {
    let (parameters, x) = (Parameters::random(3, 5, 1), Input::random(2, 9, 3, false, 2));
    let adjoint = Array::new(&[2, 9, 5], Numbers::new(3).take(90, 1.0));
    for path in PATHS {
        let [a, b] = [KTop::All, KTop::Count(9)].map(|k_top| {
            let config = SabLstmConfig::new(3, 5).with_k_top(k_top).with_trunc_phase(0);
            run(&config, &parameters, &x, None, [&adjoint, &adjoint], DType::F32, &by(path))
        });
        assert_eq!(a.hidden.bits(), b.hidden.bits());
        for ((name, a), (_, b)) in a.gradients.iter().zip(&b.gradients) {
            assert!(difference(a, b, 1.0) < 1e-5, "{path:?}: {name}");
        }
    }
}

#[test]
fn r6_k_top_0_is_a_plain_lstm() {
    let x = Input::random(2, 6, 3, false, 2);
    let ones = Array::new(&[2, 6, 5], vec![1.0; 60]);
    let config = SabLstmConfig::new(3, 5).with_k_top(0).with_trunc_phase(0);
    for path in PATHS {
        let run_with = |parameters: &Parameters| {
            let state = random_state(5, &[4, 7], 1, 3, DType::F32);
            assert!(observe(&config, parameters, &x, Some(state.clone()), path).reminders.is_none());
            run(&config, parameters, &x, Some(state), [&ones, &ones], DType::F32, &by(path))
        };
        let mut parameters = Parameters::random(3, 5, 1);
        let one = run_with(&parameters);
        assert!(one.summary.values.iter().all(|s| *s == 0.0), "{path:?}");
        for (name, gradient) in one.gradients.iter().filter(|(name, _)| ["w1", "w2", "w3"].contains(name)) {
            assert!(gradient.values.iter().all(|d| *d == 0.0), "{path:?}: {name}");
        }
        ["w1", "w2", "w3"].into_iter().for_each(|name| parameters[name].values.fill(0.25));
        assert_eq!(run_with(&parameters).hidden.bits(), one.hidden.bits(), "the scorer does not matter");
    }
}

#[test]
fn r7_hidden_is_h_hat_plus_the_weighted_sum_of_the_memories_and_goes_on() {
    for path in PATHS {
        for units in UNITS {
            for k_top in [KTop::Count(2), KTop::All] {
                let seen = Seen::new(&SabLstmConfig::new(3, units).with_k_top(k_top).with_k_att(2), 9, path);
                for row in 0..2 {
                    let mut c = seen.cell_before().values[row * units..][..units].to_vec();
                    for t in 0..9 {
                        let what = format!("{path:?}, row {row}, t {t}");
                        // The next step starts from h, not from h_hat.
                        let h_hat;
                        (h_hat, c) = by_hand::cell(&seen.parameters, at(&seen.x, row, t), &seen.h_before(row, t), &c);
                        rows_close(&seen.h_hat(row, t), &h_hat, 2e-6, &what);
                        let summary = by_hand::weighted_sum(&seen.weights(row, t), &seen.memories(row, t));
                        rows_close(at(&seen.summary, row, t), &summary, 2e-6, &what);
                    }
                }
            }
        }
    }
}

#[test]
fn r8_output_is_v1_h_plus_v2_s_plus_b() {
    let device = Device::flex().autodiff();
    let mut numbers = Numbers::new(5);
    // 20 outputs are more than one panel of the fused path and not a multiple of it.
    for (units, outputs) in [(5, 3), (16, 20)] {
        let mut array = |shape: &[usize]| Array::new(shape, numbers.take(shape.iter().product(), 1.0));
        let (v1, v2, b) = (array(&[units, outputs]), array(&[units, outputs]), array(&[outputs]));
        let (h, s, d_y) = (array(&[2, 3, units]), array(&[2, 3, units]), array(&[2, 3, outputs]));
        let readout = SabReadout {
            v1: Param::from_tensor(v1.tensor(DType::F32, &device)),
            v2: Param::from_tensor(v2.tensor(DType::F32, &device)),
            bias: Param::from_tensor(b.tensor(DType::F32, &device)),
        };
        let value = |n: usize, o: usize| -> f64 {
            let product = |x: &Array, v: &Array| -> f64 {
                (0..units).map(|u| x.values[n * units + u] * v.values[u * outputs + o]).sum()
            };
            product(&h, &v1) + product(&s, &v2) + b.values[o]
        };
        for path in PATHS {
            let [h_in, s_in] = [&h, &s].map(|x| x.tensor::<3>(DType::F32, &device).require_grad());
            let y = readout.forward_by(h_in.clone(), s_in.clone(), path).expect("fits");
            assert_eq!(y.dims(), [2, 3, outputs]);
            let right: Vec<f64> = (0..6 * outputs).map(|i| value(i / outputs, i % outputs)).collect();
            rows_close(&Array::of(&y).values, &right, 1e-5, "y");
            let grads = (y * d_y.tensor::<3>(DType::F32, &device)).sum().backward();
            for (x, x_in, v, param) in [(&h, h_in, &v1, &readout.v1), (&s, s_in, &v2, &readout.v2)] {
                let d_v = |i: usize| -> f64 {
                    (0..6).map(|n| x.values[n * units + i / outputs] * d_y.values[n * outputs + i % outputs]).sum()
                };
                let right: Vec<f64> = (0..units * outputs).map(d_v).collect();
                let gradient = param.val().grad(&grads).expect("a gradient");
                rows_close(&Array::of(&gradient).values, &right, 1e-5, "dV");
                let d_x = |i: usize| {
                    (0..outputs).map(|o| d_y.values[i / units * outputs + o] * v.values[i % units * outputs + o]).sum()
                };
                let right: Vec<f64> = (0..6 * units).map(d_x).collect();
                rows_close(&Array::of(&x_in.grad(&grads).expect("a gradient")).values, &right, 1e-5, "dx");
            }
            let d_b: Vec<f64> = (0..outputs).map(|o| (0..6).map(|n| d_y.values[n * outputs + o]).sum()).collect();
            let gradient = readout.bias.val().grad(&grads).expect("a gradient");
            rows_close(&Array::of(&gradient).values, &d_b, 1e-5, "db");
        }
    }
}

#[test]
fn r8_any_number_of_leading_dimensions() {
    let device = Device::flex();
    let readout = SabReadoutConfig::new(4, 2).init(&device);
    for path in PATHS {
        let flat = readout.forward_by(Tensor::<1>::ones([4], &device), Tensor::<1>::ones([4], &device), path);
        let deep = Tensor::<4>::ones([1, 1, 1, 4], &device);
        let deep = readout.forward_by(deep.clone(), deep, path).expect("fits");
        assert_eq!(flat.expect("fits").to_data(), deep.reshape([2]).to_data());
    }
}
