//! Process statistics of the kernel: memory and CPU time.

use std::time::Duration;

/// Resident memory in bytes.
pub fn resident() -> u64 {
    status("VmRSS:")
}

/// Peak resident memory in bytes.
pub fn peak() -> u64 {
    status("VmHWM:")
}

fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()).and_then(|number| number.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// CPU time of this thread. Unlike wall time, it hardly depends on other programs on the machine.
pub fn thread_time() -> Duration {
    time(rustix::time::ClockId::ThreadCPUTime)
}

/// CPU time of all threads of this process.
pub fn process_time() -> Duration {
    time(rustix::time::ClockId::ProcessCPUTime)
}

fn time(clock: rustix::time::ClockId) -> Duration {
    let time = rustix::time::clock_gettime(clock);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
