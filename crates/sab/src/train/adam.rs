//! [`Adam`] over all parameters at once, with clipping by the global norm.
//!
//! Burn's own optimizer clips each tensor by itself and takes several passes over memory. Here the clipped gradient,
//! both moments and the step are one pass, and the moments are plain vectors that a checkpoint can hold.

use crate::error::{LabError, Result};
use crate::experiment::TrainSettings;
use crate::models::{Model, Parameter, numbers};
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Gradients, Tensor};
use rayon::prelude::*;

/// Numbers in one piece of work: a fixed size, so that sums do not depend on the number of threads.
const PIECE: usize = 1 << 14;

/// Smaller parameters are not worth waking other threads for.
const WORTH_SHARING: usize = 1 << 20;

/// Gradients are squared in single precision: a norm of this or more, after clipping, is as good as infinite.
pub const LARGEST_NORM: f64 = 1e18;

/// Adam (Kingma and Ba), with weight decay AdamW (Loshchilov and Hutter), as PyTorch computes them.
#[derive(Clone, Debug, PartialEq)]
pub struct Adam {
    settings: TrainSettings,
    /// Updates made.
    steps: u64,
    /// Mean gradient of each parameter, in the model's order.
    first: Vec<Vec<f32>>,
    /// Mean squared gradient.
    second: Vec<Vec<f32>>,
}

/// The gradients of all parameters, in the model's order; empty where there is none.
pub struct GradientSet(Vec<Vec<f32>>);

impl GradientSet {
    /// Takes the gradients of a model's parameters.
    pub fn of(model: &Model, mut gradients: Gradients) -> Result<Self> {
        let mut collect = Collect { gradients: &mut gradients, found: Vec::new() };
        model.visit(&mut collect);
        Ok(Self(collect.found.into_iter().collect::<Result<_>>()?))
    }

    /// The global norm, added up in double precision so that it cannot overflow.
    pub fn norm(&self) -> f64 {
        let of_piece = |piece: &[f32]| -> f64 {
            let mut sums = [0.0; 8];
            for eight in piece.chunks(8) {
                sums.iter_mut().zip(eight).for_each(|(sum, x)| *sum += f64::from(*x) * f64::from(*x));
            }
            sums.iter().sum()
        };
        let of_one = |values: &Vec<f32>| -> f64 {
            let pieces: Vec<f64> = match values.len() {
                0..WORTH_SHARING => values.chunks(PIECE).map(of_piece).collect(),
                _ => values.par_chunks(PIECE).map(of_piece).collect(),
            };
            pieces.iter().sum()
        };
        self.0.iter().map(of_one).sum::<f64>().sqrt()
    }
}

struct Collect<'a> {
    gradients: &'a mut Gradients,
    found: Vec<Result<Vec<f32>>>,
}

impl ModuleVisitor for Collect<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        // Removed, so that its memory has one owner and need not be copied.
        self.found.push(param.val().grad_remove(self.gradients).map_or(Ok(Vec::new()), numbers));
    }
}

impl Adam {
    /// An optimizer that has made no update. It uses the decay rates, the constant and the weight decay of
    /// the settings.
    pub fn new(settings: &TrainSettings, model: &Model) -> Result<Self> {
        let zeros: Vec<Vec<f32>> =
            model.snapshot()?.iter().map(|parameter| vec![0.0; parameter.values.len()]).collect();
        Ok(Self { settings: settings.clone(), steps: 0, first: zeros.clone(), second: zeros })
    }

    /// One step with a learning rate; gradients are multiplied by `scale`, which clips them
    /// below [`LARGEST_NORM`].
    pub fn step(&mut self, model: Model, gradients: &GradientSet, learning_rate: f64, scale: f64) -> Result<Model> {
        self.steps += 1;
        let TrainSettings { beta1, beta2, epsilon, weight_decay, .. } = self.settings;
        let correction = |beta: f64| 1.0 - beta.powi(self.steps.min(i32::MAX as u64) as i32);
        let rule = Rule {
            beta1: beta1 as f32,
            beta2: beta2 as f32,
            epsilon: epsilon as f32,
            rate: (learning_rate / correction(beta1)) as f32,
            root_correction: (1.0 / correction(beta2).sqrt()) as f32,
            scale: scale as f32,
            keep: (1.0 - learning_rate * weight_decay) as f32,
        };
        let mut apply = Apply { rule, adam: self, gradients, place: 0, wrong: None };
        let model = model.map(&mut apply);
        apply.wrong.map_or(Ok(model), Err)
    }

    /// Updates made.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Both moments, named after the parameters of `snapshot`, to save them.
    pub fn moments(&self, snapshot: &[Parameter]) -> Vec<Parameter> {
        let named = |prefix: &str, moments: &[Vec<f32>]| -> Vec<Parameter> {
            let name = |(parameter, values): (&Parameter, &Vec<f32>)| Parameter {
                name: format!("{prefix}{}", parameter.name),
                shape: parameter.shape.clone(),
                values: values.clone(),
            };
            snapshot.iter().zip(moments).map(name).collect()
        };
        [named(FIRST, &self.first), named(SECOND, &self.second)].concat()
    }

    /// The optimizer that [`moments`](Adam::moments) saved, for a model with the parameters of `snapshot`. Says what is
    /// missing.
    pub fn restore(
        settings: &TrainSettings, steps: u64, snapshot: &[Parameter], mut saved: Vec<Parameter>,
    ) -> std::result::Result<Self, String> {
        let mut take = |prefix: &str| -> std::result::Result<Vec<Vec<f32>>, String> {
            let of_one = |parameter: &Parameter| {
                let name = format!("{prefix}{}", parameter.name);
                let place = saved.iter().position(|saved| saved.name == name && saved.shape == parameter.shape);
                place.map(|place| saved.swap_remove(place).values).ok_or_else(|| format!("`{name}` is missing"))
            };
            snapshot.iter().map(of_one).collect()
        };
        let (first, second) = (take(FIRST)?, take(SECOND)?);
        Ok(Self { settings: settings.clone(), steps, first, second })
    }
}

/// The prefixes of the names of saved moments.
pub(super) const FIRST: &str = "adam.first.";
pub(super) const SECOND: &str = "adam.second.";

#[derive(Clone, Copy)]
struct Rule {
    beta1: f32,
    beta2: f32,
    epsilon: f32,
    rate: f32,
    root_correction: f32,
    scale: f32,
    keep: f32,
}

impl Rule {
    fn apply(&self, values: &mut [f32], first: &mut [f32], second: &mut [f32], gradient: &[f32]) {
        for (((value, first), second), gradient) in values.iter_mut().zip(first).zip(second).zip(gradient) {
            let gradient = gradient * self.scale;
            *first = self.beta1 * *first + (1.0 - self.beta1) * gradient;
            *second = self.beta2 * *second + (1.0 - self.beta2) * gradient * gradient;
            let step = self.rate * *first / (second.sqrt() * self.root_correction + self.epsilon);
            *value = *value * self.keep - step;
        }
    }
}

struct Apply<'a> {
    rule: Rule,
    adam: &'a mut Adam,
    gradients: &'a GradientSet,
    place: usize,
    wrong: Option<LabError>,
}

impl ModuleMapper for Apply<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let place = self.place;
        self.place += 1;
        let gradient = &self.gradients.0[place];
        if gradient.is_empty() {
            return param;
        }
        let mut values = match numbers(param.val()) {
            Ok(values) => values,
            Err(why) => {
                self.wrong.get_or_insert(why);
                return param;
            }
        };
        let (first, second) = (&mut self.adam.first[place], &mut self.adam.second[place]);
        if values.len() < WORTH_SHARING {
            self.rule.apply(&mut values, first, second, gradient);
            return crate::models::replace(param, values);
        }
        let pieces = values.par_chunks_mut(PIECE).zip(first.par_chunks_mut(PIECE));
        let pieces = pieces.zip(second.par_chunks_mut(PIECE)).zip(gradient.par_chunks(PIECE));
        pieces.for_each(|(((values, first), second), gradient)| self.rule.apply(values, first, second, gradient));
        crate::models::replace(param, values)
    }
}
