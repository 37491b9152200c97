//! Credit across calls (R21): computes the steps that led to carried memories again, with the weights as they are now,
//! and adds the gradient that this call left at the memories.
//!
//! A replay is a call of the engine itself: a plain recurrent network that adds the kept summaries to its cell's output,
//! with one row for each segment. Summaries are constants, so this is one hop, and the gradient ends where the segment
//! begins.

use super::buffers::MemoryAdjoints;
use super::{Gradients, OutputAdjoints, TapeInputs, backward};
use crate::error::Result;
use crate::forward;
use crate::kernels::gemm::{PANEL, PackedMatrix};
use crate::kernels::{InstructionSet, Isa};
use crate::memory::RowStart;
use crate::model::Model;
use crate::options::{KTop, KTrunc, Replay, Retrieval};
use crate::parameters::SCORER;
use crate::problem::{Call, Inputs, Problem};
use crate::segments::{Segment, SegmentInputs};
use crate::state::State;
use crate::stores::{MOST_K_ATT, StoreRule};
use crate::tape::Tape;
use std::sync::Arc;

/// How far the states that a replay computes are from the stored ones, because the weights have changed since (R21).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Drift {
    /// How many memories were replayed.
    pub memories: usize,
    /// The mean of `‖replayed - stored‖ / ‖stored‖`.
    pub mean: f64,
    /// The largest.
    pub most: f64,
}

/// A carried memory that received gradient.
struct Reminded<'a> {
    row: usize,
    slot: usize,
    /// The last step of the segment that led to it, from 0.
    step: usize,
    adjoint: &'a [f32],
}

/// The memories of one segment.
struct Reached<'a> {
    by: &'a Arc<Segment>,
    memories: Vec<Reminded<'a>>,
}

impl Tape {
    /// Adds the gradient through the segments of carried memories. `key` turns the adjoint of a key into that of its
    /// memory, if this gradient enters memories (R10).
    pub(super) fn add_credit(
        &self, parameters: &[&[f32]], left: &MemoryAdjoints, key: Option<&PackedMatrix>, gradients: &mut Gradients,
    ) -> Result<()> {
        let Some(segments) = &self.segments else { return Ok(()) };
        let adjoints = self.adjoints(left, key);
        let mut reached: Vec<Reached<'_>> = Vec::new();
        for Adjoint { row, slot, values } in &adjoints {
            let Some(led) = &segments.rows[*row].slots[*slot] else { continue };
            let memory = Reminded { row: *row, slot: *slot, step: led.steps - 1, adjoint: values };
            // Memories of one segment are neighbours.
            match reached.last_mut().filter(|last| Arc::ptr_eq(last.by, &led.by)) {
                Some(last) => last.memories.push(memory),
                None => reached.push(Reached { by: &led.by, memories: vec![memory] }),
            }
        }
        if !reached.is_empty() {
            self.replay_segments(parameters, &reached, gradients)?;
        }
        Ok(())
    }

    /// The adjoints of carried memories that have a segment, row by row and oldest first.
    fn adjoints(&self, left: &MemoryAdjoints, key: Option<&PackedMatrix>) -> Vec<Adjoint> {
        let (problem, padded) = (&self.problem, self.problem.padded);
        let rows = self.segments.iter().flat_map(|segments| segments.rows.iter().enumerate());
        let slots = rows.flat_map(|(row, segments)| {
            segments.slots.iter().enumerate().filter(|(_, led)| led.is_some()).map(move |(slot, _)| (row, slot))
        });
        let mut all = Vec::new();
        for (row, slot) in slots {
            let place = problem.slot(row, slot);
            let (memory, of_key) = left.of(place, padded);
            let key = of_key.zip(key);
            if memory.is_none() && key.is_none() {
                continue;
            }
            let mut values = memory.map_or_else(|| vec![0.0; padded], <[f32]>::to_vec);
            if let Some((key, weight)) = key {
                for panel in 0..weight.panels() {
                    let to = values[panel * PANEL..][..PANEL].as_mut_ptr();
                    // SAFETY: one row of `padded` floats on each side, of which the panel is inside; the kernels are
                    // those of this CPU.
                    unsafe {
                        let (k, weight) = (weight.k(), weight.panel(panel).as_ptr());
                        (problem.kernels.multiply_panel)(1, k, key.as_ptr(), padded, weight, to, padded, true);
                    }
                }
            }
            all.push(Adjoint { row, slot, values });
        }
        all
    }

    fn replay_segments(&self, parameters: &[&[f32]], reached: &[Reached<'_>], gradients: &mut Gradients) -> Result<()> {
        let (problem, hidden) = (&self.problem, self.problem.hidden);
        let steps = |reached: &Reached<'_>| reached.memories.iter().map(|memory| memory.step + 1).max().unwrap_or(1);
        let time = reached.iter().map(steps).max().unwrap_or(1);
        let model = replaying(&problem.model);
        let rows = Replayed::lay_out(problem, reached, time);
        let fresh = vec![RowStart::fresh(); reached.len()];
        let state = State::new(&model, fresh, &rows.hidden, &rows.cell, &vec![0.0; reached.len() * hidden])?;
        let call = Call {
            model,
            time,
            inputs: rows.inputs,
            tracked: true,
            replay: Replay::Auto,
            retrieval: Retrieval::Auto,
            threads: problem.threads,
            instructions: if problem.isa == Isa::Portable { InstructionSet::Baseline } else { InstructionSet::Detect },
            reminders: None,
        };
        let out = forward::run(call, state, Arc::clone(&self.weights), &rows.dense, Some(&rows.summaries))?;
        let states = &out.hidden.as_slice()[..reached.len() * time * hidden];
        let inputs = TapeInputs { dense: &rows.dense, hidden: states };
        let outputs = OutputAdjoints { hidden: Some(&rows.adjoints), ..OutputAdjoints::default() };
        let replayed = backward(&out.tape, parameters, inputs, outputs, false)?;
        for (to, from) in gradients.parameters.iter_mut().zip(&replayed.parameters).take(SCORER) {
            super::add(to, from);
        }
        gradients.drift = Some(self.drift(reached, states, time));
        Ok(())
    }

    fn drift(&self, reached: &[Reached<'_>], states: &[f32], time: usize) -> Drift {
        let (hidden, padded) = (self.problem.hidden, self.problem.padded);
        let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
        let mut drift = Drift::default();
        for (number, Reached { memories, .. }) in reached.iter().enumerate() {
            for memory in memories {
                let stored = &self.carried.row(memory.row)[memory.slot * padded..][..hidden];
                let replayed = &states[(number * time + memory.step) * hidden..][..hidden];
                let difference = stored.iter().zip(replayed).map(|(a, b)| f64::from(*a) - f64::from(*b));
                let (difference, size) = (norm(&mut { difference }), norm(&mut stored.iter().map(|x| f64::from(*x))));
                let relative = if difference == 0.0 { 0.0 } else { difference / size };
                drift.memories += 1;
                drift.mean += relative;
                drift.most = drift.most.max(relative);
            }
        }
        drift.mean /= drift.memories.max(1) as f64;
        drift
    }
}

/// The adjoint of a carried memory, `[padded]`.
struct Adjoint {
    row: usize,
    slot: usize,
    values: Vec<f32>,
}

/// The cell of a model, as a plain recurrent network without truncation that stores nothing.
fn replaying(model: &Model) -> Model {
    Model {
        k_top: KTop::Count(0),
        k_trunc: KTrunc::None,
        store: StoreRule { k_att: MOST_K_ATT, ..StoreRule::default() },
        credit_across_calls: false,
        ..*model
    }
}

/// The operands of a replay. Shorter segments are followed by steps that nothing reads.
struct Replayed {
    /// `[segments, hidden]` each
    hidden: Vec<f32>,
    cell: Vec<f32>,
    inputs: Inputs,
    /// `[segments, time, input]`, empty for tokens.
    dense: Vec<f32>,
    /// `[segments, time, hidden]` each
    summaries: Vec<f32>,
    adjoints: Vec<f32>,
}

impl Replayed {
    fn lay_out(problem: &Problem, reached: &[Reached<'_>], time: usize) -> Self {
        let Problem { input, hidden, .. } = *problem;
        let mut tokens: Vec<u32> = Vec::new();
        let (mut dense, mut summaries): (Vec<f32>, Vec<f32>) = Default::default();
        let mut adjoints = vec![0.0; reached.len() * time * hidden];
        for (number, Reached { by, memories }) in reached.iter().enumerate() {
            let steps = by.steps().min(time);
            match &by.inputs {
                SegmentInputs::Tokens(own) => {
                    tokens.extend(&own[..steps]);
                    tokens.resize((number + 1) * time, 0);
                }
                SegmentInputs::Dense(own) => {
                    dense.extend(&own[..steps * input]);
                    dense.resize((number + 1) * time * input, 0.0);
                }
            }
            summaries.extend(&by.summaries[..steps * hidden]);
            summaries.resize((number + 1) * time * hidden, 0.0);
            for memory in memories {
                let to = &mut adjoints[(number * time + memory.step) * hidden..][..hidden];
                to.copy_from_slice(&memory.adjoint[..hidden]);
            }
        }
        let inputs =
            if matches!(problem.inputs, Inputs::Dense) { Inputs::Dense } else { Inputs::Tokens(tokens.into()) };
        let of = |part: fn(&Segment) -> &[f32]| reached.iter().flat_map(|reached| part(reached.by)).copied().collect();
        Self { hidden: of(|by| &by.hidden), cell: of(|by| &by.cell), inputs, dense, summaries, adjoints }
    }
}
