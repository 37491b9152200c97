//! [`Learner`]: a model and its optimizer, without data, files or display.

use super::adam::{Adam, GradientSet, LARGEST_NORM};
use crate::error::{LabError, Result};
use crate::models::{Answered, Model, loss};
use crate::tasks::Batch;
use attentive::{ForwardOptions, SabError, SabState};
use burn::module::Module;
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
    /// How far the memories of earlier updates have drifted on average, if gradient ran through any (R21).
    pub drift: Option<f64>,
}

/// What came of one update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// The weights have changed.
    Learned(Learned),
    /// No step was asked for, so there was nothing to learn from.
    NothingAsked,
    /// The loss, the gradient or a state was not a finite number; the weights stayed as they were.
    Refused,
}

impl Learner {
    /// Forward, loss, backward, clip, Adam. Returns `None` if the loss or the gradient is not a finite number; the
    /// weights then stay as they are. The outputs go to `keep`, if it is given.
    pub fn learn(
        &mut self, batch: &Batch, options: &ForwardOptions, rate: f64, keep: Option<&mut Option<Tensor<2>>>,
    ) -> Result<Option<Learned>> {
        match self.learn_from(None, batch, options, rate, keep)? {
            Outcome::Learned(learned) => Ok(Some(learned)),
            Outcome::Refused => Ok(None),
            Outcome::NothingAsked => Err(batch.unanswered().into()),
        }
    }

    /// [`learn`](Learner::learn) for a stretch of longer sequences. With `carried`, it continues from that state, or from
    /// a fresh one, and replaces it with the state that the stretch leaves; `None` if the states were not finite.
    pub fn learn_from(
        &mut self, mut carried: Option<&mut Option<SabState>>, batch: &Batch, options: &ForwardOptions, rate: f64,
        keep: Option<&mut Option<Tensor<2>>>,
    ) -> Result<Outcome> {
        // A shorter batch than the longest ends in stretches without steps.
        if batch.steps == 0 {
            return Ok(Outcome::NothingAsked);
        }
        let state = carried.as_mut().and_then(|carried| carried.take());
        if batch.asks_nothing() {
            return self.pass_over(state, carried, batch, options);
        }
        let Answered { outputs, state, drift } = match self.model.answer_from(state, batch, options, &self.device) {
            Ok(answered) => answered,
            Err(LabError::Model(SabError::NonFinite { .. })) => return Ok(Outcome::Refused),
            Err(why) => return Err(why),
        };
        match carried {
            Some(carried) => *carried = state,
            // Nothing needs it, and it holds memory.
            None => drop(state),
        }
        if let Some(place) = keep {
            *place = Some(outputs.clone().inner());
        }
        let loss = loss(outputs, batch, &self.device)?;
        let value = f64::from(loss.clone().into_scalar::<f32>());
        if !value.is_finite() {
            return Ok(Outcome::Refused);
        }
        let gradients = GradientSet::of(&self.model, loss.backward())?;
        let norm = gradients.norm();
        let scale = self.clip.map_or(1.0, |most| if norm > most { most / norm } else { 1.0 });
        // A NaN is below nothing, so it is not usable either.
        let usable = norm * scale < LARGEST_NORM;
        if !usable {
            return Ok(Outcome::Refused);
        }
        self.model = self.adam.step(self.model.clone(), &gradients, rate, scale)?;
        let drift = drift.and_then(|report| report.get()).map(|drift| drift.mean);
        Ok(Outcome::Learned(Learned { loss: value, norm, drift }))
    }

    /// Carries the state over a stretch in which nothing is asked. No weight changes.
    fn pass_over(
        &self, state: Option<SabState>, carried: Option<&mut Option<SabState>>, batch: &Batch, options: &ForwardOptions,
    ) -> Result<Outcome> {
        let (Some(carried), Model::Sab(model)) = (carried, self.model.valid()) else {
            return Ok(Outcome::NothingAsked);
        };
        match model.run_from(state, batch, options, &self.device.clone().inner()) {
            Ok(out) => {
                *carried = Some(out.state);
                Ok(Outcome::NothingAsked)
            }
            Err(SabError::NonFinite { .. }) => Ok(Outcome::Refused),
            Err(why) => Err(why.into()),
        }
    }
}
