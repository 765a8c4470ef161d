//! Other people's programs, written in Python, as independent readers of what the crawler writes.
//!
//! They live in an environment of their own below the target folder, made once. Where there is no Python or pip, tests
//! that need them say so loudly and are left out.

use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGES: [&str; 3] = ["warcio==1.8.1", "pywb==2.10.0", "duckdb==1.4.1"];

/// Runs one of the scripts beside this file, and fails with what it said if it fails.
/// Says `false` where there is no Python to run it.
#[expect(clippy::print_stderr, reason = "a test that proves nothing must say so")]
pub fn run(script: &str, arguments: &[&Path]) -> bool {
    let Some(python) = environment() else {
        eprintln!("NOTE: there is no Python with pip here: {script} is LEFT OUT.");
        return false;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/readers").join(script);
    let output = Command::new(python).arg(&script).args(arguments).output().expect("Python runs");
    let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}:\n{said}\n{complained}", script.display());
    true
}

/// The environment's own Python.
fn environment() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readers");
    let python = folder.join("bin/python");
    std::fs::create_dir_all(env!("CARGO_TARGET_TMPDIR")).ok()?;
    // Tests run in several processes: the first one makes it, the others wait.
    let lock = std::fs::File::create(folder.with_extension("lock")).ok()?;
    lock.lock().ok()?;
    let made = folder.join("packages");
    if std::fs::read_to_string(&made).is_ok_and(|packages| packages == PACKAGES.join(" ")) {
        return Some(python);
    }
    let ran = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
    let ready = ran(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))
        && ran(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--no-input"]).args(PACKAGES));
    (ready && std::fs::write(&made, PACKAGES.join(" ")).is_ok()).then_some(python)
}
