//! `sab attention`

use super::print;
use crate::device::DeviceName;
use crate::error::{LabError, Result};
use crate::run_dir::files;
use crate::runs::Trained;
use crate::runs::picture::{Choice, draw};
use crate::tasks::Split;
use clap::Args;
use std::path::PathBuf;

/// Draw which past steps each step was reminded of
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  sab attention runs/copy --sequence 3 --last 10")]
pub struct AttentionArguments {
    /// The run directory
    run: PathBuf,

    /// Draw this sequence of the test set, counted from 0
    #[arg(long, default_value_t = 0, value_name = "N")]
    sequence: u64,

    /// Use another length than in training
    #[arg(long, value_name = "STEPS", value_parser = clap::value_parser!(u32).range(1..))]
    length: Option<u32>,

    /// Draw only this many of the last steps
    #[arg(long, value_name = "STEPS", value_parser = clap::value_parser!(u32).range(1..))]
    last: Option<u32>,

    /// Write attention.png, attention.svg and attention.json here instead of to the run directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// The folder of the data sets, if it has moved since training
    #[arg(long, value_name = "DIR", env = "SAB_DATA_DIR")]
    data_dir: Option<PathBuf>,

    /// The device to run the model on
    #[arg(long, value_enum, value_name = "DEVICE", default_value = "cpu")]
    device: DeviceName,
}

pub(super) fn run(arguments: &AttentionArguments) -> Result<()> {
    let mut trained = Trained::open(&arguments.run, arguments.data_dir.as_deref(), arguments.device)?;
    if let Some(length) = arguments.length {
        trained.experiment.task = trained.experiment.task.with_length(length as usize)?;
    }
    let task = trained.task()?;
    let model = trained.model.recurrent()?;
    if !model.attends() {
        return Err(LabError::Config(
            "the model is a plain LSTM (`model.k_top` is 0): it has no attention to draw".into(),
        ));
    }
    let count = task.held_out_count(Split::Test, 1);
    if arguments.sequence >= count {
        return Err(LabError::Config(format!(
            "`--sequence` is {}: the test set has sequences 0 to {}",
            arguments.sequence,
            count - 1
        )));
    }
    let folder = arguments.out.clone().unwrap_or_else(|| arguments.run.clone());
    files::create_folder(&folder)?;
    let choice = Choice { sequence: arguments.sequence, last: arguments.last.map(|steps| steps as usize) };
    let written = draw(model, &trained.experiment, &*task, &folder, &choice, &trained.device)?;
    for file in written {
        print(&format!("{}\n", file.display()))?;
    }
    Ok(())
}
