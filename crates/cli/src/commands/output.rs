//! [`Output`]: where a command writes its data: to the file of `-o`, or to standard output.
//!
//! Invariants: a file is replaced only by complete data, and only if this program has written it. A reader that has closed
//! a pipe (`| head`) is no error.

use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::Path;
use std::process::ExitCode;

use argiope_core::base::escape::visible;
use argiope_runtime::atomic_file::AtomicFile;

use super::{FAILED, print_error, standard_output};
use crate::flags::config_file::UsageError;
use crate::formats::Audience;
use crate::locale::localized;
use crate::records::ReadError;

/// Size of the write buffer.
const BUFFER: usize = 64 << 10;

/// Where data is written.
#[derive(Clone, Copy, Debug)]
pub struct Output<'a>(Option<&'a Path>);

impl<'a> Output<'a> {
    /// The file of `-o`. Without it, and for `-`, data is written to standard output.
    pub fn of(path: Option<&'a Path>) -> Self {
        Self(path.filter(|path| *path != Path::new("-")))
    }

    /// The file, unless data is written to standard output.
    pub fn file(self) -> Option<&'a Path> {
        self.0
    }

    /// The folder, if the path ends with a slash or is a folder.
    pub fn folder(self) -> Option<&'a Path> {
        self.0.filter(|path| path.as_os_str().as_encoded_bytes().ends_with(b"/") || path.is_dir())
    }

    /// Lets `write` write the data. `None` if the reader has closed the pipe.
    pub fn write<T>(
        self,
        audience: Audience,
        write: impl FnOnce(&mut (dyn Write + Send)) -> Result<T, ReadError>,
    ) -> Result<Option<T>, OutputFault> {
        let written = match self.0 {
            Some(path) => write_file(path, write),
            None => write_standard(audience, write),
        };
        match written {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_broken_pipe() => Ok(None),
            Err(error) => Err(self.fault(error)),
        }
    }

    /// Writes the whole data. `false` if the reader has closed the pipe.
    pub fn write_all(self, audience: Audience, data: &[u8]) -> Result<bool, OutputFault> {
        Ok(self.write(audience, |out| Ok(out.write_all(data)?))?.is_some())
    }

    /// An error, with the name of the target.
    pub fn fault(self, error: ReadError) -> OutputFault {
        let target = self.0.map_or("standard output".to_owned(), |path| path.display().to_string());
        OutputFault { error, target }
    }
}

/// Why data could not be read or written.
#[derive(Debug)]
pub struct OutputFault {
    error: ReadError,
    target: String,
}

impl OutputFault {
    /// Prints the error. Returns the exit code.
    pub fn print(self) -> Result<ExitCode, UsageError> {
        let why = match self.error {
            ReadError::Usage(why) => return Err(UsageError(why)),
            ReadError::Output(error) => format!("{} cannot be written: {error}", self.target),
            error => error.to_string(),
        };
        print_error(&visible(&why));
        Ok(ExitCode::from(FAILED))
    }
}

/// Writes to a temporary file and renames it. Devices and pipes are written directly.
fn write_file<T>(
    path: &Path,
    write: impl FnOnce(&mut (dyn Write + Send)) -> Result<T, ReadError>,
) -> Result<T, ReadError> {
    let mut out = BufWriter::with_capacity(BUFFER, AtomicFile::create_output(path)?);
    let value = write(&mut out)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?.rename_into_place()?;
    Ok(value)
}

fn write_standard<T>(
    audience: Audience,
    write: impl FnOnce(&mut (dyn Write + Send)) -> Result<T, ReadError>,
) -> Result<T, ReadError> {
    if audience == Audience::BinaryProgram && io::stdout().is_terminal() {
        let why = "this is a binary format and is not written to a terminal; give -o FILE, or redirect the output";
        return Err(ReadError::Usage(why.to_owned()));
    }
    let mut out = BufWriter::with_capacity(BUFFER, standard_output::open()?);
    let value = match audience {
        Audience::Terminal => write(&mut Localized(&mut out))?,
        _ => write(&mut out)?,
    };
    out.flush()?;
    Ok(value)
}

/// Writes text in the characters that the terminal can show. Each write is a whole text.
struct Localized<W>(W);

impl<W: Write> Write for Localized<W> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.write_all(localized(&String::from_utf8_lossy(text)).as_bytes())?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
