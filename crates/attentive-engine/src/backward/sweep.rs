//! The sweep: one pass over time in reverse (R13).

use super::attention::Scratch;
use super::buffers::{ChunkView, LaneView, LossView, MemoryView, Sizes};
use super::lanes::{Lane, LaneList};
use super::outputs::OutputAdjoints;
use super::products::{LeftSides, Pair, Products, Sums};
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

impl<'a> Sweep<'a> {
    pub(super) fn run(&self, worker: &Worker<'_>) {
        let (problem, chunk_steps) = (self.problem, self.sizes.chunk_steps);
        let mut scratch = Scratch::default();
        let mut lanes = LaneList::new(worker, self.sizes.kinds);
        // Of the two buffers for the cells' adjoints one is read, the other written, by turns.
        let mut carry_c = self.lanes.carry_c;
        let mut products = Products::new(problem, self.states, self.sums, self.left, self.sizes.chunk(), worker);
        self.find_loss(worker);
        worker.sync();
        let mut after_chunk = problem.time;
        while after_chunk > 0 {
            let first_step = after_chunk.saturating_sub(chunk_steps);
            for t in (first_step..after_chunk).rev() {
                self.find_lanes(worker, t, &mut lanes);
                let place = (after_chunk - 1 - t) * self.sizes.lanes;
                self.note_pairs(worker, place, &lanes);
                if lanes.list.is_empty() {
                    lanes.carried_from.fill(None);
                } else {
                    self.step(worker, t, place, &mut lanes, carry_c, &mut scratch);
                    carry_c.swap(0, 1);
                }
            }
            worker.sync_all();
            self.add_products(worker, &mut products, first_step, after_chunk);
            worker.sync_all();
            after_chunk = first_step;
        }
        if problem.model.attends() {
            // SAFETY: the last phase that wrote the keys' adjoints ended with a sync of all.
            unsafe { products.add_keys(worker, &self.tape.memories, self.memories) };
        }
    }

    /// One step of one thread's rows; `place` is where the step's part of the chunk begins.
    fn step(
        &self, worker: &Worker<'_>, t: usize, place: usize, lanes: &mut LaneList, carry_c: [Shared<'_, f32>; 2],
        scratch: &mut Scratch<'a>,
    ) {
        let (first, count) = (lanes.first, lanes.list.len());
        let (place, own) = (place + first, lanes.own(worker));
        // The adjoint of h(t) ...
        self.read_back(worker, t);
        for index in own.clone() {
            self.gather(lanes.list[index], first + index, t, lanes.before(index));
        }
        if let Some(key) = &self.weights.key {
            worker.sync();
            self.multiply_lanes(worker, count, (self.lanes.d_key, first), key, (self.lanes.d_h, first), true);
            worker.sync();
        }
        // ... through the attention to h_hat ...
        if self.problem.model.attends() {
            for index in own.clone() {
                if index + 1 < own.end {
                    self.look_ahead(lanes.list[index + 1], t, scratch);
                }
                self.remind(lanes.list[index], first + index, place + index, t, scratch);
            }
        }
        worker.sync();
        if let Some(query) = &self.weights.query {
            self.multiply_lanes(worker, count, (self.chunk.d_query, place), query, (self.lanes.d_h, first), true);
            worker.sync();
        }
        // ... through the cell to h(t-1), c(t-1) and the input.
        self.cells(worker, place, lanes, t, carry_c);
        worker.sync();
        self.hand_down(worker, place, lanes, t);
        if let Some(weight_ih) = &self.weights.weight_ih {
            self.input_gradient(worker, place, &lanes.list, t, weight_ih);
        }
        worker.sync();
    }

    /// rows: notes in the chunk which pairs the step has.
    fn note_pairs(&self, worker: &Worker<'_>, place: usize, lanes: &LaneList) {
        let own = lanes.own(worker);
        let first = place + lanes.first;
        let end = if own.end == lanes.list.len() { worker.rows.len() * self.sizes.kinds } else { own.end };
        for index in own.start..end {
            // SAFETY: see `Sweep`; rows. Behind the last lane there is nothing; its thread says so.
            unsafe { self.chunk.rows.set(first + index, lanes.list.get(index).map(|lane| lane.row as u32)) };
        }
    }

    /// The weights' gradients from a chunk of steps: columns, of all rows.
    fn add_products(&self, worker: &Worker<'_>, products: &mut Products<'_>, first_step: usize, after_chunk: usize) {
        let width = self.sizes.lanes;
        // SAFETY: see `Sweep`; the chunk was written before a sync of all.
        unsafe {
            let noted = |place: usize| {
                let t = after_chunk - 1 - place / width;
                self.chunk.rows.get(place).map(|row| Pair { place, t, row: row as usize })
            };
            let pairs: Vec<Pair> = (0..(after_chunk - first_step) * width).filter_map(noted).collect();
            let asked = |pair: &&Pair| self.problem.model.attends() && self.chunk.query_touched.get(pair.place);
            let queries: Vec<Pair> = pairs.iter().filter(asked).copied().collect();
            products.pack(worker, &pairs, &queries, self.chunk);
            worker.sync_all();
            products.add_gates(&pairs, self.chunk);
            products.add_queries(&queries, self.chunk);
        }
    }

    /// columns: `to[lanes] (+)= from[lanes] * weights`, each from its own row on.
    fn multiply_lanes(
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

    /// Whether a row's lane takes the adjoints of the memory that step `t` stored, and which slot that is: with one hop
    /// only what has skipped does (R12).
    pub(super) fn remembered_slot(&self, lane: Lane, t: usize) -> Option<usize> {
        let takes = self.problem.model.attends() && (self.sizes.kinds == 1 || lane.skipped);
        let filled = self.tape.memories[lane.row].filled_by(t).filter(|_| takes);
        filled.map(|slot| self.problem.slot(lane.row, slot))
    }
}
