//! The parts of a model in tensor operations: one place for each cell, scorer and sparsifier.

use super::held::{Held, rows_mask};
use crate::error::Result;
use crate::io::SabInput;
use crate::parameters::Weights;
use attentive_engine::{Cell, Model, Scorer as ScorerKind, Sparsifier};
use burn::tensor::activation::{relu, sigmoid};
use burn::tensor::{Bool, Tensor};

/// Hidden state and cell state, `[batch, hidden]` each.
#[derive(Clone)]
pub(super) struct Recurrence {
    pub(super) h: Tensor<2>,
    pub(super) c: Option<Tensor<2>>,
}

impl Recurrence {
    /// The same values, without gradient in the rows that are cut off (R9).
    pub(super) fn cut(self, rows: &[bool]) -> Recurrence {
        let detached = |x: Tensor<2>| match (rows.contains(&true), rows.contains(&false)) {
            (false, _) => x,
            (true, false) => x.detach(),
            (true, true) => {
                let mask = rows_mask(rows, &x.device()).unsqueeze_dim::<2>(1).expand(x.dims());
                x.clone().mask_where(mask, x.detach())
            }
        };
        Recurrence { h: detached(self.h), c: self.c.map(detached) }
    }
}

/// The recurrent cell (R1, R15).
pub(super) struct RecurrentCell {
    kind: Cell,
    weight_ih: Tensor<2>,
    weight_hh: Tensor<2>,
    bias: Tensor<1>,
}

impl RecurrentCell {
    pub(super) fn new(kind: Cell, weights: &Weights) -> Result<Self> {
        let (weight_ih, weight_hh) = (weights.matrix("weight_ih")?, weights.matrix("weight_hh")?);
        Ok(Self { kind, weight_ih, weight_hh, bias: weights.vector("bias")? })
    }

    /// The input's part of the gates plus its bias, `[batch, time, gates * hidden]`. This is a product for dense
    /// inputs, and selected rows of the input weights for tokens.
    pub(super) fn project(&self, input: &SabInput) -> Tensor<3> {
        let width = self.weight_ih.dims()[1];
        let (batch, time, projected) = match input {
            SabInput::Dense(x) => {
                let [batch, time, size] = x.dims();
                (batch, time, x.clone().reshape([batch * time, size]).matmul(self.weight_ih.clone()))
            }
            SabInput::Tokens(x) => {
                let [batch, time] = x.dims();
                (batch, time, self.weight_ih.clone().select(0, x.clone().reshape([batch * time])))
            }
        };
        // The bias of the input's side comes first.
        let bias = self.bias.clone().narrow(0, 0, width).unsqueeze::<2>();
        (projected + bias).reshape([batch, time, width])
    }

    /// h_hat and the new cell state, from the previous state and the projected input, `[batch, gates * hidden]`.
    pub(super) fn step(&self, before: &Recurrence, projected: Tensor<2>) -> Recurrence {
        let units = before.h.dims()[1];
        let block = |of: &Tensor<2>, index: usize| of.clone().narrow(1, index * units, units);
        let product = before.h.clone().matmul(self.weight_hh.clone());
        match (self.kind, &before.c) {
            // R1
            (Cell::Lstm, Some(c)) => {
                let gates = projected + product;
                let [i, f, g, o] = [0, 1, 2, 3].map(|index| block(&gates, index));
                let c = sigmoid(f) * c.clone() + sigmoid(i) * g.tanh();
                Recurrence { h: sigmoid(o) * c.clone().tanh(), c: Some(c) }
            }
            (Cell::Lstm, None) => unreachable!("the layer checks that a state fits its cell"),
            // R15
            (Cell::Gru, _) => {
                let [r, z] = [0, 1].map(|index| sigmoid(block(&projected, index) + block(&product, index)));
                let of_hidden = block(&product, 2) + self.bias.clone().narrow(0, 3 * units, units).unsqueeze::<2>();
                let n = (block(&projected, 2) + r * of_hidden).tanh();
                Recurrence { h: n.clone() + z * (before.h.clone() - n), c: None }
            }
        }
    }
}

/// The scorer of memories (R3, R16).
#[allow(clippy::large_enum_variant)] // there is one per call
pub(super) enum Scorer {
    Additive { w1: Tensor<2>, w2: Tensor<2>, w3: Tensor<1> },
    Dot { w1: Tensor<2>, w2: Tensor<2> },
    Cosine { w1: Tensor<2>, temperature: Tensor<1> },
}

impl Scorer {
    pub(super) fn new(kind: ScorerKind, weights: &Weights) -> Result<Self> {
        let w1 = weights.matrix("w1")?;
        Ok(match kind {
            ScorerKind::Additive => Self::Additive { w1, w2: weights.matrix("w2")?, w3: weights.vector("w3")? },
            ScorerKind::Dot => Self::Dot { w1, w2: weights.matrix("w2")? },
            ScorerKind::Cosine => Self::Cosine { w1, temperature: weights.vector("temperature")? },
        })
    }

    /// The key of a memory, `[rows, hidden]` to `[rows, hidden]`.
    pub(super) fn key(&self, state: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Additive { w1, .. } | Self::Dot { w1, .. } => state.matmul(w1.clone()),
            Self::Cosine { w1, .. } => unit_vectors(state.matmul(w1.clone())),
        }
    }

    /// The projected query, `[batch, hidden]` to `[batch, hidden]`.
    pub(super) fn query(&self, h_hat: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Additive { w2, .. } => h_hat.matmul(w2.clone()),
            // A multiplication, because Burn computes the derivative of a division by a number in single precision.
            Self::Dot { w2, .. } => h_hat.clone().matmul(w2.clone()) * (h_hat.dims()[1] as f64).sqrt().recip(),
            Self::Cosine { .. } => self.key(h_hat),
        }
    }

    /// The score of each memory, `[batch, slots]`, from `[batch, slots, hidden]` and `[batch, hidden]`.
    pub(super) fn scores(&self, keys: Tensor<3>, query: Tensor<2>) -> Tensor<2> {
        let query = query.unsqueeze_dim::<3>(1);
        match self {
            // a_i = W3 . tanh(W1 m_i + W2 h_hat)
            Self::Additive { w3, .. } => {
                let activated = (keys + query).tanh();
                (activated * w3.clone().unsqueeze::<3>()).sum_dim(2).squeeze_dim(2)
            }
            // a_i = (W1 m_i) . (W2 h_hat) / sqrt(hidden)
            Self::Dot { .. } => (keys * query).sum_dim(2).squeeze_dim(2),
            // a_i = temperature * cos(W1 m_i, W1 h_hat)
            Self::Cosine { temperature, .. } => {
                (keys * query).sum_dim(2).squeeze_dim::<2>(2) * temperature.clone().unsqueeze::<2>()
            }
        }
    }
}

/// Rows divided by their norms. The zero vector stays zero and gets no gradient.
fn unit_vectors(x: Tensor<2>) -> Tensor<2> {
    let square = (x.clone() * x.clone()).sum_dim(1);
    let zero = square.clone().equal_elem(0.0);
    let shape = x.dims();
    let unit = x / square.mask_fill(zero.clone(), 1.0).sqrt();
    unit.mask_fill(zero.expand(shape), 0.0)
}

/// The weights of `[batch, slots]` scores (R4-R6, R17). `held` says which slots each row holds; `None` means all.
pub(super) fn sparsify(model: &Model, scores: Tensor<2>, held: Option<Held>) -> Tensor<2> {
    let [_, slots] = scores.dims();
    let k_top = model.most_chosen().unwrap_or(slots);
    let fewest = held.as_ref().map_or(slots, |held| held.fewest);
    let most = held.as_ref().map_or(slots, |held| held.most);
    // R6: nothing needs dropping.
    let of_all = |scores: Tensor<2>| softmax_of(scores, held.as_ref().map(|held| held.mask.clone()));
    if most <= k_top {
        return of_all(scores);
    }
    let filled = below_all_others(scores.clone(), held.as_ref().map(|held| held.mask.clone()));
    let sparse = match model.sparsifier {
        // R4: prominence over the (k_top+1)-th score. The search for its place is detached; its value keeps its
        // gradient.
        Sparsifier::Prominence => {
            let (_, places) = filled.clone().detach().topk_with_indices(k_top + 1, 1);
            let threshold = filled.clone().gather(1, places.narrow(1, k_top, 1));
            let w = relu(filled - threshold);
            let sum = sum_of_slots(w.clone());
            // R5: if all scores are equal, the weights stay 0.
            let equal = sum.clone().equal_elem(0.0);
            w / sum.mask_fill(equal, 1.0)
        }
        // R17: softmax of the k_top best.
        Sparsifier::Softmax => {
            let best = best(filled.detach(), k_top);
            let best = held.as_ref().map_or(best.clone(), |held| best.bool_and(held.mask.clone()));
            return softmax_of(scores, Some(best));
        }
    };
    match held {
        // Some rows have few memories, others many.
        Some(ref held) if fewest <= k_top => sparse.mask_where(held.with_at_most(k_top), of_all(scores)),
        _ => sparse,
    }
}

/// The scores, with those of slots that a row does not hold set below all others, without gradient.
fn below_all_others(scores: Tensor<2>, held: Option<Tensor<2, Bool>>) -> Tensor<2> {
    match held {
        None => scores,
        Some(held) => {
            let shape = scores.dims();
            let below = scores.clone().detach().min_dim(1) - 1.0;
            scores.mask_where(held.bool_not(), below.expand(shape))
        }
    }
}

/// Softmax over the slots of the mask; all other slots get 0.
fn softmax_of(scores: Tensor<2>, mask: Option<Tensor<2, Bool>>) -> Tensor<2> {
    let filled = below_all_others(scores, mask.clone());
    let largest = filled.clone().detach().max_dim(1);
    let exponentials = (filled - largest).exp();
    let exponentials = match mask {
        None => exponentials,
        Some(mask) => exponentials.mask_fill(mask.bool_not(), 0.0),
    };
    exponentials.clone() / sum_of_slots(exponentials)
}

/// The sums over the slots, `[batch, 1]`. In the middle dimension the CPU adds slots one after the other. The zeros of
/// slots that a row does not hold therefore change no bit of its sum (R14).
fn sum_of_slots(x: Tensor<2>) -> Tensor<2> {
    x.unsqueeze_dim::<3>(2).sum_dim(1).squeeze_dim(2)
}

/// The slots of the `k` largest scores of each row. Between equal scores, the older slot wins.
fn best(scores: Tensor<2>, k: usize) -> Tensor<2, Bool> {
    let shape = scores.dims();
    let (values, _) = scores.clone().topk_with_indices(k, 1);
    let last = values.narrow(1, k - 1, 1).expand(shape);
    let (above, equal) = (scores.clone().greater(last.clone()), scores.equal(last));
    let left = above.clone().int().sum_dim(1).neg() + k as i32;
    let among_equals = equal.clone().int().cumsum(1);
    above.bool_or(equal.bool_and(among_equals.lower_equal(left.expand(shape))))
}
