//! Tests every scorer through its interface, on every instruction set of this CPU, against plain code in `f64`.

use super::{Cached, Keys, Room, Scorer, ScoresBackward};
use crate::kernels::Isa;
use crate::kernels::tests::{both_isas, numbers, slope};

const HIDDEN: usize = 40;
const PADDED: usize = 48;

/// Projections of `vectors` memories or queries, with zeros in the padding.
fn projections(vectors: usize, seed: u64, scale: f32) -> Vec<f32> {
    let mut values = numbers(vectors * PADDED, seed, scale);
    values.chunks_exact_mut(PADDED).for_each(|vector| vector[HIDDEN..].fill(0.0));
    values
}

/// The score of one pair of projections in f64 (R3, R16), up to a constant that all memories share.
fn plain_score(scorer: Scorer, key: &[f32], query: &[f32], vector: &[f32]) -> f64 {
    let value = |values: &[f32], i: usize| f64::from(values[i]);
    let dot = |a: &[f32], b: &[f32]| (0..HIDDEN).map(|i| value(a, i) * value(b, i)).sum::<f64>();
    match scorer {
        Scorer::Additive => {
            (0..HIDDEN).map(|i| value(vector, i) * ((value(key, i) + value(query, i)).tanh() - 1.0)).sum()
        }
        Scorer::Dot => dot(key, query) / (HIDDEN as f64).sqrt(),
        Scorer::Cosine => {
            let norms = dot(key, key).sqrt() * dot(query, query).sqrt();
            if norms == 0.0 { 0.0 } else { value(vector, 0) * dot(key, query) / norms }
        }
    }
}

/// The scorer's vector, padded.
fn vector(scorer: Scorer) -> Vec<f32> {
    match scorer {
        Scorer::Additive => projections(1, 60, 1.0),
        Scorer::Dot => Vec::new(),
        Scorer::Cosine => [vec![7.5], vec![0.0; 15]].concat(),
    }
}

/// The results of one scorer.
struct Got {
    scores: Vec<f32>,
    lost: bool,
    d_keys: Vec<Vec<f32>>,
    d_query: Vec<f32>,
    d_vector: Vec<f32>,
}

/// Adjoints are written for the first memory and added to 0.5 for the others.
fn run(scorer: Scorer, isa: Isa, keys: &[f32], query: &[f32], vector: &[f32], d_scores: &[f32]) -> Got {
    let (part, mut room) = (scorer.part(), Room::default());
    let (mut keys, mut query) = (keys.to_vec(), query.to_vec());
    let notes: Vec<f32> = keys.chunks_exact_mut(PADDED).map(|key| part.cache_key(isa, key)).collect();
    let query_note = part.cache_query(isa, HIDDEN, &mut query);
    let query = Cached { values: &query, note: query_note };
    let keys = Keys { values: &keys, notes: &notes };
    let mut scores = vec![f32::NAN; notes.len()];
    let lost = part.scores(isa, keys, query, vector, &mut room, &mut scores);
    let mut d_keys: Vec<Vec<f32>> = (0..notes.len()).map(|slot| vec![[f32::NAN, 0.5][slot.min(1)]; PADDED]).collect();
    let (mut d_query, mut d_vector) = (vec![f32::NAN; PADDED], vec![0.0; vector.len()]);
    let row = ScoresBackward {
        keys: &keys.iter(PADDED).collect::<Vec<_>>(),
        d_scores,
        query,
        vector,
        d_query: d_query.as_mut_ptr(),
        d_keys: &d_keys.iter_mut().map(|d_key| d_key.as_mut_ptr()).collect::<Vec<_>>(),
        first: &(0..notes.len()).map(|slot| slot == 0).collect::<Vec<_>>(),
        d_vector: &mut d_vector,
    };
    // SAFETY: all pointers span PADDED floats.
    unsafe { part.backward(isa, HIDDEN, row, &mut room) };
    Got { scores, lost, d_keys, d_query, d_vector }
}

/// Asserts that errors stay within `tolerance` times the largest expected value, or `least` if that is larger:
/// cancellation leaves a rounding error.
#[track_caller]
fn near(got: &[f32], right: &[f64], tolerance: f64, least: f64, what: &str) {
    let largest = right.iter().fold(least, |largest, x| largest.max(x.abs()));
    for (i, (got, right)) in got.iter().zip(right).enumerate() {
        let error = (f64::from(*got) - right).abs();
        assert!(error <= tolerance * largest, "{what}, element {i}: {got} instead of {right}");
    }
}

#[test]
fn r3_r16_scores_and_their_derivatives_agree_with_plain_code() {
    // The adjoints of a row's scores sum to 0.
    let d_scores = [0.75, -1.0, 0.25];
    let scales = [(1.0, 1.0), (1e-18, 1.0), (1.0, 1e-18), (1e-18, 1e-18), (1e18, 1e-18), (1e18, 1e18), (1.0, 60.0)];
    for (isa, scorer) in both_isas().into_iter().flat_map(|isa| Scorer::ALL.iter().map(move |scorer| (isa, *scorer))) {
        for (key_scale, query_scale) in scales {
            let what = format!("{scorer} on {isa:?}, keys {key_scale:e}, query {query_scale:e}");
            let (keys, query) = (projections(3, 61, key_scale), projections(1, 62, query_scale));
            let vector = vector(scorer);
            let got = run(scorer, isa, &keys, &query, &vector, &d_scores);
            let all = |keys: &[f32], query: &[f32], vector: &[f32]| -> Vec<f64> {
                keys.chunks_exact(PADDED).map(|key| plain_score(scorer, key, query, vector)).collect()
            };
            assert!(!got.lost, "{what}");
            near(&got.scores, &all(&keys, &query, &vector), 1e-5, 0.0, &format!("{what}: scores"));
            let loss = |keys: &[f32], query: &[f32], vector: &[f32]| -> f64 {
                all(keys, query, vector).iter().zip(d_scores).map(|(score, d)| score * f64::from(d)).sum()
            };
            let by = |values: &[f32], scale: f32, f: &dyn Fn(&[f32]) -> f64| -> Vec<f64> {
                // An additive score depends on the sum of both projections, so the step has their scale.
                let scale = if scorer == Scorer::Additive { 1.0 } else { scale };
                (0..values.len()).map(|i| slope(values, i, scale * 1e-3, f)).collect()
            };
            if scorer == Scorer::Additive && key_scale.max(query_scale) > 1e3 {
                // Every tanh is ±1, so all slopes vanish.
                assert!(got.d_query.iter().chain(&got.d_keys[0]).all(|d| d.abs() < 1e-18), "{what}");
                continue;
            }
            let d_keys = by(&keys, key_scale, &|keys| loss(keys, &query, &vector));
            let tolerance = if scorer == Scorer::Additive && query_scale > 1.0 { 1e-2 } else { 1e-4 };
            let least = if scorer == Scorer::Additive { 1e-2 } else { 0.0 };
            for (slot, (got, right)) in got.d_keys.iter().zip(d_keys.chunks_exact(PADDED)).enumerate() {
                let before = if slot == 0 { 0.0 } else { 0.5 };
                let right: Vec<f64> = right.iter().map(|d| d + before).collect();
                near(&got[..HIDDEN], &right[..HIDDEN], tolerance, least, &format!("{what}: key {slot}"));
                assert!(got[HIDDEN..].iter().all(|d| *d == before as f32), "{what}: padding gets nothing");
            }
            let d_query = by(&query, query_scale, &|query| loss(&keys, query, &vector));
            near(&got.d_query, &d_query, tolerance, least, &format!("{what}: query"));
            let d_vector = by(&vector, 1.0, &|vector| loss(&keys, &query, vector));
            near(&got.d_vector, &d_vector, 1e-4, least, &format!("{what}: vector"));
        }
    }
}

#[test]
fn r16_a_zero_vector_scores_0_and_passes_no_gradient_by_its_cosine() {
    for (isa, scorer) in both_isas().into_iter().flat_map(|isa| [(isa, Scorer::Dot), (isa, Scorer::Cosine)]) {
        let (keys, query, vector, zero) =
            (projections(2, 63, 1.0), projections(1, 64, 1.0), vector(scorer), [0.0; PADDED]);
        let all_zero = |values: &[f32]| values.iter().all(|x| *x == 0.0);
        // A zero key gets the query as its adjoint from a dot product, and nothing from a cosine.
        let got = run(scorer, isa, &zero, &query, &vector, &[1.5]);
        assert_eq!((&got.scores[..], got.lost), (&[0.0][..], false), "{scorer}");
        assert!(all_zero(&got.d_query) && all_zero(&got.d_vector), "{scorer}");
        assert_eq!(all_zero(&got.d_keys[0]), scorer == Scorer::Cosine);
        // A zero query.
        let got = run(scorer, isa, &keys, &zero, &vector, &[1.5, -2.0]);
        assert_eq!((&got.scores[..], got.lost), (&[0.0, 0.0][..], false), "{scorer}");
        assert!(all_zero(&got.d_keys[0]) && got.d_keys[1].iter().all(|d| *d == 0.5), "{scorer}");
        assert!(all_zero(&got.d_vector), "{scorer}");
        assert_eq!(all_zero(&got.d_query), scorer == Scorer::Cosine);
    }
}

#[test]
fn r16_cosines_of_the_largest_and_smallest_floats_are_numbers() {
    for isa in both_isas() {
        let vector = vector(Scorer::Cosine);
        for scale in [f32::MAX, 1e-37, f32::MIN_POSITIVE, 1e-40, 1.4e-45] {
            // All elements are ±scale, so that none is rounded to an infinity or zero.
            let signs = |seed| projections(1, seed, 1.0).iter().map(|x| x.signum() * scale).collect::<Vec<f32>>();
            let (mut key, mut query) = (signs(65), signs(66));
            key[HIDDEN..].fill(0.0);
            query[HIDDEN..].fill(0.0);
            let got = run(Scorer::Cosine, isa, &key, &query, &vector, &[1e-3]);
            near(&got.scores, &[plain_score(Scorer::Cosine, &key, &query, &vector)], 1e-5, 0.0, &format!("{scale:e}"));
            let finite = |values: &[f32]| values.iter().all(|x| x.is_finite());
            assert!(finite(&got.d_query) && finite(&got.d_keys[0]), "{scale:e}: {:?}", got.d_query);
        }
    }
}

#[test]
fn r16_dot_products_that_overflow_to_nan_are_reported() {
    for isa in both_isas() {
        let keys = [f32::MAX, f32::MIN].repeat(PADDED / 2);
        let query = vec![f32::MAX; PADDED];
        let got = run(Scorer::Dot, isa, &keys, &query, &[], &[0.0]);
        assert!(got.lost && got.scores[0].is_nan(), "inf - inf is NaN");
    }
}
