//! The loop of the sweep: one pass over time in reverse (R13).

use super::attention::Scratch;
use super::lanes::LaneList;
use super::products::{Pair, Products};
use super::replay::Replayed;
use super::sweep::Sweep;
use crate::team::{Shared, Worker};

impl<'a> Sweep<'a> {
    pub(super) fn run(&self, worker: &Worker<'_>) {
        let (problem, chunk_steps) = (self.problem, self.sizes.chunk_steps);
        let mut scratch = Scratch::default();
        let mut lanes = LaneList::new(worker, self.sizes.kinds);
        let mut replayed = Replayed::new(worker);
        // Of the two buffers for the adjoints of c, one is read and the other written. They swap after each step.
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
                    self.replay(worker, t, &lanes.list, &mut replayed);
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
            // SAFETY: the last phase that wrote the keys' adjoints ended with a sync of all threads.
            unsafe { products.add_keys(worker, &self.tape.memories, self.memories) };
        }
    }

    /// One step of one thread's rows. `place` is the start of the step's part of the chunk.
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

    /// rows: records in the chunk which pairs the step has.
    fn note_pairs(&self, worker: &Worker<'_>, place: usize, lanes: &LaneList) {
        let own = lanes.own(worker);
        let first = place + lanes.first;
        let end = if own.end == lanes.list.len() { worker.rows.len() * self.sizes.kinds } else { own.end };
        for index in own.start..end {
            // SAFETY: see `Sweep`; rows. The thread of the last lane also clears the entries behind it.
            unsafe { self.chunk.rows.set(first + index, lanes.list.get(index).map(|lane| lane.row as u32)) };
        }
    }

    /// columns, of all rows: adds the products of a chunk of steps to the weights' gradients.
    fn add_products(&self, worker: &Worker<'_>, products: &mut Products<'_>, first_step: usize, after_chunk: usize) {
        let width = self.sizes.lanes;
        // SAFETY: see `Sweep`; the chunk was written before a sync of all threads.
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
}
