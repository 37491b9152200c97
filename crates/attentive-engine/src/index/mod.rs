//! [`MemoryIndex`]: finds the best memories of a row without scoring all of them, exactly (R19).
//!
//! Memories lie in blocks of [`FAN_OUT`], full blocks in larger blocks, and so on. Each block keeps a *bound*, from
//! which the scorer computes a number that no memory of the block scores above for a given query, rounding included.
//! A search opens the block with the highest bound first. It stops when no bound that is left can change the result,
//! so it finds what scoring every memory finds, ties included.
//!
//! Its cost depends on the data. A bound is tight if the memories of a block are alike, so each level keeps a few
//! blocks open and puts what is new where it fits best: states that alternate between two places fill two blocks.
//! An index whose bounds prune nothing steps aside for a growing number of steps.

mod search;

pub(crate) use search::{Question, Search};

use crate::scorers::{Cached, Room};

/// Memories or blocks per block.
const FAN_OUT: usize = 16;

/// Blocks of one level that are open at a time.
const OPEN: usize = 8;

/// An open block that took nothing among so many additions to its level is closed for one that is needed now: what it
/// waits for does not come back.
const STALE: u32 = 64;

/// Vectors that differ by less than this, relative to their size, fill the same block.
const ALIKE: f32 = 1e-2;

/// Taking up a memory costs as much as scoring it in some 30 steps. A step takes up this share of the memories at most,
/// and at least so many.
const SHARE_PER_STEP: usize = 64;
const LEAST_PER_STEP: usize = 4;

/// With fewer memories, scoring all of them is as fast.
const FEWEST: usize = 256;

/// An index begins with this share of the memories, and takes up all after a search among them has succeeded.
const TRIAL_SHARE: usize = 16;

/// How much a search that succeeds is worth beside one that gives up, which costs a few percent of scoring every
/// memory.
const SUCCESS: i32 = 3;
const MOST_CREDIT: i32 = 12;

/// Once the credit is used up, this many steps score every memory; the number doubles until a search succeeds.
const FIRST_PAUSE: u32 = 8;
const LONGEST_PAUSE: u32 = 64;

/// For tests of the forward pass: how many searches succeeded.
#[cfg(test)]
pub(crate) static SEARCHES: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

/// The blocks of one level.
#[derive(Clone, Debug, Default)]
struct Level {
    /// `[blocks, width]`
    bounds: Vec<f32>,
    /// `[blocks, FAN_OUT]`: slots at the lowest level, blocks of the level below at the others.
    children: Vec<u32>,
    /// How many children each block has.
    counts: Vec<u8>,
    /// The oldest slot of each block.
    oldest: Vec<u32>,
    /// The blocks that take new children, the one with the latest child first; all others are full or stale and lie in
    /// a block of the next level.
    open: Vec<Open>,
    /// Additions to this level.
    additions: u32,
}

/// A block that takes new children.
#[derive(Clone, Copy, Debug)]
struct Open {
    block: u32,
    /// The level's number of additions when it took the latest.
    latest: u32,
}

/// Bounds of the memories of one row.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryIndex {
    /// The lowest first.
    levels: Vec<Level>,
    /// Memories in the index: the slots before this one.
    len: usize,
    /// Set by a memory whose score has no bound: every step scores all memories from then on.
    unbounded: bool,
    /// Whether a search has succeeded.
    proven: bool,
    /// The worth of the latest searches.
    credit: i32,
    /// Steps left that score all memories, and how many there were the last time.
    pause: u32,
    last_pause: u32,
}

impl Level {
    fn bound(&self, width: usize, block: usize) -> &[f32] {
        &self.bounds[block * width..][..width]
    }

    fn children(&self, block: usize) -> &[u32] {
        &self.children[block * FAN_OUT..][..usize::from(self.counts[block])]
    }

    /// The open block that a vector fits: the first one alike, latest first; else a new one, if another may be open,
    /// or the nearest. A stale block is closed for a new one, and comes second.
    fn fitting(&mut self, width: usize, vector: &[f32]) -> (usize, Option<usize>) {
        let mut nearest = (f32::INFINITY, 0);
        for Open { block, .. } in &self.open {
            let distance = difference(vector, &self.bound(width, *block as usize)[..vector.len()]);
            if distance <= ALIKE {
                return (*block as usize, None);
            }
            if distance < nearest.0 {
                nearest = (distance, *block as usize);
            }
        }
        let stale = match self.open.last() {
            Some(last) if self.open.len() == OPEN => {
                if self.additions - last.latest < STALE {
                    return (nearest.1, None);
                }
                Some(last.block as usize)
            }
            _ => None,
        };
        self.open.truncate(OPEN - 1);
        let block = self.counts.len();
        self.bounds.resize((block + 1) * width, 0.0);
        self.children.resize((block + 1) * FAN_OUT, 0);
        self.counts.push(0);
        self.oldest.push(u32::MAX);
        (block, stale)
    }

    /// Gives a block one more child and returns whether it is full now.
    fn adopt(&mut self, block: usize, child: u32, oldest: u32) -> bool {
        let count = usize::from(self.counts[block]);
        self.children[block * FAN_OUT + count] = child;
        self.counts[block] += 1;
        self.oldest[block] = self.oldest[block].min(oldest);
        self.additions += 1;
        let full = count + 1 == FAN_OUT;
        self.open.retain(|open| open.block != block as u32);
        if !full {
            self.open.insert(0, Open { block: block as u32, latest: self.additions });
        }
        full
    }
}

/// How much two vectors differ: the mean over the units of `|a - b| / (|a| + |b|)`.
fn difference(a: &[f32], b: &[f32]) -> f32 {
    // Eight sums, so that the compiler can use vectors.
    let mut sums = [0.0_f32; 8];
    for (a, b) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        for i in 0..8 {
            sums[i] += (a[i] - b[i]).abs() / (a[i].abs() + b[i].abs() + f32::MIN_POSITIVE);
        }
    }
    sums.iter().sum::<f32>() / a.len() as f32
}

impl MemoryIndex {
    /// Takes up at most so many of the memories that it lacks.
    fn catch_up(&mut self, question: &Question<'_>, most: usize) {
        let padded = question.query.values.len();
        let end = question.keys.notes.len().min(self.len.saturating_add(most));
        for slot in self.len..end {
            let values = &question.keys.values[slot * padded..][..padded];
            if !question.bounds.bounds_key(Cached { values, note: question.keys.notes[slot] }) {
                self.unbounded = true;
                return;
            }
            self.append(question, slot as u32, values);
            self.len = slot + 1;
        }
    }

    /// Takes one memory into a block.
    fn append(&mut self, question: &Question<'_>, slot: u32, key: &[f32]) {
        let (bounds, vector) = (question.bounds, question.vector);
        let width = bounds.width(key.len());
        if self.levels.is_empty() {
            self.levels.push(Level::default());
        }
        let leaves = &mut self.levels[0];
        let (block, stale) = leaves.fitting(width, key);
        let bound = &mut leaves.bounds[block * width..][..width];
        match leaves.counts[block] {
            0 => bounds.first(key, bound),
            _ => bounds.widen(key, vector, bound),
        }
        let full = leaves.adopt(block, slot, slot);
        for closed in stale.into_iter().chain(full.then_some(block)) {
            self.lift(question, 0, closed);
        }
    }

    /// Takes a closed block into a block of the next level.
    fn lift(&mut self, question: &Question<'_>, level: usize, child: usize) {
        let (bounds, padded) = (question.bounds, question.query.values.len());
        let width = bounds.width(padded);
        if level + 1 == self.levels.len() {
            self.levels.push(Level::default());
        }
        let (below, above) = self.levels.split_at_mut(level + 1);
        let (below, above) = (&below[level], &mut above[0]);
        let bound = below.bound(width, child);
        let (block, stale) = above.fitting(width, &bound[..padded]);
        let parent = &mut above.bounds[block * width..][..width];
        match above.counts[block] {
            0 => parent.copy_from_slice(bound),
            _ => bounds.join(bound, question.vector, parent),
        }
        let full = above.adopt(block, child as u32, below.oldest[child]);
        for closed in stale.into_iter().chain(full.then_some(block)) {
            self.lift(question, level + 1, closed);
        }
    }

    /// Whether so many live memories, of so many slots, may be worth an index.
    pub(crate) fn pays(slots: usize, alive: usize, kept: usize) -> bool {
        // An index over mostly forgotten memories would find mostly those.
        alive >= FEWEST && kept < alive && alive > slots / 4
    }

    /// Finds the `kept` best memories, ties to the older, and leaves them in `search`. Returns false if every memory
    /// has to be scored instead. The caller has asked whether an index [`pays`](Self::pays).
    pub(crate) fn search(
        &mut self, question: &Question<'_>, kept: usize, room: &mut Room, search: &mut Search,
    ) -> bool {
        let slots = question.keys.notes.len();
        if self.unbounded || !question.bounds.bounds_query(question.query, question.vector) {
            return false;
        }
        // The rest of a call that is more than half over does not make up for taking up its memories.
        if self.len == 0 && question.steps_left < slots {
            return false;
        }
        let wanted = if self.proven { slots } else { FEWEST.max(slots / TRIAL_SHARE) };
        self.catch_up(question, LEAST_PER_STEP.max(slots / SHARE_PER_STEP).min(wanted.saturating_sub(self.len)));
        if self.unbounded || self.len < wanted {
            return false;
        }
        if self.pause > 0 {
            self.pause -= 1;
            return false;
        }
        let memories = question.live.map_or(slots, <[u32]>::len).min(self.len);
        let most = search::budget(memories);
        let found = search.best_first(&self.levels, question, kept, most, room) && search.slots.len() == kept;
        self.settle(found);
        found && self.len == slots
    }

    /// Decides whether the next steps are worth a search.
    fn settle(&mut self, found: bool) {
        if found {
            self.credit = (self.credit + SUCCESS).min(MOST_CREDIT);
            self.last_pause = 0;
            self.proven = true;
        } else {
            self.credit -= 1;
        }
        if self.credit < 0 {
            self.credit = 0;
            self.last_pause = (2 * self.last_pause).clamp(FIRST_PAUSE, LONGEST_PAUSE);
            self.pause = self.last_pause;
        }
    }
}

#[cfg(test)]
mod tests;
