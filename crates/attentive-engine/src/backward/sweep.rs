//! [`Sweep`]: everything that the threads of one sweep share, and the products over lanes.

use super::buffers::{ChunkView, LaneView, LossView, MemoryView, Sizes};
use super::left::LeftSides;
use super::outputs::OutputAdjoints;
use super::products::Sums;
use crate::kernels::gemm::{PANEL, PackedMatrix};
use crate::problem::Problem;
use crate::projections::{ProjectionView, States};
use crate::tape::Tape;
use crate::team::{Shared, Worker};
use crate::weights::BackwardWeights;

/// All that the threads of one sweep work on. The promise of the forward pass holds here too: *rows* phases touch lanes of
/// the thread's own rows, *columns* phases the thread's part of the columns of all lanes of its rows, and a `sync()` lies
/// between. A full chunk is shared by all threads between two `sync_all()`.
///
/// Lanes of a thread's rows lie from `rows.start * kinds` on in the lane buffers, and in the same place of a step's part
/// of the chunk.
pub(super) struct Sweep<'a> {
    pub(super) problem: &'a Problem,
    pub(super) sizes: Sizes,
    pub(super) weights: &'a BackwardWeights,
    pub(super) tape: &'a Tape,
    pub(super) projections: ProjectionView<'a>,
    pub(super) outputs: OutputAdjoints<'a>,
    pub(super) states: States<'a>,
    pub(super) sums: Sums<'a>,
    pub(super) memories: MemoryView<'a>,
    pub(super) chunk: ChunkView<'a>,
    pub(super) lanes: LaneView<'a>,
    pub(super) loss: LossView<'a>,
    pub(super) left: LeftSides<'a>,
}

impl Sweep<'_> {
    /// columns: `to[lanes] (+)= from[lanes] * weights`, each from its own row on.
    pub(super) fn multiply_lanes(
        &self, worker: &Worker<'_>, lanes: usize, (from, first_from): (Shared<'_, f32>, usize), weights: &PackedMatrix,
        (to, first_to): (Shared<'_, f32>, usize), add: bool,
    ) {
        let k = weights.k();
        let from = from.at(first_from * k, lanes * k);
        self.multiply_rows(worker, lanes, (from, k), weights, (to, first_to), add);
    }

    /// columns: the same for rows that lie `stride` floats apart, at least k for each lane.
    pub(super) fn multiply_rows(
        &self, worker: &Worker<'_>, lanes: usize, (from, stride): (*const f32, usize), weights: &PackedMatrix,
        (to, first_to): (Shared<'_, f32>, usize), add: bool,
    ) {
        let (k, width) = (weights.k(), weights.panels() * PANEL);
        let c = to.at(first_to * width, lanes * width);
        for panel in worker.part(weights.panels()) {
            let b = weights.panel(panel).as_ptr();
            // SAFETY: see `Sweep`; columns. The caller took `from` for all lanes, `at` checked `to`.
            unsafe {
                let c = c.add(panel * PANEL);
                (self.problem.kernels.multiply_panel)(lanes, k, from, stride, b, c, width, add);
            }
        }
    }
}
