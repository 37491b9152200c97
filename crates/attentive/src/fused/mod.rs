//! The fused path: one operation over the whole sequence on the CPU, forward and backward written by hand.
//!
//! ```text
//! parameters -> weights (packed) --+
//! inputs, carried state -----------+-> forward -> outputs, tape
//! outputs' adjoints, tape -> backward: one sweep (R13), weight_gradients on the way
//! ```
//!
//! [`burn`] makes it an operation of Burn's CPU backend. Everything is `f32`, and bit for bit the same for any
//! number of threads.

mod aligned;
mod backward;
pub(crate) mod burn;
mod forward;
mod kernels;
mod limit;
mod loss;
mod pairs;
mod pool;
mod problem;
mod readout;
mod scores;
mod sweep;
mod tape;
mod team;
mod weight_gradients;
mod weights;

pub use limit::arithmetic_limit;

#[cfg(test)]
mod tests {
    use crate::{ForwardOptions, Hops, KTop, Path, SabInput, SabLstmConfig, ScoreGradient};
    use burn::tensor::{Device, Distribution, Int, Tensor};

    /// In these tests [`super::pool`] fills every buffer with NaN, so whatever is read before it is written shows.
    #[test]
    fn no_buffer_is_read_before_it_is_written() {
        let device = Device::flex().autodiff();
        device.seed(1);
        let options = ForwardOptions::new().with_path(Path::Fused).with_threads(3);
        for (batch, time, hidden) in [(1, 1, 1), (3, 9, 5), (5, 40, 16), (40, 30, 33), (3, 5, 330)] {
            for (k_top, k_trunc) in [(KTop::Count(0), None), (KTop::Count(2), Some(3)), (KTop::All, None)] {
                for (hops, score_gradient) in [(Hops::All, ScoreGradient::Weights), (Hops::One, ScoreGradient::Full)] {
                    let config = SabLstmConfig::new(3, hidden).with_k_top(k_top).with_k_att(2).with_k_trunc(k_trunc);
                    let config = config.with_hops(hops).with_score_gradient(score_gradient);
                    let lstm = config.init(&device);
                    let dense = Tensor::<3>::random([batch, time, 3], Distribution::Default, &device).require_grad();
                    let tokens = Tensor::<2, Int>::ones([batch, time], &device);
                    for input in [SabInput::Dense(dense.clone()), SabInput::Tokens(tokens)] {
                        let first = lstm.forward_with(input.clone(), None, &options).expect("a good input");
                        let out = lstm.forward_with(input, Some(first.state), &options).expect("a good input");
                        // A loss on the last step leaves holes in what the sweep visits.
                        let last = out.hidden.clone().narrow(1, time - 1, 1).sum() + out.summary.sum() * 0.1;
                        let grads = last.backward();
                        let finite = |values: Option<Tensor<1>>| {
                            values.is_none_or(|values| values.is_finite().all().into_scalar::<bool>())
                        };
                        assert!(finite(Some(out.hidden.inner().flatten(0, 2))), "{config:?}");
                        assert!(finite(dense.grad(&grads).map(|g| g.flatten(0, 2))), "{config:?}");
                        for weight in [&lstm.weight_ih, &lstm.weight_hh, &lstm.w1, &lstm.w2] {
                            assert!(finite(weight.val().grad(&grads).map(|g| g.flatten(0, 1))), "{config:?}");
                        }
                        for weight in [&lstm.bias, &lstm.w3] {
                            assert!(finite(weight.val().grad(&grads)), "{config:?}");
                        }
                    }
                }
            }
        }
    }
}
