//! The observable results of one run: states, the memories that each step could be reminded of, and its reminders.

use crate::common::{Array, Input, Numbers, Parameters};
use crate::{at, by_hand, observe};
use attentive::{Cell, Path, Reminders, SabLstmConfig, SabState};
use burn::tensor::{DType, Device};

/// Five units need padding in the fused path, sixteen do not.
pub const UNITS: [usize; 2] = [5, 16];

pub fn rows_close(got: &[f64], right: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), right.len(), "{what}");
    for (got, right) in got.iter().zip(right) {
        assert!((got - right).abs() <= tolerance, "{what}: {got} instead of {right}");
    }
}

pub fn dense(input: &Input) -> &Array {
    match input {
        Input::Dense(x) => x,
        Input::Tokens { .. } => panic!("a dense input"),
    }
}

/// All observable results of one run, with all memories available at each step.
pub struct Seen {
    pub config: SabLstmConfig,
    pub parameters: Parameters,
    pub x: Array,
    pub hidden: Array,
    pub summary: Array,
    reminders: Option<Reminders>,
    initial: Array,
    initial_cell: Option<Array>,
}

impl Seen {
    /// A run of two rows that start from states of their own, so that the null slot is not zero.
    pub fn new(config: &SabLstmConfig, time: usize, path: Path) -> Self {
        let (input, units) = (config.input, config.hidden);
        let parameters = Parameters::random_for(config, 11);
        let x = Input::random(2, time, input, false, 12);
        let mut numbers = Numbers::new(13);
        let mut start = || Array::new(&[2, units], numbers.take(2 * units, 0.7));
        let initial = start();
        let initial_cell = (config.cell == Cell::Lstm).then(start);
        let tensor = |array: &Array| array.tensor::<2>(DType::F32, &Device::flex());
        let cell = initial_cell.as_ref().map(tensor);
        let state = SabState::starting_from(tensor(&initial), cell, config.k_att).expect("fits");
        let out = observe(config, &parameters, &x, Some(state), path);
        Self {
            parameters,
            x: dense(&x).clone(),
            hidden: Array::of(&out.hidden),
            summary: Array::of(&out.summary),
            reminders: out.reminders,
            initial,
            initial_cell,
            config: config.clone(),
        }
    }

    pub fn cell_before(&self) -> &Array {
        self.initial_cell.as_ref().expect("an LSTM has one")
    }

    pub fn h_before(&self, row: usize, t: usize) -> Vec<f64> {
        let units = self.initial.shape[1];
        match t {
            0 => self.initial.values[row * units..][..units].to_vec(),
            _ => at(&self.hidden, row, t - 1).to_vec(),
        }
    }

    pub fn h_hat(&self, row: usize, t: usize) -> Vec<f64> {
        at(&self.hidden, row, t).iter().zip(at(&self.summary, row, t)).map(|(h, s)| h - s).collect()
    }

    /// R2: the memories that step `t` (from 0) can be reminded of.
    pub fn memories(&self, row: usize, t: usize) -> Vec<Vec<f64>> {
        (0..=t).step_by(self.config.k_att).map(|step| self.h_before(row, step)).collect()
    }

    pub fn scores(&self, row: usize, t: usize) -> Vec<f64> {
        let h_hat = self.h_hat(row, t);
        let score = |memory: &Vec<f64>| by_hand::score_by(self.config.scorer, &self.parameters, memory, &h_hat);
        self.memories(row, t).iter().map(score).collect()
    }

    /// The reported weights, one for each memory.
    pub fn weights(&self, row: usize, t: usize) -> Vec<f64> {
        let mut weights = vec![0.0; t / self.config.k_att + 1];
        for reminder in self.reminders.as_ref().expect("the layer attends").at(row, t) {
            assert_eq!(reminder.step as usize % self.config.k_att, 0, "only stored steps are remembered");
            weights[reminder.step as usize / self.config.k_att] = f64::from(reminder.weight);
        }
        weights
    }

    pub fn each_step(&self) -> impl Iterator<Item = (usize, usize)> {
        let time = self.hidden.shape[1];
        (0..2).flat_map(move |row| (0..time).map(move |t| (row, t)))
    }
}
