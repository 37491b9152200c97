//! Credit across calls (R21): carried memories that move with the parameters, and the segments that a call leaves.

use super::parts::{Recurrence, RecurrentCell};
use crate::io::SabInput;
use attentive_engine::{Drift, Led, Model, RowSegments, Segment, SegmentInputs, Segments};
use burn::tensor::{Bool, Int, Tensor, TensorData};
use std::sync::Arc;

/// The carried memories, `[batch, slots, hidden]`. Their values are the stored ones; their gradient is that of the steps
/// that led to them, which are computed again with the summaries as constants.
pub(super) fn replay(states: Tensor<3>, segments: &Segments, cell: &RecurrentCell) -> (Tensor<3>, Option<Drift>) {
    let [batch, slots, units] = states.dims();
    let mut places = vec![None; batch * slots];
    let mut led: Vec<&Led> = Vec::new();
    for (row, of_row) in segments.rows.iter().enumerate() {
        for (slot, of_slot) in of_row.slots.iter().enumerate() {
            if let Some(of_slot) = of_slot {
                places[row * slots + slot] = Some(led.len());
                led.push(of_slot);
            }
        }
    }
    if led.is_empty() {
        return (states, None);
    }
    let (device, dtype, count) = (states.device(), states.dtype(), led.len());
    let index = |values: Vec<i32>, like: usize| Tensor::<1, Int>::from_data(TensorData::new(values, [like]), &device);
    let replayed = last_states(&led, cell, &states);
    let drift = drift(&led, &places, &states, &replayed);
    // Zero, but with the gradient of the replay.
    let moved = replayed.clone() - replayed.detach();
    let nothing = Tensor::zeros([1, units], (&device, dtype));
    let picked = places.iter().map(|place| place.unwrap_or(count) as i32).collect();
    let moved = Tensor::cat(vec![moved, nothing], 0).select(0, index(picked, batch * slots));
    (states + moved.reshape([batch, slots, units]), Some(drift))
}

fn dense_inputs(segment: &Segment) -> &[f32] {
    match &segment.inputs {
        SegmentInputs::Dense(dense) => dense,
        SegmentInputs::Tokens(_) => &[],
    }
}

/// The state at the end of each segment, `[segments, hidden]`.
fn last_states(led: &[&Led], cell: &RecurrentCell, like: &Tensor<3>) -> Tensor<2> {
    let (device, dtype, units) = (like.device(), like.dtype(), like.dims()[2]);
    let (count, time) = (led.len(), led.iter().map(|led| led.steps).max().unwrap_or(1));
    let start = |of: fn(&Segment) -> &[f32]| {
        let values: Vec<f32> = led.iter().flat_map(|led| of(&led.by)).copied().collect();
        (!values.is_empty()).then(|| Tensor::<2>::from_data(TensorData::new(values, [count, units]), (&device, dtype)))
    };
    // Shorter segments are followed by steps that nothing reads.
    let rows = |of: fn(&Segment) -> &[f32], width: usize| {
        let row = |led: &&Led| {
            let mut values = of(&led.by)[..led.steps * width].to_vec();
            values.resize(time * width, 0.0);
            values
        };
        let values: Vec<f32> = led.iter().flat_map(row).collect();
        Tensor::<3>::from_data(TensorData::new(values, [count, time, width]), (&device, dtype))
    };
    let input = match &led[0].by.inputs {
        SegmentInputs::Tokens(_) => {
            let row = |led: &&Led| {
                let SegmentInputs::Tokens(tokens) = &led.by.inputs else { return vec![0; time] };
                let mut tokens: Vec<i32> = tokens[..led.steps].iter().map(|token| *token as i32).collect();
                tokens.resize(time, 0);
                tokens
            };
            let tokens: Vec<i32> = led.iter().flat_map(row).collect();
            SabInput::Tokens(Tensor::from_data(TensorData::new(tokens, [count, time]), &device))
        }
        SegmentInputs::Dense(dense) => {
            let width = dense.len() / led[0].by.steps().max(1);
            SabInput::Dense(rows(dense_inputs, width))
        }
    };
    let (projected, summaries) = (cell.project(&input), rows(|segment| &segment.summaries, units));
    let zeros = Tensor::zeros([count, units], (&device, dtype));
    let mut now = Recurrence { h: start(|by| &by.hidden).unwrap_or_else(|| zeros.clone()), c: start(|by| &by.cell) };
    let mut last = zeros;
    for t in 0..time {
        let at = |of: &Tensor<3>| of.clone().narrow(1, t, 1).squeeze_dim::<2>(1);
        let after = cell.step(&now, at(&projected));
        now = Recurrence { h: after.h + at(&summaries), c: after.c };
        let ends: Vec<bool> = led.iter().map(|led| led.steps == t + 1).collect();
        let ends = Tensor::<1, Bool>::from_data(TensorData::new(ends, [count]), &device);
        last = last.mask_where(ends.unsqueeze_dim::<2>(1).expand([count, units]), now.h.clone());
    }
    last
}

fn drift(led: &[&Led], places: &[Option<usize>], stored: &Tensor<3>, replayed: &Tensor<2>) -> Drift {
    let units = stored.dims()[2];
    let numbers = |data: TensorData| data.iter::<f64>().collect::<Vec<f64>>();
    let (stored, replayed) = (numbers(stored.to_data()), numbers(replayed.to_data()));
    let mut drift = Drift { memories: led.len(), ..Drift::default() };
    for (place, number) in places.iter().enumerate().filter_map(|(place, number)| Some((place, (*number)?))) {
        let (stored, replayed) = (&stored[place * units..][..units], &replayed[number * units..][..units]);
        let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
        let off = norm(&mut stored.iter().zip(replayed).map(|(a, b)| a - b));
        let relative = if off == 0.0 { 0.0 } else { off / norm(&mut stored.iter().copied()) };
        drift.mean += relative / led.len() as f64;
        drift.most = drift.most.max(relative);
    }
    drift
}

/// What a row holds after a call: the steps that it had taken before, and for each slot its step and, if it was carried,
/// its place among the carried ones.
pub(super) type HeldSlots = (u64, Vec<(u64, usize)>);

/// What a call computed, on the host.
pub(super) struct Trail<'a> {
    model: &'a Model,
    before: Option<&'a Segments>,
    units: usize,
    time: usize,
    /// h and c before the call, `[batch, hidden]`; c may be empty.
    start: [Vec<f32>; 2],
    /// `[batch, time, hidden]` each; cell states may be empty.
    hidden: Vec<f32>,
    cells: Vec<f32>,
    summaries: Vec<f32>,
    tokens: Vec<u32>,
    /// `[batch, time, input]`
    dense: Option<Vec<f32>>,
}

fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.to_data().iter::<f32>().collect()
}

impl<'a> Trail<'a> {
    pub(super) fn new(
        model: &'a Model, before: Option<&'a Segments>, input: &SabInput, start: Recurrence, hidden: &[Tensor<2>],
        cells: &[Tensor<2>], summaries: &[Tensor<2>],
    ) -> Self {
        let all = |steps: &[Tensor<2>]| match steps {
            [] => Vec::new(),
            steps => floats(Tensor::stack::<3>(steps.to_vec(), 1)),
        };
        let (tokens, dense) = match input {
            SabInput::Tokens(tokens) => (tokens.to_data().iter::<u32>().collect(), None),
            SabInput::Dense(dense) => (Vec::new(), Some(floats(dense.clone()))),
        };
        Self {
            model,
            before,
            units: start.h.dims()[1],
            time: hidden.len(),
            start: [floats(start.h), start.c.map(floats).unwrap_or_default()],
            hidden: all(hidden),
            cells: all(cells),
            summaries: all(summaries),
            tokens,
            dense,
        }
    }

    /// The segments after the call, from the slots that each row holds.
    pub(super) fn segments(&self, rows: &[HeldSlots]) -> Segments {
        let row = |(row, (steps_before, slots)): (usize, &HeldSlots)| {
            let led = |(step, place): &(u64, usize)| match step.checked_sub(steps_before + 1) {
                Some(t) => {
                    let by = self.segment(row, *steps_before, t as usize + 1);
                    Some(Led { steps: by.steps(), by: Arc::new(by) })
                }
                None => self.before.and_then(|before| before.rows[row].slots.get(*place).cloned().flatten()),
            };
            let slots = slots.iter().map(led).collect();
            let cut = self.model.cut_after(steps_before + self.time as u64);
            let open = if cut {
                self.beginning(row, Some(self.time - 1))
            } else {
                self.segment(row, *steps_before, self.time)
            };
            RowSegments { slots, open: Some(open) }
        };
        Segments { grid: self.model.grid(), rows: rows.iter().enumerate().map(row).collect() }
    }

    /// The steps from the latest truncation point up to the first `end` steps of the call.
    fn segment(&self, row: usize, steps_before: u64, end: usize) -> Segment {
        let cut = (0..end - 1).rev().find(|t| self.model.cut_after(steps_before + *t as u64 + 1));
        let carried = || {
            let before = self.before.filter(|before| before.grid == self.model.grid())?;
            before.rows[row].open.clone()
        };
        let mut segment = match cut {
            Some(_) => self.beginning(row, cut),
            None => carried().unwrap_or_else(|| self.beginning(row, None)),
        };
        let steps = row * self.time + cut.map_or(0, |cut| cut + 1)..row * self.time + end;
        match (&mut segment.inputs, &self.dense) {
            (SegmentInputs::Dense(to), Some(dense)) => {
                let width = self.model.input;
                to.extend(&dense[steps.start * width..steps.end * width]);
            }
            (SegmentInputs::Tokens(to), _) => to.extend(&self.tokens[steps.clone()]),
            (SegmentInputs::Dense(_), None) => {}
        }
        segment.summaries.extend(&self.summaries[steps.start * self.units..steps.end * self.units]);
        segment
    }

    /// A segment without steps, after step `t` of the call or at its beginning.
    fn beginning(&self, row: usize, t: Option<usize>) -> Segment {
        let of = |values: &[f32], place: usize| {
            values.get(place * self.units..(place + 1) * self.units).unwrap_or_default().to_vec()
        };
        let (hidden, cell) = match t {
            Some(t) => (of(&self.hidden, row * self.time + t), of(&self.cells, row * self.time + t)),
            None => (of(&self.start[0], row), of(&self.start[1], row)),
        };
        let inputs = match &self.dense {
            Some(_) => SegmentInputs::Dense(Vec::new()),
            None => SegmentInputs::Tokens(Vec::new()),
        };
        Segment { hidden, cell, inputs, summaries: Vec::new() }
    }
}
