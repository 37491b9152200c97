//! Images pixel by pixel: permuted MNIST and CIFAR-10.

use super::order::{EpochOrder, batches_of, range_of};
use super::{Answers, Asked, Batch, Figures, Input, InputKind, OutputKind, Split, Tally, Task, TaskFacts};
use crate::data::{ImageSet, Images};
use crate::error::{LabError, Result};
use crate::rng::{Draws, Purpose};

/// One pixel a step, scaled to -0.5..0.5; the class is asked for on the last step. The last images of the training set
/// validate.
#[derive(Debug)]
pub(super) struct PixelByPixel {
    set: ImageSet,
    permutation: Option<Vec<u16>>,
    training: usize,
    order: EpochOrder,
}

const CLASSES: usize = 10;

impl PixelByPixel {
    pub(super) fn new(set: ImageSet, permutation_seed: Option<u64>, validation: usize) -> Result<Self> {
        let have = set.train.len();
        if validation >= have {
            return Err(LabError::Config(format!(
                "`task.validation` is {validation}, but there are {have} training images: some must be left to train"
            )));
        }
        let permutation = permutation_seed.map(|seed| {
            let mut order: Vec<u16> = (0..set.train.steps as u16).collect();
            Draws::new(Purpose::Permutation, seed, 0).shuffle(&mut order);
            order
        });
        Ok(Self { set, permutation, training: have - validation, order: EpochOrder::default() })
    }

    fn batch(&self, images: &Images, items: impl Iterator<Item = usize>) -> Batch {
        let (steps, width) = (images.steps, images.channels);
        let (mut values, mut labels) = (Vec::new(), Vec::new());
        let scale = |pixel: &u8| f32::from(*pixel) / 255.0 - 0.5;
        for item in items {
            let pixels = images.pixels_of(item);
            match &self.permutation {
                Some(order) => {
                    let step = |place: &u16| &pixels[usize::from(*place) * width..][..width];
                    values.extend(order.iter().flat_map(step).map(scale));
                }
                None => values.extend(pixels.iter().map(scale)),
            }
            labels.push(i32::from(images.labels[item]));
        }
        let input = Input::Dense { width, values };
        Batch { rows: labels.len(), steps, input, asked: Asked::From(steps - 1), answers: Answers::Classes(labels) }
    }

    /// The images of a split, and which of them.
    fn part(&self, split: Split) -> (&Images, std::ops::Range<usize>) {
        match split {
            Split::Validation => (&self.set.train, self.training..self.set.train.len()),
            Split::Test => (&self.set.test, 0..self.set.test.len()),
        }
    }
}

impl Task for PixelByPixel {
    fn input(&self) -> InputKind {
        InputKind::Dense(self.set.train.channels)
    }

    fn output(&self) -> OutputKind {
        OutputKind::Classes(CLASSES)
    }

    fn training_batch(&self, seed: u64, update: u64, rows: usize) -> Batch {
        self.batch(&self.set.train, self.order.batch(seed, update, self.training, rows).into_iter())
    }

    fn updates_an_epoch(&self, rows: usize) -> Option<u64> {
        Some(EpochOrder::batches(self.training, rows))
    }

    fn held_out_count(&self, split: Split, rows: usize) -> u64 {
        batches_of(self.part(split).1.len(), rows)
    }

    fn held_out_batch(&self, split: Split, number: u64, rows: usize) -> Batch {
        let (images, part) = self.part(split);
        let range = range_of(part.len(), rows, number);
        self.batch(images, range.map(|item| part.start + item))
    }

    fn figures(&self, tally: &Tally) -> Figures {
        vec![("error", 1.0 - tally.all.accuracy()), ("accuracy", tally.all.accuracy()), ("ce", tally.all.ce())]
    }

    fn describe(&self) -> Option<String> {
        let (validation, test) = (self.set.train.len() - self.training, self.set.test.len());
        Some(format!("{} images train, {validation} validate, {test} test", self.training))
    }

    fn facts(&self) -> TaskFacts {
        TaskFacts { permutation: self.permutation.clone(), ..TaskFacts::default() }
    }
}
