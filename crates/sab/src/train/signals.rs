//! The first Ctrl-C or SIGTERM stops as soon as nothing is lost; a second one ends the process at once.

use crate::error::{LabError, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Whether a signal asked to stop.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicUsize>);

impl Stop {
    /// Listens to signals from now on, while training.
    pub fn on_signals() -> Result<Self> {
        Self::on_signals_during("stopping after this update, with a checkpoint")
    }

    /// The same during other work. `answer` tells the user what happens on the first signal, if that takes a while.
    pub fn on_signals_during(answer: &'static str) -> Result<Self> {
        let (asked, which) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the handler that ends the process must see the flag as the previous signal left it.
            flag::register_conditional_shutdown(signal, 128 + signal, asked.clone())
                .and_then(|_| flag::register(signal, asked.clone()))
                .and_then(|_| flag::register_usize(signal, which.clone(), signal as usize))
                .map_err(|why| LabError::Run(format!("cannot listen to signals: {why}")))?;
        }
        let stop = Self(which);
        stop.clone().answer_when_asked(answer);
        Ok(stop)
    }

    /// Explains the first signal, because an update may take a while.
    fn answer_when_asked(self, answer: &'static str) {
        std::thread::spawn(move || {
            while self.asked().is_none() {
                std::thread::sleep(Duration::from_millis(50));
            }
            // If the update ends sooner, no message is needed.
            std::thread::sleep(Duration::from_millis(500));
            eprintln!("{answer}; once more stops at once");
        });
    }

    /// The signal that asked to stop.
    pub fn asked(&self) -> Option<i32> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            signal => Some(signal as i32),
        }
    }
}
