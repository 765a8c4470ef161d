//! The loop of the keeper's thread: hands out jobs, processes messages and makes commits until the crawl ends.

use std::ops::ControlFlow;

use argiope_core::base::job::{Job, Purpose};
use argiope_core::crawl::fetcher::StopMode;
use argiope_core::crawl::schedule::frontier::{CrawlEvent, ReturnTo};
use argiope_core::crawl::schedule::keeper::{End, Next};
use argiope_core::crawl::visit::Visit;
use argiope_core::http::address::DnsResult;
use argiope_core::{Link, Time};
use argiope_engine::{DnsQuery, Resolver};
use argiope_store::Store;

use super::{KeeperLoop, Summary};
use crate::error::Error;
use crate::keeper_message::{KeeperMessage, Mailbox};
use crate::run_lines;

/// How many visits one iteration of the loop processes before new jobs are handed out. With a larger number, fast hosts
/// would delay all others.
const VISITS_PER_ITERATION: usize = 4;
/// No further pages start while fetchers continue this many visits.
const MAX_POSTPONED: usize = 256;

impl<F: Store> KeeperLoop<F> {
    /// Runs the crawl to its end, and makes the last commit.
    pub(super) async fn run_to_end(mut self, messages: &Mailbox) -> Result<Summary, Error> {
        let end = self.run(messages).await;
        let clock = self.clock;
        let end = end.and_then(|end| self.process_rest(messages).map(|()| end));
        let mode = if matches!(end, Ok(End::Finished)) { StopMode::Drain } else { StopMode::Now };
        if mode == StopMode::Now {
            self.fetchers.stop(mode);
        }
        // The log marks these requests as sent, but they were not. Queue them again with zero tries, which replaces the
        // mark; otherwise the next run would refuse to send them.
        let unsent = std::mem::take(&mut self.unsent).into_iter();
        let unsent = unsent.map(|(_, job)| Link { tries: 0, ..job.link }).collect();
        let end = end.and_then(|end| {
            self.keeper.frontier_mut().give_back(unsent, ReturnTo::End)?;
            Ok(end)
        });
        let elapsed = clock.now() - Time::ZERO;
        let end = match end {
            Ok(end) => self.wait_for_reader(messages).await.map(|()| end),
            Err(error) => Err(error),
        };
        let (left, unread) = (self.keeper.unfinished(), self.reader.unread() as u64);
        // Unfinished work: pages that the next run delivers again, and links that the user added after the end.
        let is_unfinished = left > 0 || unread > 0;
        let end = end.map(|end| if end == End::Finished && is_unfinished { End::Interrupted } else { end });
        let (receipts, delivered) = (self.take_receipts(), self.reader.delivered);
        let Self { mut keeper, mut commits, tally, mut fetchers, has_run_records, .. } = self;
        let end = end.and_then(|end| {
            if has_run_records {
                let changes = keeper.progress().changes;
                let last = run_lines::last(&tally.outcomes, left, tally.bytes, end, elapsed, changes, keeper.cuts());
                commits.add_line(last, keeper.frontier_mut(), clock.now())?;
            }
            keeper.note_progress(clock.now())?;
            commits.send_last(keeper.frontier_mut())?;
            Ok(end)
        });
        // Close connections in parallel with the last writes.
        fetchers.stop(mode);
        // The error of the crawl takes precedence, but the writer must be ended in any case.
        let written = commits.end();
        let notices = fetchers.notices();
        fetchers.shut_down(mode);
        let end = end?;
        written?;
        receipts.into_iter().for_each(|receipt| receipt(delivered));
        let (changes, cuts) = (keeper.progress().changes, keeper.cuts());
        Ok(Summary { end, left, unread, elapsed, tally, changes, cuts, notices })
    }

    /// Hands out all jobs that are due. Returns until when to wait for messages, or why the crawl is over.
    pub(super) fn hand_out(&mut self, now: Time) -> Result<ControlFlow<End, Time>, Error> {
        let wait = loop {
            match self.keeper.next(now)? {
                // The request must not be sent twice, so the log says first that it is sent.
                // A part of a page is no link of the frontier: the page is fetched again as a whole.
                Next::Fetch(job) if !job.link.is_repeatable() && job.purpose.is_in_frontier() => {
                    self.keeper.frontier_mut().tell(CrawlEvent::Sending(&job.link))?;
                    self.unsent.push((self.keeper.frontier().log_end(), job));
                    self.commits.request_commit(now);
                }
                // The next owner of this host must know its Crawl-delay: it is stored before a page is requested.
                Next::Fetch(job) if job.purpose == Purpose::Page && self.keeper.frontier().awaits_note(job.lane) => {
                    self.unsent.push((self.keeper.frontier().log_end(), job));
                }
                Next::Fetch(job) => self.fetchers.fetch(job, now),
                Next::Resolve(lane, host) => match self.known_addresses(&host) {
                    Some(known) => self.keeper.resolved(lane, known, now),
                    None => self.resolver.query(DnsQuery { lane, host }),
                },
                Next::Wait(until) => break ControlFlow::Continue(until),
                Next::Done(end) => break ControlFlow::Break(end),
            }
        };
        // Hand out the jobs whose mark in the log is durable.
        if !self.unsent.is_empty() {
            let durable = self.keeper.frontier().durable_end();
            let (ready, waiting) = std::mem::take(&mut self.unsent).into_iter().partition(|(end, _)| *end <= durable);
            self.unsent = waiting;
            let ready: Vec<(u64, Job)> = ready;
            ready.into_iter().for_each(|(_, job)| self.fetchers.fetch(job, now));
        }
        self.fetchers.flush();
        Ok(wait)
    }

    /// The addresses of a host, if they need no lookup.
    fn known_addresses(&self, host: &str) -> Option<DnsResult> {
        self.fetchers.resolve(host).or_else(|| Resolver::parse_literal(host).map(Ok))
    }

    /// Hands out jobs and processes messages until the crawl ends; returns why it ended.
    pub(super) async fn run(&mut self, messages: &Mailbox) -> Result<End, Error> {
        loop {
            messages.yield_to_others().await;
            let now = self.clock.now();
            let is_behind = self.commits.is_behind(self.keeper.bench().in_flight(), now);
            self.keeper.bench_mut().hold_back(is_behind || self.reader.is_behind());
            let postponed = self.keeper.postponed();
            // Between the two limits nothing changes, because a change visits all hosts.
            if postponed >= MAX_POSTPONED || postponed <= MAX_POSTPONED / 2 {
                self.keeper.bench_mut().hold_pages(postponed >= MAX_POSTPONED, now);
            }
            let deadline = self.keeper.deadline();
            let is_stalled = self.reader.is_far_behind() && now < deadline;
            let next = if is_stalled { ControlFlow::Continue(deadline) } else { self.hand_out(now)? };
            let wait = match next {
                ControlFlow::Continue(until) => until.min(self.fetchers.advance(now)),
                ControlFlow::Break(end) => {
                    // Do not commit yet: the last pages and the last record of the run belong to one commit.
                    self.collect_settled(now)?;
                    return Ok(end);
                }
            };
            // The first requests are on their way, and do not wait for the first commit.
            self.commits.send_first_commit_once()?;
            self.collect_settled(now)?;
            if self.commits.should_send(now) {
                self.send_commit(now)?;
            }
            self.signal_reader(now);
            self.check_memory(now);
            self.check_disk(now);
            if self.fetchers.has_died() {
                return Err(Error::engine("a worker thread died", None));
            }
            if now >= self.drain_until {
                return Ok(self.keeper.ended().unwrap_or(End::Interrupted));
            }
            if self.visits.is_empty() {
                let until = wait.min(self.drain_until);
                let until = until.min(self.commits.due()).min(self.reader.signal_due());
                // No message arrived in time: check what is due now.
                let Some(first) = self.next_message(messages, until).await else { continue };
                if self.receive(first)? {
                    return Ok(End::Interrupted);
                }
            }
            while let Some(more) = messages.take() {
                if self.receive(more)? {
                    return Ok(End::Interrupted);
                }
            }
            self.process_visits(VISITS_PER_ITERATION, self.clock.now())?;
        }
    }

    /// Waits for a message, until this time at the latest.
    pub(super) async fn next_message(&mut self, messages: &Mailbox, until: Time) -> Option<KeeperMessage> {
        if self.clock.is_virtual() && !until.is_never() && !self.awaits_others() {
            let message = messages.take();
            if message.is_none() {
                self.clock.advance_to(until);
            }
            return message;
        }
        let until = if self.clock.is_virtual() { Time::NEVER } else { until };
        messages.next(self.clock.machine().instant(until)).await
    }

    /// Whether the writer or the reader has something to do, so that virtual time stands still.
    fn awaits_others(&self) -> bool {
        let collected = self.commits.collected_pages();
        (self.accepts_links && self.reader.is_working(collected)) || self.commits.is_busy()
    }

    /// Processes at most `max_visits` visits that have arrived.
    fn process_visits(&mut self, max_visits: usize, now: Time) -> Result<(), Error> {
        for _ in 0..max_visits {
            let Some(visit) = self.visits.pop() else { break };
            if self.has_disk_room(&visit, now)? {
                self.list_archive_file(&visit, now)?;
                self.process_visit(visit, now)?;
            }
        }
        Ok(())
    }

    /// Processes one visit. A page that a fetcher has completed is offered to all fetchers once: one of them may continue
    /// it.
    fn process_visit(&mut self, visit: Box<Visit>, now: Time) -> Result<(), Error> {
        let may_resume = visit.is_page() && !visit.for_keeper.is_postponed();
        let Some(visit) = self.keeper.received(visit, now)? else { return Ok(()) };
        let fetchers = &mut self.fetchers;
        let complete =
            if may_resume { self.keeper.postpone(visit, |visit| fetchers.resume(visit, now)) } else { Some(visit) };
        Ok(complete.map_or(Ok(()), |visit| self.keeper.complete(visit, now))?)
    }

    /// Commits the name of the archive file that this visit begins, if it begins one. That commit precedes the one with
    /// the visit.
    fn list_archive_file(&mut self, visit: &Visit, now: Time) -> Result<(), Error> {
        match self.keeper.next_archive_file(visit) {
            Some(file) if self.commits.begin_output(&file) => {
                self.collect_settled(now)?;
                self.send_commit(now)
            }
            _ => Ok(()),
        }
    }

    /// Commits what was collected, together with the progress so far.
    pub(super) fn send_commit(&mut self, now: Time) -> Result<(), Error> {
        self.note_unread();
        self.keeper.note_progress(now)?;
        self.await_receipts();
        self.commits.send(self.keeper.frontier_mut())
    }

    /// Processes the visits that arrived before the end, and collects settled visits.
    pub(super) fn process_rest(&mut self, messages: &Mailbox) -> Result<(), Error> {
        while let Some(more) = messages.take() {
            self.receive(more)?;
        }
        let now = self.clock.now();
        self.process_visits(usize::MAX, now)?;
        self.collect_settled(now)
    }

    /// Passes the settled visits to the next commit.
    pub(super) fn collect_settled(&mut self, now: Time) -> Result<(), Error> {
        for mut settled in self.keeper.take_settled() {
            self.tally.count(&settled.visit);
            if settled.visit.purpose.is_part() {
                self.fetchers.take_part(&mut settled.visit, now);
                if settled.line.is_empty() && settled.archive.is_none() {
                    continue;
                }
            }
            // Adjusts the memory charge of a large visit. Until they are written, the record and the links are also in
            // the buffer of the log.
            settled.visit.recharge(settled.line.len() * 2 + settled.visit.for_keeper.found().bytes());
            if settled.visit.is_page() && self.accepts_links {
                self.reader.deliver(settled.visit.is_fetched_page());
            }
            self.commits.add_visit(settled, now);
        }
        Ok(())
    }
}
