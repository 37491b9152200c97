//! `sab predict`

use super::Printed;
use crate::data::AnswerOn;
use crate::error::{LabError, Result};
use crate::predict::{Answer, Prediction, Predictor};
use crate::run_dir::{atomic, cores};
use clap::Args;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Answer the sequences of a new table
///
/// The model must have learned from a table. The new table needs the same sequence, step and feature columns, which are
/// found by name; a label column and other columns are ignored. The output is CSV: one line per sequence, or one line
/// per step if the model answers every step.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct PredictArguments {
    /// A run directory, or a folder with model.safetensors and config.json
    run: PathBuf,

    /// The table
    file: PathBuf,

    /// Write the answers to this file instead of printing them; it appears complete or not at all
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Add a column with the probability of each class
    #[arg(long)]
    probabilities: bool,

    /// Number of threads; the result does not depend on it [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
}

const EXAMPLES: &str = "\
Examples:
  sab predict runs/batches new.csv
  sab predict runs/batches new.csv --out answers.csv --probabilities";

pub(super) fn run(arguments: &PredictArguments) -> Result<()> {
    let predictor = Predictor::open(&arguments.run)?;
    if arguments.probabilities && predictor.classes().is_empty() {
        return Err(LabError::Config("the model answers with numbers, which have no `--probabilities`".into()));
    }
    match &arguments.out {
        None => write(&predictor, arguments, Printed, Path::new("the output")),
        Some(out) => {
            let real = |path: &Path| std::fs::canonicalize(path).ok();
            if real(out).is_some_and(|out| Some(out) == real(&arguments.file)) {
                let out = out.display();
                return Err(LabError::Config(format!("`--out {out}` is the table itself: name another file")));
            }
            atomic::write_with(out, |file| write(&predictor, arguments, file, out))
        }
    }
}

fn write(predictor: &Predictor, arguments: &PredictArguments, out: impl Write, name: &Path) -> Result<()> {
    let questions = predictor.load(&arguments.file)?;
    let wrong = |why: csv::Error| LabError::file("write", name, &io::Error::from(why));
    let mut table = csv::Writer::from_writer(out);
    let label = predictor.config().facts.label.as_deref().unwrap_or("answer");
    let mut header = vec![questions.sequence_name.clone()];
    if predictor.on() == AnswerOn::Each {
        header.push(questions.step_name.clone());
    }
    header.push(label.to_string());
    if !predictor.classes().is_empty() {
        header.push("confidence".into());
    }
    if arguments.probabilities {
        header.extend(predictor.classes().iter().map(|class| format!("p_{class}")));
    }
    table.write_record(&header).map_err(wrong)?;
    let threads = arguments.threads.map_or_else(cores, usize::from);
    predictor.answer(&questions, threads, |Prediction { sequence, step, answer }| {
        let mut line = vec![sequence.to_string()];
        if predictor.on() == AnswerOn::Each {
            line.push(step.to_string());
        }
        match answer {
            Answer::Number(number) => line.push(number.to_string()),
            Answer::Class { name, probability, probabilities } => {
                line.extend([name.to_string(), format!("{probability:.6}")]);
                if arguments.probabilities {
                    line.extend(probabilities.iter().map(|probability| format!("{probability:.6}")));
                }
            }
        }
        table.write_record(&line).map_err(wrong)
    })?;
    table.flush().map_err(|why| LabError::file("write", name, &why))
}
