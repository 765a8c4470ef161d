//! Signal handling. The first SIGINT or SIGTERM drains the crawl: requests in flight finish, and no new ones start. The
//! second ends the process. SIGUSR1 prints a status line.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

/// The number of the first SIGINT or SIGTERM received; 0 if none.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<AtomicI32>);

impl Interrupt {
    /// Registers the signals. They queue until [`watch`](Self::watch) is called.
    pub fn listen() -> std::io::Result<Signals> {
        Signals::new([SIGINT, SIGTERM, SIGUSR1])
    }

    /// Calls `drain` at the first SIGINT or SIGTERM and `print_status` at every SIGUSR1. The second SIGINT or SIGTERM ends
    /// the process at once. For a crawl directory that is the same as a crash: the crawl can be resumed.
    pub fn watch(
        mut signals: Signals,
        drain: impl FnOnce() + Send + 'static,
        print_status: impl Fn() + Send + 'static,
    ) -> std::io::Result<Self> {
        let interrupt = Self::default();
        let seen = interrupt.clone();
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            let mut drain = Some(drain);
            for signal in signals.forever() {
                if signal == SIGUSR1 {
                    print_status();
                    continue;
                }
                match drain.take() {
                    Some(drain) => {
                        seen.0.store(signal, Ordering::SeqCst);
                        drain();
                    }
                    None => std::process::exit(exit_code(signal)),
                }
            }
        })?;
        Ok(interrupt)
    }

    /// The exit code if SIGINT or SIGTERM is pending. Used while the process waits without crawling, because then the thread
    /// of [`watch`](Self::watch) is not running.
    pub fn pending_exit_code(signals: &mut Signals) -> Option<u8> {
        let signal = signals.pending().find(|signal| *signal != SIGUSR1)?;
        u8::try_from(exit_code(signal)).ok()
    }

    /// The exit code of an interrupted crawl: 128 plus the number of the signal, as in shells. `None` without a signal.
    pub fn exit_code(&self) -> Option<u8> {
        match self.0.load(Ordering::SeqCst) {
            0 => None,
            signal => u8::try_from(exit_code(signal)).ok(),
        }
    }
}

fn exit_code(signal: i32) -> i32 {
    128 + signal
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_first_signal_drains_the_crawl_and_sets_the_exit_code() {
        let (sender, drained) = channel();
        let signals = Interrupt::listen().unwrap();
        // The signal queues until `watch` is called.
        signal_hook::low_level::raise(SIGTERM).unwrap();
        let interrupt = Interrupt::watch(signals, move || sender.send(()).unwrap(), || ()).unwrap();
        drained.recv_timeout(Duration::from_secs(10)).unwrap();
        // 128 + 15, the number of SIGTERM.
        assert_eq!(interrupt.exit_code(), Some(143));
    }
}
