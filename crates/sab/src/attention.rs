//! [`Attention`]: which past steps each step of one sequence was reminded of.

use crate::error::Result;
use crate::heat_map::{Cell, HeatMap};
use crate::models::SabModel;
use crate::tasks::{Batch, Input, Split, Task, TaskFacts};
use attentive::{ForwardOptions, KTop};
use burn::tensor::Device;
use serde::{Deserialize, Serialize};

/// Full attention has a weight for every memory. Only this many of the strongest per step are kept.
const MOST_REMINDERS: usize = 64;

/// Which past steps each step of one sequence was reminded of. Steps count from 1 as in the paper; 0 is the null slot,
/// the state before the first step (R2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attention {
    /// The input symbol of each step, from step 1; `None` where inputs are not symbols.
    pub inputs: Option<Vec<String>>,
    /// For each step from 1, the chosen memories: the step at which each was stored, and its weight.
    pub reminded_of: Vec<Vec<(u64, f32)>>,
}

impl Attention {
    /// Runs one held-out sequence through a model; `None` for a plain LSTM.
    pub fn of(model: &SabModel, task: &dyn Task, split: Split, sequence: u64, device: &Device) -> Result<Option<Self>> {
        let most = match model.lstm.config().k_top {
            KTop::Count(0) => return Ok(None),
            KTop::Count(count) => count.min(MOST_REMINDERS),
            KTop::All => MOST_REMINDERS,
        };
        let batch = task.held_out_batch(split, sequence, 1).stretch(0..task.shown_steps());
        let out = model.run(&batch, &ForwardOptions::new().with_reminders(most), device)?;
        let of_step = |reminders: &attentive::Reminders, step| {
            reminders.at(0, step).iter().map(|reminder| (reminder.step, reminder.weight)).collect()
        };
        Ok(out.reminders.map(|reminders| Self {
            inputs: symbols(&batch, &task.facts()),
            reminded_of: (0..batch.steps).map(|step| of_step(&reminders, step)).collect(),
        }))
    }

    /// The figure of this attention, or of its last steps only.
    pub fn heat_map(&self, title: String, last: Option<usize>) -> HeatMap {
        let steps = self.reminded_of.len();
        let cells = (1..).zip(&self.reminded_of).flat_map(|(step, reminded)| {
            reminded.iter().map(move |&(remembered, weight)| Cell { step, remembered: remembered as usize, weight })
        });
        // The null slot has no symbol.
        let labelled = |inputs: &Vec<String>| std::iter::once(String::new()).chain(inputs.iter().cloned()).collect();
        let map = HeatMap {
            title,
            columns: 0..steps + 1,
            rows: 1..steps + 1,
            cells: cells.collect(),
            step_labels: self.inputs.as_ref().map(labelled),
        };
        map.last_rows(last.map_or(usize::MAX, |steps| steps.max(1)))
    }
}

/// The input symbol of each step.
fn symbols(batch: &Batch, facts: &TaskFacts) -> Option<Vec<String>> {
    const BLANK: &str = "·";
    let Input::Tokens(tokens) = &batch.input else { return None };
    let symbol = |token: &i32| match (&facts.alphabet, u16::try_from(*token)) {
        (Some(alphabet), Ok(symbol)) => alphabet.decode(&[symbol]).replace(['\n', '\r'], "¶"),
        // The copy task's blank.
        _ if *token == 0 => BLANK.into(),
        _ => token.to_string(),
    };
    Some(tokens.iter().map(symbol).collect())
}
