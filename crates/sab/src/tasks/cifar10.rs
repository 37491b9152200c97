//! `cifar10`: CIFAR-10 pixel by pixel.

use super::images::{self, PixelByPixel, Views};
use super::{Task, TaskKind};
use crate::data::load_cifar10;
use crate::error::Result;
use crate::settings::{TrainSettings, at_least_one, within};
use attentive::SabLstmConfig;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The largest shift of an image: half of its width.
const LARGEST_SHIFT: usize = 16;

/// CIFAR-10 pixel by pixel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cifar10 {
    /// Training images kept for validation.
    pub validation: usize,
    /// Mirrors every second training image, drawn at random, left for right.
    pub mirror: bool,
    /// Moves training images by up to this many pixels, drawn at random, up or down and left or right.
    pub shift: usize,
}

impl Default for Cifar10 {
    fn default() -> Self {
        Self { validation: 5000, mirror: false, shift: 0 }
    }
}

impl TaskKind for Cifar10 {
    fn help(&self) -> &'static str {
        "recognise the object in 1024 pixels of CIFAR-10"
    }

    fn model(&self) -> SabLstmConfig {
        images::model(64.0).with_k_trunc(16).with_k_top(10).with_k_att(16)
    }

    fn train(&self) -> TrainSettings {
        images::train()
    }

    fn validate(&self) -> Result<()> {
        at_least_one("task.validation", self.validation, "image")?;
        within("task.shift", self.shift, 0..=LARGEST_SHIFT, " pixels")
    }

    fn open(&self, data_dir: &Path) -> Result<Box<dyn Task>> {
        let views = Views { mirror: self.mirror, shift: self.shift };
        Ok(Box::new(PixelByPixel::new(load_cifar10(data_dir)?, None, self.validation, views)?))
    }
}
