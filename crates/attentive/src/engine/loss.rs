//! The cross-entropy as an operation.

use super::tensors::{floats, lost, tensor};
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, TensorMetadata};
use std::sync::Arc;

/// The target classes and the weights of the rows. `None` gives all rows equal weights that sum to 1.
#[derive(Clone, Debug)]
pub(crate) struct Answers {
    pub(super) classes: Arc<Vec<u32>>,
    pub(super) weights: Option<FlexTensor>,
}

/// The loss, `[1]`, and its derivative with respect to the scores.
pub(super) fn run(scores: &FlexTensor, answers: &Answers) -> (FlexTensor, FlexTensor) {
    let weights = answers.weights.as_ref().map(floats);
    let (loss, gradient) = attentive_engine::cross_entropy(floats(scores), &answers.classes, weights)
        .unwrap_or_else(|_| (f32::NAN, lost(scores.shape().num_elements())));
    (tensor(vec![loss], vec![1]), tensor(gradient, scores.shape().to_vec()))
}

#[derive(Debug)]
pub(super) struct CrossEntropyBackward;

impl Backward<Flex, 1> for CrossEntropyBackward {
    type State = FlexTensor;

    fn backward(self, ops: Ops<FlexTensor, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let d_loss = grads.consume::<Flex>(&ops.node).to_contiguous();
        let d_loss = floats(&d_loss).first().copied().unwrap_or(f32::NAN);
        if let [Some(parent)] = ops.parents {
            let gradient = if d_loss == 1.0 {
                ops.state
            } else {
                let scaled = floats(&ops.state).iter().map(|d| d * d_loss).collect();
                tensor(scaled, ops.state.shape().to_vec())
            };
            grads.register::<Flex>(parent.id, gradient);
        }
    }
}
