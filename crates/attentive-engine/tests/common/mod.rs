//! Random models, inputs and states, and the engine's run over them.
#![allow(dead_code)] // Each test file uses a part of it.

use attentive_engine::{
    Call, Cell, Drift, Evict, Inputs, InstructionSet, Model, OutputAdjoints, PackedWeights, Reminders, Replay,
    Retrieval, RowStart, Scorer, Sparsifier, Store, StoreRule, TapeInputs, backward, forward,
};
use std::sync::Arc;

/// Random numbers that depend only on the seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// In -scale..scale.
    pub fn number(&mut self, scale: f32) -> f32 {
        ((self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0) * scale
    }

    pub fn numbers(&mut self, len: usize, scale: f32) -> Vec<f32> {
        (0..len).map(|_| self.number(scale)).collect()
    }

    /// In 0..bound.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// Every cell with every scorer and sparsifier.
pub fn all_parts() -> Vec<(Cell, Scorer, Sparsifier)> {
    let mut all = Vec::new();
    for &cell in Cell::ALL {
        for &scorer in Scorer::ALL {
            all.extend(Sparsifier::ALL.iter().map(|sparsifier| (cell, scorer, *sparsifier)));
        }
    }
    all
}

/// Both stores without and with a capacity, with both eviction rules.
pub fn all_stores() -> [StoreRule; 6] {
    let every = StoreRule::default();
    let novelty = StoreRule { store: Store::Novelty, novelty: 0.6, ..every };
    let full = |rule: StoreRule, evict| StoreRule { capacity: Some(3), evict, ..rule };
    [
        every,
        full(every, Evict::Oldest),
        full(every, Evict::LeastAttended),
        novelty,
        full(novelty, Evict::Oldest),
        full(novelty, Evict::LeastAttended),
    ]
}

/// The state that rows carry from one call to the next.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub rows: Vec<RowStart>,
    /// `[batch, hidden]`; empty means zero.
    pub hidden: Vec<f32>,
    /// `[batch, hidden]`; empty means zero, or no cell state.
    pub cell: Vec<f32>,
    /// Of each row `[slots, hidden]`.
    pub memories: Vec<Vec<f32>>,
}

impl State {
    pub fn fresh(batch: usize, hidden: usize) -> Self {
        let (rows, memories) = (vec![RowStart::fresh(); batch], vec![vec![0.0; hidden]; batch]);
        Self { rows, hidden: Vec::new(), cell: Vec::new(), memories }
    }

    /// A state that earlier calls might have left; rows are of different age.
    pub fn random(model: &Model, batch: usize, random: &mut Random) -> Self {
        let (hidden, rule) = (model.hidden, model.store);
        let mut state = Self::fresh(batch, hidden);
        for (row, memory) in state.rows.iter_mut().zip(&mut state.memories) {
            let steps = random.below(12) as u64;
            let mut slot_steps: Vec<u64> = (1..=steps).filter(|_| random.below(3) > 0).collect();
            slot_steps.truncate(rule.capacity.unwrap_or(usize::MAX));
            slot_steps.insert(0, 0);
            memory.extend(random.numbers((slot_steps.len() - 1) * hidden, 1.0));
            let counts = rule.capacity.is_some() && rule.evict == Evict::LeastAttended;
            let received = slot_steps.iter().filter(|_| counts).map(|_| random.number(0.5) + 0.5).collect();
            *row = RowStart { steps, slot_steps, received };
        }
        state.hidden = random.numbers(batch * hidden, 1.0);
        state.cell = if model.cell.carries() { random.numbers(batch * hidden, 1.0) } else { Vec::new() };
        state
    }

    /// Of one row.
    pub fn row(&self, row: usize, hidden: usize) -> Self {
        let of =
            |values: &[f32]| if values.is_empty() { Vec::new() } else { values[row * hidden..][..hidden].to_vec() };
        Self {
            rows: vec![self.rows[row].clone()],
            hidden: of(&self.hidden),
            cell: of(&self.cell),
            memories: vec![self.memories[row].clone()],
        }
    }

    /// `[batch, room, hidden]`
    pub fn memory(&self) -> Vec<f32> {
        let room = self.memories.iter().map(Vec::len).max().unwrap_or(0);
        let padded = |memory: &Vec<f32>| {
            let mut memory = memory.clone();
            memory.resize(room, f32::NAN);
            memory
        };
        self.memories.iter().flat_map(padded).collect()
    }

    /// The state as the engine takes it.
    pub fn of_engine(&self, model: &Model) -> attentive_engine::Result<attentive_engine::State> {
        let zeros = vec![0.0; self.rows.len() * model.hidden];
        let or_zeros = |values: &[f32]| if values.is_empty() { zeros.clone() } else { values.to_vec() };
        let cell = if model.cell.carries() { or_zeros(&self.cell) } else { self.cell.clone() };
        attentive_engine::State::new(model, self.rows.clone(), &or_zeros(&self.hidden), &cell, &self.memory())
    }

    /// A settled state of the engine as plain data.
    pub fn of(state: &attentive_engine::State) -> Self {
        let memory = state.memory().expect("a settled state");
        let per_row = memory.len() / state.batch();
        let held = |row: usize| state.rows()[row].slot_steps.len() * state.units();
        Self {
            rows: state.rows().to_vec(),
            hidden: state.hidden(),
            cell: state.cell(),
            memories: (0..state.batch()).map(|row| memory[row * per_row..][..held(row)].to_vec()).collect(),
        }
    }
}

/// The input.
#[derive(Clone, Debug)]
pub enum Input {
    /// `[batch, time, input]`
    Dense(Vec<f32>),
    /// `[batch, time]`
    Tokens(Vec<u32>),
}

/// Everything that one call and its gradient need.
#[derive(Clone, Debug)]
pub struct Example {
    pub model: Model,
    pub time: usize,
    pub parameters: Vec<Vec<f32>>,
    pub input: Input,
    pub state: State,
    /// The derivatives of the loss with respect to h and s, `[batch, time, hidden]`.
    pub adjoints: [Vec<f32>; 2],
    pub instructions: InstructionSet,
    pub replay: Replay,
}

/// The results.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    pub hidden: Vec<f32>,
    /// Zeros without attention.
    pub summary: Vec<f32>,
    pub after: State,
    pub reminders: Option<Reminders>,
    /// Of the parameters in their order, then of a dense input.
    pub gradients: Vec<(&'static str, Vec<f32>)>,
    /// Of the memories of earlier calls that were replayed.
    pub drift: Option<Drift>,
}

impl Example {
    /// Parameters of about `scale` divided by the root of the number of terms in their sums.
    pub fn random(model: Model, (batch, time): (usize, usize), dense: bool, scale: f32, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let parameter = |parameter: &attentive_engine::Parameter| match parameter.name {
            "temperature" => vec![3.0 + random.number(1.0)],
            "bias" | "w3" => random.numbers(parameter.len(), scale),
            _ => random.numbers(parameter.len(), scale * (3.0 / parameter.shape[0] as f32).sqrt()),
        };
        let parameters = model.parameters().iter().map(parameter).collect();
        let input = match dense {
            true => Input::Dense(random.numbers(batch * time * model.input, 1.0)),
            false => Input::Tokens((0..batch * time).map(|_| random.below(model.input) as u32).collect()),
        };
        let states = batch * time * model.hidden;
        let adjoints = [random.numbers(states, 1.0), random.numbers(states, 1.0)];
        let state = State::fresh(batch, model.hidden);
        Self {
            model,
            time,
            parameters,
            input,
            state,
            adjoints,
            instructions: InstructionSet::Detect,
            replay: Replay::Auto,
        }
    }

    /// The same with a state of rows of different age.
    pub fn with_random_state(mut self, seed: u64) -> Self {
        self.state = State::random(&self.model, self.batch(), &mut Random::new(seed ^ 0xabcd));
        self
    }

    pub fn batch(&self) -> usize {
        self.state.rows.len()
    }

    /// Some steps of some rows, with the state unchanged.
    pub fn part(&self, rows: std::ops::Range<usize>, steps: std::ops::Range<usize>) -> Self {
        fn cut<T: Copy>(
            all: &[T], time: usize, width: usize, rows: std::ops::Range<usize>, steps: &std::ops::Range<usize>,
        ) -> Vec<T> {
            let of_row = |row: usize| &all[(row * time + steps.start) * width..(row * time + steps.end) * width];
            rows.flat_map(of_row).copied().collect()
        }
        let (time, hidden) = (self.time, self.model.hidden);
        let mut part = self.clone();
        part.time = steps.len();
        part.input = match &self.input {
            Input::Dense(x) => Input::Dense(cut(x, time, self.model.input, rows.clone(), &steps)),
            Input::Tokens(tokens) => Input::Tokens(cut(tokens, time, 1, rows.clone(), &steps)),
        };
        part.adjoints = [0, 1].map(|which| cut(&self.adjoints[which], time, hidden, rows.clone(), &steps));
        part
    }

    pub fn weights(&self, threads: usize) -> attentive_engine::Result<Arc<PackedWeights>> {
        let parameters: Vec<&[f32]> = self.parameters.iter().map(Vec::as_slice).collect();
        let dense = matches!(self.input, Input::Dense(_));
        Ok(Arc::new(PackedWeights::new(&self.model, &parameters, dense, threads)?))
    }

    /// Forward, and backward if `tracked`.
    pub fn run(&self, threads: usize, tracked: bool) -> attentive_engine::Result<Run> {
        self.run_from(self.state.of_engine(&self.model)?, &self.weights(threads)?, threads, tracked).map(|(run, _)| run)
    }

    /// The same from a state of the engine, and the state that it leaves.
    pub fn run_from(
        &self, state: attentive_engine::State, weights: &Arc<PackedWeights>, threads: usize, tracked: bool,
    ) -> attentive_engine::Result<(Run, attentive_engine::State)> {
        let (model, values) = (&self.model, self.batch() * self.time * self.model.hidden);
        let parameters: Vec<&[f32]> = self.parameters.iter().map(Vec::as_slice).collect();
        let (inputs, dense): (_, &[f32]) = match &self.input {
            Input::Dense(x) => (Inputs::Dense, x),
            Input::Tokens(tokens) => (Inputs::Tokens(Arc::new(tokens.clone())), &[]),
        };
        let is_dense = matches!(inputs, Inputs::Dense);
        let call = Call {
            model: *model,
            time: self.time,
            inputs,
            tracked,
            replay: self.replay,
            retrieval: Retrieval::Auto,
            threads,
            instructions: self.instructions,
            reminders: Some(4),
        };
        let mut out = forward(call, state, Arc::clone(weights), dense)?;
        let hidden = &out.hidden.as_slice()[..values];
        let (mut gradients, mut drift) = (Vec::new(), None);
        if tracked {
            let [d_hidden, d_summary] = &self.adjoints;
            let outputs = OutputAdjoints { hidden: Some(d_hidden), summary: Some(d_summary), readouts: Vec::new() };
            let all = backward(&out.tape, &parameters, TapeInputs { dense, hidden }, outputs, is_dense)?;
            gradients.extend(model.parameters().iter().map(|parameter| parameter.name).zip(all.parameters));
            gradients.extend(all.input.map(|x| ("x", x)));
            drift = all.drift;
        }
        out.state.settle(hidden)?;
        let run = Run {
            hidden: hidden.to_vec(),
            summary: if model.attends() { out.summary.as_slice()[..values].to_vec() } else { vec![0.0; values] },
            after: State::of(&out.state),
            reminders: out.reminders,
            gradients,
            drift,
        };
        Ok((run, out.state))
    }
}

/// The bits of floats. Equal numbers with different bits (0 and -0) differ; equal NaNs do not.
pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Fails unless both are the same to the bit.
#[track_caller]
pub fn assert_same(got: &Run, right: &Run, what: &str) {
    assert_eq!(bits(&got.hidden), bits(&right.hidden), "{what}: hidden");
    assert_eq!(bits(&got.summary), bits(&right.summary), "{what}: summary");
    assert_eq!(bits(&got.after.cell), bits(&right.after.cell), "{what}: cell");
    assert_eq!(got.after.rows, right.after.rows, "{what}: rows");
    for (got, right) in got.after.memories.iter().zip(&right.after.memories) {
        assert_eq!(bits(got), bits(right), "{what}: memories");
    }
    assert_eq!(got.reminders, right.reminders, "{what}: reminders");
    for ((name, got), (_, right)) in got.gradients.iter().zip(&right.gradients) {
        assert_eq!(bits(got), bits(right), "{what}: gradient of {name}");
    }
    assert_eq!(got.gradients.len(), right.gradients.len(), "{what}");
}
