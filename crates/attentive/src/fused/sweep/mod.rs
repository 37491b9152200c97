//! Sparse replay: one sweep over time in reverse (R9-R13).
//!
//! What travels is a list of *lanes*. A lane is a row whose adjoint at this step is not exactly zero; with
//! `hops = one` a row has up to two, one that has not skipped yet and one that has (R12). Rows without a lane
//! cost nothing (R13). The adjoints of the gates and of the queries are collected in a chunk of a few steps, from which
//! the weights' gradients are made before it leaves the cache.

mod remind;

use super::kernels::Kernels;
use super::kernels::cell::CellBackward;
use super::kernels::gemm::{PANEL, PackedMatrix};
use super::problem::Problem;
use super::tape::Tape;
use super::team::{Shared, Worker};
use super::weight_gradients::{LeftSides, Pair, Products, States, Sums};
use super::weights::BackwardWeights;
use remind::Scratch;

/// The loss's derivative by the outputs: given, `[batch, time, hidden]` with `None` for all zero, and through readouts.
#[derive(Debug, Default)]
pub(crate) struct OutputAdjoints<'a> {
    pub(crate) hidden: Option<&'a [f32]>,
    pub(crate) summary: Option<&'a [f32]>,
    pub(crate) readouts: Vec<ReadoutAdjoint<'a>>,
}

/// The derivative by a readout's output, whose derivative by h and s is made step by step as the sweep goes:
/// `dh = V1^T dy`, `ds = V2^T dy` (R8). Nothing of size `[batch, time, hidden]` is written.
#[derive(Debug)]
pub(crate) struct ReadoutAdjoint<'a> {
    /// `[batch, time, output]`, or `[batch, output]` if `last_step`.
    pub(crate) d_y: &'a [f32],
    pub(crate) output: usize,
    pub(crate) last_step: bool,
    /// Transposes, `[output, hidden]`.
    pub(crate) v1: PackedMatrix,
    pub(crate) v2: PackedMatrix,
}

impl ReadoutAdjoint<'_> {
    /// Where the rows of step `t` start and how far apart they lie, if this readout sees the step.
    fn step(&self, problem: &Problem, t: usize) -> Option<(usize, usize)> {
        match self.last_step {
            true => (t + 1 == problem.time).then_some((0, self.output)),
            false => Some((t * self.output, problem.time * self.output)),
        }
    }

    fn is_zero(&self, problem: &Problem, row: usize, t: usize) -> bool {
        self.step(problem, t).is_none_or(|(start, stride)| is_zero(&self.d_y[start + row * stride..][..self.output]))
    }
}

/// One adjoint that travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lane {
    row: usize,
    /// Whether it has come through a memory and may not leave through an attention again (`hops = one` only).
    skipped: bool,
}

/// All that the threads of one sweep work on. The promise of `forward::Sequence` holds here too: *rows* phases
/// touch lanes of the thread's own rows, *columns* phases the thread's part of the columns of all lanes of its rows, and
/// a `sync()` lies between. A full chunk is shared by all threads between two `sync_all()`.
///
/// Lanes of a thread's rows lie from `rows.start * kinds` on in the lane buffers, and in the same place of a step's part
/// of the chunk.
pub(super) struct Sweep<'a> {
    pub(super) kernels: &'static Kernels,
    pub(super) problem: &'a Problem,
    pub(super) weights: &'a BackwardWeights,
    /// Lanes that a row may have.
    pub(super) kinds: usize,
    /// Steps for which the chunk has room.
    pub(super) chunk_steps: usize,
    pub(super) tape: &'a Tape,
    pub(super) outputs: OutputAdjoints<'a>,
    pub(super) states: States<'a>,
    pub(super) sums: Sums<'a>,
    pub(super) left: LeftSides<'a>,
    /// `[batch, padded]`: each row adds up its own, so that threads do not matter.
    pub(super) d_w3: Shared<'a, f32>,
    /// `[batch, time, input]`, if it is wanted.
    pub(super) d_input: Shared<'a, f32>,
    /// Adjoints of memories and keys, `[batch, slot_room, padded]`, valid where touched.
    pub(super) d_memory: Shared<'a, f32>,
    pub(super) d_key: Shared<'a, f32>,
    pub(super) memory_touched: Shared<'a, bool>,
    pub(super) key_touched: Shared<'a, bool>,
    /// `[chunk]`: whose the pair is, if there is one; which queries have an adjoint.
    pub(super) chunk_rows: Shared<'a, Option<u32>>,
    pub(super) query_touched: Shared<'a, bool>,
    /// `[time, batch]`: where the loss has a derivative.
    pub(super) loss_touched: Shared<'a, bool>,
    /// `[batch, padded]` twice: adjoints of h and s of this step through the readouts; empty if there are none.
    pub(super) loss: [Shared<'a, f32>; 2],
    /// `[lanes, padded]`: adjoint of h, then of h_hat.
    pub(super) d_h: Shared<'a, f32>,
    pub(super) d_key_lanes: Shared<'a, f32>,
    /// The chunk: `[chunk, 4 * padded]` and twice `[chunk, padded]`.
    pub(super) d_gates: Shared<'a, f32>,
    pub(super) d_query: Shared<'a, f32>,
    pub(super) h_hat: Shared<'a, f32>,
    /// `[lanes, padded]`: adjoints that the step after handed down.
    pub(super) carry_h: Shared<'a, f32>,
    pub(super) carry_c: [Shared<'a, f32>; 2],
}

impl Sweep<'_> {
    pub(super) fn run(&self, worker: &Worker<'_>) {
        let problem = self.problem;
        let mut scratch = Scratch::default();
        // Which lane of the step after handed something down to (row, kind).
        let mut carried_from: Vec<Option<usize>> = vec![None; worker.rows.len() * self.kinds];
        let mut lanes: Vec<Lane> = Vec::with_capacity(carried_from.len());
        // Of the two buffers for the cells' adjoints one is read, the other written, by turns.
        let mut carry_c = self.carry_c;
        let chunk = self.chunk_steps * problem.batch * self.kinds;
        let mut products = Products::new(problem, self.states, self.sums, self.left, chunk, worker);
        self.find_loss(worker);
        worker.sync();
        let mut after_chunk = problem.time;
        while after_chunk > 0 {
            let first_step = after_chunk.saturating_sub(self.chunk_steps);
            for t in (first_step..after_chunk).rev() {
                self.find_lanes(worker, t, &carried_from, &mut lanes);
                let place = (after_chunk - 1 - t) * problem.batch * self.kinds;
                self.note_pairs(worker, place, &lanes);
                if lanes.is_empty() {
                    carried_from.fill(None);
                } else {
                    self.step(worker, t, place, &lanes, &mut carried_from, carry_c, &mut scratch);
                    carry_c.swap(0, 1);
                }
            }
            worker.sync_all();
            self.add_products(worker, &mut products, first_step, after_chunk);
            worker.sync_all();
            after_chunk = first_step;
        }
        if problem.rules.attends() {
            let slots = problem.batch * problem.slot_room;
            // SAFETY: the last phase that wrote these ended with a sync of all.
            unsafe {
                let d_key = self.d_key.slice(0, slots * problem.padded);
                products.add_keys(worker, self.key_touched.slice(0, slots), d_key);
            }
        }
    }

    /// One step of one thread's rows; `place` is where the step's part of the chunk begins.
    #[allow(clippy::too_many_arguments)]
    fn step(
        &self, worker: &Worker<'_>, t: usize, place: usize, lanes: &[Lane], carried_from: &mut [Option<usize>],
        carry_c: [Shared<'_, f32>; 2], scratch: &mut Scratch,
    ) {
        let first = worker.rows.start * self.kinds;
        let own = self.own_lanes(worker, lanes);
        self.read_back(worker, t);
        for index in own.clone() {
            let before = carried_from[self.key(worker, lanes[index])];
            self.gather(lanes[index], first + index, t, before.map(|before| first + before));
        }
        if let Some(w1) = &self.weights.w1 {
            worker.sync();
            self.multiply_lanes(worker, lanes.len(), (self.d_key_lanes, first), w1, (self.d_h, first), true);
            worker.sync();
        }
        if self.problem.rules.attends() {
            for index in own.clone() {
                if index + 1 < own.end {
                    self.look_ahead(lanes[index + 1], t, scratch);
                }
                self.remind(lanes[index], first + index, place + first + index, t, scratch);
            }
        }
        worker.sync();
        if let Some(w2) = &self.weights.w2 {
            self.multiply_lanes(worker, lanes.len(), (self.d_query, place + first), w2, (self.d_h, first), true);
            worker.sync();
        }
        self.cells(worker, place, lanes, t, carried_from, carry_c);
        worker.sync();
        self.hand_down(worker, place, lanes, t, carried_from);
        if let Some(weight_ih) = &self.weights.weight_ih {
            self.input_gradient(worker, place + first, lanes, t, weight_ih);
        }
        worker.sync();
    }

    /// rows: notes in the chunk which pairs the step has.
    fn note_pairs(&self, worker: &Worker<'_>, place: usize, lanes: &[Lane]) {
        let own = self.own_lanes(worker, lanes);
        let first = place + worker.rows.start * self.kinds;
        let end = if own.end == lanes.len() { worker.rows.len() * self.kinds } else { own.end };
        for index in own.start..end {
            // SAFETY: see `Sweep`; rows. Behind the last lane there is nothing; its thread says so.
            unsafe { self.chunk_rows.set(first + index, lanes.get(index).map(|lane| lane.row as u32)) };
        }
    }

    /// The weights' gradients from a chunk of steps: columns, of all rows.
    fn add_products(&self, worker: &Worker<'_>, products: &mut Products<'_>, first_step: usize, after_chunk: usize) {
        let width = self.problem.batch * self.kinds;
        // SAFETY: see `Sweep`; the chunk was written before a sync of all.
        unsafe {
            let noted = |place: usize| {
                let t = after_chunk - 1 - place / width;
                self.chunk_rows.get(place).map(|row| Pair { place, t, row: row as usize })
            };
            let pairs: Vec<Pair> = (0..(after_chunk - first_step) * width).filter_map(noted).collect();
            let asked = |pair: &&Pair| self.problem.rules.attends() && self.query_touched.get(pair.place);
            let queries: Vec<Pair> = pairs.iter().filter(asked).copied().collect();
            products.pack(worker, &pairs, &queries, self.h_hat);
            worker.sync_all();
            products.add_gates(&pairs, self.d_gates);
            products.add_queries(&queries, self.d_query);
        }
    }

    /// The entry of a lane in `carried_from`.
    fn key(&self, worker: &Worker<'_>, lane: Lane) -> usize {
        (lane.row - worker.rows.start) * self.kinds + usize::from(lane.skipped)
    }

    /// rows: marks the steps at which the loss has a derivative that is not exactly zero (R13).
    fn find_loss(&self, worker: &Worker<'_>) {
        let problem = self.problem;
        for row in worker.own_rows() {
            for t in 0..problem.time {
                let start = (row * problem.time + t) * problem.hidden;
                let nonzero = |adjoint: Option<&[f32]>| {
                    adjoint.is_some_and(|adjoint| !is_zero(&adjoint[start..start + problem.hidden]))
                };
                let touched = nonzero(self.outputs.hidden)
                    || (problem.rules.attends() && nonzero(self.outputs.summary))
                    || self.outputs.readouts.iter().any(|readout| !readout.is_zero(problem, row, t));
                // SAFETY: see `Sweep`; rows.
                unsafe { self.loss_touched.set(problem.tape_row(t, row), touched) };
            }
        }
    }

    /// rows: adjoints of h and s through the readouts (R8).
    fn read_back(&self, worker: &Worker<'_>, t: usize) {
        let (problem, padded) = (self.problem, self.problem.padded);
        let own = worker.own_rows();
        for (number, readout) in self.outputs.readouts.iter().enumerate() {
            let add = number > 0;
            let Some((start, stride)) = readout.step(problem, t).filter(|_| !own.is_empty()) else {
                if !add {
                    for loss in self.loss {
                        // SAFETY: see `Sweep`; rows.
                        unsafe { loss.slice_mut(own.start * padded, own.len() * padded).fill(0.0) };
                    }
                }
                continue;
            };
            let first = start + own.start * stride;
            let d_y = &readout.d_y[first..first + (own.len() - 1) * stride + readout.output];
            for (loss, v) in self.loss.into_iter().zip([&readout.v1, &readout.v2]) {
                let c = loss.at(own.start * padded, own.len() * padded);
                for panel in 0..v.panels() {
                    // SAFETY: see `Sweep`; rows. `d_y` spans own.len() rows at `stride`, as just checked.
                    unsafe {
                        let (b, c) = (v.panel(panel).as_ptr(), c.add(panel * PANEL));
                        (self.kernels.multiply_panel)(own.len(), v.k(), d_y.as_ptr(), stride, b, c, padded, add);
                    }
                }
            }
        }
    }

    /// Threads that share rows find the same lanes: rows in order, a row's fresh lane before its skipped one.
    fn find_lanes(&self, worker: &Worker<'_>, t: usize, carried_from: &[Option<usize>], lanes: &mut Vec<Lane>) {
        lanes.clear();
        for row in worker.rows.clone() {
            let carried = &carried_from[(row - worker.rows.start) * self.kinds..][..self.kinds];
            // SAFETY: see `Sweep`; flags of this step were written before the last sync.
            let (loss, remembered) = unsafe {
                let remembered = self.problem.clocks[row].slot_filled_by(t).is_some_and(|slot| {
                    let slot = self.problem.slot(row, slot);
                    self.problem.rules.attends()
                        && (self.memory_touched.get(slot)
                            || (self.problem.rules.scores_reach_memories() && self.key_touched.get(slot)))
                });
                (self.loss_touched.get(self.problem.tape_row(t, row)), remembered)
            };
            let one_lane = self.kinds == 1;
            if loss || carried[0].is_some() || (one_lane && remembered) {
                lanes.push(Lane { row, skipped: false });
            }
            if !one_lane && (remembered || carried[1].is_some()) {
                lanes.push(Lane { row, skipped: true });
            }
        }
    }

    /// The lanes of this thread's own rows: a run of the list.
    fn own_lanes(&self, worker: &Worker<'_>, lanes: &[Lane]) -> std::ops::Range<usize> {
        let own = worker.own_rows();
        lanes.partition_point(|lane| lane.row < own.start)..lanes.partition_point(|lane| lane.row < own.end)
    }

    /// rows: the adjoint of h(t) from the loss, from the step after, and from the steps that remembered it.
    fn gather(&self, lane: Lane, index: usize, t: usize, before: Option<usize>) {
        let (problem, padded) = (self.problem, self.problem.padded);
        // SAFETY: see `Sweep`; rows.
        unsafe {
            let mut d_h = Total::new(self.kernels, padded, self.d_h.at(index * padded, padded));
            if let Some(before) = before {
                d_h.add(self.carry_h.at(before * padded, padded));
            }
            let takes_memories = problem.rules.attends() && (self.kinds == 1 || lane.skipped);
            let slot = problem.clocks[lane.row].slot_filled_by(t).filter(|_| takes_memories);
            let slot = slot.map(|slot| problem.slot(lane.row, slot));
            if let Some(slot) = slot.filter(|slot| self.memory_touched.get(*slot)) {
                d_h.add(self.d_memory.at(slot * padded, padded));
            }
            if !lane.skipped {
                self.add_output(self.outputs.hidden, self.loss[0], lane.row, t, &mut d_h);
            }
            d_h.finish();
            if self.weights.w1.is_some() {
                let to = self.d_key_lanes.slice_mut(index * padded, padded);
                match slot.filter(|slot| self.key_touched.get(*slot)) {
                    Some(slot) => to.copy_from_slice(self.d_key.slice(slot * padded, padded)),
                    None => to.fill(0.0),
                }
            }
        }
    }

    /// rows: adds an output's adjoint at one step, given and through readouts.
    ///
    /// # Safety
    /// No other thread may use the total, and the row must be this thread's.
    unsafe fn add_output(
        &self, given: Option<&[f32]>, through_readouts: Shared<'_, f32>, row: usize, t: usize, total: &mut Total,
    ) {
        let (hidden, padded) = (self.problem.hidden, self.problem.padded);
        // SAFETY: the caller's promise; without padding a given row spans whole vectors.
        unsafe {
            if let Some(given) = given {
                let from = &given[(row * self.problem.time + t) * hidden..][..hidden];
                if hidden == padded {
                    total.add(from.as_ptr());
                } else {
                    total.finish();
                    from.iter().enumerate().for_each(|(i, d)| *total.to.add(i) += d);
                }
            }
            if !self.outputs.readouts.is_empty() {
                total.add(through_readouts.at(row * padded, padded));
            }
        }
    }

    /// columns: the derivative of the cell (R1) for all lanes.
    fn cells(
        &self, worker: &Worker<'_>, place: usize, lanes: &[Lane], t: usize, carried_from: &[Option<usize>],
        carry_c: [Shared<'_, f32>; 2],
    ) {
        let (problem, padded) = (self.problem, self.problem.padded);
        let panels = worker.part(padded / PANEL);
        let units = (panels.start * PANEL, panels.end * PANEL);
        let (gates, cells) = (self.tape.gates.as_slice(), self.tape.cells.as_slice());
        let first = worker.rows.start * self.kinds;
        for (index, lane) in lanes.iter().enumerate() {
            let tape_row = problem.tape_row(t, lane.row);
            let before = carried_from[self.key(worker, *lane)];
            let index = first + index;
            let for_w2 = problem.rules.attends().then(|| self.h_hat.at((place + index) * padded, padded));
            let row = CellBackward {
                gates: gates[tape_row * 4 * padded..][..4 * padded].as_ptr(),
                cell: cells[(tape_row + problem.batch) * padded..][..padded].as_ptr(),
                cell_before: cells[tape_row * padded..][..padded].as_ptr(),
                d_h_hat: self.d_h.at(index * padded, padded),
                d_cell: before.map_or(std::ptr::null_mut(), |before| carry_c[0].at((first + before) * padded, padded)),
                d_gates: self.d_gates.at((place + index) * 4 * padded, 4 * padded),
                d_cell_before: carry_c[1].at(index * padded, padded),
                h_hat: for_w2.unwrap_or(std::ptr::null_mut()),
                batch: problem.batch,
            };
            // SAFETY: see `Sweep`; columns. The extents were checked, units are whole panels.
            unsafe { (self.kernels.cell_backward)(padded, units, row) };
        }
    }

    /// columns: adjoints of h(t-1) and c(t-1), where the gradient is not cut (R9).
    fn hand_down(
        &self, worker: &Worker<'_>, place: usize, lanes: &[Lane], t: usize, carried_from: &mut [Option<usize>],
    ) {
        carried_from.fill(None);
        if t == 0 {
            // What lies before this call is data (R14).
            return;
        }
        let mut any = false;
        for (index, lane) in lanes.iter().enumerate() {
            if !self.problem.rules.cut_after(self.problem.clocks[lane.row].step(t - 1)) {
                carried_from[self.key(worker, *lane)] = Some(index);
                any = true;
            }
        }
        if any {
            let first = worker.rows.start * self.kinds;
            let (from, to) = ((self.d_gates, place + first), (self.carry_h, first));
            self.multiply_lanes(worker, lanes.len(), from, &self.weights.weight_hh, to, false);
        }
    }

    /// columns: `to[lanes] (+)= from[lanes] * weights`, each from its own row on.
    fn multiply_lanes(
        &self, worker: &Worker<'_>, lanes: usize, (from, first_from): (Shared<'_, f32>, usize), weights: &PackedMatrix,
        (to, first_to): (Shared<'_, f32>, usize), add: bool,
    ) {
        let (k, width) = (weights.k(), weights.panels() * PANEL);
        let a = from.at(first_from * k, lanes * k);
        let c = to.at(first_to * width, lanes * width);
        for panel in worker.part(weights.panels()) {
            // SAFETY: see `Sweep`; columns. Both extents were checked by `at`.
            unsafe {
                let c = c.add(panel * PANEL);
                (self.kernels.multiply_panel)(lanes, k, a, k, weights.panel(panel).as_ptr(), c, width, add);
            }
        }
    }

    /// columns: adds the gates' adjoints times W_ih to the input's gradient at step `t`.
    fn input_gradient(&self, worker: &Worker<'_>, first: usize, lanes: &[Lane], t: usize, weight_ih: &PackedMatrix) {
        let (problem, k) = (self.problem, weight_ih.k());
        let a = self.d_gates.at(first * k, lanes.len() * k);
        let mut products = vec![0.0; lanes.len() * PANEL];
        for panel in worker.part(weight_ih.panels()) {
            let columns = panel * PANEL..problem.input.min((panel + 1) * PANEL);
            // SAFETY: see `Sweep`; columns. `products` has 16 floats for each lane.
            unsafe {
                let c = products.as_mut_ptr();
                (self.kernels.multiply_panel)(lanes.len(), k, a, k, weight_ih.panel(panel).as_ptr(), c, PANEL, false);
                for (lane, product) in lanes.iter().zip(products.chunks_exact(PANEL)) {
                    let start = (lane.row * problem.time + t) * problem.input + columns.start;
                    let to = self.d_input.slice_mut(start, columns.len());
                    to.iter_mut().zip(product).for_each(|(to, d)| *to += d);
                }
            }
        }
    }
}

/// A sum of vectors on the way to its place. The first is not copied there if a second one comes.
struct Total {
    kernels: &'static Kernels,
    len: usize,
    to: *mut f32,
    so_far: Option<*const f32>,
}

impl Total {
    fn new(kernels: &'static Kernels, len: usize, to: *mut f32) -> Self {
        Self { kernels, len, to, so_far: None }
    }

    /// # Safety
    /// `from` must be readable and the total's place writable for `len` floats, whole vectors, and what was added before must
    /// still be there.
    unsafe fn add(&mut self, from: *const f32) {
        self.so_far = Some(match self.so_far {
            None => from,
            Some(before) => {
                // SAFETY: the caller's promise.
                unsafe { (self.kernels.sum)(self.len, before, from, self.to) };
                self.to.cast_const()
            }
        });
    }

    /// Puts the sum into its place.
    ///
    /// # Safety
    /// As for [`add`](Total::add).
    unsafe fn finish(&mut self) {
        // SAFETY: the caller's promise; the place is not what is copied into it.
        unsafe {
            match self.so_far {
                None => self.to.write_bytes(0, self.len),
                Some(sum) if sum == self.to.cast_const() => {}
                Some(sum) => self.to.copy_from_nonoverlapping(sum, self.len),
            }
        }
        self.so_far = Some(self.to.cast_const());
    }
}

/// Whether all values are exactly zero, of either sign.
fn is_zero(values: &[f32]) -> bool {
    // In blocks: the compiler vectorises a block, and one that is not zero ends the search.
    values.chunks(32).all(|block| block.iter().fold(0, |bits, d| bits | (d.to_bits() << 1)) == 0)
}
