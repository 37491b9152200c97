//! Tests every rule of `docs/model.md` on both paths. Each test fails if its rule is broken.

mod common;

#[path = "rules/backward.rs"]
mod backward;
#[path = "rules/by_hand.rs"]
mod by_hand;
#[path = "rules/cells.rs"]
mod cells;
#[path = "rules/credit.rs"]
mod credit;
#[path = "rules/forward.rs"]
mod forward;
#[path = "rules/scorers.rs"]
mod scorers;
#[path = "rules/seen.rs"]
mod seen;
#[path = "rules/sparsifiers.rs"]
mod sparsifiers;
#[path = "rules/stores.rs"]
mod stores;
#[path = "rules/streaming.rs"]
mod streaming;

use attentive::{ForwardOptions, Path, Reminders, SabLstmConfig, SabOutput, SabState};
use burn::tensor::{DType, Device};
use common::{Array, Input, Parameters, run};

const PATHS: [Path; 2] = [Path::Portable, Path::Fused];

fn by(path: Path) -> ForwardOptions {
    ForwardOptions::new().with_path(path)
}

/// Runs forward in `f32`, with all reminders.
fn observe(
    config: &SabLstmConfig, parameters: &Parameters, input: &Input, state: Option<SabState>, path: Path,
) -> SabOutput {
    let device = Device::flex().autodiff();
    let (x, _) = input.tensor(DType::F32, &device);
    let options = by(path).with_reminders(100);
    parameters.layer(config, DType::F32, &device).forward_with(x, state, &options).expect("a good input")
}

/// One row and step of `[batch, time, units]`; steps from 0.
fn at(array: &Array, row: usize, t: usize) -> &[f64] {
    let (time, units) = (array.shape[1], array.shape[2]);
    &array.values[(row * time + t) * units..][..units]
}

/// `[batch, time, units]`, zero except at one row and step.
fn only(shape: [usize; 3], row: usize, t: usize, values: &[f64]) -> Array {
    let mut array = Array::new(&shape, vec![0.0; shape.iter().product()]);
    array.values[(row * shape[1] + t) * shape[2]..][..shape[2]].copy_from_slice(values);
    array
}

/// Gradients by name for given adjoints of `hidden` and `summary`.
struct Gradients(Vec<(&'static str, Array)>);

impl Gradients {
    fn of(
        config: &SabLstmConfig, parameters: &Parameters, input: &Input, state: Option<SabState>,
        [hidden, summary]: [&Array; 2], options: &ForwardOptions,
    ) -> Self {
        Self(run(config, parameters, input, state, [hidden, summary], DType::F32, options).gradients)
    }

    fn get(&self, name: &str) -> &Array {
        &self.0.iter().find(|(other, _)| *other == name).expect("a gradient of that name").1
    }

    /// The steps of a row, counted from 1 in this call, whose input has a gradient that is not exactly zero.
    fn steps(&self, row: usize) -> Vec<usize> {
        let x = self.get("x");
        (1..=x.shape[1]).filter(|step| at(x, row, step - 1).iter().any(|d| *d != 0.0)).collect()
    }
}

/// The steps that the gradient of a loss at `step` reaches by R9, R11 and R12, from 1 to `step` of a fresh row.
fn reach(
    step: usize, cut_after: impl Fn(usize) -> bool, chosen: impl Fn(usize) -> Vec<usize>, hops: usize,
) -> Vec<usize> {
    let mut reached = Vec::new();
    let mut heads = vec![(step, hops)];
    while let Some((head, hops)) = heads.pop() {
        let mut step = head;
        loop {
            reached.push(step);
            if hops > 0 {
                heads.extend(chosen(step).into_iter().map(|memory| (memory, hops - 1)));
            }
            if step == 1 || cut_after(step - 1) {
                break;
            }
            step -= 1;
        }
    }
    reached.sort_unstable();
    reached.dedup();
    reached
}

/// The steps that a step (from 1) was reminded of, without the null slot, which passes no gradient on.
fn chosen(reminders: &Reminders, row: usize, step: usize) -> Vec<usize> {
    reminders.at(row, step - 1).iter().map(|reminder| reminder.step as usize).filter(|step| *step > 0).collect()
}
