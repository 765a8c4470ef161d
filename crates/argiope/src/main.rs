//! The `argiope` command. All of it is in [`cli`]; the library does the work.

mod cli;

fn main() -> std::process::ExitCode {
    cli::run(std::env::args_os())
}
