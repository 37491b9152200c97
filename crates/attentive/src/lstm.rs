//! [`SabLstm`]: the layer.

use crate::config::SabLstmConfig;
use crate::error::{Result, SabError, check_device};
use crate::io::{SabInput, SabOutput, SabStepInput, SabStepOutput};
use crate::options::{ForwardOptions, Path};
use crate::parameters::{LayerParameter, Weights};
use crate::portable;
use crate::state::SabState;
use attentive_engine::{Model, Parameter};
use burn::module::{
    Content, Devices, DisplaySettings, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper, ModuleVisitor, Param,
};
use burn::tensor::{DType, Device, Int, Tensor};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A recurrent layer that is reminded of its past, and whose gradient follows the reminders.
///
/// Made by [`SabLstmConfig::init`]. Its parameters are those that its parts declare:
///
/// | part | parameters |
/// |---|---|
/// | cell `lstm` | `weight_ih` `[input, 4 * hidden]`, `weight_hh` `[hidden, 4 * hidden]`, `bias` `[4 * hidden]`; gates i, f, g, o |
/// | cell `gru` | `weight_ih` `[input, 3 * hidden]`, `weight_hh` `[hidden, 3 * hidden]`; gates r, z, n; `bias` `[4 * hidden]` with the hidden side of n last |
/// | scorer `additive` | `w1`, `w2` `[hidden, hidden]`, `w3` `[hidden]` |
/// | scorer `dot` | `w1`, `w2` `[hidden, hidden]` |
/// | scorer `cosine` | `w1` `[hidden, hidden]`, `temperature` `[1]` |
///
/// Matrices are stored as Burn's own layers store theirs, `[d_input, d_output]`: the transposes of the paper's.
#[derive(Clone, Debug)]
pub struct SabLstm {
    declared: Arc<Vec<Parameter>>,
    /// In the order of the declaration.
    parameters: Vec<LayerParameter>,
    config: SabLstmConfig,
    /// Calls so far: what random phases are drawn from where the caller does not say.
    calls: Arc<AtomicU64>,
    #[cfg(feature = "flex")]
    prepared: Arc<crate::engine::PreparedWeights>,
}

impl SabLstmConfig {
    /// Makes the layer, or says what is wrong with the configuration.
    pub fn try_init(&self, device: &Device) -> Result<SabLstm> {
        self.validate()?;
        Ok(self.init(device))
    }

    /// Makes the layer, as Burn's layers are made. It never panics: a configuration that does not
    /// [`validate`](SabLstmConfig::validate) makes a layer whose `forward` returns the error.
    pub fn init(&self, device: &Device) -> SabLstm {
        // A layer of a wrong size is never run, but it must exist.
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
    /// The configuration that the layer was made with.
    pub fn config(&self) -> &SabLstmConfig {
        &self.config
    }

    /// The layer's parameters in order: names, shapes, which part they belong to.
    pub fn declared(&self) -> &[Parameter] {
        &self.declared
    }

    /// A matrix by its name, such as `weight_ih` or `w1`; `None` if the layer's parts have none of that name.
    pub fn matrix(&self, name: &str) -> Option<&Param<Tensor<2>>> {
        match self.parameters.get(self.place(name)?) {
            Some(LayerParameter::Matrix(param)) => Some(param),
            _ => None,
        }
    }

    /// A vector by its name, such as `bias` or `w3`; `None` if the layer's parts have none of that name.
    pub fn vector(&self, name: &str) -> Option<&Param<Tensor<1>>> {
        match self.parameters.get(self.place(name)?) {
            Some(LayerParameter::Vector(param)) => Some(param),
            _ => None,
        }
    }

    /// Replaces a matrix. Its shape is checked when the layer runs.
    pub fn set_matrix(&mut self, name: &str, param: Param<Tensor<2>>) -> Result<()> {
        self.set(name, LayerParameter::Matrix(param))
    }

    /// Replaces a vector. Its shape is checked when the layer runs.
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
    /// let out = lstm.forward(x, Some(out.state))?; // goes on where the first call ended
    /// assert_eq!(out.state.steps(), [40; 4]);
    /// # Ok::<(), attentive::SabError>(())
    /// ```
    pub fn forward(&self, input: impl Into<SabInput>, state: Option<SabState>) -> Result<SabOutput> {
        self.forward_with(input, state, &ForwardOptions::default())
    }

    /// [`forward`](SabLstm::forward) with options: a forced path, threads, a record of reminders.
    pub fn forward_with(
        &self, input: impl Into<SabInput>, state: Option<SabState>, options: &ForwardOptions,
    ) -> Result<SabOutput> {
        self.config.validate()?;
        let weights = Weights::new(&self.declared, &self.parameters)?;
        let input = input.into();
        let (batch, _) = self.check_input(&input, &weights)?;
        if let Some(state) = &state {
            self.check_state(state, batch, &weights)?;
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

    /// One step of a stream: dense `[batch, input]` or tokens `[batch]`. Step by step gives the same bits as
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
        SabState::fresh(batch, self.config.hidden, self.config.cell, self.config.k_att, &device, weights.dtype)
    }

    /// Batch and time of an input that fits the layer.
    fn check_input(&self, input: &SabInput, weights: &Weights) -> Result<(usize, usize)> {
        let (shape, expected) = match input {
            SabInput::Dense(x) => (x.dims().to_vec(), format!("[batch, time, {}]", self.config.input)),
            SabInput::Tokens(x) => (x.dims().to_vec(), "[batch, time]".to_string()),
        };
        let wrong_width = shape.get(2).is_some_and(|width| *width != self.config.input);
        if shape[0] == 0 || shape[1] == 0 || wrong_width {
            let expected = format!("{expected} with at least one row and one step");
            return Err(SabError::Shape { what: "input", got: shape, expected });
        }
        if let SabInput::Dense(x) = input {
            let expected = weights.dtype;
            if x.dtype() != expected {
                return Err(SabError::DType { what: "input", got: x.dtype(), expected });
            }
        }
        let device = match input {
            SabInput::Dense(x) => x.device(),
            SabInput::Tokens(x) => x.device(),
        };
        check_device("input", &device, &weights.device)?;
        Ok((shape[0], shape[1]))
    }

    fn check_state(&self, state: &SabState, batch: usize, weights: &Weights) -> Result<()> {
        let wrong = |what: &str, got: String, right: String| {
            Err(SabError::State(format!("its {what} is {got}, but {right} is needed")))
        };
        let [rows, units] = state.hidden().dims();
        if rows != batch {
            return wrong("batch", rows.to_string(), format!("{batch}, the batch of the input,"));
        }
        if units != self.config.hidden {
            return wrong("hidden size", units.to_string(), self.config.hidden.to_string());
        }
        if state.k_att() != self.config.k_att {
            return wrong("`k_att`", state.k_att().to_string(), self.config.k_att.to_string());
        }
        if state.cell().is_some() != self.config.cell.carries() {
            let (has, needs) = if state.cell().is_some() { ("there", "none") } else { ("missing", "one") };
            return wrong("cell state", has.into(), format!("{needs}, as the cell `{}` has it,", self.config.cell));
        }
        let model = self.config.model(0);
        state.rows().iter().try_for_each(|row| row.check(&model))?;
        let cell = state.cell().map(|cell| cell.dtype());
        for got in [Some(state.hidden().dtype()), cell, Some(state.memory_dtype())].into_iter().flatten() {
            if got != weights.dtype {
                return wrong("type", format!("{got:?}"), format!("{:?}", weights.dtype));
            }
        }
        let (got, right) = (state.hidden().device(), weights.device.clone().inner());
        if got != right {
            return wrong(
                "device",
                format!("{got:?}"),
                format!("{right:?}, as `to_record` and `from_record` make it,"),
            );
        }
        Ok(())
    }

    /// Tokens on the host, each below `input`.
    fn checked_tokens(&self, tokens: &Tensor<2, Int>) -> Result<Vec<u32>> {
        let time = tokens.dims()[1];
        let values = tokens.to_data();
        let check = |(place, token): (usize, i64)| match usize::try_from(token) {
            Ok(row) if row < self.config.input => Ok(row as u32),
            _ => Err(SabError::Token { row: place / time, step: place % time, token, input: self.config.input }),
        };
        values.iter::<i64>().enumerate().map(check).collect()
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
            return Err(SabError::NonFinite { what: "hidden", place: ", from a parameter or a product".into() });
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
        let state = state.materialised();
        let call = Call {
            model,
            time,
            inputs,
            rows: state.rows().to_vec(),
            tracked: false,
            threads: options.thread_count(),
            instructions: options.instructions,
            reminders: options.reminders,
        };
        let out = engine::sequence(weights, dense, call, engine::Carried::of(&state)?, self.prepared.clone())?;
        let state = state.after(&out.hidden, out.last_cell, out.rows)?;
        Ok(SabOutput {
            hidden: out.hidden,
            summary: out.summary,
            state,
            reminders: out.reminders,
            link: Some(out.link),
        })
    }

    #[cfg(not(feature = "flex"))]
    fn run_fused(&self, _: Weights, _: SabInput, _: SabState, _: Model, _: &ForwardOptions) -> Result<SabOutput> {
        Err(SabError::NoFusedPath("the crate was built without its `flex` feature".into()))
    }
}

/// Burn's path of a parameter is its name, as if each were a field.
const CONTAINER: &str = "Struct:SabLstm";

impl Module for SabLstm {
    fn collect_devices(&self, devices: Devices) -> Devices {
        self.parameters.collect_devices(devices)
    }

    fn fork(self, device: &Device) -> Self {
        Self { parameters: self.parameters.fork(device), ..self }
    }

    fn to_device(self, device: &Device) -> Self {
        Self { parameters: self.parameters.to_device(device), ..self }
    }

    fn train(self) -> Self {
        Self { parameters: self.parameters.train(), ..self }
    }

    fn valid(&self) -> Self {
        Self { parameters: self.parameters.valid(), ..self.clone() }
    }

    fn materialize(self) -> Self {
        Self { parameters: self.parameters.materialize(), ..self }
    }

    fn visit<V: ModuleVisitor>(&self, visitor: &mut V) {
        for (declared, parameter) in self.declared.iter().zip(&self.parameters) {
            visitor.enter_module(declared.name, CONTAINER);
            parameter.visit(visitor);
            visitor.exit_module(declared.name, CONTAINER);
        }
    }

    fn map<M: ModuleMapper>(self, mapper: &mut M) -> Self {
        let mapped = self.declared.iter().zip(self.parameters).map(|(declared, parameter)| {
            mapper.enter_module(declared.name, CONTAINER);
            let mapped = parameter.map(mapper);
            mapper.exit_module(declared.name, CONTAINER);
            mapped
        });
        Self { parameters: mapped.collect(), ..self }
    }
}

impl ModuleDisplayDefault for SabLstm {
    fn content(&self, content: Content) -> Option<Content> {
        let named = content.set_top_level_type("SabLstm");
        let all =
            self.declared.iter().zip(&self.parameters).fold(named, |content, (declared, parameter)| match parameter {
                LayerParameter::Matrix(param) => content.add(declared.name, param),
                LayerParameter::Vector(param) => content.add(declared.name, param),
            });
        all.optional()
    }

    fn num_params(&self) -> usize {
        Module::num_params(self)
    }
}

impl ModuleDisplay for SabLstm {}

impl std::fmt::Display for SabLstm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&ModuleDisplay::format(self, DisplaySettings::default()))
    }
}

/// Whether no element is a NaN or an infinity.
fn is_finite<const D: usize>(tensor: Tensor<D>) -> bool {
    tensor.inner().is_finite().all().into_scalar::<bool>()
}

/// Why the engine cannot run with these parameters, or `None` if it can. Which models it accepts, it says itself.
fn engine_missing(weights: &Weights) -> Option<String> {
    if !on_flex(&weights.device) {
        Some("the layer is not on Burn's CPU backend (Flex)".into())
    } else if weights.dtype != DType::F32 {
        Some(format!("the layer's parameters are {:?}, and the engine computes in F32", weights.dtype))
    } else {
        None
    }
}

#[cfg(feature = "flex")]
pub(crate) fn on_flex(device: &Device) -> bool {
    use burn::backend::DispatchDevice;
    matches!(device.clone().inner().as_dispatch(), DispatchDevice::Flex(_))
}

#[cfg(not(feature = "flex"))]
pub(crate) fn on_flex(_: &Device) -> bool {
    false
}
