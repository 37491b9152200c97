//! [`Held`]: a state's place in a line of states that share their memories.
//!
//! To Python, a call leaves the state that it was given as it is. If it copied all memories for that, a step of a long
//! stream would take the longer the more it remembers. So the engine's state goes on from call to call, and an earlier
//! state keeps only what it takes to find itself in it: its h and c, and how many of the memories are its own. That works
//! where a memory only grows. An earlier state that is used once more copies its memories then.

use attentive_engine::{EngineError, Model, Result, RowStart, State};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The engine's state after the latest call of a line; `None` if that call failed on the way.
type Line = Mutex<Option<State>>;

#[derive(Debug)]
pub(crate) struct Held {
    line: Arc<Line>,
    /// What a state keeps when the line goes on without it.
    earlier: Option<Earlier>,
}

#[derive(Debug)]
struct Earlier {
    hidden: Vec<f32>,
    cell: Vec<f32>,
    /// Steps and number of memories of each row.
    rows: Vec<(u64, usize)>,
}

/// Whether no call of the model takes away what the one before it has left.
pub(crate) fn only_grows(model: &Model) -> bool {
    model.store.capacity.is_none() && !model.credit_across_calls
}

impl Held {
    /// The first of a line.
    pub(crate) fn new(state: State) -> Self {
        Self { line: Arc::new(Mutex::new(Some(state))), earlier: None }
    }

    /// Runs `body` on the engine's state.
    pub(crate) fn with<T>(&mut self, model: &Model, body: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        if let Some(earlier) = &self.earlier {
            let copy = earlier.find(model, lock(&self.line).as_ref().ok_or_else(lost)?)?;
            *self = Self::new(copy);
        }
        body(lock(&self.line).as_mut().ok_or_else(lost)?)
    }

    /// Runs `body` on the engine's state, which no other state shares.
    pub(crate) fn with_own<T>(&mut self, model: &Model, body: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        if Arc::strong_count(&self.line) > 1 {
            let copy = self.with(model, |state| Ok(state.clone()))?;
            *self = Self::new(copy);
        }
        self.with(model, body)
    }

    /// Runs a call that starts with this state and leaves the next one. `call` gives the state after it.
    pub(crate) fn go_on<T>(
        &mut self, model: &Model, call: impl FnOnce(State) -> Result<(State, T)>,
    ) -> Result<(Self, T)> {
        let earlier = self.with(model, |state| Ok(Earlier::of(state)))?;
        // Whoever uses another state of the line meanwhile waits for the call's end.
        let mut line = lock(&self.line);
        let (after, result) = call(line.take().ok_or_else(lost)?)?;
        *line = Some(after);
        drop(line);
        self.earlier = Some(earlier);
        Ok((Self { line: Arc::clone(&self.line), earlier: None }, result))
    }
}

impl Earlier {
    fn of(state: &State) -> Self {
        let rows = state.rows().iter().map(|row| (row.steps, row.slot_steps.len())).collect();
        Self { hidden: state.hidden(), cell: state.cell(), rows }
    }

    /// The state as it was, from a later one.
    fn find(&self, model: &Model, later: &State) -> Result<State> {
        let memory = later.memory()?;
        let row = |((steps, slots), later): (&(u64, usize), &RowStart)| RowStart {
            steps: *steps,
            slot_steps: later.slot_steps[..*slots].to_vec(),
            received: Vec::new(),
        };
        let rows = self.rows.iter().zip(later.rows()).map(row).collect();
        State::new(model, rows, &self.hidden, &self.cell, &memory)
    }
}

fn lock(line: &Line) -> MutexGuard<'_, Option<State>> {
    line.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lost() -> EngineError {
    EngineError::State(
        "it was lost in a call that failed; begin with an earlier copy (`clone`) or a fresh state".into(),
    )
}
