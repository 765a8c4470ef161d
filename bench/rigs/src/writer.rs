//! [`Writer`]: the thread that waits for the disk, as a crawl has one.

use argiope_core::StoreError;
use argiope_store::disk::{Batch, DiskFrontier, LogWriter};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Writes commits; the keeper of the frontier goes on meanwhile.
pub struct Writer {
    batches: Option<mpsc::SyncSender<Batch>>,
    done: mpsc::Receiver<Batch>,
    thread: Option<std::thread::JoinHandle<Result<(), StoreError>>>,
    under_way: usize,
    /// The longest that sealing a commit took: for so long the keeper stood still.
    pub longest: Duration,
}

impl Writer {
    pub fn start(mut log: LogWriter) -> Self {
        let (batches, incoming) = mpsc::sync_channel::<Batch>(4);
        let (acknowledge, done) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            for batch in incoming {
                log.write(&batch)?;
                // Nobody listens any more at the very end.
                let _ = acknowledge.send(batch);
            }
            Ok(())
        });
        Self { batches: Some(batches), done, thread: Some(thread), under_way: 0, longest: Duration::ZERO }
    }

    /// Makes a commit of what happened, and takes note of those that are durable by now.
    pub fn commit(&mut self, frontier: &mut DiskFrontier) -> Result<(), StoreError> {
        let started = Instant::now();
        let batch = frontier.commit(&[])?;
        self.longest = self.longest.max(started.elapsed());
        self.send(batch);
        while let Ok(batch) = self.done.try_recv() {
            self.under_way -= 1;
            frontier.acknowledge(&batch)?;
        }
        Ok(())
    }

    /// The last commit of a run.
    pub fn commit_at_end(&mut self, frontier: &mut DiskFrontier) -> Result<(), StoreError> {
        let batch = frontier.commit_at_end(&[])?;
        self.send(batch);
        self.wait(frontier)
    }

    fn send(&mut self, batch: Option<Batch>) {
        if let (Some(batches), Some(batch)) = (&self.batches, batch) {
            // A writer that has ended tells why when it is waited for.
            self.under_way += usize::from(batches.send(batch).is_ok());
        }
    }

    /// Waits until all commits are on the disk.
    pub fn wait(&mut self, frontier: &mut DiskFrontier) -> Result<(), StoreError> {
        while self.under_way > 0
            && let Ok(batch) = self.done.recv()
        {
            self.under_way -= 1;
            frontier.acknowledge(&batch)?;
        }
        Ok(())
    }

    /// Ends the thread; says what went wrong.
    pub fn end(mut self) -> Result<(), StoreError> {
        self.batches = None;
        self.thread.take().map_or(Ok(()), |thread| thread.join().unwrap_or(Ok(())))
    }
}
