//! A process for each point.

use super::case::{Case, Settings};
use super::measure::Measurement;
use super::memory;
use super::survey::{Limit, Outcome};
use crate::error::{LabError, Result};
use clap::ValueEnum;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The subcommand that measures one point.
pub const SUBCOMMAND: &str = "complexity-point";

/// How often a process is looked after.
const LOOK: Duration = Duration::from_millis(10);

/// What a point may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Seconds of its process.
    pub seconds: f64,
    /// Bytes of its process; `None` where nothing is known.
    pub bytes: Option<u64>,
}

/// Runs `program complexity-point` for a point, and ends it where it takes more than it may.
pub fn run(program: &Path, case: Case, settings: Settings, limits: Limits) -> Result<Outcome> {
    let child = command(program, case, settings, limits.seconds).spawn();
    let mut child = child.map_err(|why| LabError::file("run", program, &why))?;
    match watch(&mut child, limits) {
        Ok(None) => {}
        Ok(Some(outcome)) => {
            end(&mut child);
            return Ok(outcome);
        }
        Err(why) => {
            end(&mut child);
            return Err(LabError::file("wait for", program, &why));
        }
    }
    let Output { status, stdout, stderr } =
        child.wait_with_output().map_err(|why| LabError::file("wait for", program, &why))?;
    if !status.success() {
        let says = String::from_utf8_lossy(&stderr);
        let says = says.trim();
        let says = if says.is_empty() { "it said nothing; perhaps the system ran out of memory" } else { says };
        return Err(LabError::Run(format!("the process that measured {case} failed ({status}): {says}")));
    }
    let measured: Measurement = serde_json::from_slice(&stdout).map_err(|why| {
        LabError::Run(format!("the process that measured {case} wrote something else than a measurement: {why}"))
    })?;
    Ok(Outcome::Measured(measured))
}

fn command(program: &Path, case: Case, settings: Settings, seconds: f64) -> Command {
    let word = |value: Option<clap::builder::PossibleValue>| value.map_or(String::new(), |v| v.get_name().to_owned());
    let mut command = Command::new(program);
    command.arg(SUBCOMMAND);
    for (flag, value) in [
        ("--model", word(case.model.to_possible_value())),
        ("--loss", word(case.loss.to_possible_value())),
        ("--length", case.length.to_string()),
        ("--hidden", settings.hidden.to_string()),
        ("--batch", settings.batch.to_string()),
        ("--rounds", settings.rounds.to_string()),
        ("--threads", settings.threads.to_string()),
        ("--seconds", seconds.to_string()),
    ] {
        command.arg(flag).arg(value);
    }
    // Burn's own operations take as many threads as the engine.
    command.env("RAYON_NUM_THREADS", settings.threads.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Waits until the process ends by itself, or says why it must be ended.
fn watch(child: &mut Child, limits: Limits) -> std::io::Result<Option<Outcome>> {
    let began = Instant::now();
    while child.try_wait()?.is_none() {
        if began.elapsed().as_secs_f64() > limits.seconds {
            let reason = format!("it was ended after {} s", limits.seconds);
            return Ok(Some(Outcome::not_measured(reason, Limit::Seconds(limits.seconds))));
        }
        if let Some((taken, most)) = memory::resident(child.id()).zip(limits.bytes).filter(|(taken, most)| taken > most)
        {
            let reason = format!("it was ended when it took {} MiB of the {} MiB that it may", taken >> 20, most >> 20);
            return Ok(Some(Outcome::not_measured(reason, Limit::Bytes(most))));
        }
        // Until the next look, or until time is up.
        sleep(LOOK.min(Duration::from_secs_f64((limits.seconds - began.elapsed().as_secs_f64()).clamp(0.0, 1.0))));
    }
    Ok(None)
}

/// Ends a process. If it has ended by itself in between, that is as well.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}
