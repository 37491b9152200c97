//! Cross-entropy: the fused operation against tensor operations and against numbers computed by hand.

use attentive::{Path, SabError, cross_entropy, cross_entropy_by};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};

fn numbers<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_to_vec().expect("single precision")
}

fn run(scores: &[f32], classes: &[i32], weights: Option<&[f32]>, path: Path, factor: f32) -> (f32, Vec<f32>) {
    let device = Device::flex().autodiff();
    let rows = classes.len();
    let scores = Tensor::<2>::from_data(TensorData::new(scores.to_vec(), [rows, scores.len() / rows]), &device);
    let scores = scores.require_grad();
    let right = Tensor::<1, Int>::from_data(TensorData::new(classes.to_vec(), [rows]), &device);
    let weights = weights.map(|weights| Tensor::<1>::from_data(TensorData::new(weights.to_vec(), [rows]), &device));
    let loss = cross_entropy_by(scores.clone(), right, weights, path).expect("a good call") * factor;
    let gradient = scores.grad(&loss.backward()).expect("scores are tracked");
    (loss.into_scalar::<f32>(), numbers(gradient))
}

#[test]
fn the_fused_loss_agrees_with_tensor_operations() {
    let mut state = 5_u32;
    let mut draw = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32
    };
    for (rows, classes) in [(1, 1), (1, 2), (3, 9), (7, 10), (40, 50), (2, 300)] {
        let scores: Vec<f32> = (0..rows * classes).map(|_| 20.0 * draw() - 10.0).collect();
        let right: Vec<i32> = (0..rows).map(|_| (draw() * classes as f32) as i32).collect();
        let weights: Vec<f32> = (0..rows).map(|row| if row % 3 == 1 { 0.0 } else { draw() }).collect();
        for weights in [None, Some(weights.as_slice())] {
            // A factor applied to the loss must reach the gradient.
            for factor in [1.0, 0.5] {
                let fused = run(&scores, &right, weights, Path::Fused, factor);
                let portable = run(&scores, &right, weights, Path::Portable, factor);
                assert!((fused.0 - portable.0).abs() <= 1e-5 * portable.0.abs().max(1e-3), "{fused:?} {portable:?}");
                let largest = portable.1.iter().fold(1e-6_f32, |most, d| most.max(d.abs()));
                for (a, b) in fused.1.iter().zip(&portable.1) {
                    assert!((a - b).abs() <= 1e-5 * largest, "{rows} rows of {classes}: {a} against {b}");
                }
            }
        }
    }
}

#[test]
fn large_scores_lose_nothing() {
    // The softmax of (1000, 0) is (1, 0): a wrong answer costs 1000, a right one nothing.
    let (loss, gradient) = run(&[1000.0, 0.0, 1000.0, 0.0], &[1, 0], Some(&[1.0, 1.0]), Path::Fused, 1.0);
    assert_eq!(loss, 1000.0);
    assert_eq!(gradient[..3], [1.0, -1.0, 0.0]);
    assert!(gradient[3] < 1e-30, "{gradient:?}");
    let (loss, _) = run(&[f32::NAN, 0.0], &[1], None, Path::Fused, 1.0);
    assert!(loss.is_nan(), "a NaN is not hidden: {loss}");
}

#[test]
fn rows_of_weight_0_have_no_gradient_at_all() {
    let (_, gradient) = run(&[0.3, -2.0, 7.0, 1.0], &[0, 1], Some(&[0.0, 1.0]), Path::Fused, 1.0);
    assert_eq!(gradient[..2], [0.0, 0.0]);
}

#[test]
fn mistakes_are_named() {
    let device = Device::flex();
    let scores = || Tensor::<2>::zeros([2, 3], &device);
    let classes = |classes: &[i32]| Tensor::<1, Int>::from_ints(classes, &device);
    let says = |result: attentive::Result<Tensor<1>>| result.expect_err("a mistake").to_string();
    assert_eq!(
        says(cross_entropy(scores(), classes(&[0, 3]), None)),
        "class 3 of row 1 is outside 0..3, the columns of `scores`"
    );
    assert_eq!(
        cross_entropy(scores(), classes(&[-1, 0]), None).expect_err("a mistake"),
        SabError::Class { row: 0, class: -1, classes: 3 }
    );
    assert!(says(cross_entropy(scores(), classes(&[0]), None)).contains("`classes` has shape [1], but [2]"));
    let weights = Tensor::<1>::ones([3], &device);
    assert!(says(cross_entropy(scores(), classes(&[0, 1]), Some(weights))).contains("`weights` has shape [3]"));
    assert!(says(cross_entropy(Tensor::zeros([0, 3], &device), classes(&[]), None)).contains("`scores`"));
    let double = scores().cast(DType::F64);
    assert!(says(cross_entropy_by(double.clone(), classes(&[0, 1]), None, Path::Fused)).contains("F32"));
    let weights = Tensor::<1>::ones([2], &device);
    assert!(says(cross_entropy(double.clone(), classes(&[0, 1]), Some(weights))).contains("cast"));
    cross_entropy(double, classes(&[0, 1]), None).expect("double precision has the portable path");
}
