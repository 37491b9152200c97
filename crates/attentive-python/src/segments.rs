//! The steps that led to a state's memories (R21), as plain arrays.

use attentive_engine::{EngineError, Led, Model, RowSegments, Segment, SegmentInputs, Segments};
use numpy::ndarray::{Array1, Array2};
use numpy::{
    IntoPyArray, PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods, ndarray::ShapeError,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::Arc;

/// All segments of a state, one after the other, as Python takes them.
pub(crate) type Arrays<'py> = (
    [u64; 2],
    Bound<'py, PyArray2<i64>>,
    Bound<'py, PyArray2<i64>>,
    Bound<'py, PyArray2<f32>>,
    Option<Bound<'py, PyArray1<i64>>>,
    Option<Bound<'py, PyArray2<f32>>>,
    Bound<'py, PyArray2<f32>>,
);

/// The same as Python gives them.
pub(crate) type Given<'py> = (
    [u64; 2],
    PyReadonlyArray2<'py, i64>,
    PyReadonlyArray2<'py, i64>,
    PyReadonlyArray2<'py, f32>,
    Option<PyReadonlyArray1<'py, i64>>,
    Option<PyReadonlyArray2<'py, f32>>,
    PyReadonlyArray2<'py, f32>,
);

/// The arrays of some segments, before they are Python's.
#[derive(Default)]
pub(crate) struct Flat {
    grid: [u64; 2],
    /// For each segment: its row, its steps, and 1 if it is the one that goes on.
    segments: Vec<i64>,
    /// For each memory that a segment led to: the segment's number, the slot, and how many steps led to it.
    slots: Vec<i64>,
    /// For each segment: h, and c if there is one, before its first step.
    states: Vec<f32>,
    /// The inputs of all steps, in one of the two kinds.
    tokens: Vec<i64>,
    dense: Vec<f32>,
    is_dense: bool,
    /// The summaries of all steps.
    summaries: Vec<f32>,
}

impl Flat {
    pub(crate) fn of(segments: &Segments) -> Self {
        let mut flat = Self { grid: segments.grid, ..Self::default() };
        for (row, of_row) in segments.rows.iter().enumerate() {
            let mut last: Option<&Arc<Segment>> = None;
            for (slot, led) in of_row.slots.iter().enumerate() {
                let Some(led) = led else { continue };
                // Memories of one segment are neighbours.
                if last.is_none_or(|last| !Arc::ptr_eq(last, &led.by)) {
                    flat.add(row, &led.by, false);
                }
                last = Some(&led.by);
                let number = flat.segments.len() / 3 - 1;
                flat.slots.extend([number, slot, led.steps].map(|number| number as i64));
            }
            if let Some(open) = &of_row.open {
                flat.add(row, open, true);
            }
        }
        flat
    }

    fn add(&mut self, row: usize, segment: &Segment, open: bool) {
        self.segments.extend([row as i64, segment.steps() as i64, i64::from(open)]);
        self.states.extend(segment.hidden.iter().chain(&segment.cell));
        match &segment.inputs {
            SegmentInputs::Tokens(tokens) => self.tokens.extend(tokens.iter().map(|token| i64::from(*token))),
            SegmentInputs::Dense(dense) => {
                self.is_dense = true;
                self.dense.extend(dense);
            }
        }
        self.summaries.extend(&segment.summaries);
    }

    pub(crate) fn into_arrays<'py>(self, py: Python<'py>, model: &Model) -> PyResult<Arrays<'py>> {
        let wide = if model.cell.carries() { 2 } else { 1 };
        Ok((
            self.grid,
            matrix(self.segments, 3)?.into_pyarray(py),
            matrix(self.slots, 3)?.into_pyarray(py),
            matrix(self.states, wide * model.hidden)?.into_pyarray(py),
            (!self.is_dense).then(|| Array1::from_vec(self.tokens).into_pyarray(py)),
            if self.is_dense { Some(matrix(self.dense, model.input)?.into_pyarray(py)) } else { None },
            matrix(self.summaries, model.hidden)?.into_pyarray(py),
        ))
    }
}

fn matrix<T>(values: Vec<T>, columns: usize) -> PyResult<Array2<T>> {
    let wrong = |why: ShapeError| PyValueError::new_err(why.to_string());
    Array2::from_shape_vec((values.len() / columns, columns), values).map_err(wrong)
}

/// The segments of arrays, for rows with so many slots. The engine checks what they hold; here, that they fit together.
pub(crate) fn restored(given: &Given<'_>, model: &Model, slots: &[usize]) -> PyResult<Segments> {
    let (grid, segments, led, states, tokens, dense, summaries) = given;
    let (table, led_table) = (segments.as_slice()?, led.as_slice()?);
    let (states, summaries) = (states.as_slice()?, summaries.as_slice()?);
    let tokens = tokens.as_ref().map(|tokens| tokens.as_slice()).transpose()?;
    let dense_values = dense.as_ref().map(|dense| dense.as_slice()).transpose()?;
    let columns = dense.as_ref().map_or(model.input, |dense| dense.shape()[1]);
    let fits = segments.shape()[1] == 3 && led.shape()[1] == 3 && columns == model.input;
    if !fits || tokens.is_some() == dense_values.is_some() {
        return Err(damaged());
    }
    let (hidden, wide) = (model.hidden, if model.cell.carries() { 2 * model.hidden } else { model.hidden });
    let empty = |slots: &usize| RowSegments { slots: vec![None; *slots], open: None };
    let mut rows: Vec<RowSegments> = slots.iter().map(empty).collect();
    let (mut made, mut first) = (Vec::new(), 0_usize);
    for (number, entry) in table.chunks_exact(3).enumerate() {
        let [row, steps, open] = [entry[0], entry[1], entry[2]].map(usize::try_from);
        let (Ok(row), Ok(steps), Ok(open)) = (row, steps, open) else { return Err(damaged()) };
        let after = first.checked_add(steps).ok_or_else(damaged)?;
        let part = |values: &[f32], width: usize| {
            let (from, to) = (first.checked_mul(width)?, after.checked_mul(width)?);
            values.get(from..to).map(<[f32]>::to_vec)
        };
        let token = |token: &i64| u32::try_from(*token).map_err(|_| damaged());
        let inputs = match (tokens, dense_values) {
            (Some(tokens), _) => {
                let own = tokens.get(first..after).ok_or_else(damaged)?;
                SegmentInputs::Tokens(own.iter().map(token).collect::<PyResult<_>>()?)
            }
            (_, dense) => SegmentInputs::Dense(part(dense.unwrap_or_default(), model.input).ok_or_else(damaged)?),
        };
        let before = states.get(number * wide..(number + 1) * wide).ok_or_else(damaged)?;
        let segment = Segment {
            hidden: before[..hidden].to_vec(),
            cell: before[hidden..].to_vec(),
            inputs,
            summaries: part(summaries, hidden).ok_or_else(damaged)?,
        };
        first = after;
        match rows.get_mut(row) {
            Some(of_row) if open == 1 => of_row.open = Some(segment.clone()),
            Some(_) => {}
            None => return Err(damaged()),
        }
        made.push((row, Arc::new(segment)));
    }
    let inputs = tokens.map_or(dense_values.unwrap_or_default().len() / columns.max(1), <[i64]>::len);
    if inputs != first || summaries.len() != first * hidden || states.len() != made.len() * wide {
        return Err(damaged());
    }
    for entry in led_table.chunks_exact(3) {
        let [number, slot, steps] = [entry[0], entry[1], entry[2]].map(usize::try_from);
        let (Ok(number), Ok(slot), Ok(steps)) = (number, slot, steps) else { return Err(damaged()) };
        let (row, by) = made.get(number).ok_or_else(damaged)?;
        let place = rows[*row].slots.get_mut(slot).ok_or_else(damaged)?;
        *place = Some(Led { by: Arc::clone(by), steps });
    }
    Ok(Segments { grid: *grid, rows })
}

fn damaged() -> PyErr {
    PyValueError::new_err("the carried state does not fit: its segments contradict each other")
}

/// The segments of some rows of some states; `slots` is how many each row has. States without segments give none.
pub(crate) fn joined(picked: &[(Option<&Segments>, usize, usize)]) -> attentive_engine::Result<Option<Segments>> {
    let mut grids = picked.iter().filter_map(|(segments, _, _)| segments.map(|segments| segments.grid));
    let Some(grid) = grids.next() else { return Ok(None) };
    if grids.any(|other| other != grid) {
        return Err(EngineError::State("rows of states with different truncation points were joined".into()));
    }
    let row_of = |(segments, row, slots): &(Option<&Segments>, usize, usize)| match segments {
        Some(segments) => segments.rows[*row].clone(),
        None => RowSegments { slots: vec![None; *slots], open: None },
    };
    Ok(Some(Segments { grid, rows: picked.iter().map(row_of).collect() }))
}
