//! The thread that manages this process's share of the buckets: it acquires, renews and releases leases, leases links
//! in advance, and detects the end of the crawl.

mod balance;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use argiope_core::crawl::control::Control;
use argiope_core::crawl::schedule::frontier::FrontierNews;
use argiope_core::crawl::status::{FleetStatus, ProcessStatus};

use super::client::{BucketState, FleetClient, LeaseToken, TakeRequest};
use super::connection::Unreachable;
use super::crawl::{CrawlHead, FleetSettings, FleetState, MemberInfo, Members};
use super::orders::CrawlOrders;
use super::recall_thread::TakenLinks;
use super::shared::{FleetTotals, LeaseCommand, LeaseEvent, Shared};

/// How many links of a host are leased in advance.
const MAX_AHEAD_PER_HOST: usize = 64;
/// More links of a host are leased when fewer than this are left.
const LOW_WATERMARK: usize = 32;
/// How many links one take leases at most.
const MAX_LINKS_PER_TAKE: usize = 512;
/// How many links this process leases in advance in total.
const MAX_AHEAD: usize = 100_000;
/// How many pages a bucket gets from the page limit of the crawl at a time.
const QUOTA_PORTION: u64 = 8;
/// The interval of surveys, which read the state of all buckets and processes. It is shorter if leases are short.
const SURVEY_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum sleep of the thread.
const MAX_SLEEP: Duration = Duration::from_millis(200);

/// The rate of pages is an average over this time.
const RATE_WINDOW: Duration = Duration::from_secs(10);

/// Called with the state of the fleet after every survey, and with orders.
pub type FleetWatcher = Box<dyn Fn(FleetOrder) + Send>;

/// What the lease thread tells its process.
pub enum FleetOrder {
    Status(FleetStatus),
    /// A change that a user made for all processes.
    Control(Control),
    /// The time of the crawl is over.
    TimeIsOver,
}

/// The timing of leases.
#[derive(Clone, Copy, Debug)]
pub struct LeaseTimes {
    /// How long a lease lasts without a renewal.
    pub lease: Duration,
    pub renew_every: Duration,
}

impl Default for LeaseTimes {
    fn default() -> Self {
        Self { lease: Duration::from_secs(10), renew_every: Duration::from_secs(3) }
    }
}

impl LeaseTimes {
    fn lease_ms(self) -> u64 {
        self.lease.as_millis() as u64
    }

    fn survey_every(self) -> Duration {
        SURVEY_INTERVAL.min(self.lease / 4)
    }

    /// A process without a heartbeat for this long is considered dead. The time is less than a lease, so that the other
    /// processes divide its buckets as soon as they are free.
    fn heartbeat_timeout(self) -> Duration {
        self.lease * 3 / 4
    }
}

/// The state of the lease thread.
pub struct LeaseThread {
    pub client: FleetClient,
    pub shared: Arc<Shared>,
    /// The settings with the limits that were changed since.
    pub settings: FleetSettings,
    /// The settings of the process that began the crawl.
    first_settings: FleetSettings,
    /// The orders of the crawl that this process has followed.
    orders: CrawlOrders,
    /// Whether the process was told that the time is over.
    is_out_of_time: bool,
    /// The generation of the crawl: see [`CrawlHead`].
    generation: String,
    /// Whether each bucket had an owner in an earlier survey.
    had_owner: Vec<bool>,
    pub times: LeaseTimes,
    /// The buckets that this process has leased.
    held: BTreeMap<u32, LeasedBucket>,
    /// The number of links that are leased in advance, in all buckets.
    ahead: usize,
    last_renewal: Instant,
    last_survey: Option<Instant>,
    /// The previous survey, if it looked like the end of the crawl.
    possible_end: Option<Vec<BucketState>>,
    /// Since when the store does not answer; `None` if it answers.
    outage_since: Option<Instant>,
    /// Whether the end of the crawl was detected.
    is_over: bool,
    /// Whether the user was warned that a node has no replica.
    warned_single_copy: bool,
    /// The time of the first heartbeat that other processes could see.
    first_heartbeat: Option<Instant>,
    /// The number of processes among which the limits were last divided; 0 before that.
    divided_among: usize,
    /// The processes that took buckets at the last survey, and when they changed.
    takers: (Vec<String>, Instant),
    /// Since when this process has much more work than the mean.
    uneven_since: Option<Instant>,
    /// Since when each bucket with work has no owner.
    free_since: Vec<Option<Instant>>,
    /// Limit on requests in flight to one IP address, used if the settings of the crawl contain none.
    default_per_ip: Option<usize>,
    /// Times of the last heartbeats, and how many pages had been fetched then.
    page_samples: VecDeque<(Instant, u64)>,
    watcher: FleetWatcher,
    /// The queue of the recall thread, in a recrawl: it adds the previous records to the links.
    to_recall: Option<Sender<TakenLinks>>,
}

/// A bucket that this process has leased.
struct LeasedBucket {
    epoch: u64,
    /// The sequence number of the last take that was answered.
    takes: u64,
    /// Hosts with links that are leased in advance or still queued.
    hosts: HashMap<Box<str>, HostLeases>,
    /// The number of links that are queued in the store.
    queued: u64,
    /// Whether the next call of [`LeaseThread::take`] leases links, because more are queued.
    should_take: bool,
    /// The hosts of which the keeper holds links, or links are leased in advance or known to be queued.
    busy_hosts: u64,
    /// Whether the bucket is being released.
    is_leaving: bool,
    /// How many more pages may be leased, if there is a limit on pages.
    quota: Option<u64>,
}

/// The links of a host that were leased in advance, and the number left in the store.
#[derive(Default)]
struct HostLeases {
    /// The number of leased links that the keeper has not taken yet.
    leased: usize,
    /// The number of links that are still queued in the store.
    queued: u64,
}

impl LeaseThread {
    pub fn new(
        client: FleetClient,
        shared: Arc<Shared>,
        (settings, generation): (FleetSettings, String),
        times: LeaseTimes,
        to_recall: Option<Sender<TakenLinks>>,
        // One parameter, because clippy limits their number.
        (default_per_ip, watcher): (Option<usize>, FleetWatcher),
    ) -> Self {
        Self {
            client,
            shared,
            had_owner: vec![false; settings.buckets as usize],
            free_since: vec![None; settings.buckets as usize],
            first_settings: settings.clone(),
            settings,
            orders: CrawlOrders::default(),
            is_out_of_time: false,
            generation,
            times,
            held: BTreeMap::new(),
            ahead: 0,
            last_renewal: Instant::now(),
            last_survey: None,
            possible_end: None,
            outage_since: None,
            is_over: false,
            warned_single_copy: false,
            first_heartbeat: None,
            divided_among: 0,
            takers: (Vec::new(), Instant::now()),
            uneven_since: None,
            default_per_ip,
            page_samples: VecDeque::new(),
            watcher,
            to_recall,
        }
    }

    /// The loop of the thread. Ends with a command, or when the lease is lost.
    pub fn run(mut self, commands: &Receiver<LeaseCommand>) {
        loop {
            let mut next = match commands.recv_timeout(MAX_SLEEP) {
                Ok(command) => Some(command),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            while let Some(command) = next {
                match command {
                    LeaseCommand::Abandon => return,
                    LeaseCommand::Close => {
                        self.close();
                        return;
                    }
                    other => self.receive(other),
                }
                next = commands.try_recv().ok();
            }
            if self.shared.has_lease_ended() {
                self.shared.send_event(LeaseEvent::Lost("the lease on this process's hosts has ended".into()));
                return;
            }
            match self.work() {
                Ok(()) => self.report_answer(),
                Err(fault) if fault.is_final => {
                    self.shared.send_event(LeaseEvent::Lost(fault.message));
                    return;
                }
                Err(fault) => self.report_outage(&fault),
            }
        }
    }

    /// Called when the store has answered. Notifies the user of the end of an outage, and of nodes without a replica.
    fn report_answer(&mut self) {
        if self.outage_since.take().is_some() {
            self.shared.notify_user("the store answers again");
        }
        let has_single_copy = self.client.nodes.single_copy;
        if has_single_copy && !self.warned_single_copy && self.client.nodes.is_cluster() {
            self.shared.notify_user("a node of the store has no replica: its writes are on one node only");
        }
        self.warned_single_copy = has_single_copy;
    }

    /// Called when the store has not answered. Notifies the user once for each outage.
    fn report_outage(&mut self, fault: &Unreachable) {
        if self.outage_since.is_none() {
            let message =
                format!("the store does not answer ({}): no request starts once the lease has ended", fault.message);
            self.shared.notify_user(&message);
        }
        self.outage_since.get_or_insert_with(Instant::now);
    }

    /// Applies a command other than those that end the thread.
    fn receive(&mut self, command: LeaseCommand) {
        match command {
            LeaseCommand::Consumed { bucket, host, count } => {
                let Some(held) = self.held.get_mut(&bucket) else { return };
                let Some(leases) = held.hosts.get_mut(&host) else { return };
                leases.leased = leases.leased.saturating_sub(count);
                self.ahead = self.ahead.saturating_sub(count);
                held.should_take |= leases.leased < LOW_WATERMARK && leases.queued > 0;
            }
            LeaseCommand::Busy { bucket, is_busy } => {
                if let Some(held) = self.held.get_mut(&bucket) {
                    held.busy_hosts = held.busy_hosts.saturating_add_signed(if is_busy { 1 } else { -1 });
                }
            }
            LeaseCommand::Queued { bucket, queued } => {
                if let Some(held) = self.held.get_mut(&bucket) {
                    held.set_queued(queued);
                }
            }
            LeaseCommand::Release { bucket } => {
                if let Some(held) = self.held.remove(&bucket) {
                    self.ahead = self.ahead.saturating_sub(held.hosts.values().map(|host| host.leased).sum());
                    // If the release fails, the bucket becomes free when its lease expires.
                    let _ = self.client.release(&[LeaseToken { bucket, epoch: held.epoch }]);
                }
            }
            LeaseCommand::Close | LeaseCommand::Abandon => {}
        }
    }

    /// Does everything that is due: renewal, leasing of links, survey.
    fn work(&mut self) -> Result<(), Unreachable> {
        if self.last_renewal.elapsed() >= self.times.renew_every {
            self.renew()?;
        }
        self.take()?;
        if self.last_survey.is_none_or(|last| last.elapsed() >= self.times.survey_every()) {
            self.survey()?;
            self.last_survey = Some(Instant::now());
            self.take()?;
        }
        Ok(())
    }

    /// Renews all leases. For this process a lease starts before the renewal is sent, so it ends earlier here than in
    /// the store.
    fn renew(&mut self) -> Result<(), Unreachable> {
        let (sent_at, lease_start) = (Instant::now(), (self.shared.now)());
        let leases = self.held.iter();
        let leases: Vec<_> = leases
            .map(|(bucket, held)| (LeaseToken { bucket: *bucket, epoch: held.epoch }, held.hosts_with_work()))
            .collect();
        let renewed = self.client.renew(&leases, self.times.lease_ms())?;
        if renewed.iter().all(|is_renewed| *is_renewed) {
            self.shared.lease.renew(lease_start + self.times.lease, (self.shared.now)());
            self.last_renewal = sent_at;
        } else {
            self.shared
                .send_event(LeaseEvent::Lost("another process has taken over some of this process's hosts".into()));
        }
        Ok(())
    }

    /// Leases links in advance, for hosts that have few left.
    fn take(&mut self) -> Result<(), Unreachable> {
        if self.ahead >= MAX_AHEAD || self.shared.stalled.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut requests = Vec::new();
        for (bucket, held) in &mut self.held {
            if !std::mem::take(&mut held.should_take) || held.is_leaving {
                continue;
            }
            if self.settings.max_pages.is_some() && held.quota == Some(0) {
                held.quota = Some(self.client.grant(*bucket, QUOTA_PORTION)?);
            }
            let token = LeaseToken { bucket: *bucket, epoch: held.epoch };
            // A host with enough links is named too, with a limit of 0. Otherwise it would count as another host.
            let hosts = held.hosts.iter().map(|(host, leases)| {
                (host.clone(), if leases.leased < LOW_WATERMARK { MAX_AHEAD_PER_HOST - leases.leased } else { 0 })
            });
            requests.push(TakeRequest {
                token,
                sequence: held.takes + 1,
                max_links: MAX_LINKS_PER_TAKE,
                max_per_other_host: MAX_AHEAD_PER_HOST,
                hosts: hosts.collect(),
            });
        }
        if requests.is_empty() {
            return Ok(());
        }
        // If this fails, the same numbers are requested again, and the store returns the links that were already
        // leased.
        let results = self.client.take(&requests).inspect_err(|_| {
            for request in &requests {
                self.held.entry(request.token.bucket).and_modify(|held| held.should_take = true);
            }
        })?;
        let at = (self.shared.now)();
        for (request, result) in requests.iter().zip(results) {
            let bucket = request.token.bucket;
            let (Some(result), Some(held)) = (result, self.held.get_mut(&bucket)) else {
                self.shared.send_event(LeaseEvent::Lost(format!("another process has taken over bucket {bucket}")));
                return Ok(());
            };
            held.takes = request.sequence;
            held.queued = result.queued;
            held.quota = result.quota;
            // If the limit of the take was reached, there may be more links.
            let count: usize = result.hosts.iter().map(|host| host.links.len()).sum();
            held.should_take |= count >= MAX_LINKS_PER_TAKE;
            held.hosts.retain(|_, leases| leases.leased > 0 || leases.queued > 0);
            for host in result.hosts {
                let leases = held.hosts.entry(host.host.clone()).or_default();
                leases.leased += host.links.len();
                leases.queued = host.left;
                self.ahead += host.links.len();
                let epoch = held.epoch;
                match &self.to_recall {
                    // This fails only if the recall thread has ended, and then the session ends too.
                    Some(recall) => drop(recall.send(TakenLinks { bucket, epoch, host, at })),
                    None => self.shared.send_event(LeaseEvent::Taken { bucket, epoch, host, at, earlier: Vec::new() }),
                }
            }
        }
        Ok(())
    }

    /// Reads the state of all buckets and processes, then acquires and releases buckets and checks for the end of the
    /// crawl.
    fn survey(&mut self) -> Result<(), Unreachable> {
        // Before anything is written: a store that was emptied must not get a part of the crawl again.
        let head = CrawlHead::read_of(&mut self.client, &self.generation)?;
        self.follow(head.orders);
        let info = self.heartbeat_info();
        // Read before the buckets are: bytes that are settled in between lower the limit below, and do not raise it.
        let settled_bytes = self.shared.settled_bytes.load(Ordering::Acquire);
        let members = Members::heartbeat(&mut self.client, info, self.times.heartbeat_timeout())?;
        let joined_at = *self.first_heartbeat.get_or_insert_with(Instant::now);
        let states = self.client.survey(self.settings.buckets)?;
        self.check_for_loss(&states)?;
        let sum = |field: fn(&BucketState) -> u64| states.iter().map(field).sum::<u64>();
        let totals = FleetTotals {
            known: sum(|state| state.known),
            queued: sum(|state| state.queued),
            leased: sum(|state| state.leased),
            settled: sum(|state| state.settled),
            processes: members.live as u64,
        };
        self.shared.send_event(LeaseEvent::Totals(totals));
        (self.watcher)(FleetOrder::Status(self.status(&states, &members, totals)));
        let age = Duration::from_millis(members.now_ms.saturating_sub(self.settings.created));
        if self.settings.time_left(age).is_some_and(|left| left.is_zero())
            && !std::mem::replace(&mut self.is_out_of_time, true)
        {
            (self.watcher)(FleetOrder::TimeIsOver);
        }
        if let Some(max_bytes) = self.settings.max_bytes {
            // The remaining bytes are divided equally. They include bytes that this process has received but not
            // settled.
            let share = max_bytes.saturating_sub(sum(|state| state.bytes)).div_ceil(members.live as u64);
            self.shared.send_event(LeaseEvent::MaxReceived(settled_bytes.saturating_add(share)));
        }
        for (bucket, held) in &mut self.held {
            if let Some(state) = states.get(*bucket as usize) {
                held.set_queued(state.queued);
                if self.settings.max_pages.is_some() && state.queued == 0 && state.leased == 0 {
                    self.client.refund(LeaseToken { bucket: *bucket, epoch: held.epoch })?;
                }
            }
        }
        if !self.is_over {
            self.check_for_end(states.clone())?;
        }
        // The limits on pages per second and on requests to one IP address are divided equally. A new process takes
        // hosts only after the other processes have read its heartbeat and lowered their own limits.
        let FleetSettings { rate, per_ip, max_bytes, .. } = self.settings;
        if rate.is_some() || per_ip.or(self.default_per_ip.map(|limit| limit as u64)).is_some() || max_bytes.is_some() {
            if members.live > 1 && joined_at.elapsed() < self.times.survey_every() * 2 {
                return Ok(());
            }
            let divided_before = std::mem::replace(&mut self.divided_among, members.live);
            if divided_before != members.live {
                self.send_shares(rate, per_ip, members.live);
            }
            // Hosts are released one survey after the shares were lowered. By then, most requests above the new share
            // have ended, and the other processes have lowered their shares too.
            if (1..members.live).contains(&divided_before) {
                return Ok(());
            }
        }
        if !self.is_over {
            self.balance(&states, &members)?;
        }
        Ok(())
    }

    /// Follows orders that are new.
    fn follow(&mut self, orders: CrawlOrders) {
        if orders == self.orders {
            return;
        }
        for control in orders.controls_since(&self.orders) {
            (self.watcher)(FleetOrder::Control(control));
        }
        let had_rate = self.settings.rate.is_some();
        self.settings = self.first_settings.with_orders(&orders);
        if had_rate && self.settings.rate.is_none() {
            self.shared.send_event(LeaseEvent::Rate(None));
        }
        // The limits are divided again.
        self.divided_among = 0;
        self.orders = orders;
    }

    /// Returns an error if a bucket that had an owner is not in the store any more: a node has lost its data.
    fn check_for_loss(&mut self, states: &[BucketState]) -> Result<(), Unreachable> {
        let mut is_lost = false;
        for (had_owner, state) in self.had_owner.iter_mut().zip(states) {
            is_lost |= *had_owner && state.epoch == 0;
            *had_owner |= state.epoch > 0;
        }
        // The buckets of a round that is over are removed when the next round begins.
        match is_lost && !CrawlHead::read(&mut self.client)?.state.is_over() {
            true => Err(Unreachable::lost()),
            false => Ok(()),
        }
    }

    /// Sends this process's share of the limits to the keeper.
    fn send_shares(&self, rate: Option<f64>, per_ip: Option<u64>, live: usize) {
        let active = self.active_processes(live);
        if let Some(rate) = rate {
            self.shared.send_event(LeaseEvent::Rate(Some(rate / active as f64)));
        }
        let limit = per_ip.map_or(self.default_per_ip, |limit| usize::try_from(limit).ok());
        if let Some(limit) = limit {
            self.shared.send_event(LeaseEvent::PerIp((limit / active).max(1)));
        }
    }

    /// What the heartbeat of this process contains.
    fn heartbeat_info(&mut self) -> MemberInfo {
        let (now, pages) = (Instant::now(), self.shared.pages.load(Ordering::Relaxed));
        while self.page_samples.front().is_some_and(|(at, _)| now.duration_since(*at) > RATE_WINDOW)
            && self.page_samples.len() > 1
        {
            self.page_samples.pop_front();
        }
        // After a very short time, the rate would be meaningless. So the time counts as at least 0.1 seconds.
        let pages_per_second = self
            .page_samples
            .front()
            .map_or(0.0, |(at, before)| (pages - before) as f64 / now.duration_since(*at).as_secs_f64().max(0.1));
        self.page_samples.push_back((now, pages));
        let (resting, longest_rest) = self.shared.hosts_in_backoff();
        MemberInfo {
            buckets: self.held.len(),
            pages_per_second: (pages_per_second * 10.0).round() / 10.0,
            pages,
            lease_ms: (self.times.lease.saturating_sub(self.last_renewal.elapsed())).as_millis() as u64,
            hosts: self.held.values().map(|held| held.hosts_with_work() as usize).sum(),
            backlog: self.shared.outgoing().settled.len() as u64 + self.shared.unsettled.load(Ordering::Relaxed),
            resting,
            longest_rest,
            stalled: self.shared.stall(),
            ..MemberInfo::new(self.client.owner())
        }
    }

    /// The fleet as the dashboard shows it.
    fn status(&self, states: &[BucketState], members: &Members, totals: FleetTotals) -> FleetStatus {
        let processes = members.all.iter().map(|member| ProcessStatus {
            id: member.id.as_str().into(),
            is_this: member.id == self.client.owner(),
            buckets: member.buckets as u64,
            pages: member.pages,
            pages_per_second: if members.is_live(member) { member.pages_per_second } else { 0.0 },
            silent_seconds: members.now_ms.saturating_sub(member.at) as f64 / 1_000.0,
            resting: member.resting as u64,
            stalled: member.stalled.as_deref().map(Into::into),
        });
        let is_free = |state: &&BucketState| state.owner.is_empty() || state.until <= members.now_ms;
        FleetStatus {
            round: self.settings.round,
            buckets: u64::from(self.settings.buckets),
            free_buckets: states.iter().filter(is_free).count() as u64,
            known: totals.known,
            queued: totals.queued,
            leased: totals.leased,
            settled: totals.settled,
            // A process that has sent no heartbeat for a while fetches nothing.
            pages_per_second: members.live().map(|member| member.pages_per_second).sum(),
            processes: processes.collect(),
        }
    }

    /// How many of the processes take hosts. With a limit of n requests to one IP address, at most n processes do, and
    /// the others stand by.
    fn active_processes(&self, live: usize) -> usize {
        let limit = self.settings.per_ip.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        live.min(limit).max(1)
    }

    /// Checks whether the crawl has ended: two surveys found nothing queued or leased, no links were added in between,
    /// and all writes before the second survey are replicated. The crawl also ends when it has reached its limit on
    /// pages or bytes.
    fn check_for_end(&mut self, states: Vec<BucketState>) -> Result<(), Unreachable> {
        let FleetSettings { max_pages, max_bytes, .. } = self.settings;
        let pages = |states: &[BucketState]| states.iter().map(|state| state.pages).sum::<u64>();
        let bytes = |states: &[BucketState]| states.iter().map(|state| state.bytes).sum::<u64>();
        let is_empty = |states: &[BucketState]| states.iter().all(|state| state.queued == 0 && state.leased == 0);
        let has_max_pages = |states: &[BucketState]| max_pages.is_some_and(|limit| pages(states) >= limit);
        let has_max_bytes = |states: &[BucketState]| max_bytes.is_some_and(|limit| bytes(states) >= limit);
        let is_limit_reached = |states: &[BucketState]| has_max_pages(states) || has_max_bytes(states);
        if !is_empty(&states) && !is_limit_reached(&states) {
            self.possible_end = None;
            return Ok(());
        }
        let Some(first) = self.possible_end.replace(states) else { return Ok(()) };
        let second = self.client.confirm(self.settings.buckets)?;
        let has_no_new_links = first.iter().zip(&second).all(|(first, second)| first.known == second.known);
        let is_at_limit = is_limit_reached(&second) && !is_empty(&second);
        if is_at_limit || (has_no_new_links && is_empty(&second)) {
            let (state, limit) = match is_at_limit {
                true if has_max_pages(&second) => (FleetState::MaxPages, Some(FrontierNews::MaxPages)),
                true => (FleetState::MaxBytes, Some(FrontierNews::MaxBytes)),
                false => (FleetState::Finished, None),
            };
            state.set(&mut self.client)?;
            self.is_over = true;
            self.shared.send_event(LeaseEvent::Over(limit));
        }
        Ok(())
    }

    /// Releases all buckets, so that other processes can continue at once.
    fn close(&mut self) {
        let tokens: Vec<LeaseToken> =
            self.held.iter().map(|(bucket, held)| LeaseToken { bucket: *bucket, epoch: held.epoch }).collect();
        // Leases that could not be released expire.
        let _ = self.client.release(&tokens);
        let _ = Members::leave(&mut self.client);
    }
}

impl LeasedBucket {
    /// The number of hosts with work, as far as it is known.
    fn hosts_with_work(&self) -> u64 {
        self.busy_hosts.max(u64::from(self.queued > 0))
    }

    /// Updates the number of queued links, and whether more can be leased.
    fn set_queued(&mut self, queued: u64) {
        self.queued = queued;
        // If more links are queued than these hosts have, there are queued links of other hosts.
        let known: u64 = self.hosts.values().map(|host| host.queued).sum();
        let is_low = self.hosts.values().any(|host| host.leased < LOW_WATERMARK && host.queued > 0);
        self.should_take |= queued > known || (queued > 0 && is_low);
    }
}
