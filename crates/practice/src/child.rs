//! The server in a process of its own, seen from the parent.
//!
//! Ten thousand connections need ten thousand files on each side, and a measurement of a crawler's memory must not count
//! its server's: so both get a process.
//!
//! Invariant: the child never outlives its handle; should the parent be killed, the child sees its input end and stops.

use crate::log::Stats;
use crate::serve::ReadyLine;
use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

/// A server process.
pub struct ServerProcess {
    process: std::process::Child,
    /// Taken when the child is told to stop.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    ready: ReadyLine,
}

/// Starts `binary` with these arguments (`["serve", "--hosts", "16"]`, say) and waits until it serves.
pub fn spawn_child<S: AsRef<OsStr>>(binary: &Path, args: impl IntoIterator<Item = S>) -> io::Result<ServerProcess> {
    let mut process = Command::new(binary).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let missing = || io::Error::other("the server has no standard input or output");
    let input = process.stdin.take().ok_or_else(missing)?;
    let output = process.stdout.take().ok_or_else(missing)?;
    let nobody = ReadyLine { pid: process.id(), addresses: Vec::new(), roots: Vec::new(), pages: None, ca: None };
    let mut child = ServerProcess { process, input: Some(input), output: BufReader::new(output), ready: nobody };
    child.ready = child.read()?;
    Ok(child)
}

impl ServerProcess {
    /// What the server said when it was ready.
    pub fn ready(&self) -> &ReadyLine {
        &self.ready
    }

    /// Asks for the counts.
    pub fn stats(&mut self) -> io::Result<Stats> {
        let input = self.input.as_mut().ok_or_else(|| io::Error::other("the server was stopped"))?;
        input.write_all(b"stats\n")?;
        input.flush()?;
        self.read()
    }

    /// Stops the server and says how it ended.
    pub fn stop(mut self) -> io::Result<std::process::ExitStatus> {
        self.input = None;
        self.process.wait()
    }

    fn read<T: serde::de::DeserializeOwned>(&mut self) -> io::Result<T> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server ended before it answered"));
        }
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // There is nothing of its work to be kept, so there is no need to be gentle. After `stop` this finds it gone.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
