//! What the kernel says about a process: threads, memory, context switches.
//!
//! Invariant: a process that is gone, or a line that is missing, is `None` and never a zero that looks measured.

use std::collections::HashMap;
use std::fs;

/// A process at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcStatus {
    pub threads: u64,
    /// The most memory it ever had in use, in bytes.
    pub peak: u64,
}

/// How a process stands; none where it is gone or this system tells nothing.
pub fn status(pid: u32) -> Option<ProcStatus> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(ProcStatus { threads: field(&text, "Threads:")?, peak: field(&text, "VmHWM:")? * 1024 })
}

/// Context switches of every thread that a process ever had, as far as they were looked at in time.
#[derive(Default)]
pub struct ContextSwitches(HashMap<u32, (u64, u64)>);

impl ContextSwitches {
    /// Looks at all threads that there are now. One that has ended keeps its last count.
    pub fn look(&mut self, pid: u32) {
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return };
        for task in tasks.flatten() {
            let Some(thread) = task.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let Ok(text) = fs::read_to_string(task.path().join("status")) else { continue };
            if let (Some(waited), Some(pushed)) =
                (field(&text, "voluntary_ctxt_switches:"), field(&text, "nonvoluntary_ctxt_switches:"))
            {
                self.0.insert(thread, (waited, pushed));
            }
        }
    }

    /// How often a thread went to wait, and how often one was pushed aside.
    pub fn sums(&self) -> (u64, u64) {
        self.0.values().fold((0, 0), |(waited, pushed), (more, also)| (waited + more, pushed + also))
    }
}

/// The number in the line that begins with this name.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_very_process_can_be_looked_at() {
        let own = std::process::id();
        let now = status(own).unwrap();
        assert!(now.threads >= 1 && now.peak > 100_000, "{now:?}");
        let mut switches = ContextSwitches::default();
        switches.look(own);
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
