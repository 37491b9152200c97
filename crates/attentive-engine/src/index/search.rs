//! A best-first search through the blocks of a [`MemoryIndex`](super::MemoryIndex).

use super::Level;
use crate::kernels::Isa;
use crate::scorers::{Cached, Keys, MemoryScorer, Room, ScoreBounds};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A search gives up after this many bounds and scores, and one for so many memories.
const GIVE_UP: usize = 64;
const GIVE_UP_SHARE: usize = 4;

/// How many bounds and scores a search may compute.
pub(super) fn budget(memories: usize) -> usize {
    GIVE_UP + memories / GIVE_UP_SHARE
}

/// A row's memories and one query.
#[derive(Clone, Copy)]
pub(crate) struct Question<'a> {
    pub(crate) scorer: &'static dyn MemoryScorer,
    pub(crate) bounds: &'static dyn ScoreBounds,
    pub(crate) isa: Isa,
    /// All slots of the row, forgotten ones among them.
    pub(crate) keys: Keys<'a>,
    pub(crate) query: Cached<'a>,
    /// The scorer's vector.
    pub(crate) vector: &'a [f32],
    /// The slots that are left, ascending; `None`: all.
    pub(crate) live: Option<&'a [u32]>,
    /// Steps of the call from this one on.
    pub(crate) steps_left: usize,
}

/// A block that a search has not opened yet.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Unopened {
    bound: f32,
    /// The oldest slot of the block.
    oldest: u32,
    level: u32,
    block: u32,
}

impl Eq for Unopened {}

impl Ord for Unopened {
    /// The highest bound first; of equal bounds the older block, because ties go to the older memory (R4).
    fn cmp(&self, other: &Self) -> Ordering {
        self.bound.total_cmp(&other.bound).then_with(|| other.oldest.cmp(&self.oldest))
    }
}

impl PartialOrd for Unopened {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A thread's room for searches.
#[derive(Default)]
pub(crate) struct Search {
    unopened: BinaryHeap<Unopened>,
    /// The best memories so far, best first: score and slot.
    best: Vec<(f32, u32)>,
    /// Found slots, oldest first, and their scores.
    pub(crate) slots: Vec<u32>,
    pub(crate) scores: Vec<f32>,
    /// Scores and bounds that the last search computed.
    pub(super) evaluations: usize,
}

impl Search {
    /// Finds the `kept` best memories, or returns false after more than `most` bounds and scores.
    pub(super) fn best_first(
        &mut self, levels: &[Level], question: &Question<'_>, kept: usize, most: usize, room: &mut Room,
    ) -> bool {
        self.unopened.clear();
        self.best.clear();
        self.evaluations = 0;
        for (place, level) in levels.iter().enumerate() {
            let open = level.open.iter().map(|open| open.block);
            self.bound_blocks(level, place, open, question, kept);
        }
        while let Some(next) = self.unopened.pop() {
            if !self.matters(kept, next.bound, next.oldest) {
                // Of equal bounds the oldest comes first, so the rest does not matter either.
                break;
            }
            if self.evaluations > most {
                return false;
            }
            let (level, block) = (next.level as usize, next.block as usize);
            let children = levels[level].children(block);
            match level.checked_sub(1) {
                Some(below) => self.bound_blocks(&levels[below], below, children.iter().copied(), question, kept),
                None => self.score_memories(children, question, kept, room),
            }
        }
        self.best.sort_unstable_by_key(|(_, slot)| *slot);
        self.slots.clear();
        self.scores.clear();
        self.slots.extend(self.best.iter().map(|(_, slot)| *slot));
        self.scores.extend(self.best.iter().map(|(score, _)| *score));
        true
    }

    fn bound_blocks(
        &mut self, level: &Level, place: usize, blocks: impl Iterator<Item = u32>, question: &Question<'_>, kept: usize,
    ) {
        let width = question.bounds.width(question.query.values.len());
        for block in blocks {
            let numbers = level.bound(width, block as usize);
            let bound = question.bounds.highest(question.isa, numbers, question.query, question.vector);
            // No -0: it would come behind an equal 0.
            let (bound, oldest) = (bound + 0.0, level.oldest[block as usize]);
            if self.matters(kept, bound, oldest) {
                self.unopened.push(Unopened { bound, oldest, level: place as u32, block });
            }
            self.evaluations += 1;
        }
    }

    fn score_memories(&mut self, slots: &[u32], question: &Question<'_>, kept: usize, room: &mut Room) {
        let padded = question.query.values.len();
        for slot in slots {
            if question.live.is_some_and(|live| live.binary_search(slot).is_err()) {
                continue;
            }
            let (place, mut score) = (*slot as usize, [0.0]);
            let keys = Keys {
                values: &question.keys.values[place * padded..][..padded],
                notes: &question.keys.notes[place..=place],
            };
            question.scorer.scores(question.isa, keys, question.query, question.vector, room, &mut score);
            self.evaluations += 1;
            self.offer(kept, score[0], *slot);
        }
    }

    /// Whether a block with this bound, or a memory with this score, may still belong to the `kept` best.
    fn matters(&self, kept: usize, bound: f32, oldest: u32) -> bool {
        match self.best.get(kept - 1) {
            None => true,
            Some((worst, slot)) => bound > *worst || (bound == *worst && oldest < *slot),
        }
    }

    fn offer(&mut self, kept: usize, score: f32, slot: u32) {
        if self.matters(kept, score, slot) {
            let better = |other: &(f32, u32)| other.0 > score || (other.0 == score && other.1 < slot);
            let place = self.best.partition_point(better);
            self.best.truncate(kept - 1);
            self.best.insert(place, (score, slot));
        }
    }
}
