//! The command `argiope` inside the extension module: `python -m argiope`.

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs one command line, and returns its exit code.
pub fn run(arguments: Vec<OsString>) -> u8 {
    let code = argiope_cli::run(arguments);
    (0..=u8::MAX).find(|number| ExitCode::from(*number) == code).unwrap_or(1)
}
