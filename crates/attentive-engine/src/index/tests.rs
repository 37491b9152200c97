//! The index against scoring every memory, bit for bit (R19).

use super::{FEWEST, MemoryIndex, Question, Search, TRIAL_SHARE};
use crate::Scorer;
use crate::kernels::Isa;
use crate::kernels::tests::{both_isas, numbers};
use crate::scorers::{Cached, Keys, Room};

const PADDED: usize = 32;

/// The scorers that have bounds.
fn bounded() -> impl Iterator<Item = Scorer> {
    Scorer::ALL.iter().copied().filter(|scorer| scorer.part().bounds().is_some())
}

/// How the memories of a case lie.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    /// Something new at every step.
    Spread,
    /// A few places, and the last bits around them.
    Settled,
    /// A few places exactly: most scores are ties.
    Equal,
    /// Forty places that never come back, then five in turn.
    Alternating,
}

/// Memories of one row, a query, and the scorer's vector.
struct Case {
    scorer: Scorer,
    isa: Isa,
    keys: Vec<f32>,
    notes: Vec<f32>,
    query: Vec<f32>,
    query_note: f32,
    vector: Vec<f32>,
}

impl Case {
    fn new(scorer: Scorer, isa: Isa, shape: Shape, slots: usize, w3: fn(f32) -> f32, seed: u64) -> Self {
        let part = scorer.part();
        let mut keys = numbers(slots * PADDED, seed, 2.0);
        if shape != Shape::Spread {
            let (places, jitter) = (numbers(5 * PADDED, seed + 1, 2.0), numbers(slots * PADDED, seed + 2, 1e-6));
            for (slot, key) in keys.chunks_exact_mut(PADDED).enumerate() {
                // Long stretches at one place, and a visit elsewhere now and then.
                let place = match shape {
                    Shape::Alternating if slot < 40 => continue,
                    Shape::Alternating => slot % 5,
                    _ if slot % 97 == 13 => slot / 97 % 4 + 1,
                    _ => 0,
                };
                for (i, value) in key.iter_mut().enumerate() {
                    let jitter = if shape != Shape::Equal { jitter[slot * PADDED + i] } else { 0.0 };
                    *value = places[place * PADDED + i] * (1.0 + jitter);
                }
            }
        }
        let notes = keys.chunks_exact_mut(PADDED).map(|key| part.cache_key(isa, key)).collect();
        let mut query = numbers(PADDED, seed + 3, 2.0);
        let query_note = part.cache_query(isa, PADDED, &mut query);
        let vector = match scorer {
            Scorer::Additive => numbers(PADDED, seed + 4, 1.0).into_iter().map(w3).collect(),
            Scorer::Dot => Vec::new(),
            Scorer::Cosine => vec![w3(numbers(1, seed + 5, 10.0)[0]); 16],
        };
        Self { scorer, isa, keys, notes, query, query_note, vector }
    }

    fn question<'a>(&'a self, slots: usize, live: Option<&'a [u32]>) -> Question<'a> {
        Question {
            scorer: self.scorer.part(),
            bounds: self.scorer.part().bounds().expect("bounds"),
            isa: self.isa,
            keys: Keys { values: &self.keys[..slots * PADDED], notes: &self.notes[..slots] },
            query: Cached { values: &self.query, note: self.query_note },
            vector: &self.vector,
            live,
            steps_left: usize::MAX / 10_000,
        }
    }

    /// The best by scoring every memory: slots in order, and their scores.
    fn brute_force(&self, slots: usize, live: Option<&[u32]>, kept: usize) -> (Vec<u32>, Vec<u32>) {
        let question = self.question(slots, None);
        let mut scores = vec![0.0; slots];
        let (part, mut room) = (self.scorer.part(), Room::default());
        part.scores(self.isa, question.keys, question.query, question.vector, &mut room, &mut scores);
        let mut order: Vec<u32> = live.map_or_else(|| (0..slots as u32).collect(), <[u32]>::to_vec);
        // No total order: -0 and 0 are a tie.
        order.sort_by(|a, b| {
            scores[*b as usize].partial_cmp(&scores[*a as usize]).expect("scores are numbers").then(a.cmp(b))
        });
        order.truncate(kept);
        order.sort_unstable();
        let bits = order.iter().map(|slot| scores[*slot as usize].to_bits()).collect();
        (order, bits)
    }
}

/// Searches without giving up; returns what was found and how many scores and bounds it took.
fn find(index: &mut MemoryIndex, question: &Question<'_>, kept: usize) -> ((Vec<u32>, Vec<u32>), usize) {
    let (mut room, mut search) = (Room::default(), Search::default());
    index.catch_up(question, usize::MAX);
    assert!(!index.unbounded && search.best_first(&index.levels, question, kept, usize::MAX, &mut room));
    ((search.slots, search.scores.iter().map(|score| score.to_bits()).collect()), search.evaluations)
}

/// A change of the weights of a case.
type Change = fn(f32) -> f32;

const WEIGHTS: [(&str, Change); 4] =
    [("as drawn", |w| w), ("zero", |_| 0.0), ("of one sign", f32::abs), ("negative", |w| -w.abs())];

#[test]
fn r19_an_index_finds_what_scoring_every_memory_finds() {
    let mut seed = 1000;
    for (isa, scorer) in both_isas().into_iter().flat_map(|isa| bounded().map(move |scorer| (isa, scorer))) {
        for (shape, (sign, w3)) in [Shape::Spread, Shape::Settled, Shape::Equal, Shape::Alternating]
            .into_iter()
            .flat_map(|s| WEIGHTS.map(|w| (s, w)))
        {
            seed += 10;
            let case = Case::new(scorer, isa, shape, 5000, w3, seed);
            let mut index = MemoryIndex::default();
            // Appended a few at a time, across the sizes at which levels begin.
            for slots in [1, 15, 16, 17, 255, 256, 257, 300, 1000, 4095, 4096, 4097, 5000] {
                for kept in [1, 6, 17] {
                    let (found, _) = find(&mut index, &case.question(slots, None), kept);
                    let right = case.brute_force(slots, None, kept);
                    assert_eq!(found, right, "{scorer} {isa:?} {shape:?} W3 {sign}, {slots} slots, {kept} kept");
                }
            }
        }
    }
}

#[test]
fn r19_forgotten_memories_are_not_found() {
    for (place, scorer) in bounded().enumerate() {
        let case = Case::new(scorer, both_isas()[0], Shape::Settled, 1500, |w| w, 77 + place as u64);
        let mut index = MemoryIndex::default();
        for step in [2, 3, 7] {
            let live: Vec<u32> = (0..1500).filter(|slot| slot % step != 1 || *slot == 0).collect();
            let (found, _) = find(&mut index, &case.question(1500, Some(&live)), 6);
            assert_eq!(found, case.brute_force(1500, Some(&live), 6), "{scorer}");
        }
    }
}

#[test]
fn r19_settled_memories_take_few_scores() {
    // Where five places alternate, the memories of the best one are nearly ties, and the others are pruned.
    for (shape, most) in [(Shape::Settled, 100), (Shape::Equal, 100), (Shape::Alternating, 20_000 / 4)] {
        let case = Case::new(Scorer::Additive, both_isas()[0], shape, 20_000, |w| w, 5);
        let (_, evaluations) = find(&mut MemoryIndex::default(), &case.question(20_000, None), 6);
        assert!(evaluations < most, "{shape:?}: {evaluations} evaluations");
    }
}

/// Takes some minutes: `cargo test --release -p attentive-engine ten_million -- --ignored`.
#[test]
#[ignore = "takes minutes"]
fn r19_ten_million_random_queries_find_what_scoring_every_memory_finds() {
    const CASES: u64 = 50_000;
    const QUERIES: u64 = 200;
    let shapes = [Shape::Spread, Shape::Settled, Shape::Equal, Shape::Alternating];
    let mut searches = 0;
    for number in 0..CASES {
        let pick = |of: usize, salt: u64| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ salt) >> 33) as usize % of;
        let scorers: Vec<Scorer> = bounded().collect();
        let (scorer, shape) = (scorers[pick(scorers.len(), 1)], shapes[pick(4, 2)]);
        let slots = 1 + pick(700, 3);
        let mut case = Case::new(scorer, both_isas()[0], shape, slots, WEIGHTS[pick(4, 4)].1, 7 * number);
        let mut index = MemoryIndex::default();
        for query in 0..QUERIES {
            let held = (slots * (query as usize + 1) / QUERIES as usize).max(1);
            case.query = numbers(PADDED, 7 * number + 1000 * query, 2.0);
            case.query_note = scorer.part().cache_query(case.isa, PADDED, &mut case.query);
            let every = 2 + pick(5, 5);
            let live: Vec<u32> = (0..held as u32).filter(|slot| *slot as usize % every != 1).collect();
            let live = (query % 3 == 0).then_some(live.as_slice());
            let kept = 1 + pick(12, query);
            let (found, _) = find(&mut index, &case.question(held, live), kept);
            assert_eq!(found, case.brute_force(held, live, kept), "case {number}, query {query}: {scorer} {shape:?}");
            searches += 1;
        }
    }
    assert_eq!(searches, 10_000_000);
}

/// Searches 200 times with an index that has had time to take up all memories; returns how often it succeeded, how many
/// bounds and scores that took, and how many memories it took up.
fn search_often(case: &Case, slots: usize, kept: usize) -> (usize, usize, usize) {
    let (mut index, mut room, mut search) = (MemoryIndex::default(), Room::default(), Search::default());
    let (mut successes, mut evaluations) = (0, 0);
    for turn in 0..600 {
        search.evaluations = 0;
        let found = index.search(&case.question(slots, None), kept, &mut room, &mut search);
        if turn >= 400 {
            successes += usize::from(found);
            evaluations += search.evaluations;
        }
    }
    (successes, evaluations, index.len)
}

#[test]
fn r19_an_index_that_prunes_nothing_steps_aside() {
    let case = |shape| Case::new(Scorer::Additive, both_isas()[0], shape, 4000, |w| w, 5);
    let (found, _, taken) = search_often(&case(Shape::Equal), 4000, 6);
    assert_eq!((found, taken), (200, 4000));
    assert!(MemoryIndex::pays(FEWEST, FEWEST, 6) && !MemoryIndex::pays(FEWEST - 1, FEWEST - 1, 6));
    assert!(!MemoryIndex::pays(4 * FEWEST, FEWEST, 6), "most memories are forgotten");
    // Memories that are all different; and more asked for than have been elsewhere, where the rest are nearly ties.
    for (case, kept) in [(case(Shape::Spread), 6), (case(Shape::Settled), 60)] {
        let (found, evaluations, taken) = search_often(&case, 4000, kept);
        assert_eq!((found, taken), (0, FEWEST.max(4000 / TRIAL_SHARE)), "an index that finds nothing takes up no more");
        assert!(evaluations > 0 && evaluations < 200 * 4000 / 20, "{evaluations} evaluations in vain");
    }
}

/// Whether one of 200 searches by a new index succeeds.
fn ever_found(question: &Question<'_>) -> bool {
    let (mut index, mut room, mut search) = (MemoryIndex::default(), Room::default(), Search::default());
    (0..200).any(|_| index.search(question, 6, &mut room, &mut search))
}

#[test]
fn r19_an_index_is_not_begun_in_the_second_half_of_a_call() {
    let case = Case::new(Scorer::Additive, both_isas()[0], Shape::Equal, 400, |w| w, 5);
    let found = |steps_left| ever_found(&Question { steps_left, ..case.question(400, None) });
    assert!(found(400) && !found(399));
}

#[test]
fn r19_memories_and_queries_without_bounds_are_scored_one_by_one() {
    for scorer in bounded() {
        let mut case = Case::new(scorer, both_isas()[0], Shape::Equal, 400, |w| w, 21);
        assert!(ever_found(&case.question(400, None)), "{scorer}");
        for bad in [f32::NAN, f32::INFINITY, 1e30] {
            let key = std::mem::replace(&mut case.keys[300 * PADDED + 3], bad);
            let note = std::mem::replace(&mut case.notes[300], 0.0);
            assert!(!ever_found(&case.question(400, None)), "{scorer}");
            (case.keys[300 * PADDED + 3], case.notes[300]) = (key, note);
            let value = std::mem::replace(&mut case.query[3], bad);
            let note = std::mem::replace(&mut case.query_note, 0.0);
            assert!(!ever_found(&case.question(400, None)), "{scorer}");
            (case.query[3], case.query_note) = (value, note);
        }
    }
}

#[test]
fn r19_no_memory_scores_above_the_bound_of_its_block_not_even_by_rounding() {
    const UNITS: usize = 16;
    for (isa, scorer) in both_isas().into_iter().flat_map(|isa| bounded().map(move |scorer| (isa, scorer))) {
        let (part, mut room) = (scorer.part(), Room::default());
        let bounds = part.bounds().expect("bounds");
        let mut block = vec![0.0; bounds.width(UNITS)];
        let mut tight = 0;
        for seed in 0..3000 {
            let (place, mut query) = (numbers(UNITS, 3 * seed, 2.0), numbers(UNITS, 3 * seed + 1, 2.0));
            let mut vector = numbers(UNITS, 3 * seed + 2, 1.0);
            vector.truncate(part.vector().map_or(0, |_| UNITS));
            let note = part.cache_query(isa, UNITS, &mut query);
            let query = Cached { values: &query, note };
            // Memories that differ in the last bits of some units: rounding decides which of them scores higher.
            let memories: Vec<Vec<f32>> = (0..6_u32)
                .map(|memory| {
                    let mut key = place.clone();
                    part.cache_key(isa, &mut key);
                    let moved = |i: usize, x: f32| f32::from_bits(x.to_bits() + (memory * (7 + i as u32) / 4) % 3);
                    key.iter().enumerate().map(|(i, x)| moved(i, *x)).collect()
                })
                .collect();
            bounds.first(&memories[0], &mut block);
            memories[1..].iter().for_each(|key| bounds.widen(key, &vector, &mut block));
            let highest = bounds.highest(isa, &block, query, &vector);
            let notes = [1.0];
            let mut best = f32::NEG_INFINITY;
            for key in &memories {
                let mut score = [0.0];
                part.scores(isa, Keys { values: key, notes: &notes }, query, &vector, &mut room, &mut score);
                assert!(score[0] <= highest, "{scorer} {isa:?}, seed {seed}: {} is above {highest}", score[0]);
                best = best.max(score[0]);
            }
            tight += u32::from(highest - best < 1e-4 * best.abs().max(1.0));
        }
        assert_eq!(tight, 3000, "{scorer}: bounds are loose");
    }
}
