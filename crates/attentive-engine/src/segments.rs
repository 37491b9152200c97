//! [`Segments`]: the steps that led to each memory, kept for credit across calls (R21).

use crate::error::{EngineError, Result, all_finite, check_length};
use crate::model::Model;
use crate::options::KTrunc;
use std::sync::Arc;

/// The inputs of a segment's steps.
#[derive(Clone, Debug, PartialEq)]
pub enum SegmentInputs {
    /// `[steps]`
    Tokens(Vec<u32>),
    /// `[steps, input]`
    Dense(Vec<f32>),
}

/// Consecutive steps of a row that no truncation point separates, and the state before them: everything that it takes
/// to compute them again with other weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// h before the first step, `[hidden]`.
    pub hidden: Vec<f32>,
    /// c before the first step, `[hidden]`; empty for a cell without a cell state (R15).
    pub cell: Vec<f32>,
    /// The inputs.
    pub inputs: SegmentInputs,
    /// The summaries, `[steps, hidden]`.
    pub summaries: Vec<f32>,
}

/// The steps that led to one memory: a segment up to and with the step whose state is stored. Memories of one segment
/// share it.
#[derive(Clone, Debug)]
pub struct Led {
    /// The segment.
    pub by: Arc<Segment>,
    /// How many of its steps led to the memory.
    pub steps: usize,
}

/// The segments of one row.
#[derive(Clone, Debug, Default)]
pub struct RowSegments {
    /// For each slot, the steps that led to it; `None` for a null slot, and for memories of calls that kept none.
    pub slots: Vec<Option<Led>>,
    /// The steps since the last truncation point.
    pub open: Option<Segment>,
}

/// The segments of all rows.
#[derive(Clone, Debug)]
pub struct Segments {
    /// `k_trunc` and the phase of the latest call. A call with another grid begins new segments.
    pub grid: [u64; 2],
    /// Row by row.
    pub rows: Vec<RowSegments>,
}

impl SegmentInputs {
    pub(crate) fn none(dense: bool) -> Self {
        if dense { Self::Dense(Vec::new()) } else { Self::Tokens(Vec::new()) }
    }

    /// Whether inputs are dense.
    pub fn is_dense(&self) -> bool {
        matches!(self, Self::Dense(_))
    }
}

impl Segment {
    /// The number of steps.
    pub fn steps(&self) -> usize {
        self.summaries.len() / self.hidden.len().max(1)
    }

    /// Its first steps.
    pub(crate) fn first(mut self, steps: usize) -> Self {
        let all = self.steps().max(1);
        match &mut self.inputs {
            SegmentInputs::Tokens(tokens) => tokens.truncate(steps),
            SegmentInputs::Dense(dense) => dense.truncate(dense.len() / all * steps),
        }
        self.summaries.truncate(steps * self.hidden.len());
        self
    }

    fn check(&self, model: &Model) -> Result<()> {
        let (hidden, steps) = (model.hidden, self.steps());
        check_length("segment's hidden", self.hidden.len(), hidden)?;
        check_length("segment's cell", self.cell.len(), if model.cell.carries() { hidden } else { 0 })?;
        check_length("segment's summary", self.summaries.len(), steps * hidden)?;
        let wrong = |why: String| Err(EngineError::State(format!("a segment {why}")));
        if steps > model.longest_segment() {
            return wrong(format!("has {steps} steps, but `k_trunc` allows {}", model.longest_segment()));
        }
        let dense: &[f32] = match &self.inputs {
            SegmentInputs::Tokens(tokens) => {
                check_length("segment's tokens", tokens.len(), steps)?;
                if let Some(token) = tokens.iter().find(|token| **token as usize >= model.input) {
                    return wrong(format!("has the token {token}, but the model has {} tokens", model.input));
                }
                &[]
            }
            SegmentInputs::Dense(dense) => {
                check_length("segment's input", dense.len(), steps * model.input)?;
                dense
            }
        };
        match [&self.hidden, &self.cell, dense, &self.summaries].into_iter().all(all_finite) {
            true => Ok(()),
            false => wrong("holds a number that is not finite".into()),
        }
    }
}

impl Segments {
    /// Refuses segments that contradict each other, the rows' numbers of slots, or the model.
    pub fn check(&self, model: &Model, slots: &[usize]) -> Result<()> {
        check_length("segments", self.rows.len(), slots.len())?;
        let wrong = |why: String| Err(EngineError::State(why));
        for (row, slots) in self.rows.iter().zip(slots) {
            check_length("row's segments", row.slots.len(), *slots)?;
            if let Some(open) = &row.open {
                open.check(model)?;
            }
            let mut last: Option<&Arc<Segment>> = None;
            for led in row.slots.iter().flatten() {
                if last.is_none_or(|last| !Arc::ptr_eq(last, &led.by)) {
                    led.by.check(model)?;
                }
                if !(1..=led.by.steps()).contains(&led.steps) {
                    let (steps, all) = (led.steps, led.by.steps());
                    return wrong(format!("step {steps} of a segment led to a memory, but the segment has {all}"));
                }
                last = Some(&led.by);
            }
        }
        let mut kinds = self.rows.iter().flat_map(RowSegments::all).map(|segment| segment.inputs.is_dense());
        match kinds.next().is_some_and(|first| kinds.any(|kind| kind != first)) {
            true => wrong("some of its segments hold tokens and some dense inputs".into()),
            false => Ok(()),
        }
    }

    /// Refuses segments whose inputs are of another kind than those of a call, dense or tokens.
    pub fn check_inputs(&self, dense: bool) -> Result<()> {
        // All segments of a state are of one kind.
        match self.rows.iter().flat_map(RowSegments::all).next().is_none_or(|any| any.inputs.is_dense() == dense) {
            true => Ok(()),
            false => {
                let [held, given] = if dense { ["tokens", "dense"] } else { ["dense inputs", "tokens"] };
                Err(EngineError::State(format!(
                    "its segments hold {held}, but the input is {given}: a stream with `credit_across_calls` keeps to \
                     one kind"
                )))
            }
        }
    }

    /// Starts rows afresh.
    pub fn reset(&mut self, rows: &[usize]) {
        rows.iter().for_each(|row| self.rows[*row] = RowSegments { slots: vec![None], open: None });
    }
}

impl RowSegments {
    /// Every segment of the row, some of them several times.
    fn all(&self) -> impl Iterator<Item = &Segment> {
        self.slots.iter().flatten().map(|led| &*led.by).chain(&self.open)
    }
}

impl Model {
    /// The grid of truncation points: `k_trunc` and the phase within it; zeros if nothing is cut (R9).
    pub fn grid(&self) -> [u64; 2] {
        match self.k_trunc {
            KTrunc::Every(k) => [k as u64, (self.phase % k.max(1)) as u64],
            KTrunc::None => [0, 0],
        }
    }

    /// How many truncation points there are up to a step (R9).
    pub(crate) fn cuts_until(&self, step: u64) -> u64 {
        match self.grid() {
            [0, _] => 0,
            [k, phase] => (step + phase) / k,
        }
    }

    /// The number of steps of the longest segment.
    fn longest_segment(&self) -> usize {
        match self.k_trunc {
            KTrunc::Every(k) => k,
            KTrunc::None => usize::MAX,
        }
    }
}
