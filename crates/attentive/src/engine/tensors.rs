//! Conversions between Flex tensors and plain floats.

use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::TensorData;

pub(super) fn carrier() -> FlexTensor {
    tensor(vec![0.0], vec![1])
}

pub(super) fn tensor(values: Vec<f32>, shape: Vec<usize>) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values, shape))
}

/// Zeros of any shape in the memory of a single float, for the summaries of a layer without attention.
pub(super) fn zeros(shape: Vec<usize>) -> FlexTensor {
    Flex::float_expand(tensor(vec![0.0], vec![1; shape.len()]), shape.into())
}

/// The floats of a contiguous tensor. The layer checks types beforehand. For any other tensor this is an empty slice,
/// which the engine refuses.
pub(super) fn floats(tensor: &FlexTensor) -> &[f32] {
    tensor.as_slice::<f32>().unwrap_or_default()
}

/// NaNs instead of numbers that the engine refused to compute, where Burn cannot pass on an error. The layer checks
/// everything beforehand, so this should not happen. If it did, a NaN would be noticed and a zero would not.
pub(super) fn lost(len: usize) -> Vec<f32> {
    vec![f32::NAN; len]
}
