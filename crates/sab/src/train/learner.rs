//! [`Learner`]: a model and its optimizer, without data, files or display.

use super::adam::{Adam, GradientSet, LARGEST_NORM};
use crate::error::{LabError, Result};
use crate::models::{Model, loss};
use crate::tasks::Batch;
use attentive::{ForwardOptions, SabError};
use burn::tensor::{Device, Tensor};

/// A model, its optimizer, and the largest norm of a gradient.
pub struct Learner {
    /// The model, on [`device`](Learner::device).
    pub model: Model,
    /// Its optimizer.
    pub adam: Adam,
    /// Gradients with a larger global norm are scaled down to it.
    pub clip: Option<f64>,
    /// The model's device, with autodiff.
    pub device: Device,
}

/// The result of one update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Learned {
    /// The loss before the update.
    pub loss: f64,
    /// The gradient's norm before clipping.
    pub norm: f64,
}

impl Learner {
    /// Forward, loss, backward, clip, Adam. Returns `None` if the loss or the gradient is not a finite number; the
    /// weights then stay as they are. The outputs go to `keep`, if it is given.
    pub fn learn(
        &mut self, batch: &Batch, options: &ForwardOptions, rate: f64, keep: Option<&mut Option<Tensor<2>>>,
    ) -> Result<Option<Learned>> {
        let outputs = match self.model.answer(batch, options, &self.device) {
            Ok(outputs) => outputs,
            Err(LabError::Model(SabError::NonFinite { .. })) => return Ok(None),
            Err(why) => return Err(why),
        };
        if let Some(place) = keep {
            *place = Some(outputs.clone().inner());
        }
        let loss = loss(outputs, batch, &self.device)?;
        let value = f64::from(loss.clone().into_scalar::<f32>());
        if !value.is_finite() {
            return Ok(None);
        }
        let gradients = GradientSet::of(&self.model, loss.backward())?;
        let norm = gradients.norm();
        let scale = self.clip.map_or(1.0, |most| if norm > most { most / norm } else { 1.0 });
        // A NaN is below nothing, so it is not usable either.
        let usable = norm * scale < LARGEST_NORM;
        if !usable {
            return Ok(None);
        }
        self.model = self.adam.step(self.model.clone(), &gradients, rate, scale)?;
        Ok(Some(Learned { loss: value, norm }))
    }
}
