//! The fused path gives the same bits however a computation is cut: into threads, calls, steps or rows (R14).

mod common;

use attentive::{
    ForwardOptions, Hops, InstructionSet, KTop, Path, SabInput, SabLstm, SabLstmConfig, SabOutput, SabState,
    SabStateRecord, SabStepInput, ScoreGradient,
};
use burn::tensor::{DType, Device, Int, Tensor, TensorData, s};
use common::{Array, Input, Numbers, Parameters, Run, random_state, run};

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
    assert_eq!(got.gradients.len(), right.gradients.len(), "{what}");
    for ((name, got), (_, right)) in got.gradients.iter().zip(&right.gradients) {
        assert_same(&format!("{what}: gradient of {name}"), got, right);
    }
}

/// All of a state that is specified: a row's first slots, not the room behind them.
fn assert_same_states(what: &str, got: &SabState, right: &SabState) {
    assert_same(&format!("{what}: hidden"), &Array::of(&got.hidden()), &Array::of(&right.hidden()));
    assert_same(&format!("{what}: cell"), &Array::of(&got.cell()), &Array::of(&right.cell()));
    assert_eq!(got.steps(), right.steps(), "{what}");
    for row in 0..right.batch() {
        let filled = |state: &SabState| Array::of(&state.memory().slice(s![row..row + 1, 0..state.slots(row), ..]));
        assert_same(&format!("{what}: memory of row {row}"), &filled(got), &filled(right));
    }
}

/// Every combination of the options that choose other code.
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

/// One thread against others, and against itself.
fn check_threads(config: &SabLstmConfig, tokens: bool, batch: usize, time: usize, options: &ForwardOptions) {
    // Below this many multiplications a step, or 16 columns a thread, the engine uses one thread whatever we ask for.
    assert!(batch * 4 * config.hidden * config.hidden >= 3 << 17 && config.hidden >= 3 * 16, "too small to be split");
    let parameters = Parameters::random(config.input, config.hidden, 1);
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
fn threads_do_not_change_a_bit_where_hidden_is_no_multiple_of_16() {
    for (config, tokens) in all_options(18, 130) {
        check_threads(&config, tokens, 7, 12, &fused(InstructionSet::Detect));
    }
}

#[test]
fn threads_do_not_change_a_bit_of_a_wide_layer() {
    // Wide enough that weights are packed by several threads and products are cut along their inner dimension.
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
fn what_the_loss_does_not_use_is_the_same_as_an_adjoint_of_zero() {
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
            // Neither the other output nor the gradient of the input is asked for.
            let lstm = parameters.layer(&config, DType::F32, &device);
            let out = lstm.forward_with(untracked(&input, &device), None, &options).expect("a good input");
            let used = if summary_only { out.summary } else { out.hidden };
            let grads = (used * adjoint.tensor::<3>(DType::F32, &device)).sum().backward();
            let matrices =
                [("weight_ih", &lstm.weight_ih), ("weight_hh", &lstm.weight_hh), ("w1", &lstm.w1), ("w2", &lstm.w2)];
            let vectors = [("bias", &lstm.bias), ("w3", &lstm.w3)];
            let got = matrices.map(|(name, w)| (name, Array::of(&w.val().grad(&grads).expect("a gradient"))));
            let got = got
                .into_iter()
                .chain(vectors.map(|(name, w)| (name, Array::of(&w.val().grad(&grads).expect("a gradient")))));
            for (name, got) in got {
                let (_, right) = right.gradients.iter().find(|(other, _)| *other == name).expect("the same parameters");
                assert_same(&format!("summary only {summary_only}, {name}, {config:?}"), &got, right);
            }
        }
    }
}

/// A layer, a sequence for it and the state it starts from.
struct Stream {
    name: String,
    lstm: SabLstm,
    input: SabInput,
    state: Option<SabState>,
    options: ForwardOptions,
}

impl Stream {
    fn time(&self) -> usize {
        match &self.input {
            SabInput::Dense(x) => x.dims()[1],
            SabInput::Tokens(x) => x.dims()[1],
        }
    }

    /// Some steps of the sequence.
    fn part(&self, from: usize, to: usize) -> SabInput {
        match &self.input {
            SabInput::Dense(x) => x.clone().narrow(1, from, to - from).into(),
            SabInput::Tokens(x) => x.clone().narrow(1, from, to - from).into(),
        }
    }

    fn forward(&self, from: usize, to: usize, state: Option<SabState>) -> SabOutput {
        self.lstm.forward_with(self.part(from, to), state, &self.options).expect("a good input")
    }

    /// The sequence in calls that end at `ends`: outputs put together, and the state after the last.
    fn in_calls(&self, ends: &[usize]) -> (Array, Array, SabState) {
        let mut state = self.state.clone();
        let (mut hidden, mut summary, mut from) = (Vec::new(), Vec::new(), 0);
        for &to in ends {
            let out = self.forward(from, to, state);
            hidden.push(out.hidden);
            summary.push(out.summary);
            state = Some(out.state);
            from = to;
        }
        let [hidden, summary] = [hidden, summary].map(|parts| Array::of(&Tensor::cat(parts, 1)));
        (hidden, summary, state.expect("at least one call"))
    }
}

/// An input that asks for no gradient, for devices that have none.
fn untracked(input: &Input, device: &Device) -> SabInput {
    match input {
        Input::Dense(x) => x.tensor::<3>(DType::F32, device).into(),
        Input::Tokens { .. } => input.tensor(DType::F32, device).0,
    }
}

/// Streams of all kinds: sizes, inputs, `k_top`, fresh and carried, tracked by autodiff or not.
fn streams(time: usize, tracked: bool) -> impl Iterator<Item = Stream> {
    let device = if tracked { Device::flex().autodiff() } else { Device::flex() };
    let mut all = Vec::new();
    for instructions in SETS {
        for (hidden, batch) in [(1, 2), (5, 1), (16, 7), (20, 3), (33, 4)] {
            for k_top in [KTop::Count(0), KTop::Count(2), KTop::All] {
                for (tokens, carried) in [(false, None), (true, None), (false, Some(true)), (true, Some(false))] {
                    all.push((instructions, hidden, batch, k_top, tokens, carried));
                }
            }
        }
    }
    all.into_iter().enumerate().map(move |(number, case)| {
        let (instructions, hidden, batch, k_top, tokens, carried) = case;
        let k_att = 1 + number % 3;
        let config = SabLstmConfig::new(3, hidden).with_k_top(k_top).with_k_att(k_att).with_trunc_phase(0);
        let seed = number as u64;
        let steps = |row| if carried == Some(true) { 5 } else { 3 * row % 8 };
        let steps: Vec<u64> = (0..batch as u64).map(steps).collect();
        let mut parameters = Parameters::random(3, hidden, seed);
        // Projections too large for the engine's cached exponentials must not depend on the cut either.
        let huge = number % 4 == 3;
        if huge {
            for w in [&mut parameters.w1, &mut parameters.w2] {
                w.values.iter_mut().for_each(|w| *w *= 40.0);
            }
        }
        Stream {
            name: format!("{case:?}, k_att {k_att}, huge {huge}"),
            lstm: parameters.layer(&config, DType::F32, &device),
            input: untracked(&Input::random(batch, time, 3, tokens, seed), &device),
            state: carried.map(|_| random_state(hidden, &steps, k_att, seed, DType::F32)),
            options: fused(instructions),
        }
    })
}

#[test]
fn r14_step_by_step_gives_the_bits_of_the_whole_sequence() {
    for stream in streams(17, false) {
        let whole = stream.forward(0, 17, stream.state.clone());
        let mut state = stream.state.clone();
        for t in 0..17 {
            let x: SabStepInput = match &stream.input {
                SabInput::Dense(x) => x.clone().narrow(1, t, 1).squeeze_dim::<2>(1).into(),
                SabInput::Tokens(x) => x.clone().narrow(1, t, 1).squeeze_dim::<1>(1).into(),
            };
            let out = stream.lstm.step_with(x, state, &stream.options).expect("a good input");
            let of_whole = |x: &Tensor<3>| Array::of(&x.clone().narrow(1, t, 1).squeeze_dim::<2>(1));
            assert_same(
                &format!("{}, step {t}: hidden", stream.name),
                &Array::of(&out.hidden),
                &of_whole(&whole.hidden),
            );
            assert_same(
                &format!("{}, step {t}: summary", stream.name),
                &Array::of(&out.summary),
                &of_whole(&whole.summary),
            );
            state = Some(out.state);
        }
        assert_same_states(&stream.name, &state.expect("17 steps were taken"), &whole.state);
    }
}

#[test]
fn r14_a_sequence_in_several_calls_gives_the_bits_of_one() {
    // Tracked, the engine keeps a tape of every step; the other test's calls keep none.
    for tracked in [false, true] {
        for stream in streams(23, tracked) {
            let (hidden, summary, state) = stream.in_calls(&[stream.time()]);
            for ends in [[9, 23].as_slice(), &[1, 2, 12, 22, 23]] {
                let name = format!("{}, calls end at {ends:?}, tracked {tracked}", stream.name);
                let (hidden_of_calls, summary_of_calls, state_after_calls) = stream.in_calls(ends);
                assert_same(&format!("{name}: hidden"), &hidden_of_calls, &hidden);
                assert_same(&format!("{name}: summary"), &summary_of_calls, &summary);
                assert_same_states(&name, &state_after_calls, &state);
            }
        }
    }
}

#[test]
fn r14_a_state_goes_on_with_the_same_bits_after_it_was_saved() {
    for stream in streams(12, false) {
        let (_, _, right) = stream.in_calls(&[5, 12]);
        let half = stream.forward(0, 5, stream.state.clone()).state.to_record();
        let half = SabState::from_record(half, &Device::flex()).expect("a good record");
        assert_same_states(&stream.name, &stream.forward(5, 12, Some(half)).state, &right);
    }
}

/// One row of a state.
fn row_of(state: &SabState, row: usize) -> SabState {
    let slots = state.slots(row);
    let record = SabStateRecord {
        hidden: state.hidden().narrow(0, row, 1).to_data(),
        cell: state.cell().narrow(0, row, 1).to_data(),
        memory: state.memory().slice(s![row..row + 1, 0..slots, ..]).to_data(),
        steps: vec![state.steps()[row]],
        k_att: state.k_att(),
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

#[test]
fn a_row_has_the_same_bits_alone_as_in_a_batch() {
    for instructions in SETS {
        for (number, (hidden, batch, time)) in
            [(5, 3, 20), (16, 8, 20), (33, 7, 20), (128, 13, 8)].into_iter().enumerate()
        {
            for (config, tokens) in all_options(3, hidden) {
                let seed = number as u64;
                let parameters = Parameters::random(3, hidden, seed);
                let input = Input::random(batch, time, 3, tokens, seed);
                let steps: Vec<u64> = (0..batch as u64).map(|row| row * 5 % 9).collect();
                let state = random_state(hidden, &steps, config.k_att, seed, DType::F32);
                let outer = adjoints(batch, time, hidden, seed);
                let options = fused(instructions);
                let of = |input: &Input, state: &SabState, outer: &[Array; 2]| {
                    let outer = [&outer[0], &outer[1]];
                    run(&config, &parameters, input, Some(state.clone()), outer, DType::F32, &options)
                };
                let together = of(&input, &state, &outer);
                // The first, the last and one between: every place in the engine's tiles of rows comes up.
                for row in [0, batch / 2, batch - 1] {
                    let outer = [row_of_array(&outer[0], row), row_of_array(&outer[1], row)];
                    let alone = of(&row_of_input(&input, row), &row_of(&state, row), &outer);
                    let name = format!("row {row} of {batch}, {instructions:?}, tokens {tokens}, {config:?}");
                    let pairs = [
                        ("hidden", &alone.hidden, &together.hidden),
                        ("summary", &alone.summary, &together.summary),
                        ("last hidden", &alone.last_hidden, &together.last_hidden),
                        ("last cell", &alone.last_cell, &together.last_cell),
                    ];
                    for (what, alone, together) in pairs {
                        assert_same(&format!("{name}: {what}"), alone, &row_of_array(together, row));
                    }
                    let memory = row_of_array(&together.memory, row);
                    let filled = memory.values[..alone.memory.values.len()].to_vec();
                    assert_same(&format!("{name}: memory"), &alone.memory, &Array::new(&alone.memory.shape, filled));
                    // Parameters' gradients are sums over rows; the input's belongs to its row.
                    if let (Some(("x", alone)), Some(("x", together))) =
                        (alone.gradients.last(), together.gradients.last())
                    {
                        assert_same(&format!("{name}: gradient of x"), alone, &row_of_array(together, row));
                    }
                }
            }
        }
    }
}

#[test]
fn r14_rows_that_were_reset_go_on_like_fresh_ones() {
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
fn r14_room_behind_the_filled_slots_of_a_carried_memory_means_nothing() {
    let device = Device::flex();
    for steps in [[3, 3], [1, 3]] {
        let config = SabLstmConfig::new(4, 5).with_k_top(2).with_k_att(1).with_trunc_phase(0);
        let lstm = Parameters::random(4, 5, 1).layer(&config, DType::F32, &device);
        let tokens = Tensor::<2, Int>::from_data(TensorData::new(vec![0_i64, 1, 2, 3, 3, 1, 0, 2], [2, 4]), &device);
        let state = random_state(5, &steps, 1, 3, DType::F32);
        let mut record = state.to_record();
        let memory = Tensor::<3>::from_data(record.memory, &device);
        record.memory = Tensor::cat(vec![memory, Tensor::ones([2, 3, 5], &device)], 1).to_data();
        let roomy = SabState::from_record(record, &device).expect("a record may have room");
        for path in [Path::Fused, Path::Portable] {
            let options = ForwardOptions::new().with_path(path);
            let forward = |state| lstm.forward_with(tokens.clone(), Some(state), &options).expect("a good input").state;
            let name = format!("{path:?}, steps {steps:?}");
            assert_same_states(&format!("one call, {name}"), &forward(roomy.clone()), &forward(state.clone()));
            let (got, right) = (forward(forward(roomy.clone())), forward(forward(state.clone())));
            assert_same_states(&format!("two calls, {name}"), &got, &right);
        }
    }
}
