//! The subcommands of `argiope`: their flags, their output and their exit codes.
//!
//! A module here that has the same name as one of the crate, such as [`audit`] and [`crate::audit`], only parses flags and
//! prints. The module of the crate computes what is printed.
//!
//! Invariant: standard output carries only data; messages go to standard error, and text from the web is escaped with
//! [`escape`] before it is printed.
//!
//! [`escape`]: argiope_core::base::escape

pub mod audit;
pub mod check;
mod command_line;
mod control_socket;
mod crawl;
mod crawl_control;
pub mod ctl;
#[cfg(feature = "demo")]
mod demo;
pub mod diff;
#[cfg(test)]
mod documented_commands_tests;
#[cfg(feature = "demo")]
pub mod exhibition;
pub mod explain;
pub mod export;
mod fetch;
pub mod fleet;
mod interrupt;
mod man;
mod output;
mod push;
mod record_stream;
#[cfg(all(test, feature = "dashboard", feature = "demo"))]
mod reference_tests;
mod render;
pub mod report;
pub mod robots;
pub mod serve;
mod source;
mod standard_output;
mod visit_reporter;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use crate::flags::config_file::{self, UsageError};

use crate::locale::localized;
use command_line::Command;

/// Exit code: the command could not start or could not continue.
const FAILED: u8 = 1;
/// Exit code: bad usage or configuration.
const USAGE: u8 = 2;
/// Exit code: there are findings that `--fail-on` names.
const FINDINGS: u8 = 3;

/// Runs one command line.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    #[cfg(feature = "demo")]
    if let Some(code) = exhibition::run_as_child(&arguments) {
        return code;
    }
    let arguments = match command_line::parse(arguments) {
        Ok(arguments) => arguments,
        // Help and version, which are data.
        Err(error) if !error.use_stderr() => {
            return standard_output::exit_code(standard_output::open().and_then(|_| error.print()));
        }
        Err(error) => {
            // Ignored: if standard error is closed, the message has no reader.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(USAGE));
        }
    };
    let result = match &arguments.command {
        Command::Crawl(args) => config_file::crawl_settings(args).and_then(|settings| match settings.fleet.is_set() {
            true => fleet::crawl(&settings),
            false => crawl::run(&settings),
        }),
        Command::Fetch(args) => config_file::fetch_settings(args).and_then(|settings| {
            let roots = args.request.root(&settings)?;
            fetch::run(settings, roots, args.body)
        }),
        Command::Robots(args) => robots::run(args),
        #[cfg(feature = "demo")]
        Command::Demo(args) => match args.web {
            Some(port) => Ok(demo::serve(port)),
            None => config_file::demo_settings(args).and_then(demo::run),
        },
        Command::Explain(args) => explain::run(args),
        Command::Report(args) => report::run(args),
        Command::Diff(args) => diff::run(args),
        Command::Export(args) => export::run(args),
        Command::Audit(args) => audit::run(args),
        Command::Check(args) => check::run(args),
        Command::Render(args) => render::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Ctl(args) => ctl::run(args),
        Command::Fleet(args) => fleet::run(args),
        Command::Merge(args) => fleet::merge(args),
        #[cfg(feature = "demo")]
        Command::Exhibition(args) => exhibition::run(args),
        Command::Completions(args) => return completions(args.shell),
        Command::Man(args) => return man::run(args),
    };
    match result {
        Ok(code) => code,
        Err(UsageError(message)) => {
            print_error(&format!("{message}\n\nFor more information, try '--help'."));
            ExitCode::from(USAGE)
        }
    }
}

fn completions(shell: clap_complete::Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command_line::command(), "argiope", &mut script);
    standard_output::print(&script)
}

/// Text of the warning for `--insecure`.
const INSECURE: &str = "certificates are NOT verified (--insecure): any server can impersonate any host. Records contain \
                        \"insecure\":true";

fn warn_insecure() {
    // Ignored: if standard error is closed, the message has no reader.
    let _ = writeln!(std::io::stderr(), "WARNING: {INSECURE}");
}

/// Prints an error in clap's format.
fn print_error(message: &str) {
    // Ignored: if standard error is closed, the message has no reader.
    let _ = writeln!(std::io::stderr(), "error: {}", localized(message));
}
