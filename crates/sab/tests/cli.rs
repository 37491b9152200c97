//! The command as a user meets it.

use std::process::{Command, Output};

fn sab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sab")).args(arguments).output().expect("the binary was built")
}

#[test]
fn help_and_version_are_printed() {
    for arguments in [&[][..], &["--help"], &["-h"]] {
        let out = sab(arguments);
        assert!(out.status.success());
        assert!(String::from_utf8_lossy(&out.stdout).contains("Usage: sab"));
    }
    assert_eq!(String::from_utf8_lossy(&sab(&["--version"]).stdout), concat!("sab ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn what_is_not_there_is_an_error_that_points_to_the_help() {
    let out = sab(&["trian"]);
    assert_eq!(out.status.code(), Some(2));
    let message = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(message.contains("`trian`") && message.contains("sab --help"), "{message}");
}
