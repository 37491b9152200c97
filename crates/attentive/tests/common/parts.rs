//! Models with each part, and with the pairs of parts that can be combined (R15-R18).

use attentive::{Cell, Evict, SabLstmConfig, Scorer, Sparsifier};

/// An alternative to a default part. Parts of different families can be combined.
#[derive(Clone, Copy)]
struct Part {
    name: &'static str,
    family: &'static str,
    choose: fn(SabLstmConfig) -> SabLstmConfig,
}

/// A capacity small enough for short sequences to reach it.
pub const CAPACITY: usize = 3;
/// Random states differ by about their own norm, so some are stored and some are not.
pub const NOVELTY: f64 = 0.7;

const OTHERS: [Part; 7] = [
    Part { name: "gru", family: "cell", choose: |config| config.with_cell(Cell::Gru) },
    Part { name: "dot", family: "scorer", choose: |config| config.with_scorer(Scorer::Dot) },
    Part { name: "cosine", family: "scorer", choose: |config| config.with_scorer(Scorer::Cosine) },
    Part { name: "softmax", family: "sparsifier", choose: |config| config.with_sparsifier(Sparsifier::Softmax) },
    Part { name: "novelty", family: "store", choose: |config| config.with_novelty(NOVELTY) },
    Part { name: "oldest", family: "capacity", choose: |config| config.with_capacity(CAPACITY) },
    Part {
        name: "least-attended",
        family: "capacity",
        choose: |config| config.with_capacity(CAPACITY).with_evict(Evict::LeastAttended),
    },
];

/// The model with each part in turn, by name; the default parts first.
pub fn each_part(config: &SabLstmConfig) -> Vec<(String, SabLstmConfig)> {
    let defaults = ("the default parts".to_string(), config.clone());
    let others = OTHERS.map(|part| (part.name.to_string(), (part.choose)(config.clone())));
    std::iter::once(defaults).chain(others).collect()
}

/// The model with each pair of parts that can be combined, and with an alternative of every family.
pub fn each_pair(config: &SabLstmConfig) -> Vec<(String, SabLstmConfig)> {
    let mut all = Vec::new();
    for (number, first) in OTHERS.iter().enumerate() {
        for second in OTHERS[number + 1..].iter().filter(|second| second.family != first.family) {
            let both = (second.choose)((first.choose)(config.clone()));
            all.push((format!("{}, {}", first.name, second.name), both));
        }
    }
    for (name, scorer) in [("dot", Scorer::Dot), ("cosine", Scorer::Cosine)] {
        let every = config.clone().with_cell(Cell::Gru).with_scorer(scorer).with_sparsifier(Sparsifier::Softmax);
        let every = every.with_novelty(NOVELTY).with_capacity(CAPACITY).with_evict(Evict::LeastAttended);
        all.push((format!("gru, {name}, softmax, novelty, least-attended"), every));
    }
    all
}

/// [`each_part`], then [`each_pair`].
pub fn each_combination(config: &SabLstmConfig) -> Vec<(String, SabLstmConfig)> {
    [each_part(config), each_pair(config)].concat()
}
