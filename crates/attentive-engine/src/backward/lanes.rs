//! Which rows have an adjoint at a step (R12, R13).

use super::sweep::Sweep;
use crate::team::Worker;
use std::ops::Range;

/// One travelling adjoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lane {
    pub(super) row: usize,
    /// Whether it came through a memory and must not leave through an attention again (`hops = one` only).
    pub(super) skipped: bool,
}

/// The lanes of one step for a thread's rows: rows in order, and a row's lane that has not skipped before the one that
/// has. Threads that share rows have the same list.
pub(super) struct LaneList {
    pub(super) list: Vec<Lane>,
    /// For each row and kind of lane, the lane of the following step that handed an adjoint down to it.
    pub(super) carried_from: Vec<Option<usize>>,
    /// The position of the first lane in the lane buffers.
    pub(super) first: usize,
    first_row: usize,
    kinds: usize,
}

impl LaneList {
    pub(super) fn new(worker: &Worker<'_>, kinds: usize) -> Self {
        let room = worker.rows.len() * kinds;
        Self {
            list: Vec::with_capacity(room),
            carried_from: vec![None; room],
            first: worker.rows.start * kinds,
            first_row: worker.rows.start,
            kinds,
        }
    }

    /// The index of a lane in `carried_from`.
    pub(super) fn key(&self, lane: Lane) -> usize {
        (lane.row - self.first_row) * self.kinds + usize::from(lane.skipped)
    }

    /// The position of the adjoints that the following step handed down to a lane, in the lane buffers.
    pub(super) fn before(&self, index: usize) -> Option<usize> {
        self.carried_from[self.key(self.list[index])].map(|before| self.first + before)
    }

    /// The lanes of the thread's own rows, which are consecutive in the list.
    pub(super) fn own(&self, worker: &Worker<'_>) -> Range<usize> {
        let own = worker.own_rows();
        self.list.partition_point(|lane| lane.row < own.start)..self.list.partition_point(|lane| lane.row < own.end)
    }
}

impl Sweep<'_> {
    /// rows: marks the steps at which the derivative of the loss is not exactly zero (R13).
    pub(super) fn find_loss(&self, worker: &Worker<'_>) {
        for row in worker.own_rows() {
            for t in 0..self.problem.time {
                let touched = self.outputs.touches(self.problem, row, t);
                // SAFETY: see `Sweep`; rows.
                unsafe { self.loss.touched.set(self.problem.choice_row(t, row), touched) };
            }
        }
    }

    /// Finds the lanes of step `t`. A row has a lane if the loss, the following step, or a later step that was reminded
    /// of step `t` left an adjoint there.
    pub(super) fn find_lanes(&self, worker: &Worker<'_>, t: usize, lanes: &mut LaneList) {
        let model = &self.problem.model;
        let (one_kind, attends) = (self.sizes.kinds == 1, model.attends());
        lanes.list.clear();
        for row in worker.rows.clone() {
            let carried = &lanes.carried_from[(row - worker.rows.start) * self.sizes.kinds..][..self.sizes.kinds];
            let filled = if attends { self.tape.memories[row].filled_by(t) } else { None };
            // SAFETY: see `Sweep`; flags of this step were written before the last sync.
            let (loss, remembered) = unsafe {
                let remembered = filled.is_some_and(|slot| {
                    let slot = self.problem.slot(row, slot);
                    self.memories.memory(slot).is_some()
                        || (model.scores_reach_memories() && self.memories.key(slot).is_some())
                });
                (self.loss.touched.get(self.problem.choice_row(t, row)), remembered)
            };
            if loss || carried[0].is_some() || (one_kind && remembered) {
                lanes.list.push(Lane { row, skipped: false });
            }
            if !one_kind && (remembered || carried[1].is_some()) {
                lanes.list.push(Lane { row, skipped: true });
            }
        }
    }
}
