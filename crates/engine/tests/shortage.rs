//! With fewer file descriptors than fetches, every fetch still succeeds, and the user gets one notice. The limit
//! applies to the whole process, so the server runs in another process, which has enough descriptors.

// Each test file uses a part of the kit.
#[allow(dead_code)]
#[macro_use]
mod kit;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use argiope_core::crawl::fetcher::Fetcher as _;
use argiope_engine::{EngineKind, StopMode};
use kit::{Bench, Server, job, page, rules};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const FETCHES: u32 = 300;
/// The environment variable that makes [`serve`] run the server.
const SERVER_VARIABLE: &str = "ARGIOPE_TEST_SERVES";

/// The server. Each test below starts this program again, as a child process that runs only this function. It returns at
/// once if the test runner calls it.
#[test]
fn serve() {
    if std::env::var_os(SERVER_VARIABLE).is_none() {
        return;
    }
    let server = Server::start(|_, stream| {
        std::thread::sleep(Duration::from_millis(20));
        page(stream, "x")
    });
    writeln!(std::io::stderr(), "{}", server.address).unwrap();
    loop {
        std::thread::park();
    }
}

/// A child process that is killed when the value is dropped.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Lowers the limit on open files of this process. Dropping the value restores the limit.
struct FileLimit {
    before: Rlimit,
    /// The limit applies to all threads, so the tests run one after the other.
    _lock: MutexGuard<'static, ()>,
}

impl FileLimit {
    /// The limit is unchanged until [`Self::lower`] is called.
    fn lock() -> Self {
        static LOCK: Mutex<()> = Mutex::new(());
        let _lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        Self { before: getrlimit(Resource::Nofile), _lock }
    }

    fn lower(&self, files: u64) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(files), ..self.before }).unwrap();
    }
}

impl Drop for FileLimit {
    fn drop(&mut self) {
        setrlimit(Resource::Nofile, self.before).unwrap();
    }
}

every_engine! {
    fetches_wait_for_free_file_descriptors
}

fn fetches_wait_for_free_file_descriptors(kind: EngineKind) {
    let limit = FileLimit::lock();
    let mut server = Command::new(std::env::current_exe().unwrap());
    server
        .args(["--exact", "serve", "--nocapture"])
        .env(SERVER_VARIABLE, "1")
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut server = KillOnDrop(server.spawn().unwrap());
    let stderr = BufReader::new(server.0.stderr.take().unwrap());
    let address = stderr.lines().find_map(|line| line.unwrap().parse().ok()).expect("the server prints its address");
    let mut bench = Bench::new(kind, rules(|_| {}));
    limit.lower(50);
    for lane in 0..FETCHES {
        bench.send(job(lane, address, "/"));
    }
    for _ in 0..FETCHES {
        let visit = bench.visit();
        assert_eq!(visit.facts.status, Some(200), "{:?}", visit.facts.error);
    }
    let notices = bench.pool.notices();
    // The sockets of the uring engine use no file descriptors of the process.
    let is_short = kind != EngineKind::Uring;
    assert_eq!(notices.len(), usize::from(is_short), "{notices:?}");
    assert!(notices.iter().all(|notice| notice.contains("limit of open files")), "{notices:?}");
    bench.stop(StopMode::Now);
}
