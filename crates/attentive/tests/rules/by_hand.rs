//! The parts of Algorithm 1 in plain `f64`, one row at a time, written from the paper instead of from the library.

use crate::common::Parameters;
use attentive::Scorer;

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// `x W` for a matrix in Burn's layout.
fn product(x: &[f64], matrix: &[f64], columns: usize) -> Vec<f64> {
    (0..columns).map(|column| x.iter().enumerate().map(|(row, x)| x * matrix[row * columns + column]).sum()).collect()
}

/// R1: h_hat and the new cell.
pub fn cell(p: &Parameters, x: &[f64], h: &[f64], c: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let units = h.len();
    let (of_x, of_h) = (product(x, &p["weight_ih"].values, 4 * units), product(h, &p["weight_hh"].values, 4 * units));
    let gate = |gate: usize, unit: usize| {
        let i = gate * units + unit;
        of_x[i] + of_h[i] + p["bias"].values[i]
    };
    let c: Vec<f64> =
        (0..units).map(|u| sigmoid(gate(1, u)) * c[u] + sigmoid(gate(0, u)) * gate(2, u).tanh()).collect();
    ((0..units).map(|u| sigmoid(gate(3, u)) * c[u].tanh()).collect(), c)
}

/// R15: h_hat of a GRU. The reset gate is applied after the recurrent product, and each side of the candidate has a
/// bias.
pub fn gru(p: &Parameters, x: &[f64], h: &[f64]) -> Vec<f64> {
    let units = h.len();
    let (of_x, of_h) = (product(x, &p["weight_ih"].values, 3 * units), product(h, &p["weight_hh"].values, 3 * units));
    let bias = |block: usize, unit: usize| p["bias"].values[block * units + unit];
    let unit = |u: usize| {
        let gate = |block: usize| sigmoid(of_x[block * units + u] + of_h[block * units + u] + bias(block, u));
        let (r, z) = (gate(0), gate(1));
        let n = (of_x[2 * units + u] + bias(2, u) + r * (of_h[2 * units + u] + bias(3, u))).tanh();
        (1.0 - z) * n + z * h[u]
    };
    (0..units).map(unit).collect()
}

/// R3, R16: the score of a memory by any scorer.
pub fn score_by(scorer: Scorer, p: &Parameters, memory: &[f64], h_hat: &[f64]) -> f64 {
    match scorer {
        Scorer::Additive => score(p, memory, h_hat),
        Scorer::Dot => dot(&p["w1"].values, &p["w2"].values, memory, h_hat),
        Scorer::Cosine => p["temperature"].values[0] * cosine(&p["w1"].values, &p["w1"].values, memory, h_hat),
    }
}

fn inner(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// R16: the scaled product.
pub fn dot(w1: &[f64], w2: &[f64], memory: &[f64], h_hat: &[f64]) -> f64 {
    let units = h_hat.len();
    inner(&product(memory, w1, units), &product(h_hat, w2, units)) / (units as f64).sqrt()
}

/// R16: the cosine between two projections; 0 for a zero vector.
pub fn cosine(of_memory: &[f64], of_query: &[f64], memory: &[f64], h_hat: &[f64]) -> f64 {
    let units = h_hat.len();
    let (key, query) = (product(memory, of_memory, units), product(h_hat, of_query, units));
    let norms = (inner(&key, &key) * inner(&query, &query)).sqrt();
    if norms == 0.0 { 0.0 } else { inner(&key, &query) / norms }
}

/// R3
pub fn score(p: &Parameters, memory: &[f64], h_hat: &[f64]) -> f64 {
    let units = h_hat.len();
    let (key, query) = (product(memory, &p["w1"].values, units), product(h_hat, &p["w2"].values, units));
    (0..units).map(|u| p["w3"].values[u] * (key[u] + query[u]).tanh()).sum()
}

/// R4: the (k_top+1)-th largest score, if there are more than `k_top`.
pub fn threshold(scores: &[f64], k_top: usize) -> Option<f64> {
    let mut sorted = scores.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    sorted.get(k_top).copied()
}

/// R6
pub fn softmax(scores: &[f64]) -> Vec<f64> {
    let sum: f64 = scores.iter().map(|a| a.exp()).sum();
    scores.iter().map(|a| a.exp() / sum).collect()
}

/// The slots by their scores, the best first, the older of equals first.
pub fn best_first(scores: &[f64]) -> Vec<usize> {
    let mut slots: Vec<usize> = (0..scores.len()).collect();
    slots.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)));
    slots
}

/// R17: the softmax of the `k_top` best scores; the others get 0.
pub fn softmax_of_best(scores: &[f64], k_top: usize) -> Vec<f64> {
    let mut best = best_first(scores);
    best.truncate(k_top);
    let softmax = softmax(&best.iter().map(|slot| scores[*slot]).collect::<Vec<_>>());
    let mut weights = vec![0.0; scores.len()];
    best.into_iter().zip(softmax).for_each(|(slot, weight)| weights[slot] = weight);
    weights
}

/// R7: the summary.
pub fn weighted_sum(weights: &[f64], memories: &[Vec<f64>]) -> Vec<f64> {
    let units = memories[0].len();
    (0..units).map(|u| weights.iter().zip(memories).map(|(w, m)| w * m[u]).sum()).collect()
}
