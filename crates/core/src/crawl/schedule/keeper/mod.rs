//! [`Keeper`]: owns the frontier and the workbench, applies the limits, and decides what the crawl does next.
//!
//! The keeper decides and never waits. Its driver (a thread with an inbox, or a simulation) reports events
//! ([`Keeper::finished`], [`Keeper::resolved`], [`Keeper::put`]) and requests the next action ([`Keeper::next`]).
//!
//! Each part owns its fields, and the keeper connects the parts with frontier and workbench:
//!
//! | part | owns |
//! |---|---|
//! | `Admission` | which links enter, within the budgets of [`trap`], and which of them a lane takes |
//! | `WaitingLanes` | the lanes that have work and are not on the workbench |
//! | `SiteFiles` | what follows from robots.txt files and sitemaps |
//! | `Cookies` | the cookie jar |
//! | `Retries` | whether a request is sent again |
//! | `Redirects` | redirects that close a loop, and roots without a scheme |
//! | `Suspects`, `Probes`, `PartLanes` | pages that may end the process, requests for pages that do not exist, parts of rendered pages |
//! | `SteeringState` | what the user changed while the crawl was running |
//! | `Outbox` | settled visits, and their places in the archive |
//! | `Notes` | what the next run needs |
//! | `Ending` | why the crawl ends, and what keeps it open |
//!
//! `recrawl` and `edges` are functions: they compare a visit with what the store remembers, and own nothing.
//!
//! [`trap`]: crate::crawl::schedule::trap
//!
//! Invariants:
//!
//! - Every link that enters the frontier is settled exactly once, or is queued for the next run when a limit or
//!   the user ends the crawl.
//! - The crawl is over when no link is queued in the frontier, waiting on the workbench or in flight, or when a limit or
//!   the user ends it. The links are counted; no timer is involved.
//! - `--max-pages` is never exceeded.

mod activation;
mod admission;
mod cookies;
mod edges;
mod ending;
mod hook;
mod lane_links;
mod notes;
mod outbox;
mod parts;
mod probes;
mod recrawl;
mod redirects;
mod retries;
mod site_files;
mod steering;
mod suspects;

use std::sync::Arc;
use std::time::Duration;

use activation::WaitingLanes;
use admission::Admission;
use cookies::Cookies;
use ending::{Ending, WorkLeft};
use notes::Notes;
use outbox::Outbox;
use parts::{PartLanes, release_body};
use probes::Probes;
use redirects::Redirects;
use retries::Retries;
use site_files::SiteFiles;
use steering::SteeringState;
use suspects::Suspects;

pub use crate::crawl::record::page_state::{Change, ChangeNote, Changes, Comparison};
pub use crate::crawl::schedule::next::{End, Next};

use crate::base::budget::MemoryPart;
use crate::base::job::{Job, LaneId, Purpose};
use crate::base::link::{ALREADY_SENT, Link, LinkKind};
use crate::base::time::{Time, WallClock};
use crate::base::url::Url;
use crate::crawl::record::CrawlRecord;
use crate::crawl::rules::{RobotsPolicy, Root, Rules, Sitemaps};
use crate::crawl::schedule::frontier::{
    CrawlEvent, FinalOutcome, FoundEdges, Frontier, FrontierNews, History, News, Placement, ReturnTo, Settlement,
    StoreError, put_all,
};
use crate::crawl::schedule::retry::RetryVerdict;
use crate::crawl::schedule::workbench::{self, Workbench};
use crate::crawl::visit::{SiteFile, Visit};
use crate::http::address::DnsResult;
use crate::http::retry_after::wait_until;
use crate::page::robots::Robots;

pub use crate::crawl::warc::ArchiveChunk;

/// How many robots.txt files are loaded before the driver gets control again.
const MAX_RECALLS: usize = 256;
/// The keeper interrupts long work (loads of robots.txt files, removal of excluded links), so that the driver can
/// handle signals and deadlines. The work continues after this time.
const RESUME_AFTER: Duration = Duration::from_millis(1);
/// How many links are added to the frontier in one call.
const PUT_PORTION: usize = 1_024;

/// Decides what the crawl does next.
pub struct Keeper<F> {
    frontier: F,
    bench: Workbench,
    rules: Arc<Rules>,
    /// Converts the crawl's time to wall-clock time.
    clock: WallClock,
    admission: Admission,
    waiting: WaitingLanes,
    site_files: SiteFiles,
    cookies: Cookies,
    retries: Retries,
    redirects: Redirects,
    suspects: Suspects,
    probes: Probes,
    part_lanes: PartLanes,
    steering: SteeringState,
    outbox: Outbox,
    notes: Notes,
    ending: Ending,
}

/// A settled visit and its record.
#[derive(Debug)]
pub struct Settled {
    pub visit: Box<Visit>,
    /// The record with its line feed. With `log_skips`, one record per skipped link follows.
    pub line: Vec<u8>,
    /// The bytes for the archive that the record refers to.
    pub archive: Option<ArchiveChunk>,
    /// The comparison with the previous round, in a recrawl.
    pub change: Option<Comparison>,
}

impl<F: Frontier + History> Keeper<F> {
    pub fn new(frontier: F, rules: Arc<Rules>, clock: WallClock) -> Self {
        Self {
            frontier,
            bench: Workbench::new(Arc::clone(&rules)),
            admission: Admission::new(&rules),
            waiting: WaitingLanes::default(),
            site_files: SiteFiles::new(&rules),
            cookies: Cookies::new(&rules, clock),
            retries: Retries::new(&rules),
            redirects: Redirects::new(&rules),
            suspects: Suspects::default(),
            probes: Probes::default(),
            part_lanes: PartLanes::default(),
            steering: SteeringState::new(&rules),
            outbox: Outbox::new(&rules),
            notes: Notes::default(),
            ending: Ending::new(&rules),
            rules,
            clock,
        }
    }

    /// Adds the roots of the rules, and resumes the work that the frontier already holds.
    pub fn begin(&mut self, now: Time) -> Result<(), StoreError> {
        self.notes = Notes::recall(&mut self.frontier)?;
        self.bench.spend_pages(self.notes.progress.pages);
        self.stop_at_max_bytes();
        let steering = std::mem::take(&mut self.notes.progress.steering);
        self.recall_steering(steering, now);
        self.recall_traps()?;
        self.recall_suspects(now)?;
        let rules = Arc::clone(&self.rules);
        let first_candidates = || rules.roots.iter().filter_map(|root| root.candidates.first());
        if rules.robots == RobotsPolicy::Ignore && rules.sitemaps == Sitemaps::NamedAndDefault {
            // Without robots.txt files, no sitemap is known by name. This adds `/sitemap.xml` of each root's origin.
            for url in first_candidates() {
                self.put_sitemaps(&url.origin(), &Robots::default(), now)?;
            }
        }
        for lane in self.frontier.lanes_with_work() {
            self.announce_lane(lane, now);
        }
        // In portions: the list of roots may be long.
        let plain_url = |root: &Root| root.candidates.first().filter(|_| root.requests.is_empty()).cloned();
        let plain_link = |root: &Root| plain_url(root).map(|url| Link::root(url, rules.max_redirects));
        let mut links = rules
            .roots
            .iter()
            .flat_map(|root| plain_link(root).into_iter().chain(root.requests.iter().cloned()))
            .peekable();
        while links.peek().is_some() {
            self.put(links.by_ref().take(PUT_PORTION).collect(), now)?;
        }
        Ok(())
    }

    /// Adds links to the frontier. Returns how many were new.
    pub fn put(&mut self, links: Vec<Link>, now: Time) -> Result<usize, StoreError> {
        self.put_all(&links, now).map(|new| new.into_iter().filter(|new| *new).count())
    }

    /// Resumes the archive of an earlier run. `outputs` are the files of the crawl directory and their lengths.
    pub fn resume_archive<'a>(&mut self, outputs: impl IntoIterator<Item = (&'a str, u64)>) {
        self.outbox.resume(outputs);
    }

    /// The file of the archive that this visit begins when it is settled; `None` if it begins none.
    pub fn next_archive_file(&self, visit: &Visit) -> Option<String> {
        self.outbox.next_file(visit)
    }

    /// Lets the user of the library add links in response to pages: every settled page keeps the crawl open, and
    /// [`Keeper::set_open`] closes it when the user has processed all pages.
    pub fn keep_open_after_pages(&mut self) {
        self.ending.reopens_after_pages = true;
        self.ending.is_open = true;
    }

    /// Sets whether the crawl waits for links of the library's user when no work is left.
    pub fn set_open(&mut self, is_open: bool) {
        self.ending.is_open = is_open;
    }

    /// The answer to [`Next::Resolve`]: addresses and their time to live.
    pub fn resolved(&mut self, lane: LaneId, answer: DnsResult, now: Time) {
        self.bench.resolved(lane, answer, now);
    }

    /// Applies the result of a fetch: retries the link or settles it.
    pub fn finished(&mut self, visit: Box<Visit>, now: Time) -> Result<(), StoreError> {
        match self.received(visit, now)? {
            Some(visit) => self.complete(visit, now),
            None => Ok(()),
        }
    }

    /// The first half of [`Keeper::finished`]: releases the slot, and applies what the result of a fetch says about the
    /// host. Returns the visit, unless its link is tried again. The driver may pass the visit to another fetcher
    /// ([`Keeper::postpone`]) before it calls [`Keeper::complete`].
    pub fn received(&mut self, mut visit: Box<Visit>, now: Time) -> Result<Option<Box<Visit>>, StoreError> {
        if std::mem::take(&mut visit.for_keeper.is_postponed) {
            self.ending.postponed -= 1;
            return Ok(Some(visit));
        }
        // The host sent a date that only the local clock can convert to a wait: see `RetryAfter::Until`.
        if let Some(retry_at) = visit.for_keeper.retry_at.take() {
            visit.for_keeper.retry_after = Some(wait_until(retry_at, self.clock.at(now).as_second()));
        }
        if let Some((lane, _)) = visit.for_keeper.slot {
            let previous_backoff = self.bench.backs_off_until(lane);
            self.bench.finish(&visit, now);
            self.note_backoff(lane, previous_backoff, now)?;
            self.report_left(lane)?;
        }
        let progress = &mut self.notes.progress;
        progress.bytes = progress.bytes.saturating_add(visit.facts.bytes_wire);
        self.stop_at_max_bytes();
        let mut verdict = self.retries.judge(&visit);
        // After a redirect to itself, the URL is fetched again with its new cookie.
        if self.cookies.keep(&mut visit, now) {
            visit.link.redirects -= 1;
            verdict = RetryVerdict::After(Duration::ZERO);
        } else {
            verdict = self.choose_retry(&mut visit, verdict);
        }
        if let (Some((lane, _)), RetryVerdict::After(wait)) = (visit.for_keeper.slot, verdict) {
            if visit.purpose.is_in_frontier() {
                let (link, bytes) = (&visit.link, visit.facts.bytes_wire);
                self.frontier.tell(CrawlEvent::AttemptFailed { link, bytes })?;
            }
            let may_retry = self.ended().is_none() && !self.waiting.is_leaving(lane);
            if !may_retry && visit.purpose.is_part() {
                return Ok(Some(visit));
            }
            self.suspects.end_alone(&visit);
            let Visit { link, purpose, .. } = *visit;
            if may_retry {
                self.bench.retry(lane, link, purpose, now + wait, now);
            } else if purpose.is_in_frontier() {
                self.frontier.give_back(vec![reset_tries(link)], ReturnTo::End)?;
            }
            return Ok(None);
        }
        Ok(Some(visit))
    }

    /// Passes a visit that was received to `resume`, which returns it if no fetcher continues it. Otherwise the crawl does
    /// not end before the fetcher has returned it.
    pub fn postpone(
        &mut self,
        mut visit: Box<Visit>,
        resume: impl FnOnce(Box<Visit>) -> Option<Box<Visit>>,
    ) -> Option<Box<Visit>> {
        visit.for_keeper.is_postponed = true;
        let mut returned = resume(visit);
        match &mut returned {
            Some(visit) => visit.for_keeper.is_postponed = false,
            None => self.ending.postponed += 1,
        }
        returned
    }

    /// The number of visits that fetchers continue.
    pub fn postponed(&self) -> usize {
        self.ending.postponed
    }

    /// The second half of [`Keeper::finished`]: applies the content of a site file, and settles the visit.
    pub fn complete(&mut self, mut visit: Box<Visit>, now: Time) -> Result<(), StoreError> {
        self.suspects.end_alone(&visit);
        let site_file = visit.for_keeper.site_file.take().map(|site_file| *site_file);
        if visit.is_page() && !self.rules.bodies.delivers_to_user(visit.findings.content_type.as_deref()) {
            // The body was needed for rendering only.
            release_body(&mut visit, &self.rules);
        }
        match (&visit.purpose, site_file) {
            (Purpose::Page, _) => self.redirects.mark_loop(&mut visit, self.rules.fingerprint_key),
            (Purpose::Robots(_), Some(SiteFile::Robots(bytes))) => {
                self.read_robots(&visit, &bytes, now)?;
                // Keep the file: `argiope robots` shows it.
                visit.for_keeper.site_file = Some(Box::new(SiteFile::Robots(bytes)));
            }
            (Purpose::Robots(_), _) => self.read_robots(&visit, &[], now)?,
            (Purpose::Sitemap, Some(SiteFile::Sitemap(sitemap, _memory_charge))) => {
                self.read_sitemap(&mut visit, sitemap, now)?;
            }
            (Purpose::Sitemap, _) => self.follow_sitemap(&visit, now)?,
            (Purpose::Part(_), _) => return self.settle_part(visit),
            (Purpose::Probe, _) => Self::read_probe(&mut visit),
        }
        self.settle(visit, now)
    }

    /// Fetches a robots.txt at the user's request; no page waits for it. [`Keeper::take_settled`] returns its visit.
    pub fn ask_robots(&mut self, url: Url, now: Time) -> Result<(), StoreError> {
        let lane = self.frontier.lane_of(url.host())?;
        let purpose = Purpose::Robots(Box::new(url.origin()));
        let mut link = Link::root(url, workbench::ROBOTS_REDIRECTS);
        link.kind = LinkKind::Other;
        self.bench.add_site_file(lane, link, purpose, now);
        Ok(())
    }

    /// What to do next.
    pub fn next(&mut self, now: Time) -> Result<Next, StoreError> {
        if now >= self.deadline() {
            return self.end(End::MaxTime);
        }
        self.apply_news(now)?;
        let mut loads = 0;
        loop {
            if let Some(job) = self.next_alone(now)? {
                return Ok(Next::Fetch(job));
            }
            let only_suspects = self.suspects.are_first(now);
            if !only_suspects {
                self.refill_lanes(now)?;
                self.activate_lanes(now)?;
            }
            let Some(next) = self.bench.next(now) else {
                if let Some((lane, origin)) = self.bench.take_recall() {
                    self.recall_robots(lane, &origin, now)?;
                    // Each load reads a file; signals and deadlines must be handled in between.
                    loads += 1;
                    if loads >= MAX_RECALLS {
                        return Ok(Next::Wait((now + RESUME_AFTER).min(self.deadline())));
                    }
                } else if let Some(visit) = self.bench.take_decided() {
                    self.finished(visit, now)?;
                }
                continue;
            };
            match next {
                Next::Fetch(job) => {
                    if let Some(job) = self.prepare(job, now)? {
                        return Ok(Next::Fetch(job));
                    }
                }
                // No lane of the workbench can start a request: add a waiting lane.
                Next::Wait(_) if !only_suspects && self.activate_lanes(now)? => {}
                Next::Wait(until) => {
                    if let Some(end) = self.end_reason() {
                        return self.end(end);
                    }
                    let until = until.min(self.waiting.due()).min(self.suspects.due()).min(self.waiting.news_due);
                    // Excluded links are removed from the queues in portions: continue soon.
                    let is_refill_due = !only_suspects && self.bench.awaits_refill();
                    let until = if is_refill_due { now + RESUME_AFTER } else { until };
                    return Ok(Next::Wait(until.min(self.deadline())));
                }
                Next::Resolve(..) | Next::Done(_) => return Ok(next),
            }
        }
    }

    /// Adds what a request needs from the keeper. Returns no job if the request is not sent now.
    fn prepare(&mut self, mut job: Job, now: Time) -> Result<Option<Job>, StoreError> {
        if self.rules.archive {
            job.extras_mut().wall = self.clock;
        }
        recrawl::make_conditional(&mut self.frontier, self.rules.archive, &mut job)?;
        self.cookies.add_to(&mut job, now);
        match self.check_before_send(&mut job) {
            None => self.hold_suspect(job, now),
            Some(failure) => {
                self.bench.return_page(&job, now);
                self.finished(Box::new(Visit::unsent(job, failure, now)), now)?;
                Ok(None)
            }
        }
    }

    /// Ends the crawl: returns the links that are not in flight to their queues.
    fn end(&mut self, end: End) -> Result<Next, StoreError> {
        self.stop(end);
        let links = self.bench.take_back().into_iter().map(reset_tries).collect();
        self.frontier.give_back(links, ReturnTo::End)?;
        Ok(Next::Done(end))
    }

    /// Takes the visits settled since the last call, in order of completion.
    pub fn take_settled(&mut self) -> Vec<Settled> {
        self.outbox.take()
    }

    /// Stops handing out work. Requests in flight may finish.
    pub fn stop(&mut self, end: End) {
        self.ending.stop(end);
        self.bench.drain();
    }

    /// Stops the crawl when it has received `--max-bytes`.
    fn stop_at_max_bytes(&mut self) {
        if self.rules.max_bytes.is_some_and(|limit| self.notes.progress.bytes >= limit) {
            self.stop(End::MaxBytes);
        }
    }

    /// When `--max-time` is over; [`Time::NEVER`] without this limit.
    pub fn deadline(&self) -> Time {
        self.ending.deadline
    }

    /// Why the crawl ended, if it no longer hands out work.
    pub fn ended(&self) -> Option<End> {
        self.ending.ended()
    }

    pub fn frontier(&self) -> &F {
        &self.frontier
    }

    pub fn frontier_mut(&mut self) -> &mut F {
        &mut self.frontier
    }

    pub fn bench(&self) -> &Workbench {
        &self.bench
    }

    pub fn bench_mut(&mut self) -> &mut Workbench {
        &mut self.bench
    }

    /// Reports the keeper's memory use to the budget. The memory of the frontier is reported elsewhere.
    pub fn report_memory(&self) {
        let budget = &self.rules.budget;
        let requests = self.admission.lane_links.bytes(self.bench.lanes().flat_map(|(_, lane)| &lane.queue));
        let lanes = self.bench.lanes_bytes() + self.waiting.bytes() + requests + self.parts_bytes();
        budget.set(MemoryPart::Lanes, lanes as u64);
        budget.set(MemoryPart::Robots, self.bench.robots_bytes() as u64);
        budget.set(MemoryPart::Cookies, self.cookies.bytes() as u64);
    }

    /// Sets whether memory has no room for further hosts. Meanwhile links to unknown hosts are deferred, because the
    /// names of lanes cannot be moved to disk. If the frontier cannot defer links, they are skipped.
    pub fn set_full_of_hosts(&mut self, is_full: bool) {
        self.admission.is_full_of_hosts = is_full;
    }

    /// Number of links that are known and not settled, including those in flight.
    pub fn unfinished(&self) -> u64 {
        let counts = self.frontier.counts();
        counts.queued + counts.leased
    }

    /// Why the crawl is over; `None` if it continues.
    fn end_reason(&self) -> Option<End> {
        self.ending.reason(WorkLeft {
            is_on_workbench: self.bench.link_count() > 0,
            unfinished: self.unfinished(),
            deferred: if self.admission.is_full_of_hosts { self.frontier.counts().deferred } else { 0 },
            in_flight: self.bench.in_flight(),
            is_spent: self.bench.is_spent(),
        })
    }

    /// Applies the changes that other processes made to the frontier.
    fn apply_news(&mut self, now: Time) -> Result<(), StoreError> {
        let News { events, due } = self.frontier.news(now)?;
        self.waiting.news_due = due;
        for news in events {
            match news {
                FrontierNews::Work(lane) => {
                    self.waiting.stay(lane);
                    self.announce_lane(lane, now);
                }
                FrontierNews::TakenOver(lane) => {
                    self.waiting.stay(lane);
                    // Activation restores the note. A lane may be active without links, for the target of a redirect.
                    if self.bench.holds(lane) {
                        self.restore_lane(lane, now)?;
                    }
                    self.announce_lane(lane, now);
                }
                FrontierNews::Leaving(lane) => {
                    let in_flight = |lane| self.bench.lane(lane).is_some_and(|lane| lane.in_flight() > 0);
                    self.waiting.leave(lane, in_flight);
                    let links = self.bench.withdraw(lane, now).into_iter().map(reset_tries).collect();
                    self.frontier.give_back(links, ReturnTo::End)?;
                    self.report_left(lane)?;
                }
                FrontierNews::MaxPages => self.stop(End::MaxPages),
                FrontierNews::MaxBytes => self.stop(End::MaxBytes),
                FrontierNews::Hold(is_held) => self.bench.hold_for_share(is_held),
                FrontierNews::Rate(rate) => self.bench.set_rate(rate, now),
                FrontierNews::PerIp(limit) => self.bench.limit_addresses(limit),
            }
        }
        Ok(())
    }

    /// Tells the frontier that a lane which another process takes over has no request in flight, if so.
    fn report_left(&mut self, lane: LaneId) -> Result<(), StoreError> {
        let is_idle = self.bench.lane(lane).is_none_or(|lane| lane.in_flight() == 0);
        if is_idle && self.waiting.is_leaving(lane) { self.frontier.tell(CrawlEvent::Left(lane)) } else { Ok(()) }
    }

    /// Moves links from the frontier to the lanes that need more.
    fn refill_lanes(&mut self, now: Time) -> Result<(), StoreError> {
        for lane in self.bench.take_refills() {
            self.frontier.give_back(self.bench.take_outranked(lane), ReturnTo::OldPlace)?;
            let links = self.take_for_workbench(lane)?;
            let backlog = self.queued_in(lane);
            self.bench.add_links(lane, links, backlog, now);
        }
        Ok(())
    }

    /// How many links of a lane are queued in the frontier.
    fn queued_in(&self, lane: LaneId) -> u64 {
        self.frontier.lane(lane).map_or(0, |lane| lane.queued)
    }

    /// The host name of a lane.
    fn lane_name(&self, lane: LaneId) -> Option<&str> {
        self.frontier.lane(lane).map(|lane| lane.name)
    }

    /// Settles a visit: adds its links to the frontier, writes its record, and settles its link.
    fn settle(&mut self, mut visit: Box<Visit>, now: Time) -> Result<(), StoreError> {
        self.suspects.clear(&visit);
        for lane in self.admit(&mut visit, now)? {
            self.announce_lane(lane, now);
        }
        self.notes.count(&visit);
        if visit.was_counted_page() && !visit.is_fetched_page() {
            self.bench.give_back_page(now);
        }
        if let Some(link) = self.redirects.take_fallback(&visit, &self.rules) {
            self.put(vec![link], now)?;
        }
        // After a 304 response, `previous_record` is the page's record of the previous round.
        let (change, previous_record) = recrawl::compare(&mut self.frontier, &mut visit)?;
        if let Some(change) = change {
            self.notes.progress.changes.get_or_insert_default().count(change);
        }
        let edges = edges::edges_of(&mut visit, self.frontier.is_recrawl());
        let archived_body = previous_record.as_ref().and_then(CrawlRecord::archived_body);
        let (place, mut archive) = self.outbox.archive(&mut visit, archived_body).unzip();
        let mut line = Vec::with_capacity(512);
        let mut record = CrawlRecord::of(&visit, self.clock, self.rules.fingerprint_key, place.as_ref());
        // The record of a 304 response repeats the facts about the page.
        if let Some(previous_record) = previous_record {
            record.add_missing(previous_record);
        }
        record.change = change.map(|compared| compared.change);
        record.encode(&mut line);
        let (source, is_sitemap) = (&visit.link.url, visit.purpose == Purpose::Sitemap);
        let cut = visit.findings.links_cut;
        let settlement = Settlement {
            edges: edges.as_deref().map(|links| FoundEdges { source, is_sitemap, links, cut }),
            archive: place.as_ref().zip(archive.as_mut()),
            ..settlement_of(&visit, &line)
        };
        self.frontier.settle(&mut [settlement])?;
        for (url, reason) in visit.findings.skipped.iter().filter(|_| self.rules.log_skips) {
            CrawlRecord::of_skip(url, reason, visit.link.url.as_str()).encode(&mut line);
        }
        // The user of the library may add links in response to the page.
        self.ending.is_open |= self.ending.reopens_after_pages && visit.is_page();
        self.outbox.push(Settled { visit, line, archive, change });
        self.release_hosts(now)
    }

    /// Adds links from the user, from a sitemap, or to hosts that had to wait for a trap budget. Returns for each link
    /// whether it was new.
    pub fn put_all(&mut self, links: &[Link], now: Time) -> Result<Vec<bool>, StoreError> {
        let mut new = Vec::with_capacity(links.len());
        if links.iter().any(|link| link.request.as_ref().is_some_and(|request| request.priority != 0)) {
            self.bench.rank_links();
        }
        self.admission.lane_links.note(links);
        // In portions: the list of roots may be long.
        for portion in links.chunks(PUT_PORTION) {
            let put = put_all(&mut self.frontier, portion)?;
            for (link, placement) in portion.iter().zip(&put.placements) {
                if *placement != Placement::NotAdded {
                    self.admission.traps.admit_uncharged(link.url.host());
                }
                if let Placement::Queued(lane) = placement {
                    self.bench.rank_again(*lane, link.rank());
                }
            }
            for lane in &put.lanes {
                self.announce_lane(*lane, now);
            }
            new.extend(put.new);
        }
        Ok(new)
    }
}

/// What the frontier stores about a visit: the result of its link, or the record of a robots.txt, which is not a link of
/// the frontier.
fn settlement_of<'a>(visit: &'a Visit, line: &'a [u8]) -> Settlement<'a> {
    if !visit.purpose.is_in_frontier() {
        return Settlement::line(line);
    }
    let final_outcome = FinalOutcome {
        outcome: visit.facts.outcome,
        status: visit.facts.status,
        record: line.strip_suffix(b"\n").unwrap_or(line),
        is_fetched_page: visit.is_fetched_page(),
    };
    Settlement::of(&visit.link, final_outcome)
}

/// Resets the tries of a link that goes back to its queue, so that the run that takes it next counts it towards
/// `--max-pages`. A link keeps [`ALREADY_SENT`] if its request must not be sent twice.
fn reset_tries(link: Link) -> Link {
    let tries = if link.tries == ALREADY_SENT && !link.is_repeatable() { ALREADY_SENT } else { 0 };
    Link { tries, ..link }
}
