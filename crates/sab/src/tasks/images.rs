//! Images pixel by pixel: permuted MNIST and CIFAR-10.

use super::order::EpochOrder;
use super::{Answers, Asked, Batch, Input, InputKind, Metrics, OutputKind, Split, Tally, Task, TaskFacts};
use crate::data::{ImageSet, Images};
use crate::error::{LabError, Result};
use crate::rng::{Draws, Purpose};
use crate::settings::TrainSettings;
use attentive::{Initialization, SabLstmConfig};
use std::ops::Range;

/// One pixel per step, scaled to -0.5..0.5; the class is asked for on the last step. The last images of the training
/// set validate.
#[derive(Debug)]
pub(super) struct PixelByPixel {
    set: ImageSet,
    permutation: Option<Vec<u16>>,
    training: usize,
    order: EpochOrder,
    views: Views,
}

/// Variations of the training images: the same object seen differently, so that the model memorises less.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Views {
    /// Mirrors every second image left for right.
    pub(super) mirror: bool,
    /// The largest shift in each direction, in pixels.
    pub(super) shift: usize,
}

/// How one image is shown.
#[derive(Clone, Copy, Debug, Default)]
struct View {
    mirrored: bool,
    right: isize,
    down: isize,
}

const CLASSES: usize = 10;

impl Views {
    fn draw(self, draws: &mut Draws) -> View {
        let mirrored = self.mirror && draws.below(2) == 1;
        let mut by = || draws.below(2 * self.shift + 1) as isize - self.shift as isize;
        View { mirrored, right: by(), down: by() }
    }
}

impl View {
    /// The pixel of a square image that is seen at `place`. Pixels beyond an edge repeat the edge.
    fn pixel_at(self, place: usize, side: usize) -> usize {
        let moved = |at: usize, by: isize| at.saturating_add_signed(-by).min(side - 1);
        let (row, column) = (moved(place / side, self.down), moved(place % side, self.right));
        row * side + if self.mirrored { side - 1 - column } else { column }
    }
}

impl PixelByPixel {
    pub(super) fn new(set: ImageSet, permutation_seed: Option<u64>, validation: usize, views: Views) -> Result<Self> {
        let have = set.train.len();
        if validation >= have {
            return Err(LabError::Config(format!(
                "`task.validation` is {validation}, but there are {have} training images: some must remain for training"
            )));
        }
        let permutation = permutation_seed.map(|seed| {
            let mut order: Vec<u16> = (0..set.train.steps as u16).collect();
            Draws::new(Purpose::Permutation, seed, 0).shuffle(&mut order);
            order
        });
        Ok(Self { set, permutation, training: have - validation, order: EpochOrder::default(), views })
    }

    fn batch(&self, images: &Images, items: impl Iterator<Item = (usize, View)>) -> Batch {
        let (steps, width) = (images.steps, images.channels);
        // Images are square: 28 pixels by 28, 32 by 32.
        let side = steps.isqrt();
        let (mut values, mut labels) = (Vec::new(), Vec::new());
        let scale = |pixel: &u8| f32::from(*pixel) / 255.0 - 0.5;
        for (item, view) in items {
            let pixels = images.pixels_of(item);
            let place = |step: usize| self.permutation.as_ref().map_or(step, |order| usize::from(order[step]));
            let seen = |step: usize| &pixels[view.pixel_at(place(step), side) * width..][..width];
            values.extend((0..steps).flat_map(seen).map(scale));
            labels.push(i32::from(images.labels[item]));
        }
        let input = Input::Dense { width, values };
        Batch { rows: labels.len(), steps, input, asked: Asked::From(steps - 1), answers: Answers::Classes(labels) }
    }

    /// The images of a split, and which of them.
    fn part(&self, split: Split) -> (&Images, Range<usize>) {
        match split {
            Split::Validation => (&self.set.train, self.training..self.set.train.len()),
            Split::Test => (&self.set.test, 0..self.set.test.len()),
        }
    }
}

/// The model that suits images: one pixel is a small input, and the loss comes after hundreds of steps.
pub(super) fn model(input_gain: f64) -> SabLstmConfig {
    let initialization = Initialization { input_gain, forget_bias: 1.0, ..Initialization::default() };
    SabLstmConfig::new(0, 128).with_initialization(initialization)
}

/// The training that suits images.
pub(super) fn train() -> TrainSettings {
    let (learning_rate, validation_batches) = (5e-3, Some(20));
    TrainSettings { updates: 10_000, learning_rate, validation_batches, ..TrainSettings::default() }
}

impl Task for PixelByPixel {
    fn input(&self) -> InputKind {
        InputKind::Dense(self.set.train.channels)
    }

    fn output(&self) -> OutputKind {
        OutputKind::Classes(CLASSES)
    }

    fn training_batch(&self, seed: u64, update: u64, rows: usize) -> Batch {
        let mut draws = Draws::new(Purpose::Views, seed, update);
        let items = self.order.batch(seed, update, self.training, rows).into_iter();
        self.batch(&self.set.train, items.map(|item| (item, self.views.draw(&mut draws))))
    }

    fn updates_an_epoch(&self, rows: usize) -> Option<u64> {
        Some(EpochOrder::batches(self.training, rows))
    }

    fn held_out(&self, split: Split) -> usize {
        self.part(split).1.len()
    }

    fn held_out_sequences(&self, split: Split, sequences: Range<usize>) -> Batch {
        let (images, part) = self.part(split);
        self.batch(images, sequences.map(|item| (part.start + item, View::default())))
    }

    fn metrics(&self, tally: &Tally) -> Metrics {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Images of 3 by 3 pixels of one channel; pixel `p` of image `i` is `9 i + p`.
    fn task(views: Views) -> PixelByPixel {
        let images = |count: u8| Images {
            steps: 9,
            channels: 1,
            pixels: (0..count * 9).collect(),
            labels: (0..count).map(|item| item % 10).collect(),
        };
        PixelByPixel::new(ImageSet { train: images(20), test: images(3) }, None, 4, views).unwrap()
    }

    fn rows(batch: &Batch) -> Vec<Vec<u8>> {
        let Input::Dense { values, .. } = &batch.input else { panic!("pixels are numbers") };
        let pixels: Vec<u8> = values.iter().map(|value| ((value + 0.5) * 255.0).round() as u8).collect();
        pixels.chunks(9).map(<[u8]>::to_vec).collect()
    }

    #[test]
    fn a_view_mirrors_and_moves_and_repeats_the_edge() {
        let seen = |view: View| [0, 1, 2, 3, 4, 5, 6, 7, 8].map(|place| view.pixel_at(place, 3));
        assert_eq!(seen(View::default()), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(seen(View { mirrored: true, ..View::default() }), [2, 1, 0, 5, 4, 3, 8, 7, 6]);
        assert_eq!(seen(View { right: 1, ..View::default() }), [0, 0, 1, 3, 3, 4, 6, 6, 7]);
        assert_eq!(seen(View { down: -1, ..View::default() }), [3, 4, 5, 6, 7, 8, 6, 7, 8]);
        assert_eq!(seen(View { mirrored: true, right: 1, down: 2 }), [2, 2, 1, 2, 2, 1, 2, 2, 1]);
    }

    #[test]
    fn training_images_are_shown_in_random_views_and_held_out_images_as_they_are() {
        let (plain, varied) = (task(Views::default()), task(Views { mirror: true, shift: 1 }));
        let mut seen = std::collections::BTreeSet::new();
        for update in 0..100 {
            let (images, shown) = (plain.training_batch(5, update, 4), varied.training_batch(5, update, 4));
            assert_eq!(shown, varied.training_batch(5, update, 4));
            assert_eq!(images.answers, shown.answers);
            for (image, shown) in rows(&images).iter().zip(rows(&shown)) {
                seen.insert(shown.iter().map(|pixel| pixel - image[0]).collect::<Vec<_>>());
            }
        }
        let of_view = |mirrored, right, down| {
            (0..9).map(|place| View { mirrored, right, down }.pixel_at(place, 3) as u8).collect::<Vec<_>>()
        };
        let all = [false, true].into_iter().flat_map(|mirrored| {
            (-1..=1).flat_map(move |right| (-1..=1).map(move |down| of_view(mirrored, right, down)))
        });
        assert_eq!(seen, all.collect());
        for split in [Split::Validation, Split::Test] {
            assert_eq!(plain.held_out_batch(split, 0, 4), varied.held_out_batch(split, 0, 4));
        }
    }

    #[test]
    fn without_views_an_image_is_read_row_by_row() {
        let batch = rows(&task(Views::default()).held_out_batch(Split::Test, 0, 2));
        assert_eq!(batch, [(0..9).collect::<Vec<u8>>(), (9..18).collect()]);
    }
}
