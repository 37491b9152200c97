//! R14: step by step, saved, restored and reset.

use crate::common::parts::each_combination;
use crate::common::{Array, Input, Numbers, Parameters, Run, random_state_for, run};
use crate::{Gradients, PATHS, by, observe};
use attentive::{KTop, Path, SabInput, SabLstm, SabLstmConfig, SabState, SabStateRecord};
use burn::tensor::{DType, Device, Int, Tensor};

const TIME: usize = 11;

fn configs() -> Vec<SabLstmConfig> {
    let mut configs = Vec::new();
    // Five units need padding in the fused path, sixteen do not.
    for units in [5, 16] {
        for (k_top, k_att) in [(KTop::Count(0), 2), (KTop::Count(2), 1), (KTop::Count(3), 3), (KTop::All, 2)] {
            configs.push(SabLstmConfig::new(3, units).with_k_top(k_top).with_k_att(k_att));
        }
    }
    let parts = each_combination(&SabLstmConfig::new(3, 5).with_k_top(2)).into_iter();
    configs.extend(parts.map(|(_, config)| config));
    configs
}

fn layer(config: &SabLstmConfig) -> SabLstm {
    Parameters::random_for(config, 31).layer(config, DType::F32, &Device::flex())
}

fn sequence(rows: usize) -> Tensor<3> {
    Array::new(&[rows, TIME, 3], Numbers::new(32).take(rows * TIME * 3, 1.0)).tensor(DType::F32, &Device::flex())
}

/// Bits of the hidden states and summaries of a stretch, and the state after it.
fn stretch(lstm: &SabLstm, x: Tensor<3>, state: Option<SabState>, path: Path) -> (Vec<Vec<u64>>, SabState) {
    let out = lstm.forward_with(x, state, &by(path)).expect("a good input");
    let [rows, time, units] = out.hidden.dims();
    let both = [Array::of(&out.hidden).bits(), Array::of(&out.summary).bits()];
    let of_row = |row: usize| both.iter().flat_map(move |bits| bits[row * time * units..][..time * units].to_vec());
    ((0..rows).map(|row| of_row(row).collect()).collect(), out.state)
}

/// Bits of everything that matters in a state; of the memory, only the filled slots.
fn state_bits(state: &SabState) -> Vec<Vec<u64>> {
    let (hidden, memory) = (Array::of(&state.hidden()), Array::of(&state.memory()));
    let cell = state.cell().map(|cell| Array::of(&cell));
    let (units, room) = (hidden.shape[1], memory.shape[1]);
    let of_row = |row: usize| {
        let part = |array: &Array, start: usize, len: usize| array.bits()[start..start + len].to_vec();
        let memory = part(&memory, row * room * units, state.slots(row) * units);
        let cell = cell.as_ref().map_or(Vec::new(), |cell| part(cell, row * units, units));
        let received = state.received(row).iter().map(|received| u64::from(received.to_bits())).collect();
        let slots = state.slot_steps(row).to_vec();
        [part(&hidden, row * units, units), cell, memory, vec![state.steps()[row]], slots, received].concat()
    };
    (0..state.batch()).map(of_row).collect()
}

#[test]
fn r14_room_for_more_memories_changes_no_bit() {
    let x = sequence(3);
    for path in PATHS {
        for config in configs() {
            let lstm = layer(&config);
            let (_, right) = stretch(&lstm, x.clone(), None, path);
            let (_, mut state) = stretch(&lstm, x.clone().narrow(1, 0, 4), None, path);
            for memories in [0, TIME + 1, 500] {
                state.reserve(memories).expect("room");
            }
            let (_, state) = stretch(&lstm, x.clone().narrow(1, 4, TIME - 4), Some(state), path);
            assert_eq!(state_bits(&state), state_bits(&right), "{path:?}, {config:?}");
        }
    }
    let lstm = layer(&configs()[0]);
    let (_, mut state) = stretch(&lstm, x, None, Path::Fused);
    let why = state.reserve(usize::MAX / 8).expect_err("no machine has so much").to_string();
    assert!(why.contains("no room for"), "{why}");
}

#[test]
fn r14_step_by_step_gives_the_same_bits_as_the_whole_sequence() {
    let x = sequence(3);
    for path in PATHS {
        for config in configs() {
            let lstm = layer(&config);
            let whole = lstm.forward_with(x.clone(), None, &by(path)).expect("a good input");
            let mut state = None;
            for t in 0..TIME {
                let step = x.clone().narrow(1, t, 1).squeeze_dim::<2>(1);
                let out = lstm.step_with(step, state, &by(path)).expect("a good input");
                for (all, one) in [(&whole.hidden, &out.hidden), (&whole.summary, &out.summary)] {
                    let all = all.clone().narrow(1, t, 1).squeeze_dim::<2>(1);
                    assert_eq!(Array::of(&all).bits(), Array::of(one).bits(), "{path:?}, t {t}, {config:?}");
                }
                state = Some(out.state);
            }
            assert_eq!(state_bits(&state.expect("steps were taken")), state_bits(&whole.state), "{path:?}, {config:?}");
        }
    }
}

#[test]
fn r14_tokens_step_by_step_give_the_same_bits_too() {
    let device = Device::flex();
    let tokens = Tensor::<1, Int>::from_ints([2, 0, 1, 1, 2, 0, 0, 2], &device).reshape([2, 4]);
    for path in PATHS {
        let lstm = layer(&SabLstmConfig::new(3, 5).with_k_top(2));
        let whole = lstm.forward_with(tokens.clone(), None, &by(path)).expect("good tokens");
        let mut state = None;
        for t in 0..4 {
            let token = tokens.clone().narrow(1, t, 1).squeeze_dim::<1>(1);
            state = Some(lstm.step_with(token, state, &by(path)).expect("good tokens").state);
        }
        assert_eq!(state_bits(&state.expect("steps were taken")), state_bits(&whole.state), "{path:?}");
    }
}

#[test]
fn r14_any_cut_into_calls_gives_the_same_bits() {
    let x = sequence(2);
    for path in PATHS {
        for config in configs() {
            let lstm = layer(&config);
            let (_, whole) = stretch(&lstm, x.clone(), None, path);
            for cuts in [[1, 2], [4, 5], [3, 10]] {
                let mut state = None;
                for (from, to) in [(0, cuts[0]), (cuts[0], cuts[1]), (cuts[1], TIME)] {
                    state = Some(stretch(&lstm, x.clone().narrow(1, from, to - from), state, path).1);
                }
                assert_eq!(state_bits(&state.expect("three calls")), state_bits(&whole), "{path:?}, {cuts:?}");
            }
        }
    }
}

#[test]
fn r14_a_state_saved_as_json_goes_on_with_the_same_bits() {
    let x = sequence(2);
    for path in PATHS {
        for config in configs() {
            let lstm = layer(&config);
            let (_, state) = stretch(&lstm, x.clone(), None, path);
            let saved = serde_json::to_string(&state.to_record()).expect("plain data");
            let record: SabStateRecord = serde_json::from_str(&saved).expect("the saved record");
            let restored = SabState::from_record(record, &Device::flex()).expect("a good record");
            assert_eq!(state_bits(&restored), state_bits(&state));
            let [(a, after_a), (b, after_b)] =
                [state, restored].map(|state| stretch(&lstm, x.clone(), Some(state), path));
            assert_eq!(a, b, "{path:?}, {config:?}");
            assert_eq!(state_bits(&after_a), state_bits(&after_b));
        }
    }
}

/// Runs three rows, resets some, and continues in calls of these lengths. The reset rows must have the bits of fresh
/// rows, and the others must be unaffected.
fn after_reset(config: &SabLstmConfig, rows: &[usize], calls: &[usize], path: Path) {
    let (lstm, x) = (layer(config), sequence(3));
    // No part of the state is zero before the reset, the null slot included.
    let before = random_state_for(config, &[0; 3], 35, DType::F32);
    let (_, unbroken) = stretch(&lstm, x.clone(), Some(before), path);
    let mut reset = unbroken.clone();
    reset.reset(rows).expect("rows of the batch");
    let (mut reset, mut unbroken, mut fresh) = (Some(reset), Some(unbroken), None);
    let mut from = 0;
    for len in calls {
        let go_on = |state| stretch(&lstm, x.clone().narrow(1, from, *len), state, path);
        let ((got, after), (on, after_on), (anew, after_anew)) = (go_on(reset), go_on(unbroken), go_on(fresh));
        for (row, got) in got.iter().enumerate() {
            let right = if rows.contains(&row) { (&anew, &after_anew) } else { (&on, &after_on) };
            let what = format!("{path:?}, reset {rows:?}, row {row}, step {from}, {config:?}");
            assert_eq!(*got, right.0[row], "{what}");
            assert_eq!(state_bits(&after)[row], state_bits(right.1)[row], "{what}");
        }
        (reset, unbroken, fresh) = (Some(after), Some(after_on), Some(after_anew));
        from += len;
    }
}

#[test]
fn r14_a_reset_row_is_a_fresh_row_and_the_others_go_on() {
    for path in PATHS {
        for config in configs() {
            for rows in [&[1_usize] as &[usize], &[0, 2], &[]] {
                after_reset(&config, rows, &[1, 3, 2, 5], path);
            }
        }
    }
}

#[test]
fn r14_all_rows_reset_are_fresh_rows() {
    for path in PATHS {
        for config in configs() {
            after_reset(&config, &[0, 1, 2], &[1, 3, 2, 5], path);
        }
    }
}

#[test]
fn r14_a_record_with_room_to_spare_goes_on_like_one_without() {
    for path in PATHS {
        let lstm = layer(&SabLstmConfig::new(3, 5).with_k_top(2));
        let (_, state) = stretch(&lstm, sequence(1), None, path);
        let mut roomy = state.to_record();
        let memory = Tensor::<3>::from_data(roomy.memory, &Device::flex());
        roomy.memory = Tensor::cat(vec![memory, Tensor::zeros([1, 2, 5], &Device::flex())], 1).to_data();
        let mut states = [state, SabState::from_record(roomy, &Device::flex()).expect("room is allowed")].map(Some);
        for t in 0..4 {
            let after = states.map(|state| stretch(&lstm, sequence(1).narrow(1, t, 1), state, path));
            assert_eq!(after[0].0, after[1].0, "{path:?}, t {t}");
            states = after.map(|(_, state)| Some(state));
        }
    }
}

#[test]
fn r14_rows_do_not_know_of_each_other() {
    // Rows of different ages, so that their step counts differ too. A row must do the same alone as in the batch.
    let ages = [4, 0, 7, 4];
    let config = SabLstmConfig::new(3, 5).with_k_top(2).with_k_att(2).with_k_trunc(3).with_trunc_phase(1);
    each_combination(&config).iter().for_each(|(name, config)| rows_are_alone(name, config, ages));
}

fn rows_are_alone(name: &str, config: &SabLstmConfig, ages: [u64; 4]) {
    let parameters = Parameters::random_for(config, 31);
    let input = Input::random(4, TIME, 3, false, 33);
    let Input::Dense(x) = &input else { panic!("a dense input") };
    let ones = |rows: usize| Array::new(&[rows, TIME, 5], vec![1.0; rows * TIME * 5]);
    let batch = random_state_for(config, &ages, 34, DType::F32);
    for path in PATHS {
        let all = run(config, &parameters, &input, Some(batch.clone()), [&ones(4), &ones(4)], DType::F32, &by(path));
        for (row, age) in ages.into_iter().enumerate() {
            let mut record = batch.to_record();
            let pick = |data| Tensor::<3>::from_data(data, &Device::flex()).narrow(0, row, 1).to_data();
            let pick_2 = |data| Tensor::<2>::from_data(data, &Device::flex()).narrow(0, row, 1).to_data();
            (record.hidden, record.cell, record.memory) =
                (pick_2(record.hidden), record.cell.map(pick_2), pick(record.memory));
            (record.steps, record.slot_steps) = (vec![age], vec![batch.slot_steps(row).to_vec()]);
            record.received = vec![batch.received(row).to_vec()];
            let state = SabState::from_record(record, &Device::flex()).expect("a good record");
            let own = Input::Dense(Array::new(&[1, TIME, 3], x.values[row * TIME * 3..][..TIME * 3].to_vec()));
            let one = run(config, &parameters, &own, Some(state), [&ones(1), &ones(1)], DType::F32, &by(path));
            let part = |array: &Array, len: usize| array.values[row * len..][..len].to_vec();
            assert_eq!(one.slot_steps[0], all.slot_steps[row], "{path:?}, {name}, row {row}");
            let of_x = |run: &Run| run.gradients.last().expect("that of x").1.clone();
            for (all, one) in [(&all.hidden, &one.hidden), (&of_x(&all), &of_x(&one))] {
                let all = part(all, one.values.len());
                let worst = all.iter().zip(&one.values).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(worst < 1e-5, "{path:?}, {name}, row {row}: {worst:e}");
            }
        }
    }
}

#[test]
fn r14_no_gradient_runs_into_an_earlier_call() {
    let config = SabLstmConfig::new(3, 5).with_k_top(2).with_k_trunc(None);
    let device = Device::flex().autodiff();
    for path in PATHS {
        let lstm = Parameters::random(3, 5, 31).layer(&config, DType::F32, &device);
        let x = Tensor::from_inner(sequence(1)).require_grad();
        let first = lstm.forward_with(x.clone(), None, &by(path)).expect("a good input");
        let next = Tensor::from_inner(sequence(1)).require_grad();
        let second =
            lstm.forward_with(SabInput::Dense(next.clone()), Some(first.state), &by(path)).expect("a good input");
        let grads = second.hidden.sum().backward();
        assert!(
            x.grad(&grads).is_none_or(|gradient| Array::of(&gradient).values.iter().all(|d| *d == 0.0)),
            "{path:?}"
        );
        assert!(next.grad(&grads).is_some(), "{path:?}");
    }
}

#[test]
fn r14_steps_go_on_counting_for_storing_and_for_truncation() {
    let config = SabLstmConfig::new(3, 5)
        .with_k_top(2)
        .with_k_att(3)
        .with_k_trunc(4)
        .with_trunc_phase(0)
        .with_mental_updates(false);
    let parameters = Parameters::random(3, 5, 31);
    let input = Input::random(1, 6, 3, false, 33);
    let loss = crate::only([1, 6, 5], 0, 4, &[1.0; 5]);
    let zero = crate::only([1, 6, 5], 0, 0, &[0.0; 5]);
    for path in PATHS {
        let state = observe(&config, &parameters, &input, None, path).state;
        assert_eq!((state.steps(), state.slots(0)), (vec![6], 3));
        // Steps 7 to 12; the loss at step 11 is cut off after step 8, which is the second of this call.
        let got = Gradients::of(&config, &parameters, &input, Some(state.clone()), [&loss, &zero], &by(path));
        assert_eq!(got.steps(0), [3, 4, 5], "{path:?}");
        let out = observe(&config, &parameters, &input, Some(state), path);
        assert_eq!((out.state.steps(), out.state.slots(0)), (vec![12], 5));
    }
}
