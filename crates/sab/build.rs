//! Tells the program which compiler made it.

fn main() {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let version = std::process::Command::new(rustc).arg("--version").output().ok();
    let version = version.and_then(|out| String::from_utf8(out.stdout).ok()).unwrap_or_else(|| "unknown".into());
    println!("cargo::rustc-env=SAB_RUSTC={}", version.trim());
    println!("cargo::rerun-if-changed=build.rs");
}
