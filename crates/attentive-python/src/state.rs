//! [`State`]: what a batch carries from one call to the next (R14).

use crate::errors::run;
use crate::line::{Held, only_grows};
use crate::model::Model;
use crate::segments::{Arrays, Flat, Given, joined, restored};
use attentive_engine::{EngineError, RowStart, Segments, State as EngineState};
use numpy::ndarray::{Array1, Array2, Array3};
use numpy::{IntoPyArray, PyArray2, PyArray3, PyReadonlyArray2, PyReadonlyArray3, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Hidden state, cell state and memories of every row of a batch.
#[pyclass(frozen, weakref, module = "attentive._engine")]
pub(crate) struct State {
    /// Locked only without the GIL, so that no thread waits for the lock while it holds the GIL.
    held: Mutex<Held>,
    model: attentive_engine::Model,
}

/// h, c, memories, steps, the memories' steps, and the weights they have received.
type Data<'py> = (
    Bound<'py, PyArray2<f32>>,
    Option<Bound<'py, PyArray2<f32>>>,
    Bound<'py, PyArray3<f32>>,
    Vec<u64>,
    Vec<Vec<u64>>,
    Vec<Vec<f32>>,
);

#[pymethods]
impl State {
    /// Fresh rows.
    #[staticmethod]
    fn fresh(py: Python<'_>, model: &Model, batch: usize) -> PyResult<Self> {
        let model = model.model;
        run(py, || Ok(Self::of(EngineState::fresh(&model, batch), model)))
    }

    /// The state of plain data: `hidden` and `cell`, `[batch, hidden]`, `memory`, `[batch, slots, hidden]`, and for each
    /// row its steps, its memories' steps and the weights they have received.
    #[staticmethod]
    #[allow(clippy::too_many_arguments, reason = "Python passes them by name")]
    fn of_data(
        py: Python<'_>, model: &Model, hidden: PyReadonlyArray2<'_, f32>, cell: Option<PyReadonlyArray2<'_, f32>>,
        memory: PyReadonlyArray3<'_, f32>, steps: Vec<u64>, slot_steps: Vec<Vec<u64>>, received: Vec<Vec<f32>>,
        segments: Option<Given<'_>>,
    ) -> PyResult<Self> {
        let model = model.model;
        let (batch, units) = (steps.len(), model.hidden);
        let shapes = [
            ("hidden", hidden.shape(), vec![batch, units]),
            ("cell", cell.as_ref().map_or(hidden.shape(), |cell| cell.shape()), vec![batch, units]),
            ("memory", memory.shape(), vec![batch, memory.shape()[1], units]),
            ("slot_steps", &[slot_steps.len()], vec![batch]),
            ("received", &[received.len()], vec![batch]),
        ];
        for (what, got, right) in shapes {
            if got != right {
                let why = format!("the state's `{what}` has shape {got:?}, but {right:?} is needed");
                return Err(PyValueError::new_err(why));
            }
        }
        let rows = steps.into_iter().zip(slot_steps).zip(received);
        let rows: Vec<RowStart> =
            rows.map(|((steps, slot_steps), received)| RowStart { steps, slot_steps, received }).collect();
        let (hidden, memory) = (hidden.as_slice()?, memory.as_slice()?);
        let cell = cell.as_ref().map(|cell| cell.as_slice()).transpose()?.unwrap_or(&[]);
        let slots = |row: &RowStart| row.slot_steps.len();
        let segments = segments.map(|given| restored(&given, &model, &rows.iter().map(slots).collect::<Vec<_>>()));
        let segments = segments.transpose()?;
        run(py, || {
            let state = EngineState::new(&model, rows, hidden, cell, memory)?;
            Ok(Self::of(with_segments(state, &model, segments)?, model))
        })
    }

    /// The state as plain data, as [`of_data`](State::of_data) takes it.
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Data<'py>> {
        let (hidden, cell, memory, rows) =
            run(py, || self.with(|state| Ok((state.hidden(), state.cell(), state.memory()?, state.rows().to_vec()))))?;
        let (batch, units) = (rows.len(), self.model.hidden);
        let wrong = |why: numpy::ndarray::ShapeError| PyValueError::new_err(why.to_string());
        let slots = memory.len() / (batch * units);
        let matrix = |values| Array2::from_shape_vec((batch, units), values).map_err(wrong);
        Ok((
            matrix(hidden)?.into_pyarray(py),
            if cell.is_empty() { None } else { Some(matrix(cell)?.into_pyarray(py)) },
            Array3::from_shape_vec((batch, slots, units), memory).map_err(wrong)?.into_pyarray(py),
            rows.iter().map(|row| row.steps).collect(),
            rows.iter().map(|row| row.slot_steps.clone()).collect(),
            rows.into_iter().map(|row| row.received).collect(),
        ))
    }

    /// The steps that led to the memories (R21), if the state holds any: the grid, segments, slots, states, tokens or
    /// dense inputs, and summaries, as [`of_data`](State::of_data) takes them.
    fn segments<'py>(&self, py: Python<'py>) -> PyResult<Option<Arrays<'py>>> {
        let flat = run(py, || self.with(|state| Ok(state.segments().map(Flat::of))))?;
        flat.map(|flat| flat.into_arrays(py, &self.model)).transpose()
    }

    /// The state without the steps that led to its memories.
    fn without_segments(&self, py: Python<'_>) -> PyResult<Self> {
        run(py, || {
            let part = Part { segments: None, ..self.with(|state| Part::of(state))? };
            let rows: Vec<(&Part, usize)> = (0..part.rows.len()).map(|row| (&part, row)).collect();
            Ok(Self::of(Part::join(&self.model, &rows)?, self.model))
        })
    }

    /// The hidden state of the last step, `[batch, hidden]`.
    fn hidden<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let (hidden, batch) = run(py, || self.with(|state| Ok((state.hidden(), state.batch()))))?;
        let hidden = Array1::from_vec(hidden).into_shape_with_order((batch, self.model.hidden));
        Ok(hidden.map_err(|why| PyValueError::new_err(why.to_string()))?.into_pyarray(py))
    }

    /// The number of rows.
    #[getter]
    fn batch(&self, py: Python<'_>) -> PyResult<usize> {
        run(py, || self.with(|state| Ok(state.batch())))
    }

    /// The steps that each row has taken since it was fresh.
    #[getter]
    fn steps(&self, py: Python<'_>) -> PyResult<Vec<u64>> {
        run(py, || self.with(|state| Ok(state.rows().iter().map(|row| row.steps).collect())))
    }

    /// The number of memories that each row holds, the null slot included.
    #[getter]
    fn slots(&self, py: Python<'_>) -> PyResult<Vec<usize>> {
        run(py, || self.with(|state| Ok(state.rows().iter().map(|row| row.slot_steps.len()).collect())))
    }

    /// Whether the state holds its memories. If it does not, [`settle`](State::settle) copies them.
    #[getter]
    fn settled(&self, py: Python<'_>) -> PyResult<bool> {
        run(py, || self.with(|state| Ok(state.is_settled())))
    }

    /// Copies the memories that the last call stored from its hidden states, `[batch, time, hidden]`.
    fn settle(&self, py: Python<'_>, hidden: PyReadonlyArray3<'_, f32>) -> PyResult<()> {
        let hidden = hidden.as_slice()?;
        run(py, || self.with(|state| state.settle(hidden)))
    }

    /// A state of some rows of several states, which must be settled: `picks` names a state and a row of it for each.
    #[staticmethod]
    fn of_rows(py: Python<'_>, states: Vec<Py<State>>, picks: Vec<(usize, usize)>) -> PyResult<Self> {
        let states: Vec<&State> = states.iter().map(Py::get).collect();
        run(py, || {
            let parts: Vec<Part> =
                states.iter().map(|state| state.with(|state| Part::of(state))).collect::<Result<_, _>>()?;
            let found = |(state, row): &(usize, usize)| parts.get(*state).filter(|part| *row < part.rows.len());
            let picked: Option<Vec<(&Part, usize)>> = picks.iter().map(|pick| Some((found(pick)?, pick.1))).collect();
            match (picked, states.first()) {
                (Some(picked), Some(first)) => Ok(Self::of(Part::join(&first.model, &picked)?, first.model)),
                _ => Err(EngineError::State("a row that is not there was picked".into())),
            }
        })
    }

    /// Starts rows afresh.
    fn reset(&self, py: Python<'_>, rows: Vec<usize>) -> PyResult<()> {
        run(py, || self.lock().with_own(&self.model, |state| state.reset(&rows)))
    }

    /// A copy that can be carried on by itself.
    fn copy(&self, py: Python<'_>) -> PyResult<Self> {
        run(py, || Ok(Self::of(self.with(|state| Ok(state.clone()))?, self.model)))
    }
}

impl State {
    pub(crate) fn of(state: EngineState, model: attentive_engine::Model) -> Self {
        Self { held: Mutex::new(Held::new(state)), model }
    }

    /// Runs a call that begins with this state. `call` gives the state after it. The call must be able to fail only by
    /// an overflow, if it goes on with a state of its own kind that only grows.
    pub(crate) fn go_on<T>(
        &self, model: &attentive_engine::Model, batch: usize, moves: bool,
        call: impl FnOnce(EngineState) -> attentive_engine::Result<(EngineState, T)>,
    ) -> attentive_engine::Result<(Self, T)> {
        let wrong = |what: &str, got: usize, right: String| {
            Err(EngineError::State(format!("its {what} is {got}, but {right} is needed")))
        };
        if self.model.store.k_att != model.store.k_att {
            return wrong("`k_att`", self.model.store.k_att, model.store.k_att.to_string());
        }
        let rows = self.with(|state| Ok(state.batch()))?;
        if rows != batch {
            return wrong("batch size", rows, format!("{batch}, the batch size of the input,"));
        }
        let kind = |model: &attentive_engine::Model| (model.hidden, model.cell);
        if moves && kind(&self.model) == kind(model) && only_grows(model) && only_grows(&self.model) {
            let (held, result) = self.lock().go_on(&self.model, call)?;
            return Ok((Self { held: Mutex::new(held), model: *model }, result));
        }
        let (after, result) = call(self.with(|state| Ok(state.clone()))?)?;
        Ok((Self::of(after, *model), result))
    }

    fn with<T>(
        &self, body: impl FnOnce(&mut EngineState) -> attentive_engine::Result<T>,
    ) -> attentive_engine::Result<T> {
        self.lock().with(&self.model, body)
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn with_segments(
    state: EngineState, model: &attentive_engine::Model, segments: Option<Segments>,
) -> attentive_engine::Result<EngineState> {
    match segments {
        Some(segments) => state.with_segments(model, segments),
        None => Ok(state),
    }
}

/// A state as plain data.
struct Part {
    rows: Vec<RowStart>,
    hidden: Vec<f32>,
    cell: Vec<f32>,
    memory: Vec<f32>,
    segments: Option<Segments>,
}

impl Part {
    fn of(state: &EngineState) -> attentive_engine::Result<Self> {
        let (hidden, cell, memory) = (state.hidden(), state.cell(), state.memory()?);
        let segments = state.segments().cloned();
        Ok(Self { rows: state.rows().to_vec(), hidden, cell, memory, segments })
    }

    /// The state of some rows of some parts.
    fn join(model: &attentive_engine::Model, picked: &[(&Part, usize)]) -> attentive_engine::Result<EngineState> {
        let units = model.hidden;
        let room = picked.iter().map(|(part, row)| part.rows[*row].slot_steps.len()).max().unwrap_or(1);
        let (mut hidden, mut cell, mut memory) = (Vec::new(), Vec::new(), Vec::new());
        for (part, row) in picked {
            hidden.extend_from_slice(&part.hidden[row * units..][..units]);
            if !part.cell.is_empty() {
                cell.extend_from_slice(&part.cell[row * units..][..units]);
            }
            let (slots, own_room) = (part.rows[*row].slot_steps.len(), part.memory.len() / part.rows.len() / units);
            memory.extend_from_slice(&part.memory[row * own_room * units..][..slots * units]);
            memory.resize(memory.len() + (room - slots) * units, 0.0);
        }
        let rows = picked.iter().map(|(part, row)| part.rows[*row].clone()).collect();
        let segments: Vec<_> =
            picked.iter().map(|(part, row)| (part.segments.as_ref(), *row, part.rows[*row].slot_steps.len())).collect();
        with_segments(EngineState::new(model, rows, &hidden, &cell, &memory)?, model, joined(&segments)?)
    }
}
