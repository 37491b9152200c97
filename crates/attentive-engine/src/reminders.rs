//! [`Reminders`]: the memories that each step was reminded of, and their weights.

/// One memory that a step was reminded of.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reminder {
    /// The step whose hidden state the memory holds, counted from 1 since the row was fresh. 0 is the null slot, the
    /// initial hidden state (R2).
    pub step: u64,
    /// Its weight in the summary (R4, R6).
    pub weight: f32,
}

/// A bounded record: for each row and step of a call, the memories with the largest weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Reminders {
    batch: usize,
    time: usize,
    most: usize,
    pub(crate) counts: Vec<u32>,
    pub(crate) entries: Vec<Reminder>,
}

impl Reminders {
    /// An empty record with room for `most` reminders per step.
    pub fn new(batch: usize, time: usize, most: usize) -> Self {
        let steps = batch * time;
        Self { batch, time, most, counts: vec![0; steps], entries: vec![Reminder::default(); steps * most] }
    }

    /// Number of rows in the batch.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Number of steps in the call.
    pub fn time(&self) -> usize {
        self.time
    }

    /// The reminders of step `t` (counted from 0) of a row: the largest weight first, equal weights oldest first.
    /// Weights of zero are left out. Empty outside the batch.
    pub fn at(&self, row: usize, t: usize) -> &[Reminder] {
        if row >= self.batch || t >= self.time {
            return &[];
        }
        let step = row * self.time + t;
        &self.entries[step * self.most..][..self.counts[step] as usize]
    }

    /// Fills the entries of one step. `fill` returns how many entries it has filled.
    pub fn set(&mut self, row: usize, t: usize, fill: impl FnOnce(&mut [Reminder]) -> u32) {
        let step = row * self.time + t;
        self.counts[step] = fill(&mut self.entries[step * self.most..(step + 1) * self.most]);
    }

    /// The number of reminders that each step has room for.
    pub(crate) fn most(&self) -> usize {
        self.most
    }
}

/// Writes the reminders with the largest weights to `entries` and returns their number.
pub fn keep_largest(entries: &mut [Reminder], chosen: impl Iterator<Item = Reminder>) -> u32 {
    let mut all: Vec<Reminder> = chosen.filter(|reminder| reminder.weight > 0.0).collect();
    all.sort_by(|a, b| b.weight.total_cmp(&a.weight).then(a.step.cmp(&b.step)));
    all.truncate(entries.len());
    entries[..all.len()].copy_from_slice(&all);
    all.len() as u32
}
