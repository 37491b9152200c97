//! The fused path gives the same bits however a computation is split: into threads, calls, steps or rows (R14).

mod common;

#[path = "determinism/parts.rs"]
mod parts;
#[path = "determinism/streams.rs"]
mod streams;

use attentive::{
    Cell, ForwardOptions, Hops, InstructionSet, KTop, Path, SabInput, SabLstmConfig, SabOutput, SabState,
    SabStateRecord, ScoreGradient,
};
use burn::tensor::{DType, Device, Int, Tensor, TensorData, s};
use common::{Array, Input, Numbers, Parameters, Run, gradients_of, random_state, random_state_for, run};

const SETS: [InstructionSet; 2] = [InstructionSet::Detect, InstructionSet::Baseline];

fn fused(instructions: InstructionSet) -> ForwardOptions {
    ForwardOptions::new().with_path(Path::Fused).with_instructions(instructions)
}

fn adjoints(batch: usize, time: usize, hidden: usize, seed: u64) -> [Array; 2] {
    let mut numbers = Numbers::new(seed);
    let shape = [batch, time, hidden];
    [(); 2].map(|()| Array::new(&shape, numbers.take(batch * time * hidden, 1.0)))
}

fn assert_same(what: &str, got: &Array, right: &Array) {
    assert_eq!(got.shape, right.shape, "{what}");
    let place = got.bits().iter().zip(right.bits()).position(|(a, b)| *a != b);
    if let Some(i) = place {
        panic!("{what}: element {i} of {:?} is {:e}, not {:e}", got.shape, got.values[i], right.values[i]);
    }
}

fn assert_same_runs(what: &str, got: &Run, right: &Run) {
    let pairs = [
        ("hidden", &got.hidden, &right.hidden),
        ("summary", &got.summary, &right.summary),
        ("last hidden", &got.last_hidden, &right.last_hidden),
        ("last cell", &got.last_cell, &right.last_cell),
        ("memory", &got.memory, &right.memory),
    ];
    for (name, got, right) in pairs {
        assert_same(&format!("{what}: {name}"), got, right);
    }
    assert_eq!(got.steps, right.steps, "{what}");
    assert_eq!(got.slot_steps, right.slot_steps, "{what}");
    let bits = |run: &Run| run.received.concat().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(got), bits(right), "{what}: received");
    assert_eq!(got.gradients.len(), right.gradients.len(), "{what}");
    for ((name, got), (_, right)) in got.gradients.iter().zip(&right.gradients) {
        assert_same(&format!("{what}: gradient of {name}"), got, right);
    }
}

/// Compares everything that is specified in a state: a row's filled slots, not the room behind them.
fn assert_same_states(what: &str, got: &SabState, right: &SabState) {
    assert_same(&format!("{what}: hidden"), &Array::of(&got.hidden()), &Array::of(&right.hidden()));
    match (got.cell(), right.cell()) {
        (Some(got), Some(right)) => assert_same(&format!("{what}: cell"), &Array::of(&got), &Array::of(&right)),
        (got, right) => assert!(got.is_none() && right.is_none(), "{what}: one has a cell"),
    }
    assert_eq!(got.steps(), right.steps(), "{what}");
    for row in 0..right.batch() {
        assert_eq!(got.slot_steps(row), right.slot_steps(row), "{what}: slots of row {row}");
        let bits = |state: &SabState| state.received(row).iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(got), bits(right), "{what}: received by row {row}");
        let filled = |state: &SabState| Array::of(&state.memory().slice(s![row..row + 1, 0..state.slots(row), ..]));
        assert_same(&format!("{what}: memory of row {row}"), &filled(got), &filled(right));
    }
}

/// Every combination of options that select different code.
fn all_options(input: usize, hidden: usize) -> Vec<(SabLstmConfig, bool)> {
    let mut all = Vec::new();
    for hops in [Hops::One, Hops::All] {
        for score_gradient in [ScoreGradient::Weights, ScoreGradient::Full] {
            for k_top in [KTop::All, KTop::Count(5), KTop::Count(0)] {
                for tokens in [false, true] {
                    let config = SabLstmConfig::new(input, hidden).with_k_top(k_top).with_k_att(2).with_k_trunc(5);
                    let config = config.with_trunc_phase(0).with_hops(hops).with_score_gradient(score_gradient);
                    all.push((config, tokens));
                }
            }
        }
    }
    all
}

/// Compares one thread with several, and with another run of one thread.
fn check_threads(config: &SabLstmConfig, tokens: bool, batch: usize, time: usize, options: &ForwardOptions) {
    // With fewer multiplications per step, or fewer than 16 columns per thread, the engine always uses one thread.
    assert!(batch * 4 * config.hidden * config.hidden >= 3 << 17 && config.hidden >= 3 * 16, "too small to be split");
    let parameters = Parameters::random_for(config, 1);
    let input = Input::random(batch, time, config.input, tokens, 2);
    let [d_hidden, d_summary] = adjoints(batch, time, config.hidden, 3);
    let of = |threads: usize| {
        let options = options.with_threads(threads);
        run(config, &parameters, &input, None, [&d_hidden, &d_summary], DType::F32, &options)
    };
    let right = of(1);
    assert!(right.gradients.iter().any(|(_, g)| g.values.iter().any(|d| *d != 0.0)));
    for threads in [1, 2, 2, 3, 8] {
        assert_same_runs(&format!("{threads} threads, tokens {tokens}, {config:?}"), &of(threads), &right);
    }
}

#[test]
fn threads_do_not_change_a_bit() {
    for (config, tokens) in all_options(3, 128) {
        check_threads(&config, tokens, 13, 40, &fused(InstructionSet::Detect));
    }
}

#[test]
fn threads_do_not_change_a_bit_if_hidden_is_not_a_multiple_of_16() {
    for (config, tokens) in all_options(18, 130) {
        check_threads(&config, tokens, 7, 12, &fused(InstructionSet::Detect));
    }
}

#[test]
fn threads_do_not_change_a_bit_of_a_wide_layer() {
    // Wide enough that several threads pack the weights and products are split along their inner dimension.
    for (config, tokens) in all_options(2, 336) {
        check_threads(&config, tokens, 3, 6, &fused(InstructionSet::Detect));
    }
}

#[test]
fn threads_do_not_change_a_bit_without_vector_instructions() {
    for (config, tokens) in all_options(3, 130) {
        check_threads(&config, tokens, 7, 6, &fused(InstructionSet::Baseline));
    }
}

#[test]
fn threads_do_not_change_a_bit_when_rows_have_taken_different_numbers_of_steps() {
    let steps = [0, 7, 3, 12, 1];
    for (config, tokens) in all_options(3, 130) {
        let parameters = Parameters::random(3, 130, 4);
        let input = Input::random(steps.len(), 10, 3, tokens, 5);
        let [d_hidden, d_summary] = adjoints(steps.len(), 10, 130, 6);
        let of = |threads: usize| {
            let state = random_state(130, &steps, config.k_att, 7, DType::F32);
            let options = fused(InstructionSet::Detect).with_threads(threads);
            run(&config, &parameters, &input, Some(state), [&d_hidden, &d_summary], DType::F32, &options)
        };
        let right = of(1);
        for threads in [2, 3, 8] {
            assert_same_runs(&format!("{threads} threads, tokens {tokens}, {config:?}"), &of(threads), &right);
        }
    }
}

#[test]
fn an_output_that_the_loss_does_not_use_equals_an_adjoint_of_zero() {
    let (batch, time, hidden) = (3, 8, 20);
    let device = Device::flex().autodiff();
    for (config, _) in all_options(3, hidden) {
        let parameters = Parameters::random(3, hidden, 1);
        let input = Input::random(batch, time, 3, false, 2);
        let options = fused(InstructionSet::Detect);
        let [adjoint, _] = adjoints(batch, time, hidden, 3);
        let zero = Array::new(&adjoint.shape, vec![0.0; adjoint.values.len()]);
        for summary_only in [false, true] {
            let outer = if summary_only { [&zero, &adjoint] } else { [&adjoint, &zero] };
            let right = run(&config, &parameters, &input, None, outer, DType::F32, &options);
            // Neither the other output nor the gradient of the input is requested.
            let lstm = parameters.layer(&config, DType::F32, &device);
            let out = lstm.forward_with(untracked(&input, &device), None, &options).expect("a good input");
            let used = if summary_only { out.summary } else { out.hidden };
            let grads = (used * adjoint.tensor::<3>(DType::F32, &device)).sum().backward();
            for (name, got) in gradients_of(&lstm, &grads) {
                let (_, right) = right.gradients.iter().find(|(other, _)| *other == name).expect("the same parameters");
                assert_same(&format!("summary only {summary_only}, {name}, {config:?}"), &got, right);
            }
        }
    }
}

/// An input that requires no gradient, for devices without autodiff.
fn untracked(input: &Input, device: &Device) -> SabInput {
    match input {
        Input::Dense(x) => x.tensor::<3>(DType::F32, device).into(),
        Input::Tokens { .. } => input.tensor(DType::F32, device).0,
    }
}

/// One row of a state.
fn row_of(state: &SabState, row: usize) -> SabState {
    let slots = state.slots(row);
    let record = SabStateRecord {
        hidden: state.hidden().narrow(0, row, 1).to_data(),
        cell: state.cell().map(|cell| cell.narrow(0, row, 1).to_data()),
        memory: state.memory().slice(s![row..row + 1, 0..slots, ..]).to_data(),
        steps: vec![state.steps()[row]],
        k_att: state.k_att(),
        slot_steps: vec![state.slot_steps(row).to_vec()],
        received: vec![state.received(row).to_vec()],
        segments: None,
    };
    SabState::from_record(record, &Device::flex()).expect("a good record")
}

/// One row of `[batch, ...]`.
fn row_of_array(array: &Array, row: usize) -> Array {
    let len = array.values.len() / array.shape[0];
    let shape: Vec<usize> = [1].into_iter().chain(array.shape[1..].iter().copied()).collect();
    Array::new(&shape, array.values[row * len..(row + 1) * len].to_vec())
}

fn row_of_input(input: &Input, row: usize) -> Input {
    match input {
        Input::Dense(x) => Input::Dense(row_of_array(x, row)),
        Input::Tokens { shape: [_, time], tokens } => {
            Input::Tokens { shape: [1, *time], tokens: tokens[row * time..(row + 1) * time].to_vec() }
        }
    }
}

/// Runs the first row of a batch, the last one and one between alone. This covers every position in the engine's row
/// tiles.
fn check_row_alone(
    config: &SabLstmConfig, tokens: bool, (batch, time): (usize, usize), seed: u64, instructions: InstructionSet,
) {
    let parameters = Parameters::random_for(config, seed);
    let input = Input::random(batch, time, config.input, tokens, seed);
    let steps: Vec<u64> = (0..batch as u64).map(|row| row * 5 % 9).collect();
    let state = random_state_for(config, &steps, seed, DType::F32);
    let outer = adjoints(batch, time, config.hidden, seed);
    let options = fused(instructions);
    let of = |input: &Input, state: &SabState, outer: &[Array; 2]| {
        run(config, &parameters, input, Some(state.clone()), [&outer[0], &outer[1]], DType::F32, &options)
    };
    let together = of(&input, &state, &outer);
    for row in [0, batch / 2, batch - 1] {
        let outer = [row_of_array(&outer[0], row), row_of_array(&outer[1], row)];
        let alone = of(&row_of_input(&input, row), &row_of(&state, row), &outer);
        let name = format!("row {row} of {batch}, {instructions:?}, tokens {tokens}, {config:?}");
        let mut pairs = vec![
            ("hidden", &alone.hidden, &together.hidden),
            ("summary", &alone.summary, &together.summary),
            ("last hidden", &alone.last_hidden, &together.last_hidden),
        ];
        if config.cell == Cell::Lstm {
            pairs.push(("last cell", &alone.last_cell, &together.last_cell));
        }
        for (what, alone, together) in pairs {
            assert_same(&format!("{name}: {what}"), alone, &row_of_array(together, row));
        }
        assert_eq!(alone.slot_steps[0], together.slot_steps[row], "{name}");
        assert_eq!(alone.received[0], together.received[row], "{name}");
        let memory = row_of_array(&together.memory, row);
        let filled = memory.values[..alone.memory.values.len()].to_vec();
        assert_same(&format!("{name}: memory"), &alone.memory, &Array::new(&alone.memory.shape, filled));
        // Gradients of parameters are sums over rows, but the gradient of the input belongs to its row.
        if let (Some(("x", alone)), Some(("x", together))) = (alone.gradients.last(), together.gradients.last()) {
            assert_same(&format!("{name}: gradient of x"), alone, &row_of_array(together, row));
        }
    }
}

#[test]
fn a_row_has_the_same_bits_alone_as_in_a_batch() {
    for instructions in SETS {
        for (number, (hidden, batch, time)) in
            [(5, 3, 20), (16, 8, 20), (33, 7, 20), (128, 13, 8)].into_iter().enumerate()
        {
            for (config, tokens) in all_options(3, hidden) {
                check_row_alone(&config, tokens, (batch, time), number as u64, instructions);
            }
        }
    }
}

#[test]
fn r14_rows_that_were_reset_continue_like_fresh_ones() {
    let device = Device::flex();
    for k_top in [KTop::Count(0), KTop::Count(2), KTop::All] {
        for reset in [[0, 1].as_slice(), &[1], &[0]] {
            let config = SabLstmConfig::new(2, 6).with_k_top(k_top).with_k_att(2).with_trunc_phase(0);
            let lstm = Parameters::random(2, 6, 1).layer(&config, DType::F32, &device);
            let x: Tensor<3> = Array::new(&[2, 9, 2], Numbers::new(2).take(36, 1.0)).tensor(DType::F32, &device);
            let forward = |state| lstm.forward_with(x.clone(), state, &fused(InstructionSet::Detect)).expect("good");
            let fresh = forward(Some(forward(None).state));
            let mut state = forward(None).state;
            state.reset(reset).expect("rows that are there");
            let again = forward(Some(forward(Some(state)).state));
            for row in reset {
                let of = |out: &SabOutput| Array::of(&out.hidden.clone().narrow(0, *row, 1));
                assert_same(&format!("row {row} of {reset:?} reset, {k_top:?}"), &of(&again), &of(&fresh));
            }
        }
    }
}

#[test]
fn r14_room_behind_the_filled_slots_of_a_carried_memory_has_no_effect() {
    let device = Device::flex();
    for steps in [[3, 3], [1, 3]] {
        let config = SabLstmConfig::new(4, 5).with_k_top(2).with_k_att(1).with_trunc_phase(0);
        let lstm = Parameters::random(4, 5, 1).layer(&config, DType::F32, &device);
        let tokens = Tensor::<2, Int>::from_data(TensorData::new(vec![0_i64, 1, 2, 3, 3, 1, 0, 2], [2, 4]), &device);
        let state = random_state(5, &steps, 1, 3, DType::F32);
        let record = state.to_record();
        let memory = Tensor::<3>::from_data(record.memory.clone(), &device);
        let roomy = |content: f32| {
            let room = Tensor::full([2, 3, 5], content, &device);
            let memory = Tensor::cat(vec![memory.clone(), room], 1).to_data();
            SabState::from_record(SabStateRecord { memory, ..record.clone() }, &device).expect("a record may have room")
        };
        for (path, content) in
            [(Path::Fused, 1.0), (Path::Portable, 1.0), (Path::Fused, f32::NAN), (Path::Portable, f32::NAN)]
        {
            let roomy = roomy(content);
            let options = ForwardOptions::new().with_path(path);
            let forward = |state| lstm.forward_with(tokens.clone(), Some(state), &options).expect("a good input").state;
            let name = format!("{path:?}, {content} behind, steps {steps:?}");
            assert_same_states(&format!("one call, {name}"), &forward(roomy.clone()), &forward(state.clone()));
            let (got, right) = (forward(forward(roomy.clone())), forward(forward(state.clone())));
            assert_same_states(&format!("two calls, {name}"), &got, &right);
        }
    }
}
