//! `sab man`

use super::print;
use crate::error::{LabError, Result};
use crate::run_dir::files;
use clap::Args;
use std::path::PathBuf;

/// Write manual pages for `sab` and each command
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  sab man ~/.local/share/man/man1 && man sab-train")]
pub struct ManArguments {
    /// The folder to write to; it is created if necessary
    folder: PathBuf,
}

pub(super) fn run(arguments: &ManArguments, command: clap::Command) -> Result<()> {
    let folder = &arguments.folder;
    files::create_folder(folder)?;
    clap_mangen::generate_to(command, folder).map_err(|why| LabError::file("write manual pages into", folder, &why))?;
    print(&format!("{}\n", folder.join("sab.1").display()))
}
