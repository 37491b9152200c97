//! Segments as plain data, for saving (R21).

use crate::error::{Result, SabError};
use attentive_engine::{Led, RowSegments, Segment, SegmentInputs, Segments};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The steps that led to the memories of a state (R21), as plain data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentsRecord {
    /// `k_trunc` and the phase of the latest call.
    pub grid: [u64; 2],
    /// Each segment once.
    pub segments: Vec<SegmentRecord>,
}

/// Consecutive steps of a row, and the state before them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentRecord {
    /// The row.
    pub row: usize,
    /// The slots whose memories the segment led to, with the number of its steps that did. Empty for the segment that
    /// later steps continue.
    pub slots: Vec<(usize, usize)>,
    /// h before the first step, `[hidden]`.
    pub hidden: Vec<f32>,
    /// c before the first step, `[hidden]`; empty for a cell without a cell state.
    pub cell: Vec<f32>,
    /// The tokens, `[steps]`; `None` for dense inputs.
    pub tokens: Option<Vec<u32>>,
    /// The dense inputs, `[steps, input]`; empty for tokens.
    pub inputs: Vec<f32>,
    /// The summaries, `[steps, hidden]`.
    pub summaries: Vec<f32>,
}

impl SegmentsRecord {
    pub(crate) fn of(segments: &Segments) -> Self {
        let mut all = Vec::new();
        for (row, of_row) in segments.rows.iter().enumerate() {
            let mut last: Option<&Arc<Segment>> = None;
            for (slot, led) in of_row.slots.iter().enumerate().filter_map(|(slot, led)| Some((slot, led.as_ref()?))) {
                if last.is_none_or(|last| !Arc::ptr_eq(last, &led.by)) {
                    all.push(SegmentRecord::of(row, &led.by));
                }
                last = Some(&led.by);
                if let Some(record) = all.last_mut() {
                    record.slots.push((slot, led.steps));
                }
            }
            all.extend(of_row.open.as_ref().map(|open| SegmentRecord::of(row, open)));
        }
        Self { grid: segments.grid, segments: all }
    }

    /// The segments of rows with these numbers of slots.
    pub(crate) fn restore(self, slots: &[usize]) -> Result<Segments> {
        let empty = |slots: &usize| RowSegments { slots: vec![None; *slots], open: None };
        let mut rows: Vec<RowSegments> = slots.iter().map(empty).collect();
        let wrong = |row: usize, what: String| {
            Err(SabError::State(format!("a segment of row {row} led to {what}, which does not exist")))
        };
        for record in self.segments {
            let (row, slots, segment) = record.restore();
            let Some(of_row) = rows.get_mut(row) else { return wrong(row, "a memory of that row".into()) };
            if slots.is_empty() {
                of_row.open = Some(segment);
                continue;
            }
            let by = Arc::new(segment);
            for (slot, steps) in slots {
                let Some(led) = of_row.slots.get_mut(slot) else { return wrong(row, format!("slot {slot}")) };
                *led = Some(Led { by: Arc::clone(&by), steps });
            }
        }
        Ok(Segments { grid: self.grid, rows })
    }
}

impl SegmentRecord {
    fn of(row: usize, segment: &Segment) -> Self {
        let Segment { hidden, cell, inputs, summaries } = segment.clone();
        let (tokens, inputs) = match inputs {
            SegmentInputs::Tokens(tokens) => (Some(tokens), Vec::new()),
            SegmentInputs::Dense(inputs) => (None, inputs),
        };
        Self { row, slots: Vec::new(), hidden, cell, tokens, inputs, summaries }
    }

    fn restore(self) -> (usize, Vec<(usize, usize)>, Segment) {
        let Self { row, slots, hidden, cell, tokens, inputs, summaries } = self;
        let inputs = tokens.map_or(SegmentInputs::Dense(inputs), SegmentInputs::Tokens);
        (row, slots, Segment { hidden, cell, inputs, summaries })
    }
}
