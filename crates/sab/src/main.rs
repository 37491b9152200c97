//! The `sab` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    sab::commands::run()
}
