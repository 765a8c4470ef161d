//! The `argiope` command: parses flags, runs the crawl and reports what happened.

#[cfg(feature = "jemalloc")]
mod allocator;
mod audit;
mod commands;
mod diff;
mod explain;
mod export;
mod flags;
mod formats;
mod locale;
mod records;
mod report;
mod report_page;
mod results;
mod screen;
mod soft_404;
mod sorted;
mod temporary;
mod ticker;
mod wording;

fn main() -> std::process::ExitCode {
    #[cfg(feature = "jemalloc")]
    allocator::return_memory_soon();
    // With a handler for SIGXFSZ, a file that reaches the file size limit (`ulimit -f`) causes a write error. Without one,
    // the signal would end the process.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, std::sync::Arc::default());
    commands::run(std::env::args_os())
}
