//! Panics of a worker are reported, and no thread waits forever for a worker that is busy or dead.

#[expect(dead_code, reason = "other tests use more of it")]
mod kit;

use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use argiope_core::visit::Visit;
use argiope_engine::{Clock, EngineKind, StopMode, VisitSender, WorkerPool};
use kit::{Server, job, page, rules};

fn pool(kind: EngineKind, deliver: impl Fn(&mut Vec<Box<Visit>>) + Send + Sync + 'static) -> (WorkerPool, Server) {
    let server = Server::start(|_, stream| page(stream, "x"));
    let mut pool =
        WorkerPool::start(kind, &Arc::new(rules(|_| {})), Clock::start(), &VisitSender::new(deliver)).unwrap();
    pool.wait_ready().unwrap();
    pool.send(0, &mut vec![job(0, server.address, "/")]);
    (pool, server)
}

/// A job that is lost to a panic has no visit, so the crawl must learn of the panic in another way.
#[test]
fn a_panic_on_a_worker_ends_it_and_is_seen() {
    for kind in EngineKind::ALL.into_iter().filter(|kind| kind.check().is_ok()) {
        let (mut pool, _server) = pool(kind, |_| panic!("a fault of ours, on purpose"));
        let begun = Instant::now();
        while !pool.has_dead_worker() {
            assert!(begun.elapsed() < Duration::from_secs(30), "{kind}: the fault was not reported");
            std::thread::yield_now();
        }
        pool.end(StopMode::Now);
        assert!(pool.join().is_some(), "{kind}");
    }
}

/// A worker that cannot be interrupted must not delay the end.
#[test]
fn an_immediate_stop_waits_for_no_fetch() {
    for kind in EngineKind::ALL.into_iter().filter(|kind| kind.check().is_ok()) {
        let (reached, has_reached) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let released = Mutex::new(released);
        let (pool, _server) = pool(kind, move |visits| {
            visits.clear();
            let _ = reached.send(());
            // Blocks until the test drops the sender.
            let _ = released.lock().map(|released| released.recv());
        });
        has_reached.recv_timeout(Duration::from_secs(30)).expect("the worker is busy");
        pool.shut_down(StopMode::Now);
        drop(release);
    }
}
