//! `pmnist`: MNIST pixel by pixel in a shuffled order.

use super::images::{self, PixelByPixel, Views};
use super::{Task, TaskKind};
use crate::data::load_mnist;
use crate::error::Result;
use crate::settings::{TrainSettings, at_least_one};
use attentive::SabLstmConfig;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// MNIST pixel by pixel in a shuffled order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pmnist {
    /// The seed of the order of the pixels.
    pub permutation_seed: u64,
    /// Training images kept for validation.
    pub validation: usize,
}

impl Default for Pmnist {
    fn default() -> Self {
        Self { permutation_seed: 1, validation: 5000 }
    }
}

impl TaskKind for Pmnist {
    fn help(&self) -> &'static str {
        "recognise the digit in 784 shuffled pixels of MNIST"
    }

    fn model(&self) -> SabLstmConfig {
        images::model(8.0).with_k_trunc(50).with_k_top(10).with_k_att(50)
    }

    fn train(&self) -> TrainSettings {
        images::train()
    }

    fn validate(&self) -> Result<()> {
        at_least_one("task.validation", self.validation, "image")
    }

    fn open(&self, data_dir: &Path) -> Result<Box<dyn Task>> {
        let (images, seed) = (load_mnist(data_dir)?, Some(self.permutation_seed));
        Ok(Box::new(PixelByPixel::new(images, seed, self.validation, Views::default())?))
    }
}
