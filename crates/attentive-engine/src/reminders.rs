//! [`Reminders`]: what each step was reminded of, and how strongly.

/// One memory that a step was reminded of.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reminder {
    /// The step that the memory is the hidden state of, counted from 1 since the row was fresh; 0 is the null
    /// slot, the initial hidden state (R2).
    pub step: u64,
    /// Its weight in the summary (R4, R6).
    pub weight: f32,
}

/// For each row and step of a call, the memories with the largest weights: a bounded record.
#[derive(Clone, Debug, PartialEq)]
pub struct Reminders {
    batch: usize,
    time: usize,
    most: usize,
    pub(crate) counts: Vec<u32>,
    pub(crate) entries: Vec<Reminder>,
}

impl Reminders {
    /// Room for at most so many reminders per step.
    pub fn new(batch: usize, time: usize, most: usize) -> Self {
        let steps = batch * time;
        Self { batch, time, most, counts: vec![0; steps], entries: vec![Reminder::default(); steps * most] }
    }

    /// Rows of the batch.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Steps of the call.
    pub fn time(&self) -> usize {
        self.time
    }

    /// What step `t` (from 0) of a row was reminded of, the largest weight first, equal weights oldest first.
    /// Weights of zero are left out. Empty outside the batch.
    pub fn at(&self, row: usize, t: usize) -> &[Reminder] {
        if row >= self.batch || t >= self.time {
            return &[];
        }
        let step = row * self.time + t;
        &self.entries[step * self.most..][..self.counts[step] as usize]
    }

    /// Fills the entries of one step; `fill` returns how many it has filled.
    pub fn set(&mut self, row: usize, t: usize, fill: impl FnOnce(&mut [Reminder]) -> u32) {
        let step = row * self.time + t;
        self.counts[step] = fill(&mut self.entries[step * self.most..(step + 1) * self.most]);
    }

    /// How many reminders a step has room for.
    pub(crate) fn most(&self) -> usize {
        self.most
    }
}

/// Puts the largest weights into `entries` and returns how many there are.
pub fn keep_largest(entries: &mut [Reminder], chosen: impl Iterator<Item = Reminder>) -> u32 {
    let mut all: Vec<Reminder> = chosen.filter(|reminder| reminder.weight > 0.0).collect();
    all.sort_by(|a, b| b.weight.total_cmp(&a.weight).then(a.step.cmp(&b.step)));
    all.truncate(entries.len());
    entries[..all.len()].copy_from_slice(&all);
    all.len() as u32
}
