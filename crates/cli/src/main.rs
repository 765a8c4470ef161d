//! The `argiope` command: parses flags, runs the crawl and reports what happened.

mod commands;
mod explain;
mod export;
mod flags;
mod records;
mod report;
mod screen;

fn main() -> std::process::ExitCode {
    commands::run(std::env::args_os())
}
