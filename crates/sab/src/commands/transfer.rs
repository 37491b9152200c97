//! `sab transfer`

use super::{print, print_json, readable};
use crate::error::Result;
use crate::run_dir::TRANSFER;
use crate::runs::{AtLength, JudgeOptions, OVERFLOWED, judge_lengths};
use clap::Args;
use std::path::PathBuf;

/// Evaluate the model of a run at lengths it was not trained on (the paper's Table 5)
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  sab transfer runs/copy --lengths 100,200,300,400,2000,5000,20000")]
pub struct TransferArguments {
    /// The run directory
    run: PathBuf,

    /// Lengths, separated by commas
    #[arg(long, value_delimiter = ',', required = true, value_name = "T,T,...", value_parser = parse_length)]
    lengths: Vec<usize>,

    /// Number of sequences at each length [default: 10 to 500, fewer at greater lengths]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    sequences: Option<u32>,

    #[command(flatten)]
    options: JudgeOptions,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn parse_length(text: &str) -> std::result::Result<usize, String> {
    text.trim().parse().map_err(|_| "a length is a whole number above 0".into())
}

pub(super) fn run(arguments: &TransferArguments) -> Result<()> {
    let TransferArguments { run, lengths, sequences, options, json } = arguments;
    let sequences = sequences.map(|count| count as usize);
    let mut shown = |at: &AtLength| if *json { Ok(()) } else { print(&line(at)) };
    let document = judge_lengths(run, lengths, sequences, options, &mut shown)?;
    match json {
        true => print_json(&document),
        false => print(&format!("written to {}\n", run.join(TRANSFER).display())),
    }
}

/// A model at one length, in words.
pub(super) fn line(AtLength { length, judgement, seconds }: &AtLength) -> String {
    let Some(judgement) = judgement else { return format!("T {length:>7}  {OVERFLOWED}  ({seconds:.1} s)\n") };
    // One decimal only where it says something.
    let decimals = |memories: f64| usize::from((10.0 * memories).round() % 10.0 != 0.0);
    let in_words = |memories: f64| format!("{memories:.*} memories per sequence, ", decimals(memories));
    let stored = judgement.memories.map_or_else(String::new, in_words);
    let metrics = readable(&judgement.metrics);
    format!("T {length:>7}  {metrics}  ({} sequences, {stored}{seconds:.1} s)\n", judgement.sequences)
}
