//! [`SabLstm`]: the layer.

mod checks;
mod module;

use crate::config::SabLstmConfig;
use crate::error::{Result, SabError};
use crate::io::{SabInput, SabOutput, SabStepInput, SabStepOutput};
use crate::options::{ForwardOptions, Path, on_flex};
use crate::parameters::{LayerParameter, Weights};
use crate::portable;
use crate::state::SabState;
use attentive_engine::{Model, Parameter};
use burn::module::Param;
use burn::tensor::{DType, Device, Tensor};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A recurrent layer that is reminded of its own past states, and whose gradient follows these reminders.
///
/// Created by [`SabLstmConfig::init`]. Its parts declare its parameters:
///
/// | part | parameters |
/// |---|---|
/// | cell `lstm` | `weight_ih` `[input, 4 * hidden]`, `weight_hh` `[hidden, 4 * hidden]`, `bias` `[4 * hidden]`; gates i, f, g, o |
/// | cell `gru` | `weight_ih` `[input, 3 * hidden]`, `weight_hh` `[hidden, 3 * hidden]`; gates r, z, n; `bias` `[4 * hidden]` with the hidden side of n last |
/// | scorer `additive` | `w1`, `w2` `[hidden, hidden]`, `w3` `[hidden]` |
/// | scorer `dot` | `w1`, `w2` `[hidden, hidden]` |
/// | scorer `cosine` | `w1` `[hidden, hidden]`, `temperature` `[1]` |
///
/// Matrices are stored as in Burn's own layers, `[d_input, d_output]`. These are the transposes of the paper's
/// matrices.
#[derive(Clone, Debug)]
pub struct SabLstm {
    declared: Arc<Vec<Parameter>>,
    /// In the order of the declaration.
    parameters: Vec<LayerParameter>,
    config: SabLstmConfig,
    /// The number of calls so far. Random phases are drawn from it unless the caller gives a batch number.
    calls: Arc<AtomicU64>,
    #[cfg(feature = "flex")]
    prepared: Arc<crate::engine::PreparedWeights>,
}

impl SabLstmConfig {
    /// Creates the layer, or returns the error in the configuration.
    pub fn try_init(&self, device: &Device) -> Result<SabLstm> {
        self.validate()?;
        Ok(self.init(device))
    }

    /// Creates the layer, like the `init` of Burn's layers. It never panics: if the configuration does not
    /// [`validate`](SabLstmConfig::validate), the layer's `forward` returns the error.
    pub fn init(&self, device: &Device) -> SabLstm {
        // A layer of invalid size never runs, but it must exist.
        let (input, hidden) = if self.sizes_are_possible() { (self.input, self.hidden) } else { (1, 1) };
        let declared = Model { input, hidden, ..self.model(0) }.parameters();
        let draw = |declared: &Parameter| {
            let drawn = LayerParameter::draw(declared, self, hidden, device);
            match declared.name {
                "bias" => drawn.add_to_block(self.cell.keeping_block(), hidden, self.initialization.forget_bias),
                _ => drawn,
            }
        };
        SabLstm {
            parameters: declared.iter().map(draw).collect(),
            declared: Arc::new(declared),
            config: self.clone(),
            calls: Arc::default(),
            #[cfg(feature = "flex")]
            prepared: Arc::default(),
        }
    }
}

impl SabLstm {
    /// The layer's configuration.
    pub fn config(&self) -> &SabLstmConfig {
        &self.config
    }

    /// The declaration of the layer's parameters, in order: names, shapes, and the parts they belong to.
    pub fn declared(&self) -> &[Parameter] {
        &self.declared
    }

    /// A matrix by its name, such as `weight_ih` or `w1`; `None` if the layer has none of that name.
    pub fn matrix(&self, name: &str) -> Option<&Param<Tensor<2>>> {
        match self.parameters.get(self.place(name)?) {
            Some(LayerParameter::Matrix(param)) => Some(param),
            _ => None,
        }
    }

    /// A vector by its name, such as `bias` or `w3`; `None` if the layer has none of that name.
    pub fn vector(&self, name: &str) -> Option<&Param<Tensor<1>>> {
        match self.parameters.get(self.place(name)?) {
            Some(LayerParameter::Vector(param)) => Some(param),
            _ => None,
        }
    }

    /// Replaces a matrix. The layer checks its shape when it runs.
    pub fn set_matrix(&mut self, name: &str, param: Param<Tensor<2>>) -> Result<()> {
        self.set(name, LayerParameter::Matrix(param))
    }

    /// Replaces a vector. The layer checks its shape when it runs.
    pub fn set_vector(&mut self, name: &str, param: Param<Tensor<1>>) -> Result<()> {
        self.set(name, LayerParameter::Vector(param))
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.declared.iter().position(|declared| declared.name == name)
    }

    fn set(&mut self, name: &str, parameter: LayerParameter) -> Result<()> {
        match self.place(name) {
            Some(place) => self.parameters[place] = parameter,
            None => {
                let names: Vec<&str> = self.declared.iter().map(|declared| declared.name).collect();
                return Err(SabError::Config {
                    field: "parameter",
                    value: format!("`{name}`"),
                    hint: format!("this layer has {}", names.join(", ")),
                });
            }
        }
        Ok(())
    }

    /// Runs a sequence: dense `[batch, time, input]` or tokens `[batch, time]`, from a carried state or a fresh one.
    ///
    /// ```
    /// # use attentive::SabLstmConfig;
    /// # use burn::tensor::{Device, Tensor};
    /// let device = Device::flex();
    /// let lstm = SabLstmConfig::new(3, 16).with_k_top(2).init(&device);
    /// let x = Tensor::<3>::ones([4, 20, 3], &device);
    /// let out = lstm.forward(x.clone(), None)?;
    /// assert_eq!(out.hidden.dims(), [4, 20, 16]);
    /// let out = lstm.forward(x, Some(out.state))?; // continues where the first call ended
    /// assert_eq!(out.state.steps(), [40; 4]);
    /// # Ok::<(), attentive::SabError>(())
    /// ```
    pub fn forward(&self, input: impl Into<SabInput>, state: Option<SabState>) -> Result<SabOutput> {
        self.forward_with(input, state, &ForwardOptions::default())
    }

    /// [`forward`](SabLstm::forward) with options, such as the path, the number of threads, or a record of reminders.
    pub fn forward_with(
        &self, input: impl Into<SabInput>, state: Option<SabState>, options: &ForwardOptions,
    ) -> Result<SabOutput> {
        self.config.validate()?;
        let weights = Weights::new(&self.declared, &self.parameters)?;
        let input = input.into();
        let (batch, _) = self.check_input(&input, &weights)?;
        if let Some(state) = &state {
            self.check_state(state, batch, &weights)?;
            state.check_segments(&self.config.model(0), matches!(input, SabInput::Dense(_)))?;
        }
        let (seed, number) = options.batch.unwrap_or_else(|| (0, self.calls.fetch_add(1, Ordering::Relaxed)));
        let model = self.config.model(self.config.trunc_phase.draw(self.config.k_trunc, seed, number));
        let state = state.unwrap_or_else(|| self.fresh_state(batch, &weights));
        match (options.path, engine_missing(&weights)) {
            (Path::Portable, _) | (Path::Auto, Some(_)) => self.run_portable(&weights, input, &state, &model, options),
            (Path::Fused, Some(why)) => Err(SabError::NoFusedPath(why)),
            (Path::Auto | Path::Fused, None) => self.run_fused(weights, input, state, model, options),
        }
    }

    /// Runs one step of a stream: dense `[batch, input]` or tokens `[batch]`. Step by step gives the same bits as
    /// [`forward`](SabLstm::forward) over the whole sequence (R14).
    pub fn step(&self, input: impl Into<SabStepInput>, state: Option<SabState>) -> Result<SabStepOutput> {
        self.step_with(input, state, &ForwardOptions::default())
    }

    /// [`step`](SabLstm::step) with options.
    pub fn step_with(
        &self, input: impl Into<SabStepInput>, state: Option<SabState>, options: &ForwardOptions,
    ) -> Result<SabStepOutput> {
        let input = match input.into() {
            SabStepInput::Dense(x) => SabInput::Dense(x.unsqueeze_dim(1)),
            SabStepInput::Tokens(x) => SabInput::Tokens(x.unsqueeze_dim(1)),
        };
        let out = self.forward_with(input, state, options)?;
        Ok(SabStepOutput {
            hidden: out.hidden.squeeze_dim(1),
            summary: out.summary.squeeze_dim(1),
            state: out.state,
            reminders: out.reminders,
        })
    }

    fn fresh_state(&self, batch: usize, weights: &Weights) -> SabState {
        let device = weights.device.clone().inner();
        SabState::fresh(&self.config.model(0), batch, &device, weights.dtype)
    }

    fn run_portable(
        &self, weights: &Weights, input: SabInput, state: &SabState, model: &Model, options: &ForwardOptions,
    ) -> Result<SabOutput> {
        match &input {
            SabInput::Dense(x) if !is_finite(x.clone()) => {
                return Err(SabError::NonFinite { what: "input", place: String::new() });
            }
            SabInput::Dense(_) => {}
            SabInput::Tokens(x) => {
                self.checked_tokens(x)?;
            }
        }
        if !state.is_finite() {
            return Err(SabError::NonFinite { what: "state", place: String::new() });
        }
        let out = portable::forward(weights, &input, state, model, options.reminders)?;
        if !is_finite(out.state.hidden()) {
            return Err(SabError::NonFinite {
                what: "hidden",
                place: " (from a parameter, or from a product that overflowed)".into(),
            });
        }
        Ok(out)
    }

    #[cfg(feature = "flex")]
    fn run_fused(
        &self, weights: Weights, input: SabInput, state: SabState, model: Model, options: &ForwardOptions,
    ) -> Result<SabOutput> {
        use crate::engine;
        use attentive_engine::{Call, Inputs};
        let (inputs, dense, time) = match input {
            SabInput::Dense(x) => (Inputs::Dense, Some(x.clone()), x.dims()[1]),
            SabInput::Tokens(x) => (Inputs::Tokens(Arc::new(self.checked_tokens(&x)?)), None, x.dims()[1]),
        };
        let (k_att, state) = (state.k_att(), state.into_engine(&model)?);
        let call = Call {
            model,
            time,
            inputs,
            tracked: false,
            replay: options.replay,
            retrieval: options.retrieval,
            threads: options.thread_count(),
            instructions: options.instructions,
            reminders: options.reminders,
        };
        let out = engine::sequence(weights, dense, call, state, self.prepared.clone())?;
        Ok(SabOutput {
            hidden: out.hidden,
            summary: out.summary,
            state: SabState::of_engine(out.state, k_att),
            reminders: out.reminders,
            drift: out.drift,
            link: Some(out.link),
        })
    }

    #[cfg(not(feature = "flex"))]
    fn run_fused(&self, _: Weights, _: SabInput, _: SabState, _: Model, _: &ForwardOptions) -> Result<SabOutput> {
        Err(SabError::NoFusedPath("the crate was built without its `flex` feature".into()))
    }
}

/// Whether all elements are finite.
fn is_finite<const D: usize>(tensor: Tensor<D>) -> bool {
    tensor.inner().is_finite().all().into_scalar::<bool>()
}

/// Why the engine cannot run with these parameters, or `None` if it can. The engine itself checks which models it
/// accepts.
fn engine_missing(weights: &Weights) -> Option<String> {
    if !on_flex(&weights.device) {
        Some("the layer is not on Burn's CPU backend (Flex)".into())
    } else if weights.dtype != DType::F32 {
        Some(format!("the layer's parameters are {:?}, but the engine computes in F32", weights.dtype))
    } else {
        None
    }
}
