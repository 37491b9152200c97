//! The order of training data: reshuffled for each pass, and a function of the seed and the update alone.

use crate::rng::{Draws, Purpose};
use std::sync::Mutex;

/// Chooses the items of each batch. Remembers the order of the latest pass.
#[derive(Debug, Default)]
pub struct EpochOrder {
    last: Mutex<Option<Pass>>,
}

/// The order of one pass.
#[derive(Debug)]
struct Pass {
    /// Seed, number of the pass, items.
    of: (u64, u64, usize),
    order: Vec<u32>,
}

impl EpochOrder {
    /// The items of an update's batch, of `count` in all. A pass has `count / rows` batches, at least one; items are
    /// used again within a batch only where there are too few, and an empty set has empty batches.
    pub fn batch(&self, seed: u64, update: u64, count: usize, rows: usize) -> Vec<usize> {
        if count == 0 {
            return Vec::new();
        }
        let batches = Self::batches(count, rows);
        let (epoch, place) = (update / batches, (update % batches) as usize);
        let key = (seed, epoch, count);
        // A poisoned lock still holds a whole order, because an order is only replaced as a whole.
        let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if last.as_ref().is_none_or(|pass| pass.of != key) {
            let mut order: Vec<u32> = (0..count as u32).collect();
            Draws::new(Purpose::Epoch, seed, epoch).shuffle(&mut order);
            *last = Some(Pass { of: key, order });
        }
        let order = last.as_ref().map_or(&[][..], |pass| &pass.order);
        (0..rows).map(|row| order[(place * rows + row) % count] as usize).collect()
    }

    /// Batches of one pass.
    pub fn batches(count: usize, rows: usize) -> u64 {
        (count / rows.max(1)).max(1) as u64
    }
}
