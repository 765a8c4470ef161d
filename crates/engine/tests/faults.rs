//! Panics of a worker are reported. An immediate stop does not wait for a busy worker.

#[expect(dead_code, reason = "other tests use more of it")]
#[macro_use]
mod kit;

use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use argiope_core::crawl::fetcher::Fetcher as _;
use argiope_core::crawl::visit::Visit;
use argiope_engine::{EngineKind, StopMode, VisitSender, WorkerPool};
use kit::{Server, job, page, rules, send, start_pool};

/// A pool with one job, whose visit is passed to `deliver` on the worker's thread.
fn pool(kind: EngineKind, deliver: impl Fn(&mut Vec<Box<Visit>>) + Send + Sync + 'static) -> (WorkerPool, Server) {
    let server = Server::start(|_, stream| page(stream, "x"));
    let mut pool = start_pool(kind, rules(|_| {}), VisitSender::new(deliver));
    send(&mut pool, job(0, server.address, "/"));
    (pool, server)
}

every_engine! {
    a_panic_of_a_worker_ends_it_and_is_reported
    an_immediate_stop_does_not_wait_for_a_busy_worker
}

/// A job that is lost to a panic has no visit, so the panic must be reported in another way.
fn a_panic_of_a_worker_ends_it_and_is_reported(kind: EngineKind) {
    let (mut pool, _server) = pool(kind, |_| panic!("a deliberate panic"));
    let start = Instant::now();
    while !pool.has_died() {
        assert!(start.elapsed() < Duration::from_secs(30), "the fault was not reported");
        std::thread::yield_now();
    }
    pool.stop(StopMode::Now);
    assert!(pool.join_all().is_some());
}

/// A worker that cannot be interrupted must not delay the stop.
fn an_immediate_stop_does_not_wait_for_a_busy_worker(kind: EngineKind) {
    let (busy_sender, busy) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let (mut pool, _server) = pool(kind, move |visits| {
        visits.clear();
        let _ = busy_sender.send(());
        // Blocks until the test drops the sender.
        let _ = released.lock().map(|released| released.recv());
    });
    busy.recv_timeout(Duration::from_secs(30)).expect("the worker is busy");
    pool.stop(StopMode::Now);
    drop(pool);
    drop(release);
}
