//! The terminal while the dashboard has it.
//!
//! The dashboard takes the alternate screen and hides the cursor, but does not switch the terminal to raw mode: Ctrl-C
//! stays what it is, a SIGINT to the process. The price is that keys typed meanwhile are echoed, so the screen is drawn
//! afresh from time to time.

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, MoveTo, Show};
use ratatui::crossterm::terminal::{Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, size};
use ratatui::crossterm::{execute, queue};
use ratatui::layout::Rect;
use ratatui::{Frame, Terminal, TerminalOptions, Viewport};
use std::io::{self, BufWriter, Stderr};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Whether a dashboard has the terminal.
static OPEN: AtomicBool = AtomicBool::new(false);

/// After this long the whole screen is drawn again, not only the cells that changed.
const FRESH_START: Duration = Duration::from_secs(10);

/// Columns at the end of the first line for keys that are echoed.
const ECHO_WIDTH: u16 = 12;

/// Gives the terminal back if a dashboard has it; otherwise does nothing.
///
/// Displays and panics do this by themselves. A signal handler that ends the process calls it first.
pub fn restore_terminal() {
    if OPEN.swap(false, Ordering::SeqCst) {
        // Nothing helps against a terminal that went away.
        let _ = execute!(io::stderr(), LeaveAlternateScreen, Show);
    }
}

/// The alternate screen; dropping it gives the terminal back.
pub struct Screen {
    canvas: Option<Canvas>,
}

/// The canvas, for one size of the terminal.
struct Canvas {
    terminal: Terminal<CrosstermBackend<BufWriter<Stderr>>>,
    size: (u16, u16),
    made: Instant,
}

impl Screen {
    /// Takes the terminal, which must not be taken yet.
    pub fn open() -> io::Result<Self> {
        if OPEN.swap(true, Ordering::SeqCst) {
            return Err(io::Error::other("another dashboard has the terminal"));
        }
        restore_on_panic();
        let screen = Self { canvas: None };
        execute!(io::stderr(), EnterAlternateScreen, Hide)?;
        Ok(screen)
    }

    /// Draws a frame, unless the panic of another thread gave the terminal back. Errors are dropped: a terminal that
    /// went away must not stop the training.
    pub fn draw(&mut self, view: impl FnOnce(&mut Frame<'_>)) {
        if OPEN.load(Ordering::SeqCst) {
            let _ = self.try_draw(view);
        }
    }

    fn try_draw(&mut self, view: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        let size = size()?;
        let is_current = |canvas: &Canvas| canvas.size == size && canvas.made.elapsed() < FRESH_START;
        if !self.canvas.as_ref().is_some_and(is_current) {
            // A new one for each size: `Terminal::clear` and with it `resize` ask the terminal where its cursor is, and
            // without raw mode the answer is not read but echoed.
            self.canvas = None;
            let mut out = BufWriter::new(io::stderr());
            queue!(out, Clear(ClearType::All), Hide)?;
            let viewport = Viewport::Fixed(Rect::new(0, 0, size.0, size.1));
            let terminal = Terminal::with_options(CrosstermBackend::new(out), TerminalOptions { viewport })?;
            self.canvas = Some(Canvas { terminal, size, made: Instant::now() });
        }
        if let Some(Canvas { terminal, .. }) = &mut self.canvas {
            terminal.draw(view)?;
            // Typed keys appear at the cursor: in the corner, away from the charts and from the last line, where Enter
            // would scroll.
            execute!(terminal.backend_mut(), MoveTo(size.0.saturating_sub(ECHO_WIDTH), 0))?;
        }
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Before the terminal is restored, because dropping the canvas may write.
        self.canvas = None;
        restore_terminal();
    }
}

/// Makes panics give the terminal back before their message is printed, which would vanish with the screen.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    // The hook cannot be changed while panicking.
    if std::thread::panicking() {
        return;
    }
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore_terminal();
            print(panic);
        }));
    });
}
