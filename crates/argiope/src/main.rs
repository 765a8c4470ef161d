//! The `argiope` command. All of it is in [`cli`]; the library does the work.

mod cli;

/// Ten thousand waiting tasks of a runtime are ten thousand blocks aligned to 128 bytes. The system's allocator leaves
/// holes between those; this one has a class of blocks for each size.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    cli::run(std::env::args_os())
}
