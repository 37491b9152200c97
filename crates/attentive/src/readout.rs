//! [`SabReadout`]: the output layer of Algorithm 1 (R8).

use crate::error::SabError;
use crate::lstm::on_flex;
use crate::options::Path;
use burn::config::Config;
use burn::module::{Initializer, Module, Param};
use burn::tensor::{DType, Device, Tensor};

/// Configuration of a [`SabReadout`].
#[derive(Config, Debug)]
pub struct SabReadoutConfig {
    /// Size of the hidden state.
    pub hidden: usize,
    /// Size of the output.
    pub output: usize,
}

/// `y = V1 h + V2 s + b` (R8).
#[derive(Module, Debug)]
pub struct SabReadout {
    /// Hidden state to output, `[hidden, output]`.
    pub v1: Param<Tensor<2>>,
    /// Summary to output, `[hidden, output]`.
    pub v2: Param<Tensor<2>>,
    /// `[output]`
    pub bias: Param<Tensor<1>>,
}

impl SabReadoutConfig {
    /// Checks both sizes.
    pub fn validate(&self) -> crate::Result<()> {
        for (field, size) in [("hidden", self.hidden), ("output", self.output)] {
            if size == 0 {
                return Err(SabError::Config { field, value: "0".into(), hint: "at least 1".into() });
            }
        }
        Ok(())
    }

    /// Makes the layer, uniform in `±1 / sqrt(2 * hidden)`. Sizes of 0 count as 1; [`SabReadoutConfig::validate`] finds them.
    pub fn init(&self, device: &Device) -> SabReadout {
        let (hidden, output) = (self.hidden.max(1), self.output.max(1));
        let bound = 1.0 / ((2 * hidden) as f64).sqrt();
        let uniform = Initializer::Uniform { min: -bound, max: bound };
        SabReadout {
            v1: uniform.init([hidden, output], device),
            v2: uniform.init([hidden, output], device),
            bias: uniform.init([output], device),
        }
        .materialize()
    }
}

impl SabReadout {
    /// `[..., hidden]` twice to `[..., output]`.
    pub fn forward<const D: usize>(&self, hidden: Tensor<D>, summary: Tensor<D>) -> crate::Result<Tensor<D>> {
        self.forward_by(hidden, summary, Path::Auto)
    }

    /// [`forward`](SabReadout::forward) with a forced path.
    pub fn forward_by<const D: usize>(&self, hidden: Tensor<D>, summary: Tensor<D>, path: Path) -> crate::Result<Tensor<D>> {
        let (v1, v2, bias) = (self.v1.val(), self.v2.val(), self.bias.val());
        let [units, output] = v1.dims();
        for (what, got, right) in [("v2", v2.dims().to_vec(), vec![units, output]), ("bias", bias.dims().to_vec(), vec![output])] {
            if got != right {
                return Err(SabError::Shape { what, got, expected: format!("{right:?}") });
            }
        }
        let mut shape = hidden.dims();
        for (what, got) in [("hidden", hidden.dims()), ("summary", summary.dims())] {
            if got[..D - 1] != shape[..D - 1] || got[D - 1] != units {
                let expected = format!("the shape of `hidden` with {units} last");
                return Err(SabError::Shape { what, got: got.to_vec(), expected });
            }
        }
        let expected = v1.dtype();
        let types =
            [("hidden", hidden.dtype()), ("summary", summary.dtype()), ("v2", v2.dtype()), ("bias", bias.dtype())];
        if let Some((what, got)) = types.into_iter().find(|(_, got)| *got != expected) {
            return Err(SabError::DType { what, got, expected });
        }
        let rows: usize = shape[..D - 1].iter().product();
        let (hidden, summary) = (hidden.reshape([rows, units]), summary.reshape([rows, units]));
        let fused = expected == DType::F32 && on_flex(&v1.device());
        let y = match path {
            Path::Fused if !fused => return Err(SabError::NoFusedPath("the readout is not F32 on Burn's CPU backend".into())),
            #[cfg(feature = "flex")]
            Path::Auto | Path::Fused if fused => crate::fused::burn::readout_rows(hidden, summary, v1, v2, bias),
            _ => hidden.matmul(v1) + summary.matmul(v2) + bias.unsqueeze::<2>(),
        };
        shape[D - 1] = output;
        Ok(y.reshape(shape))
    }
}
