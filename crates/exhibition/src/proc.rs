//! Process statistics from the kernel: threads, memory, context switches.
//!
//! Invariant: the status of an ended process is `None`, never zero.

use std::collections::HashMap;
use std::fs;

/// A snapshot of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcStatus {
    pub threads: u64,
    /// Peak resident memory in bytes.
    pub peak: u64,
}

/// The status of a process; `None` if it has ended or the system has no such data.
pub fn status(pid: u32) -> Option<ProcStatus> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(ProcStatus { threads: field(&text, "Threads:")?, peak: field(&text, "VmHWM:")? * 1024 })
}

/// Bytes of the kernel's slab allocator, which holds sockets and files; 0 if the system does not report them.
pub fn kernel_slabs() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    field(&text, "Slab:").unwrap_or(0) * 1024
}

/// The last sampled context switches of each thread of a process, voluntary and involuntary.
#[derive(Default)]
pub struct ContextSwitches(HashMap<u32, (u64, u64)>);

impl ContextSwitches {
    /// Samples all current threads. An ended thread keeps its last count.
    pub fn sample(&mut self, pid: u32) {
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return };
        for task in tasks.flatten() {
            let Some(thread) = task.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let Ok(text) = fs::read_to_string(task.path().join("status")) else { continue };
            if let (Some(voluntary), Some(involuntary)) =
                (field(&text, "voluntary_ctxt_switches:"), field(&text, "nonvoluntary_ctxt_switches:"))
            {
                self.0.insert(thread, (voluntary, involuntary));
            }
        }
    }

    /// The sums of voluntary and of involuntary context switches.
    pub fn sums(&self) -> (u64, u64) {
        self.0.values().fold((0, 0), |(voluntary, involuntary), (thread_voluntary, thread_involuntary)| {
            (voluntary + thread_voluntary, involuntary + thread_involuntary)
        })
    }
}

/// The number in the line that starts with this name.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_process_can_be_measured() {
        let pid = std::process::id();
        let status_now = status(pid).unwrap();
        assert!(status_now.threads >= 1 && status_now.peak > 100_000, "{status_now:?}");
        let mut switches = ContextSwitches::default();
        switches.sample(pid);
        assert!(switches.0.len() as u64 >= 1);
        assert_eq!(status(u32::MAX), None);
    }

    #[test]
    fn names_are_matched_from_the_beginning_of_the_line() {
        let text = "Threads:\t3\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t7\n";
        assert_eq!(field(text, "voluntary_ctxt_switches:"), Some(5));
        assert_eq!(field(text, "nonvoluntary_ctxt_switches:"), Some(7));
        assert_eq!(field(text, "VmHWM:"), None);
    }
}
