//! Lock files: one for each running browser. The next start ends what a killed crawl has left.
//!
//! A lock file names the crawl and the browser by process number and start time, because process numbers are used again.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process;

use rustix::process::{Pid, Signal, kill_process_group};

/// The lock of a running browser. Dropping it removes the file and the profile.
#[derive(Debug)]
pub(crate) struct BrowserLock {
    file: PathBuf,
    profile: PathBuf,
}

impl BrowserLock {
    /// A new profile folder in the user's folder for browsers, after what earlier crawls have left was ended.
    pub(crate) fn prepare(number: u64) -> io::Result<Self> {
        let folder = folder()?;
        end_abandoned(&folder);
        let name = format!("{}-{number}", process::id());
        let profile = folder.join(format!("{name}.profile"));
        fs::DirBuilder::new().mode(0o700).create(&profile)?;
        Ok(Self { file: folder.join(format!("{name}.lock")), profile })
    }

    pub(crate) fn profile(&self) -> &Path {
        &self.profile
    }

    /// Writes down which process group belongs to this crawl.
    pub(crate) fn write(&self, browser: u32) -> io::Result<()> {
        let owner = process::id();
        let line = format!("{owner} {} {browser} {}\n", start_time(owner), start_time(browser));
        fs::write(&self.file, line)
    }
}

impl Drop for BrowserLock {
    fn drop(&mut self) {
        // The browser has ended. What cannot be removed is removed by the next start.
        let _ = fs::remove_dir_all(&self.profile);
        let _ = fs::remove_file(&self.file);
    }
}

/// The user's folder for browsers. Another user's folder of that name is not used.
fn folder() -> io::Result<PathBuf> {
    let user = rustix::process::geteuid();
    let folder = std::env::temp_dir().join(format!("argiope-browsers-{}", user.as_raw()));
    match fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(&folder)?;
    if !found.is_dir() || found.uid() != user.as_raw() || found.mode() & 0o077 != 0 {
        return Err(io::Error::other(format!("{} belongs to another user", folder.display())));
    }
    Ok(folder)
}

/// Ends the browsers of crawls that do not run any more.
fn end_abandoned(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let file = entry.path();
        if file.extension().is_none_or(|extension| extension != "lock") {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap_or_default();
        let numbers: Vec<u64> = text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
        let Ok([owner, owner_start, browser, browser_start]) = <[u64; 4]>::try_from(numbers) else { continue };
        let runs = |number: u64, start: u64| u32::try_from(number).is_ok_and(|number| is_running(number, start));
        if runs(owner, owner_start) {
            continue;
        }
        if runs(browser, browser_start)
            && let Some(group) = i32::try_from(browser).ok().and_then(Pid::from_raw)
        {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = fs::remove_dir_all(file.with_extension("profile"));
        let _ = fs::remove_file(&file);
    }
}

fn is_running(process: u32, start: u64) -> bool {
    start != 0 && start_time(process) == start
}

/// When a process started, in clock ticks since the start of the machine; zero if there is none, or if the system does
/// not say.
fn start_time(process: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name in parentheses may contain spaces. The start time is the twentieth field after it.
    let after_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    after_name.split_ascii_whitespace().nth(19).and_then(|word| word.parse().ok()).unwrap_or(0)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    #[test]
    fn a_browser_whose_crawl_was_killed_is_ended_and_others_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let sleeper = || Command::new("sleep").arg("600").process_group(0).spawn().expect("it starts");
        let (mut abandoned, mut own) = (sleeper(), sleeper());
        let write = |name: &str, owner: u32, owner_start: u64, browser: u32| {
            let line = format!("{owner} {owner_start} {browser} {}\n", start_time(browser));
            fs::write(folder.path().join(name), line).expect("it can be written");
        };
        let (me, my_start) = (process::id(), start_time(process::id()));
        write("1-1.lock", me, my_start + 1, abandoned.id());
        write("2-1.lock", me, my_start, own.id());
        fs::create_dir(folder.path().join("1-1.profile")).expect("it can be created");
        end_abandoned(folder.path());
        assert!(!abandoned.wait().expect("it has ended").success());
        assert!(own.try_wait().expect("its state is known").is_none(), "it runs");
        let left: Vec<_> =
            fs::read_dir(folder.path()).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(left, ["2-1.lock"]);
        own.kill().expect("it runs");
        own.wait().expect("it has ended");
    }
}
