//! [`Model`]: the parts and options of a layer, checked by the engine.

use crate::errors::exception;
use attentive_engine::{
    Cell, Evict, Gain, Hops, KTop, KTrunc, Model as EngineModel, Owner, ScoreGradient, Scorer, Sparsifier, Start,
    Store, StoreRule, TruncPhase,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString};
use std::str::FromStr;

/// The parts and options of a layer.
#[pyclass(frozen, module = "attentive._engine")]
pub(crate) struct Model {
    pub(crate) model: EngineModel,
    phase: TruncPhase,
}

/// One parameter: name, shape in PyTorch's order, owner ("cell" or "scorer"), and how it starts: the gain's name and a
/// constant, or `None` for a uniform distribution.
type Declared = (&'static str, Vec<usize>, &'static str, &'static str, Option<f64>);

#[pymethods]
impl Model {
    #[new]
    #[pyo3(signature = (input, hidden, *, cell, scorer, sparsifier, store, novelty, capacity, evict, k_top, k_att,
        k_trunc, trunc_phase, mental_updates, score_gradient, hops, credit_across_calls))]
    #[allow(clippy::too_many_arguments, reason = "Python passes them by name")]
    fn new(
        input: &Bound<'_, PyAny>, hidden: &Bound<'_, PyAny>, cell: &str, scorer: &str, sparsifier: &str, store: &str,
        novelty: f64, capacity: Option<&Bound<'_, PyAny>>, evict: &str, k_top: &Bound<'_, PyAny>,
        k_att: &Bound<'_, PyAny>, k_trunc: Option<&Bound<'_, PyAny>>, trunc_phase: &Bound<'_, PyAny>,
        mental_updates: bool, score_gradient: &str, hops: &str, credit_across_calls: bool,
    ) -> PyResult<Self> {
        let rule = StoreRule {
            store: part(store)?,
            k_att: count("k_att", k_att)?,
            novelty,
            capacity: capacity.map(|capacity| count("capacity", capacity)).transpose()?,
            evict: part(evict)?,
        };
        let model = EngineModel {
            cell: part(cell)?,
            scorer: part(scorer)?,
            sparsifier: part(sparsifier)?,
            store: rule,
            k_top: count_or("k_top", k_top, "all")?.map_or(KTop::All, KTop::Count),
            k_trunc: match k_trunc {
                Some(steps) => count_or("k_trunc", steps, "none")?.into(),
                None => KTrunc::None,
            },
            mental_updates,
            credit_across_calls,
            score_gradient: choice("score_gradient", score_gradient, SCORE_GRADIENTS)?,
            hops: choice("hops", hops, HOPS)?,
            ..EngineModel::new(count("input_size", input)?, count("hidden_size", hidden)?)
        };
        model.check().map_err(exception)?;
        let phase = count_or("trunc_phase", trunc_phase, "random")?.map_or(TruncPhase::Random, TruncPhase::Fixed);
        Ok(Self { model, phase })
    }

    /// The parameters in order.
    fn parameters(&self) -> Vec<Declared> {
        let declared = self.model.parameters().into_iter().map(|parameter| {
            let owner = match parameter.owner {
                Owner::Cell => "cell",
                Owner::Scorer => "scorer",
            };
            let (gain, constant) = match parameter.start {
                Start::Uniform(Gain::One) => ("one", None),
                Start::Uniform(Gain::Input) => ("input", None),
                Start::Uniform(Gain::Attention) => ("attention", None),
                Start::Uniform(Gain::Score) => ("score", None),
                Start::Constant(value) => ("score", Some(value)),
            };
            let shape = parameter.shape.iter().rev().copied().collect();
            (parameter.name, shape, owner, gain, constant)
        });
        declared.collect()
    }

    /// The phase of one batch (R9).
    fn draw_phase(&self, seed: u64, batch: u64) -> usize {
        self.phase.draw(self.model.k_trunc, seed, batch)
    }

    /// Whether the cell carries a cell state besides h (R15).
    #[getter]
    fn carries(&self) -> bool {
        self.model.cell.carries()
    }

    /// The names of the gates, in the order of the weights' rows.
    #[getter]
    fn gates(&self) -> &'static str {
        self.model.cell.gates()
    }

    /// The block of the bias that keeps the state.
    #[getter]
    fn keeping_block(&self) -> usize {
        self.model.cell.keeping_block()
    }
}

const SCORE_GRADIENTS: &[(&str, ScoreGradient)] = &[("weights", ScoreGradient::Weights), ("full", ScoreGradient::Full)];
const HOPS: &[(&str, Hops)] = &[("all", Hops::All), ("one", Hops::One)];

/// The names that an option may have, the default first.
#[pyfunction]
pub(crate) fn names(option: &str) -> PyResult<Vec<&'static str>> {
    Ok(match option {
        "cell" => Cell::ALL.iter().map(|part| part.name()).collect(),
        "scorer" => Scorer::ALL.iter().map(|part| part.name()).collect(),
        "sparsifier" => Sparsifier::ALL.iter().map(|part| part.name()).collect(),
        "store" => Store::ALL.iter().map(|part| part.name()).collect(),
        "evict" => Evict::ALL.iter().map(|part| part.name()).collect(),
        "score_gradient" => SCORE_GRADIENTS.iter().map(|(name, _)| *name).collect(),
        "hops" => HOPS.iter().map(|(name, _)| *name).collect(),
        _ => return Err(PyValueError::new_err(format!("there is no option `{option}` with names"))),
    })
}

/// A part by its name.
fn part<T: FromStr<Err = String>>(name: &str) -> PyResult<T> {
    name.parse().map_err(PyValueError::new_err)
}

fn choice<T: Copy>(option: &str, word: &str, choices: &[(&str, T)]) -> PyResult<T> {
    choices.iter().find(|(name, _)| *name == word).map(|(_, choice)| *choice).ok_or_else(|| {
        let names: Vec<String> = choices.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        PyValueError::new_err(format!("`{option}` is \"{word}\": it must be {}", names.join(" or ")))
    })
}

/// A whole number from 0 on.
fn count(option: &str, value: &Bound<'_, PyAny>) -> PyResult<usize> {
    // True and False are whole numbers to Python.
    let number = if value.is_instance_of::<PyBool>() { None } else { value.extract::<i64>().ok() };
    match number.map(usize::try_from) {
        Some(Ok(number)) => Ok(number),
        Some(Err(_)) => Err(PyValueError::new_err(format!("`{option}` is {value}: it must be at least 0"))),
        None => Err(PyTypeError::new_err(format!("`{option}` is {}: it must be a whole number", value.repr()?))),
    }
}

/// A whole number, or one word, which is `None`.
fn count_or(option: &str, value: &Bound<'_, PyAny>, word: &str) -> PyResult<Option<usize>> {
    match value.cast::<PyString>() {
        Ok(text) if text.to_cow()? == word => Ok(None),
        Ok(text) => {
            Err(PyValueError::new_err(format!("`{option}` is \"{text}\": it must be a whole number or \"{word}\"")))
        }
        Err(_) => count(option, value).map(Some),
    }
}
