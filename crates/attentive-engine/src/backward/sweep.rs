//! [`Sweep`]: everything that the threads of one sweep share, and the products over lanes.

use super::buffers::{ChunkView, LaneView, LossView, MemoryView, Sizes};
use super::left::LeftSides;
use super::outputs::OutputAdjoints;
use super::products::Sums;
use super::replay::StretchView;
use crate::kernels::gemm::{PANEL, PackedMatrix};
use crate::problem::Problem;
use crate::projections::{ProjectionView, States};
use crate::tape::Tape;
use crate::team::{Shared, Worker};
use crate::weights::BackwardWeights;

/// Everything that the threads of one sweep share. As in the forward pass, a *rows* phase touches only lanes of the
/// thread's own rows, a *columns* phase touches only the thread's part of the columns of all lanes of its rows, and a
/// `sync()` separates the phases. All threads share a full chunk between two `sync_all()`.
///
/// The lanes of a thread's rows start at `rows.start * kinds` in the lane buffers, and at the same offset in a step's
/// part of the chunk.
pub(super) struct Sweep<'a> {
    pub(super) problem: &'a Problem,
    pub(super) sizes: Sizes,
    pub(super) weights: &'a BackwardWeights,
    pub(super) tape: &'a Tape,
    /// Gates and cell states of the tape, or of the stretch that was replayed last.
    pub(super) gates: Shared<'a, f32>,
    pub(super) cells: Shared<'a, f32>,
    pub(super) stretch: StretchView<'a>,
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
    /// columns: `to[lanes] (+)= from[lanes] * weights`, each from its own first row on.
    pub(super) fn multiply_lanes(
        &self, worker: &Worker<'_>, lanes: usize, (from, first_from): (Shared<'_, f32>, usize), weights: &PackedMatrix,
        (to, first_to): (Shared<'_, f32>, usize), add: bool,
    ) {
        let k = weights.k();
        let from = from.at(first_from * k, lanes * k);
        self.multiply_rows(worker, lanes, (from, k), weights, (to, first_to), add);
    }

    /// columns: the same for rows that lie `stride` floats apart, with at least k floats for each lane.
    pub(super) fn multiply_rows(
        &self, worker: &Worker<'_>, lanes: usize, (from, stride): (*const f32, usize), weights: &PackedMatrix,
        (to, first_to): (Shared<'_, f32>, usize), add: bool,
    ) {
        let (k, width) = (weights.k(), weights.panels() * PANEL);
        let c = to.at(first_to * width, lanes * width);
        for panel in worker.part(weights.panels()) {
            let b = weights.panel(panel).as_ptr();
            // SAFETY: see `Sweep`; columns. The caller checked `from` for all lanes, and `at` checked `to`.
            unsafe {
                let c = c.add(panel * PANEL);
                (self.problem.kernels.multiply_panel)(lanes, k, from, stride, b, c, width, add);
            }
        }
    }
}
