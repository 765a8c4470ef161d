//! `argiope man [DIR]`: man pages, generated from the definition of the command line.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use argiope_core::base::escape::visible;
use clap_mangen::Man;

use super::command_line;
use super::{FAILED, print_error, standard_output};
use crate::flags::ManArgs;

/// Prints the page of `argiope`, or writes the pages of all commands to a directory.
pub fn run(args: &ManArgs) -> ExitCode {
    let written = match &args.directory {
        Some(directory) => write_all(directory),
        None => page(command_line::command()).and_then(|page| standard_output::write(&page)),
    };
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let target = args.directory.as_ref().map_or("standard output".into(), |path| path.display().to_string());
            print_error(&visible(&format!("{target} cannot be written: {error}")));
            ExitCode::from(FAILED)
        }
        _ => ExitCode::SUCCESS,
    }
}

fn write_all(directory: &Path) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    clap_mangen::generate_to(command_line::command().disable_help_subcommand(true), directory)
}

fn page(command: clap::Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    Ok(page)
}
