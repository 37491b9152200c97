//! The portable path: Algorithm 1 and its sparse replay in tensor operations and `detach`.
//!
//! This is the specification in code, and it runs on every backend, where the engine cannot. It is written to be read:
//! one loop over time, with the line numbers of Algorithm 1 in the paper. The parts of the model are in [`parts`], the
//! memory is in [`memory`].

mod credit;
mod held;
mod memory;
mod parts;

use crate::drift::DriftReport;
use crate::error::Result;
use crate::io::{SabInput, SabOutput};
use crate::parameters::Weights;
use crate::state::SabState;
use attentive_engine::{Hops, Model, Reminders, ScoreGradient};
use burn::tensor::Tensor;
use credit::Trail;
use memory::Memory;
use parts::{Recurrence, RecurrentCell, Scorer, sparsify};

/// Runs a sequence from a state, which is data (R14).
pub(crate) fn forward(
    weights: &Weights, input: &SabInput, state: &SabState, model: &Model, most_reminders: Option<usize>,
) -> Result<SabOutput> {
    let cell = RecurrentCell::new(model.cell, weights)?;
    let scorer = if model.attends() { Some(Scorer::new(model.scorer, weights)?) } else { None };
    let projected = cell.project(input);
    let [batch, time, _] = projected.dims();
    let mut main = Recurrence { h: state.hidden(), c: state.cell() };
    // R12: with one hop, memories come from a second recurrence with the same values, whose summaries pass no gradient.
    // So gradient that enters a memory never leaves through an attention again.
    let mut shadow = (model.hops == Hops::One && model.attends()).then(|| main.clone());
    let (mut carried, drift) = (Memory::carried(state), DriftReport::default());
    // R21: carried memories move with the parameters.
    let segments = state.segments().filter(|_| model.credit_across_calls);
    if let Some(segments) = segments {
        let (replayed, how_far) = credit::replay(carried, segments, &cell);
        carried = replayed;
        drift.set(how_far);
    }
    let start = main.clone();
    let mut memory = Memory::new(model, state, carried, scorer.as_ref());
    let room = memory.room(time);
    let mut reminders = most_reminders
        .filter(|_| model.attends())
        .map(|most| Reminders::new(batch, time, model.most_reminders(most, room)));
    let (mut hidden, mut summary) = (Vec::with_capacity(time), Vec::with_capacity(time));
    let mut cells = Vec::new();
    let nothing = main.h.zeros_like();
    for t in 0..time {
        let x = projected.clone().narrow(1, t, 1).squeeze_dim::<2>(1);
        // line 2: the cell
        let after = cell.step(&main, x.clone());
        let shadow_after = shadow.as_ref().map(|shadow| cell.step(shadow, x));
        let s = match &scorer {
            None => nothing.clone(),
            Some(scorer) => {
                // lines 3 to 6: the scores. R10: the query is a constant inside the scorer unless `score_gradient =
                // full`.
                let full = model.score_gradient == ScoreGradient::Full;
                let query = if full { after.h.clone() } else { after.h.clone().detach() };
                let scores = scorer.scores(memory.keys(), scorer.query(query));
                // lines 7 and 8: the sparsifier
                let w = sparsify(model, scores, memory.held());
                memory.attend(&w, reminders.as_mut(), t);
                // line 9: the summary (R7)
                (w.unsqueeze_dim::<3>(2) * memory.states()).sum_dim(1).squeeze_dim(1)
            }
        };
        // line 10: the hidden state; line 11, the output, is `SabReadout` (R8)
        shadow = shadow_after.map(|after| Recurrence { h: after.h + s.clone().detach(), c: after.c });
        main = Recurrence { h: after.h + s.clone(), c: after.c };
        hidden.push(main.h.clone());
        summary.push(s);
        cells.extend(main.c.clone().filter(|_| model.credit_across_calls));
        // lines 12 to 14: the memory (R2, R18)
        memory.store(t, &shadow.as_ref().unwrap_or(&main).h, scorer.as_ref());
        // R9: sparse replay cuts the sequential path right after this step.
        let cut = memory.cut_after(t);
        main = main.cut(&cut);
        shadow = shadow.map(|shadow| shadow.cut(&cut));
    }
    let (last, c) = (main.h.inner(), main.c.map(Tensor::inner));
    let trail = model.credit_across_calls.then(|| Trail::new(model, segments, input, start, &hidden, &cells, &summary));
    Ok(SabOutput {
        hidden: Tensor::stack(hidden, 1),
        summary: Tensor::stack(summary, 1),
        state: memory.into_state(last, c, time, trail.as_ref())?,
        reminders,
        drift,
        #[cfg(feature = "flex")]
        link: None,
    })
}
