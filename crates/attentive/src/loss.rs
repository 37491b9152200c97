//! [`cross_entropy`]: the loss for classification.

use crate::error::{Result, SabError};
use crate::options::{Path, on_flex};
use burn::tensor::activation::log_softmax;
use burn::tensor::{DType, Int, Tensor};

/// The sum over rows of `-weight * log softmax(scores)[class]`; without weights, the mean.
///
/// `scores` is `[rows, classes]`; `classes` and `weights` are `[rows]`. Weights are data and get no gradient.
///
/// The result is that of Burn's own `CrossEntropyLoss`. Where the fused path can run, loss and derivative are computed
/// in one operation: with few classes and many rows, a chain of tensor operations would take longer than the readout
/// itself.
///
/// ```
/// use attentive::cross_entropy;
/// use burn::tensor::{Device, Int, Tensor};
/// let device = Device::flex().autodiff();
/// let scores = Tensor::<2>::zeros([3, 4], &device).require_grad();
/// let classes = Tensor::<1, Int>::from_ints([0, 3, 1], &device);
/// let loss = cross_entropy(scores.clone(), classes, None)?;
/// let gradient = scores.grad(&loss.backward()).expect("scores are tracked");
/// assert!((loss.into_scalar::<f32>() - 4_f32.ln()).abs() < 1e-6);
/// let of_first_row: Vec<f32> = gradient.into_data().iter::<f32>().take(4).map(|d| (12.0 * d).round()).collect();
/// assert_eq!(of_first_row, [-3.0, 1.0, 1.0, 1.0]);
/// # Ok::<(), attentive::SabError>(())
/// ```
pub fn cross_entropy(scores: Tensor<2>, classes: Tensor<1, Int>, weights: Option<Tensor<1>>) -> Result<Tensor<1>> {
    cross_entropy_by(scores, classes, weights, Path::Auto)
}

/// [`cross_entropy`] on a given path.
pub fn cross_entropy_by(
    scores: Tensor<2>, classes: Tensor<1, Int>, weights: Option<Tensor<1>>, path: Path,
) -> Result<Tensor<1>> {
    let [rows, count] = scores.dims();
    if rows == 0 || count == 0 {
        let expected = "[rows, classes], each at least 1".into();
        return Err(SabError::Shape { what: "scores", got: vec![rows, count], expected });
    }
    let lengths =
        [("classes", Some(classes.dims()[0])), ("weights", weights.as_ref().map(|weights| weights.dims()[0]))];
    for (what, length) in lengths {
        if let Some(length) = length.filter(|length| *length != rows) {
            return Err(SabError::Shape { what, got: vec![length], expected: format!("[{rows}], one for each row,") });
        }
    }
    if let Some(got) = weights.as_ref().map(|weights| weights.dtype()).filter(|got| *got != scores.dtype()) {
        return Err(SabError::DType { what: "weights", got, expected: scores.dtype() });
    }
    let checked: Vec<u32> = classes
        .to_data()
        .iter::<i64>()
        .enumerate()
        .map(|(row, class)| match usize::try_from(class) {
            Ok(index) if index < count => Ok(index as u32),
            _ => Err(SabError::Class { row, class, classes: count }),
        })
        .collect::<Result<_>>()?;
    match path {
        #[cfg(feature = "flex")]
        Path::Auto | Path::Fused if scores.dtype() == DType::F32 && on_flex(&scores.device()) => {
            crate::engine::cross_entropy(scores, checked, weights)
        }
        Path::Fused => Err(SabError::NoFusedPath("the scores are not F32 on Burn's CPU backend".into())),
        _ => {
            let losses = log_softmax(scores, 1).gather(1, classes.unsqueeze_dim(1)).squeeze_dim::<1>(1).neg();
            Ok(match weights {
                None => losses.mean(),
                Some(weights) => (losses * weights.detach()).sum(),
            })
        }
    }
}
