//! Python programs that read the crawler's output, independently of its own code.
//!
//! The programs are installed once into a virtual environment below the target folder. A test that uses them must be
//! marked `#[ignore = "needs python"]`.

use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGES: [&str; 6] =
    ["warcio==1.8.1", "pywb==2.10.0", "duckdb==1.4.1", "wacz==0.6.0", "jsonschema[format]==4.25.1", "pyarrow==22.0.0"];

/// Runs one of the scripts beside this file and fails with its output if it fails.
pub fn run(script: &str, arguments: &[&Path]) {
    let python = environment().expect("a virtual environment with the packages");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/readers").join(script);
    let output = Command::new(python).arg(&script).args(arguments).output().expect("Python runs");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}:\n{stdout}\n{stderr}", script.display());
}

/// Starts a program in a folder.
#[allow(dead_code, reason = "not all tests that use the readers start programs")]
pub fn start(program: &Path, folder: &Path, arguments: &[&str]) -> std::process::Child {
    let python = environment().expect("a virtual environment with the packages");
    Command::new(python).arg(program).args(arguments).current_dir(folder).spawn().expect("Python runs")
}

/// The Python of the virtual environment, which is created if needed.
fn environment() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readers");
    let python = folder.join("bin/python");
    std::fs::create_dir_all(env!("CARGO_TARGET_TMPDIR")).ok()?;
    // Tests run in several processes: the first one creates the environment, the others wait.
    let lock = std::fs::File::create(folder.with_extension("lock")).ok()?;
    lock.lock().ok()?;
    // Lists the installed packages; written last.
    let marker = folder.join("packages");
    if std::fs::read_to_string(&marker).is_ok_and(|packages| packages == PACKAGES.join(" ")) {
        return Some(python);
    }
    let succeeds = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
    let is_ready = succeeds(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))
        && succeeds(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--no-input"]).args(PACKAGES));
    (is_ready && std::fs::write(&marker, PACKAGES.join(" ")).is_ok()).then_some(python)
}
