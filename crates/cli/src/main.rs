//! The program `argiope`.

#[cfg(feature = "jemalloc")]
mod allocator;

fn main() -> std::process::ExitCode {
    #[cfg(feature = "jemalloc")]
    allocator::return_memory_soon();
    argiope_cli::run(std::env::args_os())
}
