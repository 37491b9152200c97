//! [`SabLstm`]: the layer.

use crate::config::SabLstmConfig;
use crate::error::{Result, SabError, check_device};
#[cfg(feature = "flex")]
use crate::memory::RowClock;
use crate::options::{ForwardOptions, Path};
use crate::portable::{self, PortableInput};
use crate::reminders::Reminders;
use crate::replay::{Rules, draw_phase};
use crate::state::SabState;
use burn::module::{Initializer, Module, Param};
use burn::tensor::{DType, Device, Int, Tensor};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An LSTM that is reminded of its past, and whose gradient follows the reminders.
///
/// Made by [`SabLstmConfig::init`]. Weights are stored as Burn's own layers store theirs, `[d_input, d_output]`: the
/// transposes of the paper's matrices.
#[derive(Module, Debug)]
pub struct SabLstm {
    /// Input to gates, `[input, 4 * hidden]`, gates in the order i, f, g, o (R1).
    pub weight_ih: Param<Tensor<2>>,
    /// Hidden state to gates, `[hidden, 4 * hidden]`.
    pub weight_hh: Param<Tensor<2>>,
    /// Bias of the gates, `[4 * hidden]`.
    pub bias: Param<Tensor<1>>,
    /// Memory to scorer, `[hidden, hidden]`, the transpose of the paper's W1 (R3).
    pub w1: Param<Tensor<2>>,
    /// Query to scorer, `[hidden, hidden]`, the transpose of the paper's W2.
    pub w2: Param<Tensor<2>>,
    /// Scorer to score, `[hidden]`, the paper's W3.
    pub w3: Param<Tensor<1>>,
    #[module(skip)]
    config: SabLstmConfig,
    /// Calls so far: what random phases are drawn from where the caller does not say.
    #[module(skip)]
    calls: Arc<AtomicU64>,
    #[cfg(feature = "flex")]
    #[module(skip)]
    prepared: Arc<crate::fused::burn::PreparedWeights>,
}

/// The values of the parameters in one call.
#[derive(Clone, Debug)]
pub(crate) struct Weights {
    pub(crate) weight_ih: Tensor<2>,
    pub(crate) weight_hh: Tensor<2>,
    pub(crate) bias: Tensor<1>,
    pub(crate) w1: Tensor<2>,
    pub(crate) w2: Tensor<2>,
    pub(crate) w3: Tensor<1>,
}

/// What a sequence is: dense vectors or tokens.
#[derive(Clone, Debug)]
pub enum SabInput {
    /// `[batch, time, input]`
    Dense(Tensor<3>),
    /// `[batch, time]`, each a number below `input`: a row of the input weights.
    Tokens(Tensor<2, Int>),
}

impl From<Tensor<3>> for SabInput {
    fn from(dense: Tensor<3>) -> Self {
        SabInput::Dense(dense)
    }
}

impl From<Tensor<2, Int>> for SabInput {
    fn from(tokens: Tensor<2, Int>) -> Self {
        SabInput::Tokens(tokens)
    }
}

/// What one step of a stream is.
#[derive(Clone, Debug)]
pub enum SabStepInput {
    /// `[batch, input]`
    Dense(Tensor<2>),
    /// `[batch]`
    Tokens(Tensor<1, Int>),
}

impl From<Tensor<2>> for SabStepInput {
    fn from(dense: Tensor<2>) -> Self {
        SabStepInput::Dense(dense)
    }
}

impl From<Tensor<1, Int>> for SabStepInput {
    fn from(tokens: Tensor<1, Int>) -> Self {
        SabStepInput::Tokens(tokens)
    }
}

/// What [`SabLstm::forward`] returns.
#[derive(Clone, Debug)]
pub struct SabOutput {
    /// `h(t)` of every step, `[batch, time, hidden]` (R7).
    pub hidden: Tensor<3>,
    /// `s(t)` of every step, `[batch, time, hidden]` (R7).
    pub summary: Tensor<3>,
    /// What the next call goes on from.
    pub state: SabState,
    /// What each step was reminded of, if [`ForwardOptions::with_reminders`] asked for it and the layer attends.
    pub reminders: Option<Reminders>,
    #[cfg(feature = "flex")]
    pub(crate) link: Option<crate::fused::burn::OutputLink>,
}

/// What [`SabLstm::step`] returns.
#[derive(Clone, Debug)]
pub struct SabStepOutput {
    /// `h(t)`, `[batch, hidden]`.
    pub hidden: Tensor<2>,
    /// `s(t)`, `[batch, hidden]`.
    pub summary: Tensor<2>,
    /// What the next step goes on from.
    pub state: SabState,
    /// What the step was reminded of, if it was asked for.
    pub reminders: Option<Reminders>,
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
        let start = &self.initialization;
        let bound = start.bound.unwrap_or(1.0 / (hidden as f64).sqrt());
        let uniform = |gain: f64| match (bound * gain).abs() {
            // Also where the configuration is wrong: the layer must exist to report it.
            bound if bound == 0.0 || bound > f64::from(f32::MAX) || bound.is_nan() => Initializer::Zeros,
            bound => Initializer::Uniform { min: -bound, max: bound },
        };
        // Burn's parameters draw their numbers when first used; drawing them now, in this order, makes a seed mean one
        // layer whatever else is drawn before it is used.
        fn drawn<const D: usize>(initializer: Initializer, shape: [usize; D], device: &Device) -> Param<Tensor<D>> {
            Param::from_tensor(initializer.init::<D, _>(shape, device).val().detach())
        }
        let weight_ih = drawn(uniform(start.input_gain), [input, 4 * hidden], device);
        let weight_hh = drawn(uniform(1.0), [hidden, 4 * hidden], device);
        let bias = drawn(uniform(1.0), [4 * hidden], device);
        let bias = if start.forget_bias == 0.0 {
            bias
        } else {
            let of_gate = |value: f64| Tensor::<1>::full([hidden], value, device);
            let added = Tensor::cat(vec![of_gate(0.0), of_gate(start.forget_bias), of_gate(0.0), of_gate(0.0)], 0);
            // Only a leaf can be a parameter.
            Param::from_tensor((bias.val().detach() + added).detach())
        };
        SabLstm {
            weight_ih,
            weight_hh,
            bias,
            w1: drawn(uniform(start.attention_gain), [hidden, hidden], device),
            w2: drawn(uniform(start.attention_gain), [hidden, hidden], device),
            w3: drawn(uniform(start.score_gain), [hidden], device),
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
        let weights = self.weights()?;
        let input = input.into();
        let (batch, time) = self.check_input(&input, &weights)?;
        if let Some(state) = &state {
            self.check_state(state, batch, &weights)?;
        }
        let (seed, number) = options.batch.unwrap_or_else(|| (0, self.calls.fetch_add(1, Ordering::Relaxed)));
        let rules = Rules::new(&self.config, draw_phase(&self.config, seed, number));
        match (options.path, fused_path_missing(&weights)) {
            (Path::Portable, _) | (Path::Auto, Some(_)) => self.run_portable(weights, input, state, &rules, options),
            (Path::Fused, Some(why)) => Err(SabError::NoFusedPath(why)),
            (Path::Auto | Path::Fused, None) => self.run_fused(weights, input, state, rules, options, (batch, time)),
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

    /// The parameters' values, on one device, with the shapes that the configuration says (a loaded record may differ).
    fn weights(&self) -> Result<Weights> {
        let (input, hidden) = (self.config.input, self.config.hidden);
        fn check<const D: usize>(what: &'static str, param: &Param<Tensor<D>>, right: [usize; D]) -> Result<Tensor<D>> {
            let value = param.val();
            if value.dims() != right {
                let (got, expected) = (value.dims().to_vec(), format!("{right:?}"));
                return Err(SabError::Shape { what, got, expected });
            }
            Ok(value)
        }
        let weights = Weights {
            weight_ih: check("weight_ih", &self.weight_ih, [input, 4 * hidden])?,
            weight_hh: check("weight_hh", &self.weight_hh, [hidden, 4 * hidden])?,
            bias: check("bias", &self.bias, [4 * hidden])?,
            w1: check("w1", &self.w1, [hidden, hidden])?,
            w2: check("w2", &self.w2, [hidden, hidden])?,
            w3: check("w3", &self.w3, [hidden])?,
        };
        let types = [
            ("weight_hh", weights.weight_hh.dtype()),
            ("bias", weights.bias.dtype()),
            ("w1", weights.w1.dtype()),
            ("w2", weights.w2.dtype()),
            ("w3", weights.w3.dtype()),
        ];
        let expected = weights.weight_ih.dtype();
        if let Some((what, got)) = types.into_iter().find(|(_, got)| *got != expected) {
            return Err(SabError::DType { what, got, expected });
        }
        let device = weights.weight_ih.device();
        check_device("weight_hh", &weights.weight_hh.device(), &device)?;
        check_device("bias", &weights.bias.device(), &device)?;
        check_device("w1", &weights.w1.device(), &device)?;
        check_device("w2", &weights.w2.device(), &device)?;
        check_device("w3", &weights.w3.device(), &device)?;
        Ok(weights)
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
            let expected = weights.weight_ih.dtype();
            if x.dtype() != expected {
                return Err(SabError::DType { what: "input", got: x.dtype(), expected });
            }
        }
        let device = match input {
            SabInput::Dense(x) => x.device(),
            SabInput::Tokens(x) => x.device(),
        };
        check_device("input", &device, &weights.weight_ih.device())?;
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
        let right = weights.weight_ih.dtype();
        for got in [state.hidden().dtype(), state.cell().dtype(), state.memory_dtype()] {
            if got != right {
                return wrong("type", format!("{got:?}"), format!("{right:?}"));
            }
        }
        let (got, right) = (state.hidden().device(), weights.weight_ih.device().inner());
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
        &self, weights: Weights, input: SabInput, state: Option<SabState>, rules: &Rules, options: &ForwardOptions,
    ) -> Result<SabOutput> {
        let device = weights.weight_ih.device().inner();
        let dtype = weights.weight_ih.dtype();
        let input = match input {
            SabInput::Dense(x) => PortableInput::Dense(x),
            SabInput::Tokens(x) => {
                self.checked_tokens(&x)?;
                PortableInput::Tokens(x)
            }
        };
        let (batch, finite) = match &input {
            PortableInput::Dense(x) => (x.dims()[0], is_finite(x.clone())),
            PortableInput::Tokens(x) => (x.dims()[0], true),
        };
        if !finite {
            return Err(SabError::NonFinite { what: "input", place: String::new() });
        }
        let state = match state {
            Some(state) if !state.is_finite() => {
                return Err(SabError::NonFinite { what: "state", place: String::new() });
            }
            Some(state) => state,
            None => {
                let zeros = Tensor::zeros([batch, self.config.hidden], (&device, dtype));
                SabState::starting_from(zeros.clone(), zeros, self.config.k_att)?
            }
        };
        let out = portable::forward(&weights, input, state, rules, options.reminders)?;
        if !is_finite(out.state.hidden()) {
            return Err(SabError::NonFinite { what: "hidden", place: ", from a parameter or a product".into() });
        }
        Ok(SabOutput {
            hidden: out.hidden,
            summary: out.summary,
            state: out.state,
            reminders: out.reminders,
            #[cfg(feature = "flex")]
            link: None,
        })
    }

    #[cfg(feature = "flex")]
    fn run_fused(
        &self, weights: Weights, input: SabInput, state: Option<SabState>, rules: Rules, options: &ForwardOptions,
        (batch, time): (usize, usize),
    ) -> Result<SabOutput> {
        use crate::fused::burn::{self as engine, Carried, FusedInputs, FusedProblem, Kernels};
        use crate::options::InstructionSet;
        let k_att = rules.k_att;
        let steps: Vec<u64> = state.as_ref().map_or_else(|| vec![0; batch], |state| state.steps().to_vec());
        let clocks: Vec<RowClock> = steps.iter().map(|&steps_before| RowClock { steps_before, k_att }).collect();
        let carried = match &state {
            Some(state) => Some(Carried {
                hidden: engine::carried_primitive("hidden", state.hidden())?,
                cell: engine::carried_primitive("cell", state.cell())?,
                memory: engine::carried_primitive("memory", state.memory())?,
            }),
            None => None,
        };
        if let (Some(carried), Some(state)) = (&carried, &state) {
            engine::check_carried(carried, |row| state.slots(row))?;
        }
        let (inputs, dense) = match input {
            SabInput::Dense(x) => (FusedInputs::Dense, Some(x)),
            SabInput::Tokens(x) => (FusedInputs::Tokens(Arc::new(self.checked_tokens(&x)?)), None),
        };
        let problem = FusedProblem {
            batch,
            time,
            input: self.config.input,
            hidden: self.config.hidden,
            padded: 0,
            inputs,
            rules,
            clocks,
            slot_room: 0,
            carried_room: state.as_ref().map_or(1, SabState::slot_room),
            tracked: false,
            threads: options.thread_count(),
            kernels: match options.instructions {
                InstructionSet::Detect => Kernels::detect(),
                InstructionSet::Baseline => Kernels::portable(),
            },
            reminders: options.reminders,
        };
        let out = engine::sequence(weights, dense, problem.with_derived_sizes(), carried, self.prepared.clone())?;
        let state = SabState::after(state, &out.hidden, out.last_cell, &steps, k_att)?;
        let link = Some(out.link);
        Ok(SabOutput { hidden: out.hidden, summary: out.summary, state, reminders: out.reminders, link })
    }

    #[cfg(not(feature = "flex"))]
    fn run_fused(
        &self, _: Weights, _: SabInput, _: Option<SabState>, _: Rules, _: &ForwardOptions, _: (usize, usize),
    ) -> Result<SabOutput> {
        Err(SabError::NoFusedPath("the crate was built without its `flex` feature".into()))
    }
}

/// Whether no element is a NaN or an infinity.
fn is_finite<const D: usize>(tensor: Tensor<D>) -> bool {
    tensor.inner().is_finite().all().into_scalar::<bool>()
}

/// Why the fused path cannot run with these parameters, or `None` if it can.
fn fused_path_missing(weights: &Weights) -> Option<String> {
    let dtype = weights.weight_ih.dtype();
    if !on_flex(&weights.weight_ih.device()) {
        Some("the layer is not on Burn's CPU backend (Flex)".into())
    } else if dtype != DType::F32 {
        Some(format!("the layer's parameters are {dtype:?}, and the engine computes in F32"))
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
