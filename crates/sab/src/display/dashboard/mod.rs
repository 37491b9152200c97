//! Live charts that fill the terminal: `screen` owns the terminal, `state` holds the numbers, `view` draws them.

mod screen;
mod state;
mod view;

pub use screen::restore_terminal;
pub use state::State;
pub use view::draw;

use super::Throttle;
use super::lines::{digits, note_line, progress_line, validation_line};
use crate::train::{NoteKind, Observer, Progress, Validation};
use screen::Screen;
use std::io::{self, Write};
use std::time::Duration;

/// The least time between two frames.
const BETWEEN_FRAMES: Duration = Duration::from_millis(200);

/// The dashboard on stderr.
pub struct Dashboard {
    state: State,
    /// Until the dashboard is finished.
    screen: Option<Screen>,
    frames: Throttle,
}

impl Dashboard {
    pub fn open(title: &str) -> io::Result<Self> {
        Ok(Self { state: State::new(title), screen: Some(Screen::open()?), frames: Throttle::new(BETWEEN_FRAMES) })
    }

    fn draw(&mut self) {
        if let Some(screen) = &mut self.screen {
            screen.draw(|frame| draw(frame, &self.state));
        }
    }

    /// The lines worth keeping, which would vanish with the screen: notes, the best and the last result, the last
    /// progress.
    fn summary(&self) -> String {
        let State { title, notes, progress, best, validation, .. } = &self.state;
        let digits = progress.as_ref().map_or(0, digits);
        let mut lines = Vec::new();
        lines.extend((!title.is_empty()).then(|| title.clone()));
        lines.extend(notes.iter().map(|(kind, text)| note_line(*kind, text)));
        lines.extend(best.iter().map(|best| validation_line(best, digits)));
        lines.extend(validation.iter().filter(|last| Some(*last) != best.as_ref()).map(|v| validation_line(v, digits)));
        lines.extend(progress.iter().map(progress_line));
        lines.iter().map(|line| format!("{line}\n")).collect()
    }
}

impl Observer for Dashboard {
    fn progress(&mut self, progress: &Progress) {
        self.state.progress(progress);
        if self.frames.ready() {
            self.draw();
        }
    }

    fn validation(&mut self, validation: &Validation) {
        self.state.validation(validation);
        self.draw();
    }

    fn note(&mut self, kind: NoteKind, text: &str) {
        self.state.note(kind, text);
        self.draw();
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        // Gives the terminal back.
        self.screen = None;
        // A closed stderr must not stop the training.
        let _ = io::stderr().write_all(self.summary().as_bytes());
    }
}
