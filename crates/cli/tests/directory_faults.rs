//! A full disk, a missing folder or a changed byte: a clear message, exit code 1, and a crawl that resumes
//! once the cause is removed. Never a wrong result.

mod durable_kit;

use std::fs;
use std::path::Path;
use std::process::Command;

use argiope_practice::GraphPlan;
use argiope_store::disk;
use durable_kit::{Bench, PATIENCE, Practice, poll, wait};

fn practice() -> Practice {
    Practice::serve(GraphPlan { pages: 400, latency_us: (1_000, 10_000), missing: 30, ..GraphPlan::default() })
}

/// Runs the command in a shell that sets resource limits first.
fn limited(bench: &Bench, limits: &str) -> std::process::Output {
    let command = bench.command(&[]);
    let quoted = |text: &std::ffi::OsStr| format!("'{}'", text.to_string_lossy());
    let words: Vec<String> = [command.get_program()].into_iter().chain(command.get_args()).map(quoted).collect();
    let mut shell = Command::new("/bin/sh");
    shell.current_dir(bench.folder.path()).args(["-c", &format!("{limits}; exec {}", words.join(" "))]);
    shell.output().expect("it runs")
}

/// A limit on the file size simulates a full disk; each attempt has a little more space than the last.
#[test]
fn a_full_disk_stops_the_crawl_and_more_space_lets_it_resume() {
    let practice = practice();
    let bench = Bench::new(&practice.roots, &["-q"]);
    let mut refused = 0;
    for blocks in [8, 20, 40, 80, 150, 220] {
        // In blocks of 512 bytes. The signal must be ignored, so that only the write fails.
        let output = limited(&bench, &format!("trap '' XFSZ; ulimit -f {blocks}"));
        if output.status.success() {
            break;
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.contains("what was committed is safe: free some space and run the same command to resume"),
            "{said}"
        );
        refused += 1;
    }
    assert!(refused >= 4, "{refused}");
    bench.succeed(&[]);
    practice.check(&bench.records());
}

#[test]
fn a_full_standard_output_ends_it_and_nothing_is_lost() {
    let practice = practice();
    let bench = Bench::new(&practice.roots, &["-q"]);
    let mut command = bench.command(&[]);
    let full = fs::File::options().write(true).open("/dev/full").expect("the device");
    let arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    command = Command::new(env!("CARGO_BIN_EXE_argiope"));
    command.current_dir(bench.folder.path()).stdout(full);
    command.args(arguments.iter().map(|word| if word == "p.jsonl" { "-".as_ref() } else { word.as_os_str() }));
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("standard output cannot be written"), "{said}");
    // Records that could not be printed are in the directory; the remaining pages are fetched now, each once.
    bench.succeed(&[]);
    assert_eq!(practice.requests().len(), practice.expected.len());
    let requests = practice.web.requests();
    assert!(bench.succeed(&[]).is_empty() && practice.web.requests() == requests, "it is finished");
}

#[test]
fn a_folder_that_goes_away_is_noticed() {
    let practice = practice();
    let bench = Bench::new(&practice.roots, &["-q"]);
    let mut command = bench.command(&[]);
    let crawl = command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
    let crawl = crawl.spawn().expect("it starts");
    assert!(practice.web.wait_requests(50, PATIENCE));
    fs::rename(bench.path("d.crawl"), bench.path("elsewhere")).expect("renamed");
    let output = crawl.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("d.crawl") && said.contains("No such file"), "{said}");
    // After the folder is restored, the crawl resumes.
    fs::rename(bench.path("elsewhere"), bench.path("d.crawl")).expect("renamed");
    bench.succeed(&[]);
    practice.check(&bench.records());
}

#[test]
fn removal_of_records_is_detected() {
    let practice = practice();
    let bench = Bench::new(&practice.roots, &["-q"]);
    let mut crawl = bench.spawn(&[]);
    assert!(poll(|| fs::metadata(bench.path("p.jsonl")).is_ok_and(|meta| meta.len() > 0)), "records are written");
    let gone = fs::remove_file(bench.path("p.jsonl"));
    let status = wait(&mut crawl);
    assert!(gone.is_ok() && status.code() == Some(1), "{gone:?}, {status}");
}

/// A file system in memory that is really full, and is enlarged later.
#[test]
#[ignore = "needs mount"]
fn a_small_file_system_fills_up_and_grows() {
    let practice = practice();
    let bench = Bench::new(&practice.roots, &["-q"]);
    let command = bench.command(&[]);
    let quoted = |text: &std::ffi::OsStr| format!("'{}'", text.to_string_lossy());
    let words: Vec<String> = [command.get_program()].into_iter().chain(command.get_args()).map(quoted).collect();
    let words = words.join(" ");
    fs::create_dir(bench.path("disk")).expect("a folder");
    // Mounted only for this shell and its children.
    let script = format!(
        "mount -t tmpfs -o size=200k none disk || exit 77; cd disk; {words}; test $? = 1 || exit 78; \
         mount -o remount,size=64m . || exit 79; {words} || exit 80; cp p.jsonl .."
    );
    let mut shell = Command::new("unshare");
    let output =
        shell.current_dir(bench.folder.path()).args(["-m", "/bin/sh", "-c", &script]).output().expect("unshare runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {said}", output.status);
    assert!(said.contains("No space left") && said.contains("free some space"), "{said}");
    practice.check(&bench.records());
}

/// Runs as a user who is subject to permissions: user 65534 if the tests run as root.
#[test]
#[ignore = "needs setpriv"]
fn a_folder_that_may_not_be_written_is_refused_by_name() {
    use std::os::unix::fs::PermissionsExt;
    let practice = practice();
    let bench = Bench::new(&practice.roots, &["-q"]);
    bench.succeed(&["--max-pages", "20"]);
    let set = |name: &str, mode| fs::set_permissions(bench.path(name), fs::Permissions::from_mode(mode)).expect("set");
    let closed = [("d.crawl", 0o555), ("d.crawl/log", 0o555), ("d.crawl/log/000001.log", 0o444)];
    closed.into_iter().for_each(|(name, mode)| set(name, mode));
    let said = if fs::write(bench.path("d.crawl/probe"), "").is_ok() {
        fs::remove_file(bench.path("d.crawl/probe")).expect("removes");
        // This user may read, hold the lock and run the program, but not write.
        set(".", 0o755);
        set("d.crawl/lock", 0o666);
        set("p.jsonl", 0o666);
        fs::copy(env!("CARGO_BIN_EXE_argiope"), bench.path("argiope")).expect("a copy");
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "./argiope"]);
        let output = command.args(bench.command(&[]).get_args()).current_dir(bench.folder.path()).output();
        let output = output.expect("setpriv runs");
        assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stderr).into_owned()
    } else {
        bench.fail(1, &[])
    };
    assert!(said.contains("d.crawl") && said.contains("make it writable"), "{said}");
    closed.into_iter().for_each(|(name, _)| set(name, 0o755));
    bench.succeed(&[]);
    practice.check(&bench.records());
}

/// Writes a snapshot, because such a short crawl does not write one by itself.
fn take_snapshot(directory: &Path) {
    let settings = disk::history(directory, |_| Ok(())).expect("a history").settings;
    let mut opened = disk::open(directory, &settings, usize::MAX).expect("opens");
    opened.frontier.set_snapshots(u64::MAX, 0, 1 << 20);
    let batch = opened.frontier.commit_at_end(&[]).expect("commits").expect("a snapshot");
    opened.writer.write(&batch).expect("writes");
}

#[test]
fn a_changed_byte_is_refused_by_name_or_repaired() {
    let practice = practice();
    let bench = Bench::new(&practice.roots, &["-q"]);
    let limit = ["--max-pages", "100"];
    bench.succeed(&limit);
    take_snapshot(&bench.path("d.crawl"));
    let restore = ["crawl.json", "snapshot", "log/000001.log", "../p.jsonl"].map(|name| {
        let path = bench.path("d.crawl").join(name);
        (fs::read(&path).expect("the file"), path, name)
    });
    for (bytes, path, name) in &restore[..3] {
        for at in [0, bytes.len() / 3, bytes.len() / 2, bytes.len() - 1] {
            let mut changed = bytes.clone();
            changed[at] ^= 0x20;
            fs::write(path, &changed).expect("written");
            let output = bench.run(&limit);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            match output.status.code() {
                // The snapshot can be rebuilt, and an incomplete frame at the end was never acknowledged.
                Some(0) => assert!(*name != "crawl.json", "{at}: {said}"),
                Some(1) => assert!(said.contains("damaged") && said.contains(name), "{name} {at}: {said}"),
                other => panic!("{other:?} {name} {at}: {said}"),
            }
            for (bytes, path, _) in &restore {
                fs::write(path, bytes).expect("written");
            }
        }
    }
    bench.succeed(&[]);
    practice.check(&bench.records());
}

#[test]
fn records_that_were_changed_are_refused() {
    let practice = practice();
    let bench = Bench::new(&practice.roots, &["-q"]);
    bench.succeed(&["--max-pages", "20"]);
    bench.succeed(&["--max-pages", "40"]);
    let whole = fs::read(bench.path("p.jsonl")).expect("records");
    for at in [5, whole.len() / 2, whole.len() - 5] {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        fs::write(bench.path("p.jsonl"), &changed).expect("written");
        let said = bench.fail(1, &[]);
        assert!(said.contains("p.jsonl was changed") && said.contains("argiope export"), "{said}");
        assert_eq!(fs::read(bench.path("p.jsonl")).expect("records"), changed, "the file is not modified");
    }
    fs::write(bench.path("p.jsonl"), &whole).expect("written");
    bench.succeed(&[]);
    practice.check(&bench.records());
}

/// Opening a pipe in place of the report would block forever.
#[test]
fn a_report_that_is_not_a_file_is_refused() {
    let practice = practice();
    let bench = Bench::new(&practice.roots, &["-q"]);
    bench.succeed(&["--max-pages", "20"]);
    let report = bench.path("d.crawl/report.txt");
    fs::remove_file(&report).expect("removes");
    let made = Command::new("mkfifo").arg(&report).status().expect("mkfifo runs");
    assert!(made.success());
    let said = bench.fail(1, &[]);
    assert!(said.contains("not a regular file"), "{said}");
    fs::remove_file(&report).expect("removes");
    bench.succeed(&[]);
    practice.check(&bench.records());
}

#[test]
fn a_foreign_archive_is_not_overwritten() {
    let practice = practice();
    let bench = Bench::new(&practice.roots, &["-q"]);
    bench.succeed(&["--max-pages", "20"]);
    fs::create_dir_all(bench.path("d.crawl/archive")).expect("a folder");
    // Another crawl of the same roots shows which file name this crawl would choose.
    let probe = Bench::new(&practice.roots, &["-q"]);
    probe.succeed(&["--max-pages", "20", "--warc"]);
    let name = fs::read_dir(probe.path("d.crawl/archive")).expect("a folder").next().expect("a file").expect("a file");
    let mine = bench.path("d.crawl/archive").join(name.file_name());
    fs::write(&mine, "mine").expect("written");
    let said = bench.fail(1, &["--warc"]);
    assert!(said.contains("was not written by this crawl"), "{said}");
    assert_eq!(fs::read_to_string(&mine).expect("still there"), "mine");
}

#[test]
fn records_that_are_shorter_than_what_is_committed_are_refused() {
    let practice = practice();
    let bench = Bench::new(&practice.roots, &["-q"]);
    bench.succeed(&["--max-pages", "20"]);
    let whole = fs::read(bench.path("p.jsonl")).expect("records");
    fs::write(bench.path("p.jsonl"), &whole[..whole.len() - 10]).expect("written");
    let said = bench.fail(1, &[]);
    assert!(said.contains("p.jsonl is damaged"), "{said}");
    // A file that is longer than its committed length is a normal result of a crash.
    fs::write(bench.path("p.jsonl"), [&whole[..], b"{\"type\":\"pa"].concat()).expect("written");
    bench.succeed(&[]);
    practice.check(&bench.records());
}
