//! [`TransformerModel`]: the paper's comparison, from Burn's own layers.

use super::sab::{input_of, places_of};
use crate::error::{LabError, Result};
use crate::experiment::TransformerSettings;
use crate::tasks::{Asked, Batch, InputKind};
use attentive::SabInput;
use burn::module::Module;
use burn::nn::attention::generate_autoregressive_mask;
use burn::nn::transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput};
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::tensor::{Device, Tensor, TensorData};

/// The longest sequence: the cost of attention grows with its square.
const LONGEST: usize = 8192;

/// A causal Transformer encoder with sinusoidal positions: each step sees itself and earlier steps only, so padding
/// at the end changes nothing.
#[derive(Module, Debug)]
pub struct TransformerModel {
    /// Symbols to positions.
    pub symbols: Option<Embedding>,
    /// Numbers to positions.
    pub numbers: Option<Linear>,
    /// The layers.
    pub encoder: TransformerEncoder,
    /// Positions to outputs. Not `output`: that name in a file is the recurrent model's.
    pub head: Linear,
}

impl TransformerModel {
    /// A model with fresh weights.
    pub fn new(settings: &TransformerSettings, input: InputKind, outputs: usize, device: &Device) -> Self {
        let TransformerSettings { hidden, layers, heads, feed_forward } = *settings;
        let (symbols, numbers) = match input {
            InputKind::Tokens(size) => (Some(EmbeddingConfig::new(size, hidden).init(device)), None),
            InputKind::Dense(size) => (None, Some(LinearConfig::new(size, hidden).init(device))),
        };
        // No dropout: a batch must be a function of the seed and the update, and Burn's numbers are not.
        let encoder = TransformerEncoderConfig::new(hidden, feed_forward, heads, layers)
            .with_dropout(0.0)
            .with_norm_first(true)
            .init(device);
        let model = Self { symbols, numbers, encoder, head: LinearConfig::new(hidden, outputs).init(device) };
        // Burn draws weights when they are first used. They must be drawn now, while the seed holds.
        model.visit(&mut Draw);
        model
    }

    /// The outputs where the batch asks for them, `[answers, outputs]`.
    pub fn answer(&self, batch: &Batch, device: &Device) -> Result<Tensor<2>> {
        let (rows, steps) = (batch.rows, batch.steps);
        if steps > LONGEST {
            return Err(LabError::Config(format!(
                "a Transformer's attention takes the square of {steps} steps: at most {LONGEST} are possible here"
            )));
        }
        let seen = match (input_of(batch, device), &self.symbols, &self.numbers) {
            (SabInput::Tokens(tokens), Some(symbols), _) => symbols.forward(tokens),
            (SabInput::Dense(values), _, Some(numbers)) => numbers.forward(values),
            _ => return Err(LabError::Run("the model expects another kind of input".into())),
        };
        let width = seen.dims()[2];
        let seen = seen + positions(steps, width, device);
        let causal = generate_autoregressive_mask(rows, steps, device);
        let hidden = self.encoder.forward(TransformerEncoderInput::new(seen).mask_attn(causal)).flatten::<2>(0, 1);
        let asked = match &batch.asked {
            Asked::From(0) | Asked::TwoGroups { .. } | Asked::Until(_) => hidden,
            Asked::From(from) => hidden.reshape([rows, steps, width]).narrow(1, *from, steps - from).flatten(0, 1),
            Asked::At(_) | Asked::Only(_) => hidden.select(0, places_of(batch, device)),
        };
        Ok(self.head.forward(asked))
    }
}

/// Sines and cosines of each position, `[1, steps, width]`.
fn positions(steps: usize, width: usize, device: &Device) -> Tensor<3> {
    let at = |step: usize, place: usize| {
        let angle = step as f64 / 10_000_f64.powf((place / 2 * 2) as f64 / width as f64);
        (if place.is_multiple_of(2) { angle.sin() } else { angle.cos() }) as f32
    };
    let values = (0..steps).flat_map(|step| (0..width).map(move |place| at(step, place))).collect::<Vec<f32>>();
    Tensor::from_data(TensorData::new(values, [1, steps, width]), device)
}

/// Uses every parameter once.
struct Draw;

impl burn::module::ModuleVisitor for Draw {
    fn visit_float<const D: usize>(&mut self, param: &burn::module::Param<Tensor<D>>) {
        let _ = param.val();
    }
}
