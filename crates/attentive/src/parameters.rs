//! The layer's parameters as Burn parameters. The engine declares them, with their names and shapes
//! ([`attentive_engine::Model::parameters`]).

use crate::config::SabLstmConfig;
use crate::error::{Result, SabError, check_device};
use attentive_engine::{Gain, Parameter, Start};
use burn::module::{Devices, Initializer, Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{DType, Device, Tensor};
use std::sync::Arc;

/// One parameter: a vector, or a matrix `[d_input, d_output]`, which is the transpose of the paper's.
#[derive(Clone, Debug)]
pub(crate) enum LayerParameter {
    Matrix(Param<Tensor<2>>),
    Vector(Param<Tensor<1>>),
}

/// Evaluates the same expression for either kind.
macro_rules! either {
    ($parameter:expr, $param:ident => $body:expr) => {
        match $parameter {
            LayerParameter::Matrix($param) => $body,
            LayerParameter::Vector($param) => $body,
        }
    };
}

impl LayerParameter {
    /// Initialises a parameter according to its declaration and the configuration.
    pub(crate) fn draw(declared: &Parameter, config: &SabLstmConfig, hidden: usize, device: &Device) -> Self {
        let start = &config.initialization;
        let bound = start.bound.unwrap_or(1.0 / (hidden as f64).sqrt());
        let initializer = match declared.start {
            Start::Constant(value) if (value * start.score_gain).is_finite() => {
                Initializer::Constant { value: value * start.score_gain }
            }
            Start::Constant(_) => Initializer::Zeros,
            Start::Uniform(gain) => {
                let gain = match gain {
                    Gain::One => 1.0,
                    Gain::Input => start.input_gain,
                    Gain::Attention => start.attention_gain,
                    Gain::Score => start.score_gain,
                };
                match (bound * gain).abs() {
                    // Even with an invalid configuration, the layer must exist to report it.
                    bound if bound == 0.0 || bound > f64::from(f32::MAX) || bound.is_nan() => Initializer::Zeros,
                    bound => Initializer::Uniform { min: -bound, max: bound },
                }
            }
        };
        // Burn's parameters draw their numbers at first use. Drawing them now makes the layer depend on the seed alone,
        // not on other draws before its first use. Only a leaf can be a parameter.
        match declared.shape[..] {
            [rows, columns] => {
                Self::Matrix(Param::from_tensor(initializer.init::<2, _>([rows, columns], device).val().detach()))
            }
            _ => Self::Vector(Param::from_tensor(initializer.init::<1, _>([declared.len()], device).val().detach())),
        }
    }

    /// Adds a number to one block of `hidden` elements of a vector.
    pub(crate) fn add_to_block(self, block: usize, hidden: usize, value: f64) -> Self {
        match self {
            Self::Vector(param) if value != 0.0 => {
                let old = param.val().detach();
                let (blocks, device) = (old.dims()[0] / hidden, old.device());
                let of_block = |at: usize| Tensor::<1>::full([hidden], if at == block { value } else { 0.0 }, &device);
                let added = Tensor::cat((0..blocks).map(of_block).collect(), 0);
                Self::Vector(Param::from_tensor((old + added).detach()))
            }
            other => other,
        }
    }

    /// Its value in one call, if it has the declared shape (that of a loaded record may differ).
    pub(crate) fn value(&self, declared: &Parameter) -> Result<Value> {
        let value = match self {
            Self::Matrix(param) => Value::Matrix(param.val()),
            Self::Vector(param) => Value::Vector(param.val()),
        };
        match value.has_shape(&declared.shape) {
            true => Ok(value),
            false => {
                let expected = format!("{:?}", declared.shape);
                Err(SabError::Shape { what: declared.name, got: value.dims(), expected })
            }
        }
    }
}

impl Module for LayerParameter {
    fn collect_devices(&self, devices: Devices) -> Devices {
        either!(self, param => param.collect_devices(devices))
    }

    fn fork(self, device: &Device) -> Self {
        match self {
            Self::Matrix(param) => Self::Matrix(param.fork(device)),
            Self::Vector(param) => Self::Vector(param.fork(device)),
        }
    }

    fn to_device(self, device: &Device) -> Self {
        match self {
            Self::Matrix(param) => Self::Matrix(param.to_device(device)),
            Self::Vector(param) => Self::Vector(param.to_device(device)),
        }
    }

    fn train(self) -> Self {
        match self {
            Self::Matrix(param) => Self::Matrix(param.train()),
            Self::Vector(param) => Self::Vector(param.train()),
        }
    }

    fn valid(&self) -> Self {
        match self {
            Self::Matrix(param) => Self::Matrix(param.valid()),
            Self::Vector(param) => Self::Vector(param.valid()),
        }
    }

    fn materialize(self) -> Self {
        match self {
            Self::Matrix(param) => Self::Matrix(param.materialize()),
            Self::Vector(param) => Self::Vector(param.materialize()),
        }
    }

    fn visit<V: ModuleVisitor>(&self, visitor: &mut V) {
        either!(self, param => param.visit(visitor));
    }

    fn map<M: ModuleMapper>(self, mapper: &mut M) -> Self {
        match self {
            Self::Matrix(param) => Self::Matrix(Module::map(param, mapper)),
            Self::Vector(param) => Self::Vector(Module::map(param, mapper)),
        }
    }
}

/// The value of a parameter in one call.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Matrix(Tensor<2>),
    Vector(Tensor<1>),
}

impl Value {
    fn has_shape(&self, shape: &[usize]) -> bool {
        match self {
            Self::Matrix(value) => value.dims() == *shape,
            Self::Vector(value) => value.dims() == *shape,
        }
    }

    fn dims(&self) -> Vec<usize> {
        match self {
            Self::Matrix(value) => value.dims().to_vec(),
            Self::Vector(value) => value.dims().to_vec(),
        }
    }

    fn dtype(&self) -> DType {
        match self {
            Self::Matrix(value) => value.dtype(),
            Self::Vector(value) => value.dtype(),
        }
    }

    fn device(&self) -> Device {
        match self {
            Self::Matrix(value) => value.device(),
            Self::Vector(value) => value.device(),
        }
    }
}

/// The values of all parameters in one call, in the order of the declaration. They have one type and are on one device.
#[derive(Clone, Debug)]
pub(crate) struct Weights {
    pub(crate) values: Vec<Value>,
    declared: Arc<Vec<Parameter>>,
    pub(crate) dtype: DType,
    pub(crate) device: Device,
}

impl Weights {
    pub(crate) fn new(declared: &Arc<Vec<Parameter>>, parameters: &[LayerParameter]) -> Result<Self> {
        let values: Vec<Value> = declared
            .iter()
            .zip(parameters)
            .map(|(declared, parameter)| parameter.value(declared))
            .collect::<Result<_>>()?;
        let Some(first) = values.first().filter(|_| values.len() == declared.len()) else {
            let expected = format!("the {} that its configuration declares", declared.len());
            return Err(SabError::Shape { what: "parameters", got: vec![values.len()], expected });
        };
        let (dtype, device) = (first.dtype(), first.device());
        for (declared, value) in declared.iter().zip(&values) {
            if value.dtype() != dtype {
                return Err(SabError::DType { what: declared.name, got: value.dtype(), expected: dtype });
            }
        }
        for (declared, value) in declared.iter().zip(&values) {
            check_device(declared.name, &value.device(), &device)?;
        }
        Ok(Self { values, declared: Arc::clone(declared), dtype, device })
    }

    fn find(&self, name: &str) -> Option<&Value> {
        self.declared.iter().position(|own| own.name == name).map(|place| &self.values[place])
    }

    /// A matrix by its name. The portable path only asks for matrices that its parts declare.
    pub(crate) fn matrix(&self, name: &'static str) -> Result<Tensor<2>> {
        match self.find(name) {
            Some(Value::Matrix(value)) => Ok(value.clone()),
            _ => Err(missing(name)),
        }
    }

    /// A vector by its name.
    pub(crate) fn vector(&self, name: &'static str) -> Result<Tensor<1>> {
        match self.find(name) {
            Some(Value::Vector(value)) => Ok(value.clone()),
            _ => Err(missing(name)),
        }
    }
}

fn missing(name: &'static str) -> SabError {
    SabError::Shape { what: name, got: Vec::new(), expected: "a parameter of this name".into() }
}
