//! `sab data`

use super::print;
use crate::data::{CATALOGUE, DataError, Verdict, fetch, verify};
use crate::error::Result;
use clap::Subcommand;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::path::PathBuf;

/// Download data sets and check them
#[derive(Subcommand, Debug)]
pub enum DataCommand {
    /// List the known data sets
    List,
    /// Download a data set from its official source and check it
    Fetch {
        /// mnist, ptb, text8 or cifar10
        name: String,
        /// The folder of the data sets
        #[arg(long, value_name = "DIR", default_value = "data", env = "SAB_DATA_DIR")]
        data_dir: PathBuf,
        /// Download from this address instead of the official one
        #[arg(long, value_name = "URL")]
        mirror: Option<String>,
    },
    /// Check the downloaded files
    Verify {
        /// The folder of the data sets
        #[arg(long, value_name = "DIR", default_value = "data", env = "SAB_DATA_DIR")]
        data_dir: PathBuf,
    },
}

pub(super) fn run(command: &DataCommand) -> Result<()> {
    match command {
        DataCommand::List => {
            for set in CATALOGUE {
                let bytes: u64 = set.downloads.iter().map(|download| download.bytes).sum();
                let megabytes = bytes as f64 / 1e6;
                print(&format!("{:<8} {} ({megabytes:.1} MB)\n         {}\n", set.name, set.title, set.terms))?;
            }
            Ok(())
        }
        DataCommand::Fetch { name, data_dir, mirror } => {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style =
                ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta} left");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            let mut show = |file: &str, done: u64, total: Option<u64>| {
                if bar.message() != file {
                    bar.set_message(file.to_string());
                }
                if let Some(total) = total {
                    bar.set_length(total);
                }
                bar.set_position(done);
            };
            let files = fetch(name, data_dir, mirror.as_deref(), &mut show);
            bar.finish_and_clear();
            for file in files? {
                print(&format!("{} is complete and correct\n", file.display()))?;
            }
            Ok(())
        }
        DataCommand::Verify { data_dir } => {
            let reports = verify(data_dir)?;
            let mut bad = 0;
            for report in &reports {
                let verdict = match &report.verdict {
                    Verdict::Good => "good".to_string(),
                    Verdict::Prefix(text) => format!("incomplete, but correct so far: {text}"),
                    Verdict::Wrong(text) => format!("WRONG: {text}"),
                    Verdict::Missing => "missing".to_string(),
                };
                bad += usize::from(matches!(report.verdict, Verdict::Wrong(_) | Verdict::Missing));
                print(&format!("{:<8} {}: {verdict}\n", report.set, report.path.display()))?;
            }
            if reports.is_empty() {
                print(&format!(
                    "{} holds none of the data sets; `sab data fetch NAME` downloads one\n",
                    data_dir.display()
                ))?;
            }
            match bad {
                0 => Ok(()),
                bad => Err(DataError::Invalid(format!(
                    "{bad} of {} files are wrong or missing; `sab data fetch NAME` downloads them again",
                    reports.len()
                ))
                .into()),
            }
        }
    }
}
