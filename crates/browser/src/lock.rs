//! Lock files: one for each running browser. The next start ends what a killed crawl has left.
//!
//! The crawl holds a lock on the file while the browser runs. The system releases the lock when the crawl ends, however
//! it ends. So a file that can be locked belongs to no running crawl. It names the process of the browser, which is known
//! by its command line: process numbers are used again.

use std::fs::{self, File};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use rustix::process::{Pid, Signal, kill_process_group};

/// The lock of a running browser. Dropping it removes the file and the profile.
#[derive(Debug)]
pub(crate) struct BrowserLock {
    path: PathBuf,
    profile: PathBuf,
    /// Open while the browser runs: the lock belongs to it.
    file: File,
}

impl BrowserLock {
    /// A new profile folder in the user's folder for browsers, after what earlier crawls have left was ended.
    pub(crate) fn prepare() -> io::Result<Self> {
        let folder = folder()?;
        end_abandoned(&folder);
        // Process numbers are the same in all containers, and a process may have several crawls.
        let name = format!("{}-{:016x}", process::id(), RandomState::new().hash_one(process::id()));
        let path = folder.join(format!("{name}.lock"));
        let file = File::options().write(true).create_new(true).open(&path)?;
        file.try_lock()?;
        let profile = path.with_extension("profile");
        fs::DirBuilder::new().mode(0o700).create(&profile)?;
        Ok(Self { path, profile, file })
    }

    pub(crate) fn profile(&self) -> &Path {
        &self.profile
    }

    /// Writes down which process group belongs to this crawl.
    pub(crate) fn write(&self, browser: u32) -> io::Result<()> {
        (&self.file).write_all(format!("{browser}\n").as_bytes())
    }
}

impl Drop for BrowserLock {
    fn drop(&mut self) {
        // The browser has ended. What cannot be removed is removed by the next start.
        let _ = fs::remove_dir_all(&self.profile);
        let _ = fs::remove_file(&self.path);
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

/// Ends the browsers of crawls that do not run any more, and removes their files.
fn end_abandoned(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "lock") {
            continue;
        }
        let Ok(mut file) = File::options().read(true).write(true).open(&path) else { continue };
        if file.try_lock().is_err() {
            continue;
        }
        let profile = path.with_extension("profile");
        let mut text = String::new();
        let _ = file.read_to_string(&mut text);
        let browser = text.trim().parse::<i32>().ok().and_then(Pid::from_raw);
        if let Some(group) = browser.filter(|group| names(*group, &profile)) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = fs::remove_dir_all(&profile);
        let _ = fs::remove_file(&path);
    }
}

/// Whether the command line of a process contains this path.
fn names(process: Pid, path: &Path) -> bool {
    let number = process.as_raw_pid();
    let command_line = fs::read(format!("/proc/{number}/cmdline")).or_else(|_| {
        // Systems without /proc.
        Command::new("ps").args(["-ww", "-o", "args=", "-p", &number.to_string()]).output().map(|output| output.stdout)
    });
    let text = path.to_string_lossy();
    command_line.is_ok_and(|line| String::from_utf8_lossy(&line).contains(&*text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt as _;
    use std::process::Child;

    /// A process that has this path among its arguments, and a lock file for it that nobody holds.
    fn abandoned(lock: &Path, argument: &Path) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600; exit"]).arg(argument).process_group(0);
        let child = command.spawn().expect("it starts");
        fs::write(lock, format!("{}\n", child.id())).expect("it can be written");
        child
    }

    #[test]
    fn a_browser_whose_crawl_was_killed_is_ended_and_others_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let lock = |name: &str| folder.path().join(name);
        let mut left = abandoned(&lock("1.lock"), &lock("1.profile"));
        let mut running = abandoned(&lock("2.lock"), &lock("2.profile"));
        let held = File::open(lock("2.lock")).expect("it exists");
        held.try_lock().expect("nobody else holds it");
        // The number of an ended browser, which another process has now.
        let mut other = abandoned(&lock("3.lock"), Path::new("something"));
        // A crawl that was killed before its browser had started.
        fs::write(lock("4.lock"), "").expect("it can be written");
        ["1", "2", "4"].iter().for_each(|name| {
            fs::create_dir(lock(&format!("{name}.profile"))).expect("it can be created");
        });
        end_abandoned(folder.path());
        assert!(!left.wait().expect("it has ended").success());
        for child in [&mut running, &mut other] {
            assert!(child.try_wait().expect("its state is known").is_none(), "it runs");
        }
        let mut files: Vec<_> =
            fs::read_dir(folder.path()).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
        files.sort();
        assert_eq!(files, ["2.lock", "2.profile"]);
        for mut child in [running, other] {
            let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process");
            kill_process_group(group, Signal::KILL).expect("it runs");
            child.wait().expect("it has ended");
        }
    }

    #[test]
    fn several_crawls_of_a_process_have_profiles_of_their_own() {
        let locks: Vec<BrowserLock> = (0..3).map(|_| BrowserLock::prepare().expect("a profile")).collect();
        assert!(locks.iter().all(|lock| lock.profile().is_dir()));
        let profiles: std::collections::HashSet<_> = locks.iter().map(|lock| lock.profile().to_owned()).collect();
        assert_eq!(profiles.len(), 3);
        drop(locks);
        assert!(profiles.iter().all(|profile| !profile.exists()));
    }
}
