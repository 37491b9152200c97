//! [`forward`]: one call of the engine.

use crate::arrays::pooled;
use crate::errors::run;
use crate::model::Model;
use crate::state::State;
use crate::tape::Tape;
use crate::weights::Weights;
use attentive_engine::{
    Call, Forward, Inputs, InstructionSet, Model as EngineModel, Reminders, Replay, Retrieval, State as EngineState,
};
use numpy::ndarray::Array3;
use numpy::{IntoPyArray, PyArray3, PyArrayDyn, PyReadonlyArray2, PyReadonlyArray3, PyUntypedArrayMethods};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use std::sync::Arc;

/// The input of a sequence.
#[derive(FromPyObject)]
pub(crate) enum Input<'py> {
    /// `[batch, time, input]`
    Dense(PyReadonlyArray3<'py, f32>),
    /// `[batch, time]`
    Tokens(PyReadonlyArray2<'py, i64>),
}

/// The steps and the weights of the reminders, `[batch, time, most]` each; the steps of unused places are -1.
type ReminderArrays<'py> = (Bound<'py, PyArray3<i64>>, Bound<'py, PyArray3<f32>>);

/// h and s, `[batch, time, hidden]` each, the state after the call, the tape and the reminders if they were asked for.
type Outputs<'py> =
    (Bound<'py, PyArrayDyn<f32>>, Bound<'py, PyArrayDyn<f32>>, State, Option<Py<Tape>>, Option<ReminderArrays<'py>>);

/// Runs a sequence from a state or a fresh one. A call that is `tracked` leaves a tape, and a state that must be settled
/// before it is used.
#[pyfunction]
#[pyo3(signature = (model, weights, input, state, *, phase, tracked, threads, reminders))]
#[allow(clippy::too_many_arguments, reason = "Python passes them by name")]
pub(crate) fn forward<'py>(
    py: Python<'py>, model: &Model, weights: &Weights, input: Input<'py>, state: Option<&State>, phase: usize,
    tracked: bool, threads: usize, reminders: Option<usize>,
) -> PyResult<Outputs<'py>> {
    let model = EngineModel { phase, ..model.model };
    let (inputs, dense, [batch, time]) = match &input {
        Input::Tokens(tokens) => {
            (checked_tokens(tokens, model.input)?, &[][..], [tokens.shape()[0], tokens.shape()[1]])
        }
        Input::Dense(x) => (Inputs::Dense, x.as_slice()?, [x.shape()[0], x.shape()[1]]),
    };
    if let Input::Dense(x) = &input
        && x.shape()[2] != model.input
    {
        let (shape, right) = (x.shape(), model.input);
        return Err(PyValueError::new_err(format!(
            "`input` has shape {shape:?}, but [batch, time, {right}] is needed"
        )));
    }
    let (state, out) = run(py, || {
        // Checked here, so that a call that goes on with a state cannot lose it to a mistake of the caller's.
        let moves = !tracked && batch > 0 && time > 0 && attentive_engine::all_finite(dense);
        let call = |state: EngineState| {
            let call = Call {
                model,
                time,
                inputs,
                tracked,
                replay: Replay::Auto,
                retrieval: Retrieval::Auto,
                threads,
                instructions: InstructionSet::Detect,
                reminders,
            };
            let Forward { hidden, summary, mut state, reminders, tape } =
                attentive_engine::forward(call, state, Arc::clone(&weights.packed), dense)?;
            if !tracked {
                state.settle(&hidden.as_slice()[..batch * time * model.hidden])?;
            }
            Ok((state, (hidden, summary, reminders, tape)))
        };
        match state {
            Some(state) => state.go_on(&model, batch, moves, call),
            None => call(EngineState::fresh(&model, batch)).map(|(after, out)| (State::of(after, model), out)),
        }
    })?;
    let (hidden, summary, reminders, tape) = out;
    let shape = [batch, time, model.hidden];
    // Without attention there is no summary: it is zero.
    let summary = match summary.as_slice().is_empty() {
        true => PyArrayDyn::zeros(py, &shape[..], false),
        false => pooled(py, summary, &shape)?,
    };
    let tape = tracked.then(|| Py::new(py, Tape::new(tape, weights))).transpose()?;
    let reminders = reminders.map(|reminders| arrays_of(py, &reminders));
    Ok((pooled(py, hidden, &shape)?, summary, state, tape, reminders))
}

/// The tokens in the engine's type, if each is below `input`.
fn checked_tokens(tokens: &PyReadonlyArray2<'_, i64>, input: usize) -> PyResult<Inputs> {
    let time = tokens.shape()[1].max(1);
    let check = |(place, token): (usize, &i64)| match usize::try_from(*token) {
        Ok(row) if row < input => u32::try_from(row).map_err(|why| PyValueError::new_err(why.to_string())),
        _ => Err(PyIndexError::new_err(format!(
            "token {token} of row {} at step {} is outside 0..{input}, the layer's `input_size`",
            place / time,
            place % time
        ))),
    };
    let checked: PyResult<Vec<u32>> = tokens.as_slice()?.iter().enumerate().map(check).collect();
    Ok(Inputs::Tokens(Arc::new(checked?)))
}

fn arrays_of<'py>(py: Python<'py>, reminders: &Reminders) -> ReminderArrays<'py> {
    let (batch, time) = (reminders.batch(), reminders.time());
    let places = (0..batch).flat_map(|row| (0..time).map(move |t| (row, t)));
    let most = places.clone().map(|(row, t)| reminders.at(row, t).len()).max().unwrap_or(0);
    let mut steps = Array3::from_elem((batch, time, most), -1);
    let mut weights = Array3::zeros((batch, time, most));
    for (row, t) in places {
        for (place, reminder) in reminders.at(row, t).iter().enumerate() {
            steps[[row, t, place]] = reminder.step.cast_signed();
            weights[[row, t, place]] = reminder.weight;
        }
    }
    (steps.into_pyarray(py), weights.into_pyarray(py))
}
