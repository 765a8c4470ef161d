//! Standard output of all commands: handles a closed or full standard output.
//!
//! If the reader has closed the pipe (`| head`), the command ends silently with exit code 0. Every other write error gives a
//! message and exit code 1. A standard output that was closed before the program started (`>&-`) is an error too: Rust's
//! runtime opens `/dev/null` in its place, so writes would succeed and the data would be lost.

use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;

use rustix::fs::{OFlags, fcntl_getfl, fstat};

use super::{FAILED, print_error};
use crate::locale::localized;

/// Opens standard output for data.
pub fn open() -> io::Result<io::Stdout> {
    let out = io::stdout();
    if is_closed(&out) {
        return Err(io::Error::other("it is closed"));
    }
    Ok(out)
}

/// Writes all of a command's data to standard output.
pub fn write(data: &[u8]) -> io::Result<()> {
    let mut out = open()?;
    out.write_all(data)?;
    out.flush()
}

/// Writes data to standard output and returns the exit code of the command.
pub fn print(data: &[u8]) -> ExitCode {
    exit_code(write(data))
}

/// Writes text for people to standard output.
pub fn write_text(text: &str) -> io::Result<()> {
    write(localized(text).as_bytes())
}

/// Writes text for people to standard output and returns the exit code of the command.
pub fn print_text(text: &str) -> ExitCode {
    exit_code(write_text(text))
}

/// The exit code of a command after writing to standard output.
pub fn exit_code(written: io::Result<()>) -> ExitCode {
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&format!("standard output cannot be written: {error}"));
            ExitCode::from(FAILED)
        }
    }
}

/// Whether standard output was closed when the program started. In that case the runtime has opened the null device for
/// reading and writing; `> /dev/null` in a shell opens it for writing only.
fn is_closed(out: &io::Stdout) -> bool {
    let is_read_write = fcntl_getfl(out.as_fd()).is_ok_and(|flags| flags & OFlags::RWMODE == OFlags::RDWR);
    let null_device = std::fs::metadata("/dev/null").ok();
    let is_same = |null: std::fs::Metadata| {
        use std::os::unix::fs::MetadataExt as _;
        fstat(out.as_fd()).is_ok_and(|out| (out.st_rdev, out.st_ino) == (null.rdev(), null.ino()))
    };
    is_read_write && null_device.is_some_and(is_same)
}
