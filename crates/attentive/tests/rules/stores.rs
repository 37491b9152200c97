//! R18: which states are stored, and which memories are evicted.

use crate::common::{Array, Input, Parameters, random_state_for};
use crate::{Gradients, PATHS, at, by, observe, only};
use attentive::{Evict, Hops, KTop, Path, Reminders, SabLstmConfig, SabOutput, SabState};
use burn::tensor::DType;

const TIME: usize = 12;
const UNITS: usize = 5;
const NOVELTY: f64 = 0.3;

fn config() -> SabLstmConfig {
    SabLstmConfig::new(3, UNITS).with_k_top(2)
}

/// Two rows of a model from a state that rows of these ages could have, with every reminder.
fn seen(config: &SabLstmConfig, ages: [u64; 2], path: Path) -> (SabState, SabOutput) {
    let state = random_state_for(config, &ages, 5, DType::F32);
    let x = Input::random(2, TIME, 3, false, 6);
    let out = observe(config, &Parameters::random_for(config, 7), &x, Some(state.clone()), path);
    (state, out)
}

/// The memory of a row according to the rules: the step and the received weights of each memory.
struct ByHand {
    slots: Vec<(u64, f32)>,
}

impl ByHand {
    fn new(state: &SabState, row: usize) -> Self {
        let received = |slot: usize| state.received(row).get(slot).copied().unwrap_or(0.0);
        let slots = state.slot_steps(row).iter().enumerate().map(|(slot, step)| (*step, received(slot)));
        Self { slots: slots.collect() }
    }

    fn steps(&self) -> Vec<u64> {
        self.slots.iter().map(|(step, _)| *step).collect()
    }

    fn attend(&mut self, reminders: &Reminders, row: usize, t: usize) {
        self.slots.iter_mut().for_each(|(_, received)| *received *= 0.999);
        for reminder in reminders.at(row, t) {
            let slot = self.slots.iter_mut().find(|(step, _)| *step == reminder.step);
            slot.unwrap_or_else(|| panic!("t {t}: nobody holds step {}", reminder.step)).1 += reminder.weight;
        }
    }

    fn store(&mut self, step: u64, config: &SabLstmConfig) {
        if config.capacity.is_some_and(|capacity| self.slots.len() > capacity) {
            let victim = match config.evict {
                Evict::Oldest => 1,
                Evict::LeastAttended => {
                    let least = self.slots[1..].iter().map(|(_, received)| *received).fold(f32::INFINITY, f32::min);
                    1 + self.slots[1..].iter().position(|(_, received)| *received == least).expect("one is the least")
                }
            };
            self.slots.remove(victim);
        }
        self.slots.push((step, 0.0));
    }
}

/// The last slot's state of a row.
fn newest(state: &SabState, row: usize) -> Vec<f64> {
    at(&Array::of(&state.memory()), row, state.slots(row) - 1).to_vec()
}

fn norm(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

#[test]
fn r18_novelty_stores_the_states_that_differ_enough_from_the_last_stored_one() {
    for path in PATHS {
        for (k_att, k_top) in [(1, 2), (2, 2), (1, 0)] {
            let config = config().with_k_att(k_att).with_k_top(k_top).with_novelty(NOVELTY);
            let ages = [0, 9];
            let (state, out) = seen(&config, ages, path);
            let hidden = Array::of(&out.hidden);
            let (mut left_out, mut stored) = (0, 0);
            for (row, age) in ages.into_iter().enumerate() {
                let (mut right, mut last) = (state.slot_steps(row).to_vec(), newest(&state, row));
                for t in (0..TIME).filter(|t| (age + *t as u64 + 1).is_multiple_of(k_att as u64)) {
                    let h = at(&hidden, row, t);
                    let distance = norm(&h.iter().zip(&last).map(|(h, last)| h - last).collect::<Vec<_>>());
                    let quotient = distance / norm(h);
                    assert!((quotient - NOVELTY).abs() > 1e-4, "rounding decides: the test shows nothing");
                    if quotient > NOVELTY {
                        right.push(age + t as u64 + 1);
                        last = h.to_vec();
                        stored += 1;
                    } else {
                        left_out += 1;
                    }
                }
                assert_eq!(out.state.slot_steps(row), right, "{path:?}, k_att {k_att}, row {row}");
            }
            assert!(left_out > 0 && stored > 0, "{stored} stored, {left_out} not: the test shows nothing");
        }
    }
}

#[test]
fn r18_a_novelty_of_0_stores_all_that_moves_and_a_huge_one_nothing() {
    for path in PATHS {
        let (_, out) = seen(&config().with_novelty(0.0), [0, 0], path);
        assert_eq!(out.state.slot_steps(0), (0..=TIME as u64).collect::<Vec<_>>(), "{path:?}");
        // A fresh row compares with zero: no state differs from it by more than its own norm.
        let x = Input::random(2, TIME, 3, false, 6);
        let config = config().with_novelty(1.0);
        let out = observe(&config, &Parameters::random_for(&config, 7), &x, None, path);
        assert_eq!(out.state.slot_steps(0), [0], "{path:?}");
    }
}

/// Compares the memory of every row at every step with the rules.
fn memories_are_those_by_hand(config: &SabLstmConfig, ages: [u64; 2], path: Path) {
    let (state, out) = seen(config, ages, path);
    let hidden = Array::of(&out.hidden);
    let reminders = out.reminders.as_ref().expect("the layer attends");
    for (row, age) in ages.into_iter().enumerate() {
        let mut memory = ByHand::new(&state, row);
        for t in 0..TIME {
            let what = format!("{path:?}, row {row}, t {t}, {config:?}");
            let held = memory.steps();
            assert!(reminders.at(row, t).iter().all(|reminder| held.contains(&reminder.step)), "{what}");
            if config.k_top == KTop::All {
                // Everything is chosen, so the reminders list the memory.
                let mut got: Vec<u64> = reminders.at(row, t).iter().map(|reminder| reminder.step).collect();
                got.sort_unstable();
                assert_eq!(got, held, "{what}");
            }
            memory.attend(reminders, row, t);
            memory.store(age + t as u64 + 1, config);
            assert!(memory.slots.len() <= 1 + config.capacity.expect("a capacity"), "{what}");
        }
        let what = format!("{path:?}, row {row}, {config:?}");
        assert_eq!(out.state.slot_steps(row), memory.steps(), "{what}");
        // A slot holds the state of its step.
        let (after, before) = (Array::of(&out.state.memory()), Array::of(&state.memory()));
        for (slot, step) in memory.steps().into_iter().enumerate() {
            let right = match step.checked_sub(age + 1) {
                Some(t) => at(&hidden, row, t as usize),
                None => at(&before, row, state.slot_steps(row).iter().position(|own| *own == step).expect("carried")),
            };
            assert_eq!(at(&after, row, slot), right, "{what}, slot {slot}");
        }
        if config.evict == Evict::LeastAttended {
            let received = out.state.received(row).iter().zip(&memory.slots);
            assert!(received.into_iter().all(|(got, (_, right))| (got - right).abs() < 1e-5), "{what}");
        } else {
            assert!(out.state.received(row).is_empty(), "{what}: nobody counts");
        }
    }
}

#[test]
fn r18_the_oldest_memory_makes_room_and_the_null_slot_stays() {
    for path in PATHS {
        for capacity in [1, 3, 5] {
            for k_top in [KTop::Count(2), KTop::All] {
                let config = config().with_k_top(k_top).with_capacity(capacity);
                memories_are_those_by_hand(&config, [0, 9], path);
                let (_, out) = seen(&config, [0, 9], path);
                let newest: Vec<u64> = (TIME as u64 + 1 - capacity as u64..=TIME as u64).collect();
                assert_eq!(out.state.slot_steps(0), [vec![0], newest].concat(), "{path:?}");
            }
        }
    }
}

#[test]
fn r18_the_least_attended_memory_makes_room() {
    for path in PATHS {
        for capacity in [1, 3, 5] {
            for k_top in [KTop::Count(2), KTop::All] {
                let config = config().with_k_top(k_top).with_capacity(capacity).with_evict(Evict::LeastAttended);
                memories_are_those_by_hand(&config, [0, 9], path);
            }
        }
        // The result differs from evicting the oldest.
        let slots = |evict| {
            let (_, out) = seen(&config().with_capacity(3).with_evict(evict), [0, 9], path);
            out.state.slot_steps(0).to_vec()
        };
        assert_ne!(slots(Evict::Oldest), slots(Evict::LeastAttended), "{path:?}");
    }
}

#[test]
fn r18_among_memories_that_received_nothing_the_older_makes_room() {
    for path in PATHS {
        // A softmax of one, over equal scores: the null slot gets everything.
        let config = config().with_k_top(1).with_sparsifier(attentive::Sparsifier::Softmax);
        let config = config.with_capacity(3).with_evict(Evict::LeastAttended);
        let mut parameters = Parameters::random_for(&config, 7);
        parameters["w3"].values.fill(0.0);
        let x = Input::random(1, TIME, 3, false, 6);
        let out = observe(&config, &parameters, &x, None, path);
        assert_eq!(out.state.slot_steps(0), [0, 10, 11, 12], "{path:?}");
        assert_eq!(out.state.received(0)[1..], [0.0; 3], "{path:?}");
    }
}

#[test]
fn r18_an_evicted_memory_gets_the_gradient_of_steps_that_were_reminded_of_it() {
    for path in PATHS {
        for evict in [Evict::Oldest, Evict::LeastAttended] {
            for hops in [Hops::One, Hops::All] {
                let config = config().with_k_top(KTop::All).with_capacity(2).with_evict(evict).with_hops(hops);
                let config = config.with_k_trunc(1).with_trunc_phase(0);
                let parameters = Parameters::random_for(&config, 7);
                let x = Input::random(1, TIME, 3, false, 6);
                let out = observe(&config, &parameters, &x, None, path);
                let reminders = out.reminders.expect("the layer attends");
                let mut forgotten = 0;
                for step in 2..=TIME {
                    let (loss, zero) = ([1.0, -0.5, 0.7, 0.3, -0.9], [0.0; UNITS]);
                    let [loss, zero] = [loss, zero].map(|values| only([1, TIME, UNITS], 0, step - 1, &values));
                    let got = Gradients::of(&config, &parameters, &x, None, [&loss, &zero], &by(path));
                    let most = if hops == Hops::One { 1 } else { usize::MAX };
                    let right = crate::reach(step, |_| true, |step| crate::chosen(&reminders, 0, step), most);
                    assert_eq!(got.steps(0), right, "{path:?}, {evict}, {hops:?}, step {step}");
                    let held = out.state.slot_steps(0);
                    forgotten += right.iter().filter(|own| **own < step && !held.contains(&(**own as u64))).count();
                }
                assert!(forgotten > 0, "nothing was forgotten: the test shows nothing");
            }
        }
    }
}

#[test]
fn r18_novelty_and_capacity_go_together() {
    for path in PATHS {
        for evict in [Evict::Oldest, Evict::LeastAttended] {
            let config = config().with_novelty(NOVELTY / 3.0).with_capacity(2).with_evict(evict);
            let (_, out) = seen(&config, [0, 9], path);
            for row in 0..2 {
                let slots = out.state.slot_steps(row);
                assert!(slots.len() == 3 && slots[0] == 0 && slots.is_sorted(), "{path:?}, {evict}: {slots:?}");
            }
        }
    }
}
