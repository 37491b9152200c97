//! The portable path: Algorithm 1 and its sparse replay in tensor operations and `detach`.
//!
//! This is the specification in code, and what runs on every backend but the CPU's. It is written to be read: one
//! loop over time, each line with its rule.

use crate::config::{Hops, KTop, ScoreGradient};
use crate::error::Result;
use crate::lstm::Weights;
use crate::memory::RowClock;
use crate::reminders::{Reminders, keep_largest};
use crate::replay::Rules;
use crate::state::SabState;
use burn::tensor::activation::{relu, sigmoid, softmax};
use burn::tensor::{ElementConversion, Int, Tensor, TensorData};

/// What comes in, `[batch, time, input]` or `[batch, time]`.
#[derive(Clone, Debug)]
pub(crate) enum PortableInput {
    Dense(Tensor<3>),
    Tokens(Tensor<2, Int>),
}

/// What comes out.
pub(crate) struct PortableOutput {
    /// `[batch, time, hidden]`
    pub(crate) hidden: Tensor<3>,
    /// `[batch, time, hidden]`
    pub(crate) summary: Tensor<3>,
    pub(crate) state: SabState,
    pub(crate) reminders: Option<Reminders>,
}

/// Hidden state and cell, `[batch, hidden]` each.
#[derive(Clone)]
struct Recurrence {
    h: Tensor<2>,
    c: Tensor<2>,
}

impl Recurrence {
    /// R1: returns h_hat and the new cell.
    fn cell(&self, projected: Tensor<2>, weight_hh: &Tensor<2>) -> Recurrence {
        let units = self.h.dims()[1];
        let gates = projected + self.h.clone().matmul(weight_hh.clone());
        let gate = |index: usize| gates.clone().narrow(1, index * units, units);
        let c = sigmoid(gate(1)) * self.c.clone() + sigmoid(gate(0)) * gate(2).tanh();
        Recurrence { h: sigmoid(gate(3)) * c.clone().tanh(), c }
    }

    fn detach(self) -> Recurrence {
        Recurrence { h: self.h.detach(), c: self.c.detach() }
    }
}

/// The memories of rows that have all taken the same number of steps, and their projections.
#[derive(Default)]
struct Memory {
    /// `m_i`, `[batch, hidden]` each.
    states: Vec<Tensor<2>>,
    /// `W1 m_i`, `[batch, hidden]` each.
    keys: Vec<Tensor<2>>,
}

impl Memory {
    /// R2, and what of a memory may receive gradient: nothing without mental updates (R11), nothing through its
    /// score unless `score_gradient = full` (R10).
    fn store(&mut self, state: Tensor<2>, w1: &Tensor<2>, rules: &Rules) {
        let state = if rules.mental_updates { state } else { state.detach() };
        let scored = if rules.scores_reach_memories() { state.clone() } else { state.clone().detach() };
        self.keys.push(scored.matmul(w1.clone()));
        self.states.push(state);
    }

    /// R3: `a_i = W3 . tanh(W1 m_i + W2 h_hat)`, `[batch, slots]`.
    fn scores(&self, query: Tensor<2>, w3: &Tensor<1>) -> Tensor<2> {
        let keys: Tensor<3> = Tensor::stack(self.keys.clone(), 1);
        let activated = (keys + query.unsqueeze_dim::<3>(1)).tanh();
        (activated * w3.clone().unsqueeze::<3>()).sum_dim(2).squeeze_dim(2)
    }
}

/// R4-R6: the weights of `[batch, slots]` scores.
fn sparsify(scores: Tensor<2>, k_top: KTop) -> Tensor<2> {
    let [_, slots] = scores.dims();
    let k_top = match k_top {
        KTop::Count(k_top) if slots > k_top => k_top,
        // R6: nothing needs dropping.
        _ => return softmax(scores, 1),
    };
    // R4: prominence over the (k_top+1)-th score. Only its place is searched in data; its value keeps its gradient.
    let (_, places) = scores.clone().detach().topk_with_indices(k_top + 1, 1);
    let threshold = scores.clone().gather(1, places.narrow(1, k_top, 1));
    let w = relu(scores - threshold);
    let sum = w.clone().sum_dim(1);
    // R5: where all scores are equal the weights stay 0.
    let equal = sum.clone().equal_elem(0.0);
    w / sum.mask_fill(equal, 1.0)
}

/// Runs rows that may have taken different numbers of steps: rows of equal age together.
pub(crate) fn forward(
    weights: &Weights, input: PortableInput, state: SabState, rules: &Rules, most_reminders: Option<usize>,
) -> Result<PortableOutput> {
    let steps = state.steps().to_vec();
    if steps.iter().all(|s| *s == steps[0]) {
        return same_age(weights, input, state, rules, most_reminders);
    }
    let mut ages: Vec<u64> = steps.clone();
    ages.sort_unstable();
    ages.dedup();
    let device = state.hidden().device();
    let mut parts = Vec::new();
    let mut order = Vec::new();
    for age in ages {
        let rows: Vec<usize> = (0..steps.len()).filter(|row| steps[*row] == age).collect();
        let indices: Vec<i32> = rows.iter().map(|row| *row as i32).collect();
        let indices = Tensor::<1, Int>::from_data(TensorData::new(indices, [rows.len()]), &device);
        let part = match &input {
            PortableInput::Dense(x) => PortableInput::Dense(x.clone().select(0, indices.clone())),
            PortableInput::Tokens(x) => PortableInput::Tokens(x.clone().select(0, indices.clone())),
        };
        let state = SabState::from_parts(
            state.hidden().select(0, indices.clone()),
            state.cell().select(0, indices.clone()),
            vec![state.memory().select(0, indices)],
            vec![age; rows.len()],
            state.k_att(),
        )?;
        parts.push(same_age(weights, part, state, rules, most_reminders)?);
        order.extend(rows);
    }
    reassemble(parts, &order, rules)
}

/// Puts the rows of several groups back into the batch's order.
fn reassemble(parts: Vec<PortableOutput>, order: &[usize], rules: &Rules) -> Result<PortableOutput> {
    let device = parts[0].state.hidden().device();
    let mut places = vec![0_i32; order.len()];
    order.iter().enumerate().for_each(|(place, row)| places[*row] = place as i32);
    let indices = Tensor::<1, Int>::from_data(TensorData::new(places.clone(), [order.len()]), &device);
    let join = |field: fn(&PortableOutput) -> Tensor<3>| {
        Tensor::cat(parts.iter().map(field).collect(), 0).select(0, indices.clone())
    };
    let (hidden, summary) = (join(|part| part.hidden.clone()), join(|part| part.summary.clone()));
    let join = |field: fn(&SabState) -> Tensor<2>| {
        Tensor::cat(parts.iter().map(|part| field(&part.state)).collect(), 0).select(0, indices.clone())
    };
    let slots = parts.iter().map(|part| part.state.memory().dims()[1]).max().unwrap_or(1);
    let memories = parts.iter().map(|part| {
        let memory = part.state.memory();
        let [batch, filled, units] = memory.dims();
        let room = Tensor::zeros([batch, slots - filled, units], (&device, memory.dtype()));
        if filled == slots { memory } else { Tensor::cat(vec![memory, room], 1) }
    });
    let memory = Tensor::cat(memories.collect(), 0).select(0, indices.clone());
    let grouped: Vec<u64> = parts.iter().flat_map(|part| part.state.steps().to_vec()).collect();
    let steps = places.iter().map(|place| grouped[*place as usize]).collect();
    let state = SabState::from_parts(join(SabState::hidden), join(SabState::cell), vec![memory], steps, rules.k_att)?;
    let [batch, time, _] = hidden.dims();
    // Older rows may have room for more.
    let most = parts.iter().filter_map(|part| part.reminders.as_ref()).map(Reminders::most).max();
    let reminders = most.map(|most| {
        let mut joined = Reminders::new(batch, time, most);
        let rows = parts
            .iter()
            .flat_map(|part| part.reminders.iter())
            .flat_map(|part| (0..part.batch()).map(move |r| (part, r)));
        for ((part, from), to) in rows.zip(order) {
            joined.copy_row(*to, part, from);
        }
        joined
    });
    Ok(PortableOutput { hidden, summary, state, reminders })
}

/// Algorithm 1 for rows that have all taken the same number of steps.
fn same_age(
    weights: &Weights, input: PortableInput, state: SabState, rules: &Rules, most_reminders: Option<usize>,
) -> Result<PortableOutput> {
    let (batch, time) = match &input {
        PortableInput::Dense(x) => (x.dims()[0], x.dims()[1]),
        PortableInput::Tokens(x) => (x.dims()[0], x.dims()[1]),
    };
    let clock = RowClock { steps_before: state.steps()[0], k_att: rules.k_att };
    let units = state.hidden().dims()[1];
    // States come in as data (R14); with autodiff they are constants.
    let mut main = Recurrence { h: state.hidden(), c: state.cell() };
    // R12: with one hop, memories are taken from a second recurrence of the same values whose summaries pass no
    // gradient, so what enters a memory never leaves through an attention again.
    let mut shadow = (rules.hops == Hops::One && rules.attends()).then(|| main.clone());
    let mut memory = Memory::default();
    if rules.attends() {
        for slot in 0..clock.carried_slots() {
            memory.store(state.memory().narrow(1, slot, 1).squeeze_dim(1), &weights.w1, rules);
        }
    }
    let mut reminders = most_reminders
        .filter(|_| rules.attends())
        .map(|most| Reminders::new(batch, time, rules.most_reminders(most, clock.slots_at(time))));
    let (mut hidden, mut summary) = (Vec::with_capacity(time), Vec::with_capacity(time));
    let nothing = Tensor::zeros([batch, units], (&main.h.device(), main.h.dtype()));
    for t in 0..time {
        let projected = project(weights, &input, t);
        let after = main.cell(projected.clone(), &weights.weight_hh);
        let shadow_after = shadow.as_ref().map(|shadow| shadow.cell(projected, &weights.weight_hh));
        let s = if rules.attends() {
            // R10: inside the scorer the query is a constant unless its gradient is full.
            let full = rules.score_gradient == ScoreGradient::Full;
            let query = if full { after.h.clone() } else { after.h.clone().detach() };
            let scores = memory.scores(query.matmul(weights.w2.clone()), &weights.w3);
            let w = sparsify(scores, rules.k_top);
            if let Some(reminders) = &mut reminders {
                record(reminders, t, rules.k_att, &w);
            }
            let states: Tensor<3> = Tensor::stack(memory.states.clone(), 1);
            // R7
            (w.unsqueeze_dim::<3>(2) * states).sum_dim(1).squeeze_dim(1)
        } else {
            nothing.clone()
        };
        shadow = shadow_after.map(|after| Recurrence { h: after.h + s.clone().detach(), c: after.c });
        main = Recurrence { h: after.h + s.clone(), c: after.c };
        hidden.push(main.h.clone());
        summary.push(s);
        if rules.attends() && clock.slot_filled_by(t).is_some() {
            memory.store(shadow.as_ref().unwrap_or(&main).h.clone(), &weights.w1, rules);
        }
        if rules.cut_after(clock.step(t)) {
            main = main.detach();
            shadow = shadow.map(Recurrence::detach);
        }
    }
    let memory = if rules.attends() {
        Tensor::stack(memory.states.into_iter().map(Tensor::inner).collect(), 1)
    } else {
        // A plain LSTM stores too, so that its state fits one that attends.
        stored_states(&state, &hidden, clock)
    };
    let steps = state.steps().iter().map(|steps| steps + time as u64).collect();
    let state = SabState::from_parts(main.h.inner(), main.c.inner(), vec![memory], steps, rules.k_att)?;
    Ok(PortableOutput { hidden: Tensor::stack(hidden, 1), summary: Tensor::stack(summary, 1), state, reminders })
}

fn stored_states(state: &SabState, hidden: &[Tensor<2>], clock: RowClock) -> Tensor<3> {
    let mut parts = vec![state.memory().narrow(1, 0, clock.carried_slots())];
    let stored = (0..hidden.len()).filter(|t| clock.slot_filled_by(*t).is_some());
    parts.extend(stored.map(|t| hidden[t].clone().inner().unsqueeze_dim::<3>(1)));
    Tensor::cat(parts, 1)
}

/// The input's part of the gates at one step, `[batch, 4 * hidden]`: a product, or rows of the input weights.
fn project(weights: &Weights, input: &PortableInput, t: usize) -> Tensor<2> {
    let projected = match input {
        PortableInput::Dense(x) => x.clone().narrow(1, t, 1).squeeze_dim::<2>(1).matmul(weights.weight_ih.clone()),
        PortableInput::Tokens(x) => weights.weight_ih.clone().select(0, x.clone().narrow(1, t, 1).squeeze_dim(1)),
    };
    projected + weights.bias.clone().unsqueeze::<2>()
}

fn record(reminders: &mut Reminders, t: usize, k_att: usize, weights: &Tensor<2>) {
    let [batch, slots] = weights.dims();
    let values: Vec<f32> = weights.to_data().iter::<f64>().map(|w| w.elem()).collect();
    for row in 0..batch {
        let chosen = values[row * slots..(row + 1) * slots].iter().copied().enumerate();
        reminders.set(row, t, |entries| keep_largest(entries, k_att, chosen));
    }
}
