//! Cross-entropy as an operation.

use super::{SabBackend, floats, lost, tensor};
use crate::error::{Result, SabError};
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::backend::flex::FlexTensor;
use burn::backend::{Dispatch, Flex, TensorMetadata};
use burn::tensor::Tensor;
use std::sync::Arc;

/// The right answers, and what each counts; `None`: all the same, one in all.
#[derive(Clone, Debug)]
pub(crate) struct Answers {
    classes: Arc<Vec<u32>>,
    weights: Option<FlexTensor>,
}

/// The loss of `[rows, classes]` of type `f32` on a Flex device; shapes and classes are checked by the caller.
pub(crate) fn cross_entropy(scores: Tensor<2>, classes: Vec<u32>, weights: Option<Tensor<1>>) -> Result<Tensor<1>> {
    let on_cpu = |weights: Tensor<1>| match weights.inner().try_into_primitive::<Flex>() {
        Ok(weights) => Ok(weights.to_contiguous()),
        Err(_) => Err(SabError::NoFusedPath("the weights are on another device than the scores".into())),
    };
    let answers = Answers { classes: Arc::new(classes), weights: weights.map(on_cpu).transpose()? };
    Ok(Tensor::from_dispatch(Dispatch::sab_cross_entropy(scores.into_dispatch(), answers)))
}

/// The loss, `[1]`, and its derivative by the scores.
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
