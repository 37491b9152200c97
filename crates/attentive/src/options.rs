//! [`ForwardOptions`]: how one call runs. No option changes the meaning of the result.

use attentive_engine::{InstructionSet, Replay, Retrieval};
use burn::tensor::Device;

/// Which implementation runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Path {
    /// The fused engine if it can run (`f32` on Burn's CPU backend), otherwise tensor operations.
    #[default]
    Auto,
    /// The fused engine, or an error if it cannot run.
    Fused,
    /// Tensor operations.
    Portable,
}

/// How one call runs.
///
/// ```
/// use attentive::{ForwardOptions, Path};
/// let options = ForwardOptions::new().with_path(Path::Fused).with_threads(2).with_reminders(5);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForwardOptions {
    pub(crate) path: Path,
    pub(crate) instructions: InstructionSet,
    pub(crate) threads: Option<usize>,
    pub(crate) reminders: Option<usize>,
    pub(crate) batch: Option<(u64, u64)>,
    pub(crate) replay: Replay,
    pub(crate) retrieval: Retrieval,
}

impl ForwardOptions {
    /// The fused path if it can run, one thread per core, no record of reminders.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forces one of the paths.
    pub fn with_path(mut self, path: Path) -> Self {
        self.path = path;
        self
    }

    /// Forces the instruction set of the fused path.
    pub fn with_instructions(mut self, instructions: InstructionSet) -> Self {
        self.instructions = instructions;
        self
    }

    /// Sets the number of threads of the fused path. It does not change a bit of the results. 0 counts as 1.
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads.max(1));
        self
    }

    /// Reports for each step at most this many of the memories that it was reminded of. 0 counts as 1.
    pub fn with_reminders(mut self, most_per_step: usize) -> Self {
        self.reminders = Some(most_per_step.max(1));
        self
    }

    /// Whether backward computes states again instead of reading them from a tape (R20). By default, it does if the
    /// whole tape would be large. It does not change a bit of the results. The portable path ignores it.
    pub fn with_replay(mut self, replay: Replay) -> Self {
        self.replay = replay;
        self
    }

    /// Whether an index may find the best memories (R19). By default, it does where it pays. It does not change a bit of
    /// the results. The portable path scores every memory in any case.
    pub fn with_retrieval(mut self, retrieval: Retrieval) -> Self {
        self.retrieval = retrieval;
        self
    }

    /// Draws a random truncation phase (R9) from this seed and batch number, so that a training run can be repeated and
    /// resumed. Without it, the layer uses the number of its calls so far.
    pub fn with_batch(mut self, seed: u64, batch: u64) -> Self {
        self.batch = Some((seed, batch));
        self
    }

    #[cfg(feature = "flex")]
    pub(crate) fn thread_count(&self) -> usize {
        self.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
    }
}

/// Whether a device is Burn's CPU backend, where the fused path runs.
#[cfg(feature = "flex")]
pub(crate) fn on_flex(device: &Device) -> bool {
    use burn::backend::DispatchDevice;
    matches!(device.clone().inner().as_dispatch(), DispatchDevice::Flex(_))
}

/// Without the backend, no device is.
#[cfg(not(feature = "flex"))]
pub(crate) fn on_flex(_: &Device) -> bool {
    false
}
