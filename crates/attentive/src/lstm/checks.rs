//! Checks that an input and a carried state fit the layer.

use super::SabLstm;
use crate::error::{Result, SabError, check_device};
use crate::io::SabInput;
use crate::parameters::Weights;
use crate::state::SabState;
use burn::tensor::{Int, Tensor};

impl SabLstm {
    /// Batch and time of an input, if it fits the layer.
    pub(super) fn check_input(&self, input: &SabInput, weights: &Weights) -> Result<(usize, usize)> {
        let (shape, expected) = match input {
            SabInput::Dense(x) => (x.dims().to_vec(), format!("[batch, time, {}]", self.config.input)),
            SabInput::Tokens(x) => (x.dims().to_vec(), "[batch, time]".to_string()),
        };
        let wrong_width = shape.get(2).is_some_and(|width| *width != self.config.input);
        if shape[0] == 0 || shape[1] == 0 || wrong_width {
            let expected = format!("{expected} with at least one row and one step");
            return Err(SabError::Shape { what: "input", got: shape, expected });
        }
        if let SabInput::Dense(x) = input {
            let expected = weights.dtype;
            if x.dtype() != expected {
                return Err(SabError::DType { what: "input", got: x.dtype(), expected });
            }
        }
        let device = match input {
            SabInput::Dense(x) => x.device(),
            SabInput::Tokens(x) => x.device(),
        };
        check_device("input", &device, &weights.device)?;
        Ok((shape[0], shape[1]))
    }

    pub(super) fn check_state(&self, state: &SabState, batch: usize, weights: &Weights) -> Result<()> {
        let wrong = |what: &str, got: String, right: String| {
            Err(SabError::State(format!("its {what} is {got}, but {right} is needed")))
        };
        if state.batch() != batch {
            return wrong("batch size", state.batch().to_string(), format!("{batch}, the batch size of the input,"));
        }
        if state.units() != self.config.hidden {
            return wrong("hidden size", state.units().to_string(), self.config.hidden.to_string());
        }
        if state.k_att() != self.config.k_att {
            return wrong("`k_att`", state.k_att().to_string(), self.config.k_att.to_string());
        }
        if state.has_cell() != self.config.cell.carries() {
            let cell = self.config.cell;
            return Err(SabError::State(match state.has_cell() {
                true => format!("it has a cell state, but the cell `{cell}` takes none"),
                false => format!("it has no cell state, but the cell `{cell}` needs one"),
            }));
        }
        state.check_rows(&self.config.model(0))?;
        if let Some(got) = state.other_dtype(weights.dtype) {
            return wrong("type", format!("{got:?}"), format!("{:?}", weights.dtype));
        }
        let (got, right) = (state.device(), weights.device.clone().inner());
        if got != right {
            return wrong(
                "device",
                format!("{got:?}"),
                format!("{right:?} (move it with `to_record` and `from_record`)"),
            );
        }
        Ok(())
    }

    /// The tokens on the host, if each is below `input`.
    pub(super) fn checked_tokens(&self, tokens: &Tensor<2, Int>) -> Result<Vec<u32>> {
        let time = tokens.dims()[1];
        let values = tokens.to_data();
        let check = |(place, token): (usize, i64)| match usize::try_from(token) {
            Ok(row) if row < self.config.input => Ok(row as u32),
            _ => Err(SabError::Token { row: place / time, step: place % time, token, input: self.config.input }),
        };
        values.iter::<i64>().enumerate().map(check).collect()
    }
}
