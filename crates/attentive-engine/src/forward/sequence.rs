//! [`Sequence`]: everything that the threads of one forward pass share, and its matrix product.

use super::trail::{CutPlaces, Cuts};
use crate::kernels::gemm::{PANEL, PackedMatrix};
use crate::problem::Problem;
use crate::projections::{ProjectionView, States};
use crate::reminders::{Reminder, Reminders};
use crate::step::multiply;
use crate::tape::ChoiceWriter;
use crate::team::Shared;
use crate::weights::PackedWeights;
use std::ops::Range;

/// Everything that the threads of one forward pass share.
///
/// SAFETY of every access in this pass: in a phase marked *rows*, a thread touches only its own rows. In a phase marked
/// *columns*, it touches only its part of the columns, of rows that it may share. A `sync()` separates a phase that
/// writes from a phase in which another thread reads.
pub(super) struct Sequence<'a> {
    pub(super) problem: &'a Problem,
    pub(super) weights: &'a PackedWeights,
    /// The tape.
    pub(super) gates: Shared<'a, f32>,
    pub(super) cells: Shared<'a, f32>,
    pub(super) grid: Shared<'a, f32>,
    pub(super) projections: ProjectionView<'a>,
    pub(super) choices: ChoiceWriter<'a>,
    /// Receives the hidden states.
    pub(super) states: States<'a>,
    pub(super) summary: Shared<'a, f32>,
    /// Hidden states and summaries without padding. Written only if the padded ones cannot serve as outputs.
    pub(super) unpadded: [Shared<'a, f32>; 2],
    /// These are described at `Work`.
    pub(super) recurrent: Shared<'a, f32>,
    pub(super) h_hat: Shared<'a, f32>,
    pub(super) projected: Shared<'a, f32>,
    pub(super) stores: Shared<'a, Option<u32>>,
    pub(super) reminders: Option<SharedReminders<'a>>,
    /// Summaries that a model without attention adds, `[batch, time, hidden]`.
    pub(super) given: Option<&'a [f32]>,
    pub(super) cuts: Option<SharedCuts<'a>>,
}

impl Sequence<'_> {
    /// `c[rows][..] = a[rows][k] * b[k]` for some panels of `b` and a part of k. Rows of `a` lie `a_stride` floats
    /// apart.
    pub(super) fn multiply(
        &self, panels: Range<usize>, rows: usize, (a, a_stride): (*const f32, usize), b: &PackedMatrix,
        k: Range<usize>, c: *mut f32,
    ) {
        let c_stride = b.panels() * PANEL;
        // SAFETY: the callers checked that `a` spans rows * a_stride >= rows * k floats and `c` rows * c_stride.
        // `Sequence` says which other threads may touch them.
        unsafe { multiply(self.problem.kernels, panels, rows, (a, a_stride), b, k, (c, c_stride)) };
    }
}

/// [`Cuts`] filled by several threads, each writing its own columns.
pub(super) struct SharedCuts<'a> {
    pub(super) cells: Shared<'a, f32>,
    pub(super) places: &'a CutPlaces,
}

impl<'a> SharedCuts<'a> {
    pub(super) fn new(Cuts { cells, places }: &'a mut Cuts) -> Self {
        Self { cells: Shared::new(cells.as_mut_slice()), places }
    }
}

/// [`Reminders`] filled by several threads, each writing its own rows.
pub(super) struct SharedReminders<'a> {
    pub(super) most: usize,
    pub(super) counts: Shared<'a, u32>,
    pub(super) entries: Shared<'a, Reminder>,
}

impl<'a> SharedReminders<'a> {
    pub(super) fn new(reminders: &'a mut Reminders) -> Self {
        Self {
            most: reminders.most(),
            counts: Shared::new(&mut reminders.counts),
            entries: Shared::new(&mut reminders.entries),
        }
    }
}
