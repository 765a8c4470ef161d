//! The server as a child process, seen from the parent.
//!
//! A separate process has its own limit on file descriptors: every connection needs one in the client and one in the
//! server. A measurement of a crawler's memory also must not include the server's memory.
//!
//! Invariant: the child never outlives its handle. If the parent is killed, the child reads end of input and exits
//! (unless it was started with `--forever`).

use crate::log::Stats;
use crate::serve::ReadyLine;
use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

/// A server process.
pub struct ServerProcess {
    process: std::process::Child,
    /// Dropped to stop the child, which exits at end of input.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    ready: ReadyLine,
}

/// Starts `binary` with these arguments (for example `["serve", "--hosts", "16"]`) and waits until it serves.
pub fn spawn_child<S: AsRef<OsStr>>(binary: &Path, args: impl IntoIterator<Item = S>) -> io::Result<ServerProcess> {
    let mut process = Command::new(binary).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let missing = || io::Error::other("the server has no standard input or output");
    let input = process.stdin.take().ok_or_else(missing)?;
    let output = process.stdout.take().ok_or_else(missing)?;
    let placeholder = ReadyLine { pid: process.id(), addresses: Vec::new(), roots: Vec::new(), pages: None, ca: None };
    let mut child = ServerProcess { process, input: Some(input), output: BufReader::new(output), ready: placeholder };
    child.ready = child.read_line()?;
    Ok(child)
}

impl ServerProcess {
    /// The line that the server printed when it was ready.
    pub fn ready(&self) -> &ReadyLine {
        &self.ready
    }

    /// Gets the server's counters.
    pub fn stats(&mut self) -> io::Result<Stats> {
        self.command(b"stats\n")
    }

    /// Makes the server send all held responses.
    pub fn release(&mut self) -> io::Result<()> {
        self.command::<Stats>(b"release\n").map(drop)
    }

    /// Sends a command and reads the reply, one line of JSON.
    fn command<T: serde::de::DeserializeOwned>(&mut self, line: &[u8]) -> io::Result<T> {
        let input = self.input.as_mut().ok_or_else(|| io::Error::other("the server was stopped"))?;
        input.write_all(line)?;
        input.flush()?;
        self.read_line()
    }

    /// Stops the server and returns its exit status.
    pub fn stop(mut self) -> io::Result<std::process::ExitStatus> {
        self.input = None;
        self.process.wait()
    }

    fn read_line<T: serde::de::DeserializeOwned>(&mut self) -> io::Result<T> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server exited before it replied"));
        }
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // The server has no state to save, so it can be killed. After `stop` it has already exited, and this does nothing.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
