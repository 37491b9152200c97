//! [`Images`]: labelled pictures, read pixel by pixel as sequences.

/// Labelled images as sequences of pixels, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    /// Pixels of an image: 784 (MNIST) or 1024 (CIFAR-10).
    pub steps: usize,
    /// Bytes of a pixel: 1 (grey) or 3 (red, green, blue).
    pub channels: usize,
    /// All pixels, `[count, steps, channels]`.
    pub pixels: Vec<u8>,
    /// The class of each image, `[count]`, 0 to 9.
    pub labels: Vec<u8>,
}

impl Images {
    /// How many images there are.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no images.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The pixels of image `i`, `[steps, channels]`.
    ///
    /// # Panics
    /// If there is no image `i`.
    pub fn pixels_of(&self, i: usize) -> &[u8] {
        let size = self.steps * self.channels;
        &self.pixels[i * size..(i + 1) * size]
    }
}

/// The images to learn from and those to judge by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageSet {
    /// The training images.
    pub train: Images,
    /// The test images.
    pub test: Images,
}
