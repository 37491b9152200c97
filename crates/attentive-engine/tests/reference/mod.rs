//! The model's forward pass in plain f64 (R1-R7, R15-R18): one row at a time, written to be read, not to be fast.

use attentive_engine::{Cell, Evict, KTop, Model, Scorer, Sparsifier, Store};

/// The factor by which received weights decay per step (R18).
const DECAY: f64 = 0.999;

type Vector = Vec<f64>;

/// A memory: the hidden state of a step, and the received weights.
#[derive(Clone, Debug)]
pub struct Memory {
    pub step: u64,
    pub state: Vector,
    pub received: f64,
}

/// The state that a row carries from step to step. The null slot is the first memory.
#[derive(Clone, Debug)]
pub struct Row {
    pub h: Vector,
    pub c: Vector,
    pub memories: Vec<Memory>,
    pub steps: u64,
}

/// The results of one row's steps.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    pub hidden: Vec<Vector>,
    pub summary: Vec<Vector>,
    /// The steps of this call, from 0, whose states were stored.
    pub stored: Vec<usize>,
    /// All decisions in order: the steps of the memories that were chosen (with the threshold's), stored or evicted.
    pub decisions: Vec<Vec<u64>>,
    /// The margin of the closest decision, and the smallest normaliser of R4.
    pub margin: f64,
}

/// The model with its parameters in the engine's layout: matrices `[in, out]`.
pub struct Reference {
    pub model: Model,
    pub parameters: Vec<(&'static str, Vector)>,
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

/// `vector * matrix`, the matrix `[in, out]`.
fn times(vector: &[f64], matrix: &[f64]) -> Vector {
    let width = matrix.len() / vector.len();
    (0..width).map(|column| vector.iter().enumerate().map(|(i, x)| x * matrix[i * width + column]).sum()).collect()
}

impl Reference {
    fn parameter(&self, name: &str) -> &[f64] {
        &self.parameters.iter().find(|(own, _)| *own == name).expect(name).1
    }

    /// Takes a row through steps with inputs `x`, each of the model's input size.
    pub fn run(&self, row: &mut Row, inputs: &[Vector]) -> Trace {
        let mut trace = Trace { margin: f64::INFINITY, ..Trace::default() };
        for (t, x) in inputs.iter().enumerate() {
            let h_hat = self.cell(row, x);
            let attends = self.model.k_top != KTop::Count(0);
            let summary = if attends { self.remind(row, &h_hat, &mut trace) } else { vec![0.0; h_hat.len()] };
            // R7
            row.h = h_hat.iter().zip(&summary).map(|(h_hat, s)| h_hat + s).collect();
            row.steps += 1;
            if self.stores(row, &mut trace) {
                self.make_room(row, &mut trace);
                row.memories.push(Memory { step: row.steps, state: row.h.clone(), received: 0.0 });
                trace.stored.push(t);
            }
            trace.hidden.push(row.h.clone());
            trace.summary.push(summary);
        }
        trace
    }

    /// h_hat and, if the cell has one, the new c (R1, R15).
    pub fn cell(&self, row: &mut Row, x: &[f64]) -> Vector {
        let units = 0..row.h.len();
        let (by_x, by_h) = (times(x, self.parameter("weight_ih")), times(&row.h, self.parameter("weight_hh")));
        let (bias, hidden) = (self.parameter("bias"), row.h.len());
        let gate = |block: usize, unit: usize| {
            let i = block * hidden + unit;
            by_x[i] + by_h[i] + bias[i]
        };
        match self.model.cell {
            Cell::Lstm => {
                row.c = units
                    .clone()
                    .map(|u| sigmoid(gate(1, u)) * row.c[u] + sigmoid(gate(0, u)) * gate(2, u).tanh())
                    .collect();
                units.map(|u| sigmoid(gate(3, u)) * row.c[u].tanh()).collect()
            }
            Cell::Gru => units
                .map(|u| {
                    let (r, z, n) = (sigmoid(gate(0, u)), sigmoid(gate(1, u)), 2 * hidden + u);
                    // The reset gate is applied after the recurrent product; each side of n has a bias.
                    let n = (by_x[n] + bias[n] + r * (by_h[n] + bias[3 * hidden + u])).tanh();
                    (1.0 - z) * n + z * row.h[u]
                })
                .collect(),
        }
    }

    /// The score of one memory (R3, R16).
    fn score(&self, memory: &[f64], h_hat: &[f64]) -> f64 {
        let key = times(memory, self.parameter("w1"));
        match self.model.scorer {
            Scorer::Additive => {
                let query = times(h_hat, self.parameter("w2"));
                let tanh: Vector = key.iter().zip(query).map(|(key, query)| (key + query).tanh()).collect();
                dot(&tanh, self.parameter("w3"))
            }
            Scorer::Dot => dot(&key, &times(h_hat, self.parameter("w2"))) / (h_hat.len() as f64).sqrt(),
            Scorer::Cosine => {
                let query = times(h_hat, self.parameter("w1"));
                let norms = norm(&key) * norm(&query);
                // A zero vector has no direction.
                if norms == 0.0 { 0.0 } else { self.parameter("temperature")[0] * dot(&key, &query) / norms }
            }
        }
    }

    /// The summary (R3-R7, R17).
    fn remind(&self, row: &mut Row, h_hat: &[f64], trace: &mut Trace) -> Vector {
        let scores: Vector = row.memories.iter().map(|memory| self.score(&memory.state, h_hat)).collect();
        let weights = self.weights(&scores, &row.memories, trace);
        let mut summary = vec![0.0; h_hat.len()];
        for (memory, weight) in row.memories.iter_mut().zip(&weights) {
            summary.iter_mut().zip(&memory.state).for_each(|(s, m)| *s += weight * m);
            memory.received = memory.received * DECAY + weight;
        }
        summary
    }

    /// A weight for each memory, most of them 0.
    fn weights(&self, scores: &[f64], memories: &[Memory], trace: &mut Trace) -> Vector {
        let k_top = match self.model.k_top {
            KTop::Count(k_top) => k_top.min(scores.len()),
            KTop::All => scores.len(),
        };
        // Best first, the older of two equals first (R4): a stable sort.
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
        let mut weights = vec![0.0; scores.len()];
        let sparse = k_top < scores.len();
        let prominence = sparse && self.model.sparsifier == Sparsifier::Prominence;
        // The choice must be clear: between the last chosen memory and the first one that is not, and at the threshold.
        let matter = if prominence { k_top + 1 } else { k_top };
        let gap = |place: usize| scores[order[place - 1]] - scores[order[place]];
        (matter..(matter + 1).min(scores.len())).for_each(|place| trace.margin = trace.margin.min(gap(place)));
        if prominence {
            let threshold = scores[order[k_top]];
            trace.margin = trace.margin.min(gap(k_top));
            order[..k_top].iter().for_each(|slot| weights[*slot] = (scores[*slot] - threshold).max(0.0));
            let total: f64 = weights.iter().sum();
            trace.margin = trace.margin.min(total / 50.0);
            // R5
            weights.iter_mut().for_each(|w| *w = if total > 0.0 { *w / total } else { 0.0 });
        } else {
            let largest = scores[order[0]];
            order[..k_top].iter().for_each(|slot| weights[*slot] = (scores[*slot] - largest).exp());
            let total: f64 = weights.iter().sum();
            weights.iter_mut().for_each(|w| *w /= total);
        }
        let mut chosen: Vec<u64> = order[..k_top].iter().map(|slot| memories[*slot].step).collect();
        chosen.sort_unstable();
        if prominence {
            chosen.push(memories[order[k_top]].step);
        }
        trace.decisions.push(chosen);
        weights
    }

    /// Whether h is stored (R2, R18).
    fn stores(&self, row: &Row, trace: &mut Trace) -> bool {
        let rule = &self.model.store;
        if !row.steps.is_multiple_of(rule.k_att as u64) {
            return false;
        }
        if rule.store == Store::Every {
            return true;
        }
        let last = &row.memories.last().expect("the null slot").state;
        let difference: Vector = row.h.iter().zip(last).map(|(h, last)| h - last).collect();
        let stores = norm(&difference) > rule.novelty * norm(&row.h);
        trace.margin = trace.margin.min((norm(&difference) - rule.novelty * norm(&row.h)).abs());
        trace.decisions.push(vec![row.steps, u64::from(stores)]);
        stores
    }

    /// Evicts a memory if the capacity is reached (R18).
    fn make_room(&self, row: &mut Row, trace: &mut Trace) {
        let rule = &self.model.store;
        if rule.capacity.is_none_or(|capacity| row.memories.len() <= capacity) {
            return;
        }
        let mut places: Vec<usize> = (1..row.memories.len()).collect();
        if rule.evict == Evict::LeastAttended {
            let received = |place: &usize| row.memories[*place].received;
            places.sort_by(|a, b| received(a).total_cmp(&received(b)));
            if let [first, second, ..] = places[..] {
                let gap = received(&second) - received(&first);
                // A memory that has received nothing has a sum of exactly 0.
                trace.margin = if received(&second) == 0.0 { trace.margin } else { trace.margin.min(gap) };
            }
        }
        trace.decisions.push(vec![row.memories.remove(places[0]).step]);
    }
}
