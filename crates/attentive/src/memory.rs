//! What is stored, and when (R2): the steps of each row and the memory slots they fill.

/// Where one row stands: how many steps it has taken since it was fresh.
///
/// Slot 0 of its memory is the initial hidden state, slot `i` the hidden state after step `i * k_att`, so the
/// number of slots follows from the number of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowClock {
    pub(crate) steps_before: u64,
    pub(crate) k_att: usize,
}

impl RowClock {
    /// Slots filled after `steps` steps of a row.
    pub(crate) fn slots_after(steps: u64, k_att: usize) -> usize {
        1 + (steps / k_att as u64) as usize
    }

    /// The step that slot holds the hidden state of.
    pub(crate) fn step_of_slot(slot: usize, k_att: usize) -> u64 {
        slot as u64 * k_att as u64
    }

    /// Slots that were carried into this call.
    pub(crate) fn carried_slots(self) -> usize {
        Self::slots_after(self.steps_before, self.k_att)
    }

    /// Slots that step `t` of this call (from 0) can be reminded of.
    pub(crate) fn slots_at(self, t: usize) -> usize {
        Self::slots_after(self.steps_before + t as u64, self.k_att)
    }

    /// The row's own number of step `t` of this call, counted from 1 (R2).
    pub(crate) fn step(self, t: usize) -> u64 {
        self.steps_before + t as u64 + 1
    }

    /// The slot that step `t` of this call fills, if it fills one.
    pub(crate) fn slot_filled_by(self, t: usize) -> Option<usize> {
        let step = self.step(t);
        step.is_multiple_of(self.k_att as u64).then(|| (step / self.k_att as u64) as usize)
    }

    /// The step of this call (from 0) that filled a slot, or `None` if the slot was carried in.
    #[cfg(any(test, feature = "flex"))]
    pub(crate) fn filled_at(self, slot: usize) -> Option<usize> {
        let step = Self::step_of_slot(slot, self.k_att);
        (step > self.steps_before).then(|| (step - self.steps_before - 1) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::RowClock;

    #[test]
    fn r2_slots_follow_from_steps() {
        for k_att in 1..5 {
            for steps_before in 0..7 {
                let clock = RowClock { steps_before, k_att };
                let mut slots = clock.carried_slots();
                for t in 0..20 {
                    assert_eq!(clock.slots_at(t), slots);
                    let stored = (steps_before + t as u64 + 1).is_multiple_of(k_att as u64);
                    assert_eq!(clock.slot_filled_by(t).is_some(), stored);
                    if let Some(slot) = clock.slot_filled_by(t) {
                        assert_eq!(slot, slots);
                        assert_eq!(clock.filled_at(slot), Some(t));
                        slots += 1;
                    }
                }
                assert_eq!(clock.filled_at(clock.carried_slots() - 1), None);
            }
        }
    }
}
