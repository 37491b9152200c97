//! The sweep's buffers, and the threads' views of them. The structs come in pairs: an owner and its view.

use super::left::{LeftSides, PAIRS, PackedLeft};
use crate::kernels::Kernels;
use crate::options::Hops;
use crate::pool::Buffer;
use crate::problem::{Inputs, Problem};
use crate::team::Shared;
use crate::weights::BackwardWeights;

/// The capacity for lanes and steps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// The largest number of lanes of a row.
    pub(super) kinds: usize,
    /// The largest number of lanes of a step.
    pub(super) lanes: usize,
    /// The number of steps in a chunk.
    pub(super) chunk_steps: usize,
}

impl Sizes {
    pub(super) fn new(problem: &Problem) -> Self {
        // The more pairs the sweep collects at a time, the less its threads wait for each other. But all pairs should
        // still fit into a cache.
        const CACHED_FLOATS: usize = 1 << 20;
        const MOST: usize = 1024;
        let pairs = (CACHED_FLOATS / (4 * problem.padded)).clamp(PAIRS, MOST);
        let kinds = if problem.model.hops == Hops::One { 2 } else { 1 };
        let lanes = problem.batch * kinds;
        Self { kinds, lanes, chunk_steps: (pairs / lanes).max(1) }
    }

    /// The number of pairs that a chunk has room for, one per lane and step.
    pub(super) fn chunk(&self) -> usize {
        self.chunk_steps * self.lanes
    }
}

/// All buffers of one sweep.
pub(super) struct Buffers {
    pub(super) memories: MemoryAdjoints,
    pub(super) chunk: Chunk,
    pub(super) lanes: Lanes,
    pub(super) loss: LossAdjoints,
    pub(super) left: Left,
}

impl Buffers {
    pub(super) fn new(problem: &Problem, sizes: Sizes, weights: &BackwardWeights, through_readouts: bool) -> Self {
        Self {
            memories: MemoryAdjoints::new(problem),
            chunk: Chunk::new(problem, sizes),
            lanes: Lanes::new(problem, sizes, weights),
            loss: LossAdjoints::new(problem, through_readouts),
            left: Left::new(problem, sizes),
        }
    }
}

/// Adjoints of memories and of their projections, `[batch, slot_room, padded]`. Valid where marked as touched.
pub(super) struct MemoryAdjoints {
    memory: Buffer,
    key: Buffer,
    memory_touched: Vec<bool>,
    key_touched: Vec<bool>,
}

impl MemoryAdjoints {
    fn new(problem: &Problem) -> Self {
        let slots = problem.if_attends(problem.batch * problem.slot_room);
        Self {
            memory: Buffer::take(slots * problem.padded),
            key: Buffer::take(slots * problem.padded),
            memory_touched: vec![false; slots],
            key_touched: vec![false; slots],
        }
    }

    /// The adjoints of a memory and of its projection, as far as they have one.
    pub(super) fn of(&self, slot: usize, padded: usize) -> (Option<&[f32]>, Option<&[f32]>) {
        (
            self.memory_touched[slot].then(|| &self.memory.as_slice()[slot * padded..][..padded]),
            self.key_touched[slot].then(|| &self.key.as_slice()[slot * padded..][..padded]),
        )
    }

    pub(super) fn share(&mut self, padded: usize) -> MemoryView<'_> {
        MemoryView {
            padded,
            memory: Shared::new(self.memory.as_mut_slice()),
            key: Shared::new(self.key.as_mut_slice()),
            memory_touched: Shared::new(&mut self.memory_touched),
            key_touched: Shared::new(&mut self.key_touched),
        }
    }
}

/// [`MemoryAdjoints`], slot by slot. Every method that reads or writes a slot is *rows*: the slot's row must belong to
/// the calling thread, or a sync of all threads must have followed the write.
#[derive(Clone, Copy)]
pub(super) struct MemoryView<'a> {
    padded: usize,
    memory: Shared<'a, f32>,
    key: Shared<'a, f32>,
    memory_touched: Shared<'a, bool>,
    key_touched: Shared<'a, bool>,
}

impl<'a> MemoryView<'a> {
    /// The place of a memory's adjoint. Uninitialised unless touched.
    pub(super) fn memory_at(&self, slot: usize) -> *mut f32 {
        self.memory.at(slot * self.padded, self.padded)
    }

    /// The place of a projected memory's adjoint. Uninitialised unless touched.
    pub(super) fn key_at(&self, slot: usize) -> *mut f32 {
        self.key.at(slot * self.padded, self.padded)
    }

    /// Marks a memory as touched, and returns whether it was touched before.
    ///
    /// # Safety
    /// *rows*
    pub(super) unsafe fn touch_memory(&self, slot: usize) -> bool {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let before = self.memory_touched.get(slot);
            self.memory_touched.set(slot, true);
            before
        }
    }

    /// Marks a projected memory as touched, and returns whether it was touched before.
    ///
    /// # Safety
    /// *rows*
    pub(super) unsafe fn touch_key(&self, slot: usize) -> bool {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let before = self.key_touched.get(slot);
            self.key_touched.set(slot, true);
            before
        }
    }

    /// The adjoint of a memory, if it has one.
    ///
    /// # Safety
    /// *rows*
    pub(super) unsafe fn memory(&self, slot: usize) -> Option<*const f32> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.memory_touched.get(slot).then(|| self.memory_at(slot).cast_const()) }
    }

    /// The adjoint of a projected memory, if it has one.
    ///
    /// # Safety
    /// *rows*
    pub(super) unsafe fn key(&self, slot: usize) -> Option<&'a [f32]> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.key_touched.get(slot).then(|| self.key.slice(slot * self.padded, self.padded)) }
    }
}

/// The data of a few steps that the sweep collects for the weights' gradients. A pair is a (row, step) with an adjoint.
pub(super) struct Chunk {
    rows: Vec<Option<u32>>,
    query_touched: Vec<bool>,
    d_gates: Buffer,
    d_query: Buffer,
    h_hat: Buffer,
}

impl Chunk {
    fn new(problem: &Problem, sizes: Sizes) -> Self {
        let chunk = sizes.chunk();
        Self {
            rows: vec![None; chunk],
            query_touched: vec![false; chunk],
            d_gates: Buffer::take(chunk * problem.gate_width()),
            d_query: Buffer::take(problem.if_attends(chunk * problem.padded)),
            h_hat: Buffer::take(problem.if_attends(chunk * problem.padded)),
        }
    }

    pub(super) fn share(&mut self, problem: &Problem) -> ChunkView<'_> {
        ChunkView {
            padded: problem.padded,
            gate_width: problem.gate_width(),
            rows: Shared::new(&mut self.rows),
            query_touched: Shared::new(&mut self.query_touched),
            d_gates: Shared::new(self.d_gates.as_mut_slice()),
            d_query: Shared::new(self.d_query.as_mut_slice()),
            h_hat: Shared::new(self.h_hat.as_mut_slice()),
        }
    }
}

/// [`Chunk`], pair by pair.
#[derive(Clone, Copy)]
pub(super) struct ChunkView<'a> {
    padded: usize,
    gate_width: usize,
    /// The row of the pair, if there is a pair.
    pub(super) rows: Shared<'a, Option<u32>>,
    /// Which queries have an adjoint.
    pub(super) query_touched: Shared<'a, bool>,
    /// `[chunk, gates]`
    pub(super) d_gates: Shared<'a, f32>,
    /// `[chunk, padded]` each
    pub(super) d_query: Shared<'a, f32>,
    pub(super) h_hat: Shared<'a, f32>,
}

impl ChunkView<'_> {
    pub(super) fn d_gates_at(&self, place: usize) -> *mut f32 {
        self.d_gates.at(place * self.gate_width, self.gate_width)
    }

    pub(super) fn d_query_at(&self, place: usize) -> *mut f32 {
        self.d_query.at(place * self.padded, self.padded)
    }

    pub(super) fn h_hat_at(&self, place: usize) -> *mut f32 {
        self.h_hat.at(place * self.padded, self.padded)
    }
}

/// Adjoints of the lanes of one step, and those handed down by the following step.
pub(super) struct Lanes {
    d_h: Buffer,
    d_key: Buffer,
    carry_h: Buffer,
    carry_c: [Buffer; 2],
}

impl Lanes {
    fn new(problem: &Problem, sizes: Sizes, weights: &BackwardWeights) -> Self {
        let floats = sizes.lanes * problem.padded;
        let cells = problem.if_carries(floats);
        Self {
            d_h: Buffer::take(floats),
            d_key: Buffer::take(if weights.key.is_some() { floats } else { 0 }),
            carry_h: Buffer::take(floats),
            carry_c: [Buffer::take(cells), Buffer::take(cells)],
        }
    }

    pub(super) fn share(&mut self, padded: usize) -> LaneView<'_> {
        let [first, second] = &mut self.carry_c;
        LaneView {
            padded,
            d_h: Shared::new(self.d_h.as_mut_slice()),
            d_key: Shared::new(self.d_key.as_mut_slice()),
            carry_h: Shared::new(self.carry_h.as_mut_slice()),
            carry_c: [Shared::new(first.as_mut_slice()), Shared::new(second.as_mut_slice())],
        }
    }
}

/// [`Lanes`], `[lanes, padded]` each.
#[derive(Clone, Copy)]
pub(super) struct LaneView<'a> {
    padded: usize,
    /// Adjoint of h, later of h_hat.
    pub(super) d_h: Shared<'a, f32>,
    /// Adjoint of the projection of h as a memory; empty unless this gradient enters h (R10).
    pub(super) d_key: Shared<'a, f32>,
    /// Adjoints of h and c that the following step handed down. Of the two buffers for c, one is read and the other
    /// written; they swap after each step.
    pub(super) carry_h: Shared<'a, f32>,
    pub(super) carry_c: [Shared<'a, f32>; 2],
}

impl LaneView<'_> {
    pub(super) fn at(&self, buffer: Shared<'_, f32>, lane: usize) -> *mut f32 {
        buffer.at(lane * self.padded, self.padded)
    }
}

/// The steps at which the derivative of the loss is not zero, and the part of it through readouts.
pub(super) struct LossAdjoints {
    touched: Vec<bool>,
    through_readouts: [Buffer; 2],
}

impl LossAdjoints {
    fn new(problem: &Problem, through_readouts: bool) -> Self {
        let floats = if through_readouts { problem.batch * problem.padded } else { 0 };
        Self {
            touched: vec![false; problem.time * problem.batch],
            through_readouts: [Buffer::take(floats), Buffer::take(floats)],
        }
    }

    pub(super) fn share(&mut self) -> LossView<'_> {
        let [hidden, summary] = &mut self.through_readouts;
        LossView {
            touched: Shared::new(&mut self.touched),
            hidden: Shared::new(hidden.as_mut_slice()),
            summary: Shared::new(summary.as_mut_slice()),
        }
    }
}

/// A view of [`LossAdjoints`].
#[derive(Clone, Copy)]
pub(super) struct LossView<'a> {
    /// `[time, batch]`
    pub(super) touched: Shared<'a, bool>,
    /// Of this step, `[batch, padded]` each; empty without readouts.
    pub(super) hidden: Shared<'a, f32>,
    pub(super) summary: Shared<'a, f32>,
}

/// Buffers for the packed left-hand sides of a chunk's products.
pub(super) struct Left {
    widths: [usize; 3],
    buffers: [Buffer; 3],
}

impl Left {
    fn new(problem: &Problem, sizes: Sizes) -> Self {
        let input = if matches!(problem.inputs, Inputs::Dense) { problem.input } else { 0 };
        let widths = [problem.hidden, input, problem.if_attends(problem.hidden)];
        Self { widths, buffers: widths.map(|width| Buffer::take(sizes.chunk() * width)) }
    }

    pub(super) fn share(&mut self) -> LeftSides<'_> {
        let [hidden, input, squares] = &mut self.buffers;
        LeftSides {
            hidden: PackedLeft::new(hidden.as_mut_slice(), self.widths[0]),
            input: PackedLeft::new(input.as_mut_slice(), self.widths[1]),
            squares: PackedLeft::new(squares.as_mut_slice(), self.widths[2]),
        }
    }
}

/// A sum of vectors, built up in place. The first vector is copied only if no second one follows.
pub(super) struct Total {
    kernels: &'static Kernels,
    len: usize,
    pub(super) to: *mut f32,
    so_far: Option<*const f32>,
}

impl Total {
    pub(super) fn new(kernels: &'static Kernels, len: usize, to: *mut f32) -> Self {
        Self { kernels, len, to, so_far: None }
    }

    /// # Safety
    /// `from` must be readable and the destination writable for `len` floats, a multiple of the vector length. Vectors
    /// added earlier must still be valid.
    pub(super) unsafe fn add(&mut self, from: *const f32) {
        self.so_far = Some(match self.so_far {
            None => from,
            Some(before) => {
                // SAFETY: guaranteed by the caller.
                unsafe { (self.kernels.sum)(self.len, before, from, self.to) };
                self.to.cast_const()
            }
        });
    }

    /// Completes the sum at its destination.
    ///
    /// # Safety
    /// As for [`add`](Total::add).
    pub(super) unsafe fn finish(&mut self) {
        // SAFETY: guaranteed by the caller; source and destination differ.
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
