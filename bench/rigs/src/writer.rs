//! [`CommitWriter`]: writes commits on a separate thread, as in a crawl.

use crate::kernel;
use argiope_core::StoreError;
use argiope_store::Commits as _;
use argiope_store::disk::{CommitBatch, DiskFrontier, LogWriter};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// A writer thread. The caller continues to use the frontier while it writes.
pub struct CommitWriter {
    batches: Option<mpsc::SyncSender<CommitBatch>>,
    /// Receives the batches that are durable.
    done: mpsc::Receiver<CommitBatch>,
    thread: Option<std::thread::JoinHandle<Result<Duration, StoreError>>>,
    /// Commits that were sent and are not acknowledged.
    in_progress: usize,
    /// The longest time that preparing a commit took. In a crawl, the keeper is blocked for that time.
    pub longest: Duration,
    /// The same in CPU time.
    pub longest_cpu: Duration,
}

impl CommitWriter {
    pub fn start(mut log: LogWriter) -> Self {
        // If the disk is slow, the caller waits when four batches are queued.
        let (batches, incoming) = mpsc::sync_channel::<CommitBatch>(4);
        let (acknowledge, done) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut longest = Duration::ZERO;
            for batch in incoming {
                let started = Instant::now();
                log.write(&batch)?;
                longest = longest.max(started.elapsed());
                // The receiver is gone if the caller has ended because of an error.
                let _ = acknowledge.send(batch.without_portion());
            }
            Ok(longest)
        });
        let [longest, longest_cpu] = [Duration::ZERO; 2];
        Self { batches: Some(batches), done, thread: Some(thread), in_progress: 0, longest, longest_cpu }
    }

    /// Makes a commit, and acknowledges those that are durable by now.
    pub fn commit(&mut self, frontier: &mut DiskFrontier) -> Result<(), StoreError> {
        let (started, cpu_before) = (Instant::now(), kernel::thread_time());
        let batch = frontier.commit(&[])?;
        self.longest = self.longest.max(started.elapsed());
        self.longest_cpu = self.longest_cpu.max(kernel::thread_time() - cpu_before);
        self.send(batch);
        while let Ok(batch) = self.done.try_recv() {
            self.in_progress -= 1;
            frontier.acknowledge(&batch)?;
        }
        Ok(())
    }

    /// Makes the last commits of a run, and waits for them.
    pub fn commit_at_end(&mut self, frontier: &mut DiskFrontier) -> Result<(), StoreError> {
        while let Some(batch) = frontier.commit_at_end(&[])? {
            self.send(Some(batch));
        }
        self.wait(frontier)
    }

    fn send(&mut self, batch: Option<CommitBatch>) {
        if let (Some(batches), Some(batch)) = (&self.batches, batch) {
            // If the writer has ended, `end` returns its error.
            self.in_progress += usize::from(batches.send(batch).is_ok());
        }
    }

    /// Waits until all commits are on the disk.
    pub fn wait(&mut self, frontier: &mut DiskFrontier) -> Result<(), StoreError> {
        while self.in_progress > 0
            && let Ok(batch) = self.done.recv()
        {
            self.in_progress -= 1;
            frontier.acknowledge(&batch)?;
        }
        Ok(())
    }

    /// Ends the thread; returns its error, or how long the slowest commit took to become durable.
    pub fn end(mut self) -> Result<Duration, StoreError> {
        self.batches = None;
        let zero = || Ok(Duration::ZERO);
        self.thread.take().map_or_else(zero, |thread| thread.join().unwrap_or_else(|_| zero()))
    }
}
