//! `argiope man [DIR]`: man pages, generated from the definition of the command line.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use argiope_core::base::escape::visible;
use argiope_runtime::atomic_file::AtomicFile;
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

/// Writes the page of each command. Replaces only pages that this program has written.
fn write_all(directory: &Path) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    let mut command = command_line::command().disable_help_subcommand(true);
    command.build();
    write_pages(&command, directory)
}

fn write_pages(command: &clap::Command, directory: &Path) -> io::Result<()> {
    for part in command.get_subcommands().filter(|part| !part.is_hide_set()) {
        write_pages(part, directory)?;
    }
    let name = Man::new(command.clone()).get_filename();
    AtomicFile::write_output_in_folder(&directory.join(name), page(command.clone())?)
}

fn page(command: clap::Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    Ok(page)
}
