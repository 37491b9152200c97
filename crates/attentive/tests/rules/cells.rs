//! R15: cells.

use crate::common::{Array, Input, Parameters, random_state_for, run};
use crate::seen::{Seen, UNITS, rows_close};
use crate::{Gradients, PATHS, at, by, by_hand, observe, only};
use attentive::{Cell, KTop, SabLstmConfig};
use burn::tensor::DType;

fn gru(units: usize) -> SabLstmConfig {
    SabLstmConfig::new(3, units).with_cell(Cell::Gru)
}

#[test]
fn r15_a_gru_without_attention_is_pytorch_s() {
    for path in PATHS {
        for units in UNITS {
            let seen = Seen::new(&gru(units).with_k_top(0), 6, path);
            for row in 0..2 {
                let mut h = seen.h_before(row, 0);
                for t in 0..6 {
                    h = by_hand::gru(&seen.parameters, at(&seen.x, row, t), &h);
                    rows_close(at(&seen.hidden, row, t), &h, 2e-6, &format!("{path:?}, row {row}, t {t}"));
                }
            }
        }
    }
}

#[test]
fn r15_a_gru_that_is_reminded_goes_on_from_h_with_its_summary() {
    for path in PATHS {
        for units in UNITS {
            for k_top in [KTop::Count(2), KTop::All] {
                let seen = Seen::new(&gru(units).with_k_top(k_top).with_k_att(2), 9, path);
                for (row, t) in seen.each_step() {
                    let what = format!("{path:?}, row {row}, t {t}");
                    let h_hat = by_hand::gru(&seen.parameters, at(&seen.x, row, t), &seen.h_before(row, t));
                    rows_close(&seen.h_hat(row, t), &h_hat, 2e-6, &what);
                    let summary = by_hand::weighted_sum(&seen.weights(row, t), &seen.memories(row, t));
                    rows_close(at(&seen.summary, row, t), &summary, 2e-6, &what);
                }
            }
        }
    }
}

#[test]
fn r15_a_gru_carries_no_cell_and_an_lstm_does() {
    let x = Input::random(2, 4, 3, false, 2);
    for path in PATHS {
        for (cell, carries) in [(Cell::Lstm, true), (Cell::Gru, false)] {
            let config = SabLstmConfig::new(3, 5).with_cell(cell).with_k_top(2);
            let out = observe(&config, &Parameters::random_for(&config, 1), &x, None, path);
            assert_eq!(out.state.cell().is_some(), carries, "{path:?}, {cell}");
            assert_eq!(out.state.to_record().cell.is_some(), carries, "{path:?}, {cell}");
            let again = observe(&config, &Parameters::random_for(&config, 1), &x, Some(out.state), path);
            assert_eq!(again.state.steps(), [8, 8], "{path:?}, {cell}: its own state is taken back");
        }
    }
}

#[test]
fn r15_all_that_a_gru_carries_is_h() {
    // Two states that differ only in their memories, which do not matter without attention.
    let config = gru(5).with_k_top(0);
    let parameters = Parameters::random_for(&config, 1);
    let x = Input::random(1, 4, 3, false, 2);
    for path in PATHS {
        let state = random_state_for(&config, &[4], 3, DType::F32);
        let fresh = attentive::SabState::starting_from(state.hidden(), None, 1).expect("a good state");
        let [a, b] = [state, fresh].map(|state| observe(&config, &parameters, &x, Some(state), path).hidden);
        assert_eq!(Array::of(&a).bits(), Array::of(&b).bits(), "{path:?}");
    }
}

#[test]
fn r9_gradient_of_a_gru_is_cut_as_that_of_an_lstm() {
    let x = Input::random(1, 9, 3, false, 2);
    for path in PATHS {
        let config = gru(5).with_k_top(0).with_k_trunc(4).with_trunc_phase(0);
        let loss = only([1, 9, 5], 0, 6, &[1.0; 5]);
        let zero = only([1, 9, 5], 0, 6, &[0.0; 5]);
        let got = Gradients::of(&config, &Parameters::random_for(&config, 1), &x, None, [&loss, &zero], &by(path));
        // The loss at step 7 reaches the steps behind the cut after step 4, also through the gate that keeps h.
        assert_eq!(got.steps(0), [5, 6, 7], "{path:?}");
    }
}

#[test]
fn r15_both_biases_of_the_candidate_learn() {
    let config = gru(5).with_k_top(0);
    let x = Input::random(2, 6, 3, false, 2);
    let ones = Array::new(&[2, 6, 5], vec![1.0; 60]);
    for path in PATHS {
        let parameters = Parameters::random_for(&config, 1);
        let got = run(&config, &parameters, &x, None, [&ones, &ones], DType::F32, &by(path));
        let (_, bias) = got.gradients.iter().find(|(name, _)| *name == "bias").expect("a bias");
        for (block, d) in bias.values.chunks(5).enumerate() {
            assert!(d.iter().all(|d| *d != 0.0), "{path:?}: block {block}");
        }
        assert_ne!(bias.values[10..15], bias.values[15..], "{path:?}: the reset gate stands between them");
    }
}
