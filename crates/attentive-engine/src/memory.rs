//! [`RowMemory`]: the memory of one row (R2, R18). A slot holds the hidden state of a step; the slot map says of which
//! step.

use crate::error::{EngineError, Result};
use crate::model::Model;
use crate::sparsifiers::Choice;
use crate::stores::RECEIVED_DECAY;
use std::ops::Range;

/// The largest step count of a row: more than any stream needs, and far below any overflow.
pub const MOST_STEPS: u64 = 1 << 53;

/// The part of a row's carried state that is not tensors.
#[derive(Clone, Debug, PartialEq)]
pub struct RowStart {
    /// Steps that the row has taken since it was fresh.
    pub steps: u64,
    /// The step whose hidden state each carried memory holds, oldest first. The null slot is step 0.
    pub slot_steps: Vec<u64>,
    /// The decayed sum of weights that each carried memory has received (R18). Empty means all zero.
    pub received: Vec<f32>,
}

impl RowStart {
    /// A row that has taken no step and holds only the null slot.
    pub fn fresh() -> Self {
        Self { steps: 0, slot_steps: vec![0], received: Vec::new() }
    }

    /// Refuses a row that took too many steps, or holds more memories than the model may hold.
    pub fn check_length(&self, model: &Model) -> Result<()> {
        if self.steps > MOST_STEPS {
            let why = format!("its `steps` is {}, but {MOST_STEPS} is the largest value", self.steps);
            return Err(EngineError::State(why));
        }
        let held = self.slot_steps.len() - 1;
        match model.store.capacity.filter(|capacity| held > *capacity) {
            None => Ok(()),
            Some(capacity) => {
                let why = format!("it holds {held} memories besides the null slot, but `capacity` is {capacity}");
                Err(EngineError::State(why))
            }
        }
    }

    /// Refuses a start that contradicts itself or the model.
    pub fn check(&self, model: &Model) -> Result<()> {
        let wrong = |why: String| Err(EngineError::State(why));
        if self.slot_steps.first() != Some(&0) {
            return wrong("its memory does not begin with the null slot, step 0".into());
        }
        if let Some(pair) = self.slot_steps.windows(2).find(|pair| pair[0] >= pair[1]) {
            return wrong(format!("its memories are out of order: step {} comes before step {}", pair[0], pair[1]));
        }
        if let Some(last) = self.slot_steps.last().filter(|last| **last > self.steps) {
            return wrong(format!("it remembers step {last}, but has taken only {} steps", self.steps));
        }
        self.check_length(model)?;
        if !self.received.is_empty() && self.received.len() != self.slot_steps.len() {
            let (got, right) = (self.received.len(), self.slot_steps.len());
            return wrong(format!("`received` has {got} values, but the row holds {right} memories"));
        }
        if self.received.iter().any(|received| !(received.is_finite() && *received >= 0.0)) {
            return wrong("a value of `received` is negative or not finite".into());
        }
        Ok(())
    }
}

/// The place where the state of a slot is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Among the carried memories of the row.
    Carried(usize),
    /// Among the hidden states of this call, at this step, counted from 0.
    Step(usize),
}

/// The memories of one row after a call.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// How many carried memories the call began with.
    pub(crate) carried: usize,
    /// The steps of the call, from 0, whose states were stored.
    pub(crate) stored: Vec<usize>,
    /// The places of the remaining memories. `None` means all carried ones, then all stored ones.
    pub(crate) kept: Option<Vec<Place>>,
}

/// The slots of one row in one call: first the carried ones, then one for each stored state. A slot is never reused
/// within a call, so that the tape can refer to a memory that was evicted later.
#[derive(Clone, Debug)]
pub(crate) struct RowMemory {
    steps_before: u64,
    carried: usize,
    k_att: usize,
    /// The step of each slot, ascending.
    slot_steps: Vec<u64>,
    /// The slots that are not evicted, ascending; `None` if the store has no capacity limit.
    live: Option<Vec<u32>>,
    /// The decayed sum of weights that each live slot has received, if the eviction rule uses it.
    received: Option<Vec<f32>>,
}

impl RowMemory {
    pub(crate) fn new(model: &Model, start: RowStart) -> Self {
        let slots = start.slot_steps.len();
        let rule = &model.store;
        let counted = rule.capacity.is_some() && rule.evict.counts_received();
        Self {
            steps_before: start.steps,
            carried: slots,
            k_att: rule.k_att,
            slot_steps: start.slot_steps,
            live: rule.capacity.map(|_| (0..slots as u32).collect()),
            received: counted.then(|| if start.received.is_empty() { vec![0.0; slots] } else { start.received }),
        }
    }

    /// The row's own step number for step `t` of this call, counted from 1 (R2).
    pub(crate) fn step(&self, t: usize) -> u64 {
        self.steps_before + t as u64 + 1
    }

    /// The step whose hidden state a slot holds; 0 for the null slot.
    pub(crate) fn step_of(&self, slot: usize) -> u64 {
        self.slot_steps[slot]
    }

    /// The place where the state of a slot is stored.
    pub(crate) fn place(&self, slot: usize) -> Place {
        match slot < self.carried {
            true => Place::Carried(slot),
            false => Place::Step((self.slot_steps[slot] - self.steps_before - 1) as usize),
        }
    }

    /// Whether a slot was filled in this call.
    pub(crate) fn is_new(&self, slot: usize) -> bool {
        slot >= self.carried
    }

    /// The number of carried slots.
    pub(crate) fn carried(&self) -> usize {
        self.carried
    }

    /// The slot that step `t` of this call filled, if any.
    pub(crate) fn filled_by(&self, t: usize) -> Option<usize> {
        let step = self.step(t);
        // Fast path: if every k_att-th state is stored, this is its slot.
        let regular = (step / self.k_att as u64) as usize;
        if self.slot_steps.get(regular) == Some(&step) {
            return Some(regular);
        }
        self.slot_steps.binary_search(&step).ok()
    }

    /// The number of slots at step `t` of this call, including evicted ones.
    pub(crate) fn slots_at(&self, t: usize) -> usize {
        let before = self.step(t) - 1;
        // Fast path: every k_att-th state is stored.
        let regular = (before / self.k_att as u64) as usize + 1;
        let last = |slots: usize| self.slot_steps.get(slots.wrapping_sub(1)).is_some_and(|step| *step <= before);
        if last(regular) && self.slot_steps.get(regular).is_none_or(|step| *step > before) {
            return regular;
        }
        self.slot_steps.partition_point(|step| *step <= before)
    }

    /// The newest slot.
    pub(crate) fn newest(&self) -> usize {
        self.slot_steps.len() - 1
    }

    /// The live memories as runs of consecutive slots, oldest first.
    pub(crate) fn runs(&self) -> Runs<'_> {
        match &self.live {
            None => Runs { rest: &[], whole: Some(0..self.slot_steps.len()) },
            Some(live) => Runs { rest: live, whole: None },
        }
    }

    /// The position of a slot among the live ones.
    pub(crate) fn place_among_live(&self, slot: u32) -> u32 {
        self.live.as_ref().map_or(slot, |live| live.partition_point(|other| *other < slot) as u32)
    }

    /// The live slots in order; `None` if nothing is ever forgotten.
    pub(crate) fn live(&self) -> Option<&[u32]> {
        self.live.as_deref()
    }

    /// Updates the received weights after a step, and converts the positions in a choice to slots.
    pub(crate) fn attend(&mut self, choice: &mut Choice) {
        if let Some(received) = &mut self.received {
            received.iter_mut().for_each(|received| *received *= RECEIVED_DECAY);
            for (place, weight) in choice.slots.iter().zip(&choice.weights) {
                received[*place as usize] += weight;
            }
        }
        if let Some(live) = &self.live {
            choice.slots.iter_mut().for_each(|slot| *slot = live[*slot as usize]);
        }
    }

    /// Stores the state of step `t`. If the memory is full, evicts another one first.
    pub(crate) fn store(&mut self, model: &Model, t: usize) {
        let (step, slot) = (self.step(t), self.slot_steps.len() as u32);
        if let (Some(live), Some(capacity)) = (&mut self.live, model.store.capacity) {
            if live.len() > capacity {
                let victim = model.store.evict.part().victim(self.received.as_deref().unwrap_or_default());
                live.remove(victim);
                if let Some(received) = &mut self.received {
                    received.remove(victim);
                }
            }
            live.push(slot);
            if let Some(received) = &mut self.received {
                received.push(0.0);
            }
        }
        self.slot_steps.push(step);
    }

    /// The slots that are left; `None` if no memory was evicted.
    pub(crate) fn survivors(&self) -> Option<&[u32]> {
        self.live().filter(|live| live.len() < self.slot_steps.len())
    }

    /// The row's start of the next call, and where its memories are.
    pub(crate) fn end(self, time: usize) -> (RowStart, Kept) {
        let stored = self.slot_steps[self.carried..].iter();
        let stored = stored.map(|step| (step - self.steps_before - 1) as usize).collect();
        let survivors = self.survivors();
        let kept = survivors.map(|live| live.iter().map(|slot| self.place(*slot as usize)).collect());
        let left = survivors.map(|live| live.iter().map(|slot| self.slot_steps[*slot as usize]).collect());
        let start = RowStart {
            steps: self.steps_before + time as u64,
            slot_steps: left.unwrap_or(self.slot_steps),
            received: self.received.unwrap_or_default(),
        };
        (start, Kept { carried: self.carried, stored, kept })
    }
}

/// Runs of consecutive slots.
pub(crate) struct Runs<'a> {
    rest: &'a [u32],
    whole: Option<Range<usize>>,
}

impl Iterator for Runs<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        if let Some(whole) = self.whole.take() {
            return Some(whole);
        }
        let first = *self.rest.first()?;
        let len = self.rest.iter().zip(first..).take_while(|(slot, expected)| *slot == expected).count();
        self.rest = &self.rest[len..];
        Some(first as usize..first as usize + len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Evict, StoreRule};

    fn model(capacity: Option<usize>, evict: Evict) -> Model {
        Model { store: StoreRule { capacity, evict, ..StoreRule::default() }, ..Model::new(1, 1) }
    }

    #[test]
    fn r2_a_slot_knows_its_step_and_a_step_its_slot() {
        let model = model(None, Evict::Oldest);
        let start = RowStart { steps: 7, slot_steps: vec![0, 3, 6], received: Vec::new() };
        start.check(&model).expect("a good start");
        let mut memory = RowMemory::new(&model, start);
        for t in [1, 2, 5] {
            memory.store(&model, t);
        }
        assert_eq!((0..8).map(|t| memory.filled_by(t)).collect::<Vec<_>>(), {
            [None, Some(3), Some(4), None, None, Some(5), None, None]
        });
        assert_eq!((0..8).map(|t| memory.slots_at(t)).collect::<Vec<_>>(), [3, 3, 4, 5, 5, 5, 6, 6]);
        assert_eq!((memory.place(2), memory.place(5)), (Place::Carried(2), Place::Step(5)));
        assert_eq!(memory.step_of(5), 13);
        assert!(memory.runs().eq(std::iter::once(0..6)));
        let (start, end) = memory.end(8);
        assert_eq!((start.steps, start.slot_steps), (15, vec![0, 3, 6, 9, 10, 13]));
        assert_eq!((end.carried, end.stored, end.kept), (3, vec![1, 2, 5], None));
    }

    #[test]
    fn r18_the_oldest_makes_room_and_the_null_slot_stays() {
        let model = model(Some(2), Evict::Oldest);
        let mut memory = RowMemory::new(&model, RowStart::fresh());
        (0..5).for_each(|t| memory.store(&model, t));
        assert_eq!(memory.runs().collect::<Vec<_>>(), [0..1, 4..6]);
        let (start, end) = memory.end(5);
        assert_eq!(end.kept, Some(vec![Place::Carried(0), Place::Step(3), Place::Step(4)]));
        assert_eq!(start.slot_steps, [0, 4, 5]);
    }

    #[test]
    fn r18_what_was_received_decays_and_decides() {
        let model = model(Some(2), Evict::LeastAttended);
        let mut memory = RowMemory::new(&model, RowStart::fresh());
        memory.store(&model, 0);
        memory.store(&model, 1);
        let mut choice = Choice { slots: vec![1, 2], weights: vec![0.75, 0.25], ..Choice::default() };
        memory.attend(&mut choice);
        memory.store(&model, 2);
        assert_eq!(memory.runs().collect::<Vec<_>>(), [0..2, 3..4], "slot 2 received less");
        let mut choice = Choice { slots: vec![2], weights: vec![1.0], ..Choice::default() };
        memory.attend(&mut choice);
        assert_eq!(choice.slots, [3], "the third memory is slot 3");
        assert_eq!(memory.end(3).0.received, [0.0, 0.75 * RECEIVED_DECAY, 1.0]);
    }

    #[test]
    fn a_start_that_contradicts_itself_is_refused() {
        let model = model(Some(2), Evict::Oldest);
        let start = |steps, slot_steps: &[u64], received: &[f32]| RowStart {
            steps,
            slot_steps: slot_steps.to_vec(),
            received: received.to_vec(),
        };
        assert!(start(5, &[0, 2, 5], &[0.0, 1.0, 0.5]).check(&model).is_ok());
        for (bad, why) in [
            (start(5, &[], &[]), "null slot"),
            (start(5, &[1, 2], &[]), "null slot"),
            (start(5, &[0, 3, 3], &[]), "order"),
            (start(5, &[0, 6], &[]), "remembers step 6"),
            (start(5, &[0, 1, 2, 3], &[]), "capacity"),
            (start(5, &[0, 1], &[0.0]), "received"),
            (start(5, &[0, 1], &[0.0, f32::NAN]), "received"),
            (start(MOST_STEPS + 1, &[0], &[]), "steps"),
        ] {
            let message = bad.check(&model).expect_err(why).to_string();
            assert!(message.contains(why), "{message}");
        }
    }
}
