//! `sab transfer`

use super::{print, print_json, readable};
use crate::display::{Meter, Style};
use crate::error::{LabError, Result};
use crate::run_dir::TRANSFER;
use crate::runs::{At, AtLength, JudgeOptions, Judging, OVERFLOWED, changes, judge_lengths};
use crate::train::Stop;
use clap::Args;
use std::path::PathBuf;

/// Evaluate the model of a run at lengths it was not trained on (the paper's Table 5)
///
/// Any length runs in bounded memory: the states of a stretch, and the memories that the model's store keeps. Ctrl-C
/// stops; lengths that are done are saved.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct TransferArguments {
    /// The run directory
    run: PathBuf,

    /// Lengths, separated by commas
    #[arg(long, value_delimiter = ',', required = true, value_name = "T,T,...", value_parser = parse_length)]
    lengths: Vec<usize>,

    /// Number of sequences at each length [default: 10 to 500, fewer at greater lengths]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    sequences: Option<u32>,

    /// Change a key of the trained model that leaves its parameters as they are; repeat for more keys
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    #[command(flatten)]
    options: JudgeOptions,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  sab transfer runs/copy --lengths 100,200,300,400,2000,5000,20000
  sab transfer runs/copy --lengths 1000000 --sequences 20 --set model.store=novelty";

fn parse_length(text: &str) -> std::result::Result<usize, String> {
    text.trim().parse().map_err(|_| "a length is a whole number above 0".into())
}

pub(super) fn run(arguments: &TransferArguments) -> Result<()> {
    let TransferArguments { run, lengths, sequences, set, options, json } = arguments;
    let (set, sequences) = (changes::parsed(set)?, sequences.map(|count| count as usize));
    let lengths: Vec<At> = lengths.iter().map(|length| At { length: *length, sequences, set: set.clone() }).collect();
    let stop = Stop::on_signals_during("stopping; the lengths that are done are saved")?;
    let (mut meters, mut done) = (Meters::new(Style::Auto), 0);
    let document = judge_lengths(run, &lengths, options, &mut |report| {
        meters.follow(&report);
        if let Judging::Done(at) = report {
            done += 1;
            if !json {
                print(&line(at))?;
            }
        }
        match stop.asked().filter(|_| done < lengths.len()) {
            Some(signal) => {
                let s = if done == 1 { "" } else { "s" };
                let file = run.join(TRANSFER).display().to_string();
                let left = match done {
                    0 => "no length was done".to_string(),
                    done => format!("{done} length{s} of {} saved in {file}", lengths.len()),
                };
                Err(LabError::Stopped { signal, left })
            }
            None => Ok(()),
        }
    })?;
    match json {
        true => print_json(&document),
        false => print(&format!("written to {}\n", run.join(TRANSFER).display())),
    }
}

/// A meter for each length that is being judged.
pub(super) struct Meters {
    style: Style,
    shown: Option<Meter>,
}

impl Meters {
    pub(super) fn new(style: Style) -> Self {
        Self { style, shown: None }
    }

    pub(super) fn follow(&mut self, report: &Judging) {
        match report {
            Judging::Share(at, share) => {
                self.shown.get_or_insert_with(|| Meter::new(self.style, &at.to_string())).show(*share);
            }
            // The terminal is clean again for the result.
            Judging::Done(_) => self.shown = None,
        }
    }
}

/// A model at one length, in words.
pub(super) fn line(done: &AtLength) -> String {
    let AtLength { at, judgement, seconds, peak_memory, .. } = done;
    let peak = peak_memory.map_or_else(String::new, |bytes| format!(", peak {} MiB", bytes >> 20));
    let with = match at.set.is_empty() {
        true => String::new(),
        false => format!("  {}", changes::in_words(&at.set)),
    };
    let length = format!("T {:>7}{with}", at.length);
    let Some(judgement) = judgement else { return format!("{length}  {OVERFLOWED}  ({seconds:.1} s{peak})\n") };
    // One decimal only where it says something.
    let decimals = |memories: f64| usize::from((10.0 * memories).round() % 10.0 != 0.0);
    let in_words = |memories: f64| format!("{memories:.*} memories per sequence, ", decimals(memories));
    let stored = judgement.memories.map_or_else(String::new, in_words);
    let metrics = readable(&judgement.metrics);
    format!("{length}  {metrics}  ({} sequences, {stored}{seconds:.1} s{peak})\n", judgement.sequences)
}
