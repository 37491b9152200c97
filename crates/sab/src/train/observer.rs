//! [`Observer`]: follows training. The trainer reports to it and knows no display.

/// A report that the trainer sends from time to time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Updates done.
    pub update: u64,
    /// Updates in all.
    pub budget: u64,
    /// The training loss.
    pub loss: f64,
    /// Further metrics with their names, such as the accuracy of recent training batches.
    pub metrics: Vec<(&'static str, f64)>,
    /// The norm of the gradient before clipping.
    pub gradient_norm: f64,
    /// The learning rate.
    pub learning_rate: f64,
    /// Recent speed.
    pub updates_per_second: f64,
    /// Seconds trained so far.
    pub seconds: f64,
    /// Estimated seconds until the end, if known.
    pub seconds_left: Option<f64>,
}

impl Progress {
    /// The fraction of the budget that is done, in 0..=1.
    pub fn fraction(&self) -> f64 {
        (self.update as f64 / self.budget.max(1) as f64).min(1.0)
    }
}

/// A result on held-out data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Validation {
    /// Updates done.
    pub update: u64,
    /// The metrics with their names.
    pub metrics: Vec<(&'static str, f64)>,
    /// Whether this is the best result so far.
    pub best: bool,
}

/// The importance of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteKind {
    /// Good to know.
    Info,
    /// Something may be wrong; every display shows it.
    Warning,
}

/// Follows a training run.
pub trait Observer: Send {
    /// Receives progress, as often as the trainer likes.
    fn progress(&mut self, progress: &Progress);

    /// Receives a result on held-out data.
    fn validation(&mut self, validation: &Validation);

    /// Receives a remark.
    fn note(&mut self, kind: NoteKind, text: &str);
}
