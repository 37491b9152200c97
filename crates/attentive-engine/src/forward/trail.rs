//! The segments that a call leaves (R21).

use crate::memory::RowMemory;
use crate::pool::Buffer;
use crate::problem::{Inputs, Problem};
use crate::segments::{Led, RowSegments, Segment, SegmentInputs, Segments};
use std::sync::Arc;

/// The cell states at the truncation points of a call.
pub(super) struct Cuts {
    /// `[batch, room, padded]`
    pub(super) cells: Buffer,
    pub(super) places: CutPlaces,
}

/// Where [`Cuts`] has the cell states.
pub(super) struct CutPlaces {
    room: usize,
    /// The steps that each row had taken before the call.
    steps_before: Vec<u64>,
}

impl Cuts {
    /// `None` if the model keeps no segments.
    pub(super) fn new(problem: &Problem, steps_before: Vec<u64>) -> Option<Self> {
        let model = &problem.model;
        if !model.credit_across_calls {
            return None;
        }
        let cuts = |before: &u64| model.cuts_until(before + problem.time as u64) - model.cuts_until(*before);
        let room = steps_before.iter().map(cuts).max().unwrap_or(0) as usize;
        let cells = Buffer::take(problem.if_carries(steps_before.len() * room * problem.padded));
        Some(Self { cells, places: CutPlaces { room, steps_before } })
    }
}

impl CutPlaces {
    /// The place of the cell state after step `t` of a row, if a truncation point follows the step.
    pub(super) fn find(&self, problem: &Problem, row: usize, t: usize) -> Option<usize> {
        let (model, before) = (&problem.model, self.steps_before[row]);
        let step = before + t as u64 + 1;
        let number = || model.cuts_until(step) - model.cuts_until(before) - 1;
        model.cut_after(step).then(|| (row * self.room + number() as usize) * problem.padded)
    }
}

/// What a call computed, as far as segments need it.
pub(super) struct Steps<'a> {
    pub(super) problem: &'a Problem,
    pub(super) cuts: &'a Cuts,
    /// h and c before the call, `[batch, padded]`; c may be empty.
    pub(super) hidden_before: &'a [f32],
    pub(super) cell_before: &'a [f32],
    /// `[batch, time, input]`, empty for tokens.
    pub(super) dense: &'a [f32],
    /// `[batch, time, hidden]` each
    pub(super) hidden: &'a [f32],
    pub(super) summaries: &'a [f32],
}

impl Steps<'_> {
    /// The segments after the call. `memory` gives the memory of a row, with the slots that were evicted.
    pub(super) fn follow<'m>(&self, before: Option<Segments>, memory: impl Fn(usize) -> &'m RowMemory) -> Segments {
        let grid = self.problem.model.grid();
        let same_grid = before.as_ref().is_some_and(|before| before.grid == grid);
        let mut rows = before.map_or_else(|| vec![RowSegments::default(); self.problem.batch], |before| before.rows);
        for (row, segments) in rows.iter_mut().enumerate() {
            let memory = memory(row);
            segments.slots.resize(memory.carried(), None);
            segments.open = segments.open.take().filter(|_| same_grid);
            self.follow_row(row, memory, segments);
            if let Some(survivors) = memory.survivors() {
                let kept = survivors.iter().map(|slot| segments.slots[*slot as usize].take()).collect();
                segments.slots = kept;
            }
        }
        Segments { grid, rows }
    }

    fn follow_row(&self, row: usize, memory: &RowMemory, segments: &mut RowSegments) {
        let Problem { time, hidden, padded, .. } = *self.problem;
        let of = |values: &[f32], place: usize| values.get(place..place + hidden).unwrap_or_default().to_vec();
        let start = || self.starting(of(self.hidden_before, row * padded), of(self.cell_before, row * padded));
        let mut open = segments.open.take().unwrap_or_else(start);
        let mut stored: Vec<usize> = Vec::new();
        for t in 0..time {
            self.append(&mut open, row, t);
            if memory.filled_by(t).is_some() {
                stored.push(open.steps());
            }
            let cut = self.cuts.places.find(self.problem, row, t);
            let last = t + 1 == time;
            if let Some(steps) = stored.last().copied().filter(|_| cut.is_some() || last) {
                let by = Arc::new(open.clone().first(steps));
                segments.slots.extend(stored.drain(..).map(|steps| Some(Led { by: Arc::clone(&by), steps })));
            }
            if let Some(place) = cut {
                let after = of(self.hidden, (row * time + t) * hidden);
                open = self.starting(after, of(self.cuts.cells.as_slice(), place));
            }
        }
        segments.open = Some(open);
    }

    fn starting(&self, hidden: Vec<f32>, cell: Vec<f32>) -> Segment {
        let dense = matches!(self.problem.inputs, Inputs::Dense);
        let cell = if self.problem.layout.carries { cell } else { Vec::new() };
        Segment { hidden, cell, inputs: SegmentInputs::none(dense), summaries: Vec::new() }
    }

    /// Adds step `t` of a row.
    fn append(&self, segment: &mut Segment, row: usize, t: usize) {
        let Problem { time, input, hidden, .. } = *self.problem;
        let step = row * time + t;
        match (&mut segment.inputs, &self.problem.inputs) {
            (SegmentInputs::Dense(inputs), _) => inputs.extend(&self.dense[step * input..][..input]),
            (SegmentInputs::Tokens(inputs), Inputs::Tokens(tokens)) => inputs.push(tokens[step]),
            // The call's check refuses a state of another kind.
            (SegmentInputs::Tokens(_), Inputs::Dense) => {}
        }
        segment.summaries.extend(&self.summaries[step * hidden..][..hidden]);
    }
}
