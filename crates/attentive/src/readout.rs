//! [`SabReadout`]: the output layer of Algorithm 1 (R8).

use crate::error::{SabError, check_device};
use crate::io::SabOutput;
use crate::options::{Path, on_flex};
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
                return Err(SabError::Config { field, value: "0".into(), hint: "it must be at least 1".into() });
            }
        }
        Ok(())
    }

    /// Creates the layer with parameters drawn uniformly from `±1 / sqrt(2 * hidden)`. Sizes of 0 count as 1 here;
    /// [`SabReadoutConfig::validate`] reports them.
    pub fn init(&self, device: &Device) -> SabReadout {
        let (hidden, output) = (self.hidden.max(1), self.output.max(1));
        let bound = 1.0 / ((2 * hidden) as f64).sqrt();
        let uniform = Initializer::Uniform { min: -bound, max: bound };
        // Drawn immediately, as in `SabLstm`, so that a seed determines the layer.
        fn drawn<const D: usize>(initializer: &Initializer, shape: [usize; D], device: &Device) -> Param<Tensor<D>> {
            Param::from_tensor(initializer.init::<D, _>(shape, device).val().detach())
        }
        SabReadout {
            v1: drawn(&uniform, [hidden, output], device),
            v2: drawn(&uniform, [hidden, output], device),
            bias: drawn(&uniform, [output], device),
        }
    }
}

impl SabReadout {
    /// The output of every step, `[batch, time, output]`.
    ///
    /// Gives the same result as [`forward`](SabReadout::forward) of `out.hidden` and `out.summary`. On the fused path
    /// the gradient goes straight into the layer's own sweep, without tensors of the hidden size.
    pub fn read(&self, out: &SabOutput) -> crate::Result<Tensor<3>> {
        let [batch, time, _] = out.hidden.dims();
        match self.read_linked(out, false)? {
            Some(y) => Ok(y.reshape([batch as i64, time as i64, -1])),
            None => self.forward(out.hidden.clone(), out.summary.clone()),
        }
    }

    /// The output of the last step, `[batch, output]`, for tasks with one answer per sequence. See
    /// [`read`](SabReadout::read).
    pub fn read_last(&self, out: &SabOutput) -> crate::Result<Tensor<2>> {
        let time = out.hidden.dims()[1];
        let last = |x: &Tensor<3>| x.clone().narrow(1, time - 1, 1).squeeze_dim::<2>(1);
        match self.read_linked(out, true)? {
            Some(y) => Ok(y),
            None => self.forward(last(&out.hidden), last(&out.summary)),
        }
    }

    #[cfg(feature = "flex")]
    fn read_linked(&self, out: &SabOutput, last_step: bool) -> crate::Result<Option<Tensor<2>>> {
        let (v1, v2, bias) = self.checked(&out.hidden, &out.summary)?;
        let link = out.link.as_ref().filter(|link| link.still_holds(&out.hidden, &out.summary));
        let fused = v1.dtype() == DType::F32 && on_flex(&v1.device());
        Ok(link.filter(|_| fused).map(|link| link.read(v1, v2, bias, last_step)))
    }

    #[cfg(not(feature = "flex"))]
    fn read_linked(&self, _: &SabOutput, _: bool) -> crate::Result<Option<Tensor<2>>> {
        Ok(None)
    }

    /// The output from hidden states and summaries, `[..., hidden]` each: `[..., output]`.
    pub fn forward<const D: usize>(&self, hidden: Tensor<D>, summary: Tensor<D>) -> crate::Result<Tensor<D>> {
        self.forward_by(hidden, summary, Path::Auto)
    }

    /// [`forward`](SabReadout::forward) on a given path.
    pub fn forward_by<const D: usize>(
        &self, hidden: Tensor<D>, summary: Tensor<D>, path: Path,
    ) -> crate::Result<Tensor<D>> {
        let (v1, v2, bias) = self.checked(&hidden, &summary)?;
        let [units, output] = v1.dims();
        let mut shape = hidden.dims();
        let expected = v1.dtype();
        let rows: usize = shape[..D - 1].iter().product();
        let (hidden, summary) = (hidden.reshape([rows, units]), summary.reshape([rows, units]));
        let fused = expected == DType::F32 && on_flex(&v1.device());
        let y = match path {
            Path::Fused if !fused => {
                return Err(SabError::NoFusedPath("the readout is not F32 on Burn's CPU backend".into()));
            }
            #[cfg(feature = "flex")]
            Path::Auto | Path::Fused if fused => crate::engine::readout_rows(hidden, summary, v1, v2, bias),
            _ => hidden.matmul(v1) + summary.matmul(v2) + bias.unsqueeze::<2>(),
        };
        shape[D - 1] = output;
        Ok(y.reshape(shape))
    }

    /// The values of the parameters, if they fit each other and these states.
    #[allow(clippy::type_complexity)]
    fn checked<const D: usize>(
        &self, hidden: &Tensor<D>, summary: &Tensor<D>,
    ) -> crate::Result<(Tensor<2>, Tensor<2>, Tensor<1>)> {
        let (v1, v2, bias) = (self.v1.val(), self.v2.val(), self.bias.val());
        let [units, output] = v1.dims();
        if units == 0 || output == 0 {
            let expected = "[hidden, output], each at least 1".to_string();
            return Err(SabError::Shape { what: "v1", got: vec![units, output], expected });
        }
        for (what, got, right) in
            [("v2", v2.dims().to_vec(), vec![units, output]), ("bias", bias.dims().to_vec(), vec![output])]
        {
            if got != right {
                return Err(SabError::Shape { what, got, expected: format!("{right:?}") });
            }
        }
        let shape = hidden.dims();
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
        let device = v1.device();
        check_device("hidden", &hidden.device(), &device)?;
        check_device("summary", &summary.device(), &device)?;
        check_device("v2", &v2.device(), &device)?;
        check_device("bias", &bias.device(), &device)?;
        Ok((v1, v2, bias))
    }
}
