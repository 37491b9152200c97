//! The `sab` command.

use std::process::ExitCode;

const HELP: &str = "\
sab: recurrent networks trained by Sparse Attentive Backtracking

Usage: sab [--help | --version]

The command has no subcommands yet; the model is the library crate `attentive`.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        None | Some("-h" | "--help" | "help") => print(HELP),
        Some("-V" | "--version") => print(concat!("sab ", env!("CARGO_PKG_VERSION"), "\n")),
        Some(other) => {
            eprintln!("error: there is no `{other}`; `sab --help` says what there is");
            ExitCode::from(2)
        }
    }
}

#[allow(clippy::print_stdout)]
fn print(text: &str) -> ExitCode {
    print!("{text}");
    ExitCode::SUCCESS
}
