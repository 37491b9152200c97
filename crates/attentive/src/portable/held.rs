//! Which slots the rows of a batch hold, as masks.

use burn::tensor::{Bool, Device, Tensor, TensorData};

/// Which slots each row holds, if not all rows hold all of them.
pub(super) struct Held {
    /// `[batch, slots]`
    pub(super) mask: Tensor<2, Bool>,
    /// The smallest and the largest number of slots that a row holds.
    pub(super) fewest: usize,
    pub(super) most: usize,
    pub(super) counts: Vec<usize>,
}

impl Held {
    /// The rows that hold at most `k` slots, `[batch, slots]`.
    pub(super) fn with_at_most(&self, k: usize) -> Tensor<2, Bool> {
        let few: Vec<bool> = self.counts.iter().map(|count| *count <= k).collect();
        rows_mask(&few, &self.mask.device()).unsqueeze_dim::<2>(1).expand(self.mask.dims())
    }
}

/// A mask of rows, `[batch]`.
pub(super) fn rows_mask(rows: &[bool], device: &Device) -> Tensor<1, Bool> {
    Tensor::from_data(TensorData::new(rows.to_vec(), [rows.len()]), device)
}
