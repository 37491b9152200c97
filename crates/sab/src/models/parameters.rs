//! The parameters of a model by name, to save and load them.

use super::{Model, numbers};
use crate::error::Result;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Tensor, TensorData};
use std::collections::BTreeMap;

/// A parameter: its name is its path in the model, such as `lstm.weight_ih`.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its path.
    pub name: String,
    /// Its shape, in Burn's order.
    pub shape: Vec<usize>,
    /// Its numbers, the last dimension fastest.
    pub values: Vec<f32>,
}

/// All parameters of a model at one moment, in the model's order.
pub type Snapshot = Vec<Parameter>;

/// The path of a visitor in a model.
#[derive(Default)]
struct Path(Vec<String>);

impl Path {
    fn enter(&mut self, name: &str, container: &str) {
        if !is_enum(container) {
            self.0.push(name.to_string());
        }
    }

    fn exit(&mut self, container: &str) {
        if !is_enum(container) {
            self.0.pop();
        }
    }

    fn name(&self) -> String {
        self.0.join(".")
    }
}

/// The variant of [`Model`] is not part of a parameter's name.
fn is_enum(container: &str) -> bool {
    container.starts_with("Enum:")
}

#[derive(Default)]
struct Collect {
    path: Path,
    parameters: Vec<Result<Parameter>>,
}

impl ModuleVisitor for Collect {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _: &str, container: &str) {
        self.path.exit(container);
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let (name, value) = (self.path.name(), param.val());
        let shape = value.dims().to_vec();
        self.parameters.push(numbers(value).map(|values| Parameter { name, shape, values }));
    }
}

struct Load<'a> {
    path: Path,
    left: BTreeMap<&'a str, &'a Parameter>,
    wrong: Option<String>,
}

impl ModuleMapper for Load<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _: &str, container: &str) {
        self.path.exit(container);
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let name = self.path.name();
        let shape = param.val().dims();
        let fits = |found: &Parameter| found.shape == shape && found.values.len() == shape.iter().product::<usize>();
        match self.left.remove(name.as_str()) {
            Some(found) if fits(found) => replace(param, found.values.clone()),
            Some(found) => {
                let (got, right) = (&found.shape, shape);
                self.wrong.get_or_insert(format!("`{name}` has the shape {got:?}, but the model needs {right:?}"));
                param
            }
            None => {
                self.wrong.get_or_insert(format!("`{name}` is missing"));
                param
            }
        }
    }
}

/// The same parameter with other numbers, as many as it has.
pub(crate) fn replace<const D: usize>(param: Param<Tensor<D>>, values: Vec<f32>) -> Param<Tensor<D>> {
    param.map(|old| {
        let new = Tensor::from_data(TensorData::new(values, old.dims()), &old.device());
        if old.is_require_grad() { new.require_grad() } else { new }
    })
}

impl Model {
    /// All parameters, copied.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let mut collect = Collect::default();
        self.visit(&mut collect);
        collect.parameters.into_iter().collect()
    }

    /// The model with these parameters: all of its own and no others. The error names parameters that are missing,
    /// foreign or of another shape.
    pub fn with_parameters(self, parameters: &[Parameter]) -> std::result::Result<Self, String> {
        let left = parameters.iter().map(|parameter| (parameter.name.as_str(), parameter)).collect();
        let mut load = Load { path: Path::default(), left, wrong: None };
        let loaded = self.map(&mut load);
        let foreign = load.left.keys().next().map(|name| format!("`{name}` is not a parameter of this model"));
        match load.wrong.or(foreign) {
            None => Ok(loaded),
            Some(wrong) => Err(wrong),
        }
    }
}
