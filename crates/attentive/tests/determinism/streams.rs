//! A sequence in one call, in several, and step by step (R14).

use super::{SETS, assert_same, assert_same_states, fused, untracked};
use crate::common::{Array, Input, Parameters, random_state};
use attentive::{ForwardOptions, KTop, SabInput, SabLstm, SabLstmConfig, SabOutput, SabState, SabStepInput};
use burn::tensor::{DType, Device, Tensor};

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

    /// Runs the sequence in calls that end at `ends`. Returns the concatenated outputs and the last state.
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
        // Results with projections too large for the cached exponentials must not depend on the split either.
        let huge = number % 4 == 3;
        if huge {
            for name in ["w1", "w2"] {
                parameters[name].values.iter_mut().for_each(|w| *w *= 40.0);
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
    // With autodiff, the engine keeps a tape of every step. The calls of the other test keep none.
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
fn r14_a_saved_and_restored_state_continues_with_the_same_bits() {
    for stream in streams(12, false) {
        let (_, _, right) = stream.in_calls(&[5, 12]);
        let half = stream.forward(0, 5, stream.state.clone()).state.to_record();
        let half = SabState::from_record(half, &Device::flex()).expect("a good record");
        assert_same_states(&stream.name, &stream.forward(5, 12, Some(half)).state, &right);
    }
}
