//! Signal handling: the first SIGINT or SIGTERM drains the crawl, the second ends the process; SIGUSR1 prints a status
//! line.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

/// The first signal received; 0 if none.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<AtomicI32>);

impl Interrupt {
    /// Registers the signals. They queue until [`watch`](Self::watch) is called.
    pub fn listen() -> std::io::Result<Signals> {
        Signals::new([SIGINT, SIGTERM, SIGUSR1])
    }

    /// Calls `drain` at the first SIGINT or SIGTERM and `say_status` at every SIGUSR1. The second SIGINT or SIGTERM ends the
    /// process at once: a crawl directory survives that like any crash.
    pub fn watch(
        mut signals: Signals,
        drain: impl FnOnce() + Send + 'static,
        say_status: impl Fn() + Send + 'static,
    ) -> std::io::Result<Self> {
        let interrupt = Self::default();
        let seen = interrupt.clone();
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            let mut drain = Some(drain);
            for signal in signals.forever() {
                if signal == SIGUSR1 {
                    say_status();
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

    /// The exit code if a termination signal is pending, for a process that waits outside of a crawl.
    pub fn pending(signals: &mut Signals) -> Option<u8> {
        let signal = signals.pending().find(|signal| *signal != SIGUSR1)?;
        u8::try_from(exit_code(signal)).ok()
    }

    /// The exit code of an interrupted crawl: 130 or 143, as shells do.
    pub fn code(&self) -> Option<u8> {
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
    fn the_first_signal_drains_and_is_remembered() {
        let (sender, drained) = channel();
        let signals = Interrupt::listen().unwrap();
        // The signal queues until `watch` is called.
        signal_hook::low_level::raise(SIGTERM).unwrap();
        let interrupt = Interrupt::watch(signals, move || sender.send(()).unwrap(), || ()).unwrap();
        drained.recv_timeout(Duration::from_secs(10)).unwrap();
        assert_eq!(interrupt.code(), Some(143));
    }
}
