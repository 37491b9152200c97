//! The parts of Algorithm 1 in plain `f64`, one row at a time, written from the paper and not from the library.

use crate::common::Parameters;

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
    let (of_x, of_h) = (product(x, &p.weight_ih.values, 4 * units), product(h, &p.weight_hh.values, 4 * units));
    let gate = |gate: usize, unit: usize| {
        let i = gate * units + unit;
        of_x[i] + of_h[i] + p.bias.values[i]
    };
    let c: Vec<f64> =
        (0..units).map(|u| sigmoid(gate(1, u)) * c[u] + sigmoid(gate(0, u)) * gate(2, u).tanh()).collect();
    ((0..units).map(|u| sigmoid(gate(3, u)) * c[u].tanh()).collect(), c)
}

/// R3
pub fn score(p: &Parameters, memory: &[f64], h_hat: &[f64]) -> f64 {
    let units = h_hat.len();
    let (key, query) = (product(memory, &p.w1.values, units), product(h_hat, &p.w2.values, units));
    (0..units).map(|u| p.w3.values[u] * (key[u] + query[u]).tanh()).sum()
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

/// R7: the summary.
pub fn weighted_sum(weights: &[f64], memories: &[Vec<f64>]) -> Vec<f64> {
    let units = memories[0].len();
    (0..units).map(|u| weights.iter().zip(memories).map(|(w, m)| w * m[u]).sum()).collect()
}
