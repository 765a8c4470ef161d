//! The default memory limit. It is based on the memory of the machine, or on the limit of the cgroup if that is lower.

use std::path::Path;

/// A quarter of the memory that the process may use: the default of `--max-memory`.
pub(crate) fn default_limit() -> Option<u64> {
    let machine = rustix::system::sysinfo();
    let total = u64::from(machine.mem_unit).saturating_mul(machine.totalram);
    let membership = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let total = total.min(cgroup_limit(Path::new("/sys/fs/cgroup"), &membership).unwrap_or(u64::MAX));
    Some(total / 4).filter(|quarter| *quarter > 0)
}

/// The lowest limit of the cgroups that the process is in. `membership` is the text of `/proc/self/cgroup`.
fn cgroup_limit(mount: &Path, membership: &str) -> Option<u64> {
    let mut lowest = None;
    for line in membership.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (folder, file) = match controllers {
            // cgroup version 2 has a single hierarchy, whose list of controllers is empty.
            "" => (mount.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => (mount.join("memory"), "memory.limit_in_bytes"),
            _ => continue,
        };
        // A limit of a group applies to all groups within it. The last ancestor is the empty path, which is the mount
        // itself. In a container, the mount may be the folder of the group.
        let path = Path::new(path.trim_start_matches('/'));
        for group in path.ancestors() {
            let text = std::fs::read_to_string(folder.join(group).join(file)).unwrap_or_default();
            let limit = text.trim().parse::<u64>().ok();
            lowest = lowest.into_iter().chain(limit).min();
        }
    }
    lowest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_limit_of_all_groups_counts() {
        let mount = tempfile::tempdir().expect("a folder");
        let write = |path: &str, text: &str| {
            let path = mount.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            std::fs::write(path, text).expect("written");
        };
        assert_eq!(cgroup_limit(mount.path(), "0::/a/b\n"), None);
        write("a/b/memory.max", "max\n");
        assert_eq!(cgroup_limit(mount.path(), "0::/a/b\n"), None);
        write("a/memory.max", "500000000\n");
        assert_eq!(cgroup_limit(mount.path(), "0::/a/b\n"), Some(500_000_000));
        write("memory.max", "300000000\n");
        assert_eq!(cgroup_limit(mount.path(), "0::/a/b\n"), Some(300_000_000));
        write("memory/c/memory.limit_in_bytes", "200000000\n");
        let membership = "5:cpu,cpuacct:/c\n4:memory:/c\n0::/a\nnonsense\n";
        assert_eq!(cgroup_limit(mount.path(), membership), Some(200_000_000));
    }
}
