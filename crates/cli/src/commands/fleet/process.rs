//! One process of a fleet: it joins the crawl, crawls its share of the hosts, and joins again if it loses its lease.

use std::cell::RefCell;
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};

use argiope_core::crawl::lease::Lease;
use argiope_core::crawl::rules::{ProgramSettings, RenderMode, Root, Rules};
use argiope_core::crawl::schedule::frontier::StoreErrorKind;
use argiope_core::crawl::schedule::keeper::End;
use argiope_core::crawl::warc::segment_start;
use argiope_core::{Link, LinkRef, Time};
use argiope_fleet::cluster::{
    CrawlHead, CrawlRound, FleetClient, FleetOrder, FleetSession, FleetSettings, FleetState, LeaseTimes, QueuedLink,
    RequeueError, SessionSetup, bucket_of, requeue,
};
use argiope_fleet::segments::SegmentStore;
use argiope_runtime::Error;
use argiope_runtime::fetchers::Fetchers;
use argiope_runtime::keeper_thread::{Clock, Inbox, KeeperHandle, KeeperMessage, wall_clock};
use argiope_runtime::writer_thread::OutputTarget;
use signal_hook::iterator::Signals;

use super::control::change_crawl;
use super::rounds::{join_round, open_results};
use super::settings::{change_limits, join_settings, joined_config, lost_crawl, named_roots, unused_secret};
use super::{FleetCommandError, RETRY_PAUSE, connect, finish, login};
use crate::commands::USAGE;
use crate::commands::crawl::{self as local_crawl, CrawlParts};
use crate::commands::crawl_control::{FleetControl, SharedFleet};
use crate::commands::interrupt::Interrupt;
use crate::flags::config_file::UsageError;
use crate::flags::settings::{CommandSettings, MessageSettings};
use crate::report::CrawlReport;
use crate::results::Results;
use crate::screen::live::LivePrinter;
use crate::wording;

/// Checks the flags, and takes part in a crawl that other processes share.
pub fn crawl(settings: &CommandSettings) -> Result<ExitCode, UsageError> {
    let CommandSettings { crawl: config, io, messages, fleet: flags, notes: _ } = settings;
    let address = flags.frontier.as_deref().unwrap_or_default();
    let name = flags.name.clone().unwrap_or_default();
    if config.out.is_none() {
        let why = "--frontier needs --out, the folder or s3://BUCKET/PREFIX for the results of all processes";
        return Err(UsageError(why.into()));
    }
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
        return Err(UsageError("--name: letters, digits, '-', '_' and '.' only".into()));
    }
    for (is_set, flag) in [
        (config.jsonl.is_some(), "--jsonl"),
        (io.csv.is_some(), "--csv"),
        (io.raw_csv, "--raw-csv"),
        // The results of a fleet are segments without common positions: merge them, then export with --to.
        (io.to.is_some(), "--to"),
        (config.fresh, "--fresh"),
        // Only the output of `--jsonl` has these records.
        (config.log_skips, "--log-skips"),
    ] {
        if is_set {
            return Err(UsageError(format!("{flag} is not supported together with --frontier")));
        }
    }
    if config.max_disk.is_some() {
        let why = "--max-disk limits the size of a crawl directory; with --frontier, results go to a shared folder or to \
                     object storage, which have quotas of their own. --max-bytes limits what all processes receive";
        return Err(UsageError(why.into()));
    }
    if config.render != RenderMode::Never {
        let why = "--render is not supported together with --frontier: a rendered page sends requests to hosts that other \
                   processes own, and their pace would not hold. Crawl with one process to render pages";
        return Err(UsageError(why.into()));
    }
    match crawl_in_fleet(settings, address, &name) {
        Ok(code) => Ok(code),
        Err(FleetCommandError::Failed(why) | FleetCommandError::Unreachable(why)) => {
            Ok(local_crawl::fail(*messages, &why))
        }
        Err(FleetCommandError::Interrupted(code)) => Ok(ExitCode::from(code)),
        Err(FleetCommandError::Usage(why)) => {
            local_crawl::fail(*messages, &why);
            Ok(ExitCode::from(USAGE))
        }
    }
}

/// Joins the shared crawl and runs sessions until the crawl ends or a signal arrives.
fn crawl_in_fleet(own_settings: &CommandSettings, address: &str, name: &str) -> Result<ExitCode, FleetCommandError> {
    let CommandSettings { crawl: config, messages, fleet: flags, .. } = own_settings;
    let address = &login::address_with_password(address, flags.frontier_password_file.as_deref())?;
    let ca_cert = config.ca_cert.as_deref().filter(|_| address.starts_with("rediss://"));
    // 48 random bits: the identity of this process in the store.
    let owner = format!("{:012x}", argiope_runtime::unpredictable() >> 16);
    let client = connect(address, name, &owner, ca_cert)?;
    let mut client = join_round(own_settings, client, name)?;
    // From here on, the process may wait for other processes, and a signal must end the wait.
    let mut signals = Interrupt::listen()
        .map_err(|error| FleetCommandError::Failed(format!("signals could not be watched: {error}")))?;
    // The shared settings of the first process apply to all processes. Everything else comes from this process.
    let first_settings = join_settings(own_settings, &mut client, name, || Interrupt::pending_exit_code(&mut signals))?;
    let shared = CommandSettings { crawl: joined_config(config, &first_settings)?, ..own_settings.clone() };
    let named_roots = named_roots(config, &shared.crawl)?;
    // After all other checks, because this changes the crawl for all processes.
    change_limits(config, &first_settings, &mut client, name)?;
    if let Some(flag) = unused_secret(config) {
        let why =
            "is sent only to roots that this process names, and it names none: give it the roots of the crawl too";
        local_crawl::print_message(*messages, "WARNING", &format!("{flag} {why}"));
    }
    let segments = open_results(name, &first_settings)?;
    let generation = CrawlHead::read(&mut client)?.generation;
    let signals = RefCell::new(signals);
    let participant = Participant {
        shared: &shared,
        named_roots,
        address,
        name,
        owner: &owner,
        ca_cert,
        settings: &first_settings,
        generation,
        signals: &signals,
    };
    let (mut sessions, mut is_waiting) = (0, false);
    loop {
        match participant.run_next_session(&mut client, &segments, flags.lease_times(), &mut sessions) {
            Ok(Some(code)) => return Ok(code),
            Ok(None) => is_waiting = false,
            // A process that has started a session waits for the store without a time limit.
            Err(FleetCommandError::Unreachable(why)) if sessions > 0 => {
                if !std::mem::replace(&mut is_waiting, true) {
                    local_crawl::print_message(*messages, "note", &format!("{why}; waiting until it responds"));
                }
            }
            Err(error) => return Err(error),
        }
        if let Some(code) = Interrupt::pending_exit_code(&mut signals.borrow_mut()) {
            return Ok(ExitCode::from(code));
        }
        std::thread::sleep(RETRY_PAUSE);
    }
}

/// What all sessions of this process have in common. A session lasts from joining the crawl until the crawl ends or the
/// lease is lost.
struct Participant<'a> {
    /// The settings of the shared crawl, with the settings for input, output and messages of this process.
    shared: &'a CommandSettings,
    /// The roots that the user of this process has named.
    named_roots: Vec<Root>,
    address: &'a str,
    name: &'a str,
    /// The identity of this process in the store.
    owner: &'a str,
    ca_cert: Option<&'a Path>,
    /// The settings of the process that began the crawl, without later changes.
    settings: &'a FleetSettings,
    /// The generation of the crawl when this process joined it.
    generation: String,
    /// Signals that arrive between sessions.
    signals: &'a RefCell<Signals>,
}

/// The inbox of a keeper that may not have started yet.
#[derive(Default)]
struct KeeperInbox(Mutex<(Option<Inbox>, Vec<KeeperMessage>)>);

impl KeeperInbox {
    /// Delivers the messages that were sent before the keeper started.
    fn connect(&self, inbox: &Inbox) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for message in std::mem::take(&mut state.1) {
            // An error means that the keeper has ended.
            let _ = inbox.send(message);
        }
        state.0 = Some(inbox.clone());
    }

    fn send(&self, message: KeeperMessage) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &state.0 {
            Some(inbox) => drop(inbox.send(message)),
            None => state.1.push(message),
        }
    }
}

/// How a session ended.
enum SessionEnd {
    /// The crawl is over, or the user or a limit stopped this process.
    Exit(ExitCode),
    /// Other processes own the hosts now; this one can join again.
    LeaseLost(Error),
    Failed(Error),
}

impl Participant<'_> {
    /// Runs one session unless the crawl is over. Returns the exit code, or `None` if the lease was lost and the process
    /// must join again. `sessions` is the number of sessions that have started.
    fn run_next_session(
        &self,
        client: &mut FleetClient,
        segments: &SegmentStore,
        lease_times: LeaseTimes,
        sessions: &mut u64,
    ) -> Result<Option<ExitCode>, FleetCommandError> {
        let Participant { shared, settings, name, .. } = self;
        let head = CrawlHead::read(client)?;
        if head.generation != self.generation {
            return Err(FleetCommandError::Failed(lost_crawl(name, &settings.out)));
        }
        if head.state == FleetState::Restoring {
            return Ok(None);
        }
        // A crawl that was stopped, or is out of time, has ended when no process takes part in it any more.
        FleetState::end_after_last(client, settings, lease_times.lease)?;
        let head = CrawlHead::read(client)?;
        let state = head.state;
        if state.is_over() {
            finish(client, settings, segments)?;
            let end = match state {
                FleetState::MaxPages => "at its limit of pages",
                FleetState::MaxBytes => "at its limit of bytes",
                FleetState::MaxTime => "at its limit of time",
                FleetState::Stopped => "stopped; argiope ctl ADDRESS --name NAME resume continues it",
                _ => "finished",
            };
            local_crawl::print_line(
                shared.messages,
                &format!("{name}: this crawl is {end}; argiope report {}", settings.out),
            );
            return self.final_exit_code(local_crawl::unreported_state_code).map(Some);
        }
        let age = settings.age(client)?;
        if FleetState::end_without_processes(&head, settings, age).is_some() {
            let why = "this crawl is stopped or at its limit of time; other processes finish their requests";
            local_crawl::print_line(shared.messages, &format!("{name}: {why}"));
            return Ok(Some(ExitCode::SUCCESS));
        }
        segments.begin_leg(head.leg).map_err(|error| FleetCommandError::Failed(format!("{segments}: {error}")))?;
        let number = *sessions + 1;
        match self.run_session(segments.clone(), lease_times, number, sessions)? {
            SessionEnd::Exit(code) => {
                FleetState::end_after_last(client, settings, lease_times.lease)?;
                if matches!(FleetState::read(client)?, FleetState::MaxTime | FleetState::Stopped) {
                    finish(client, settings, segments)?;
                    return Ok(Some(code));
                }
                if FleetState::read(client)?.is_over() {
                    finish(client, settings, segments)?;
                    return self.final_exit_code(local_crawl::state_code).map(Some);
                }
                Ok(Some(code))
            }
            SessionEnd::LeaseLost(error) => {
                // As after a crash, everything that this process has not settled is dropped. Other processes fetch it again.
                local_crawl::print_message(shared.messages, "note", &format!("{error}; joining again"));
                Ok(None)
            }
            SessionEnd::Failed(error) => Ok(Some(local_crawl::fail_with(shared.messages, &error))),
        }
    }

    /// Queues the URLs of the round if no process has queued them. Returns the exit code if a signal interrupted that.
    fn begin_round(
        &self,
        client: &mut FleetClient,
        segments: &SegmentStore,
        rules: &Rules,
    ) -> Result<Option<ExitCode>, FleetCommandError> {
        let settings = self.settings;
        if FleetState::read(client)? != FleetState::Created {
            return Ok(None);
        }
        if settings.round > 1 {
            return self.requeue(client, segments);
        }
        let roots = rules.roots.iter().filter_map(|root| root.candidates.first());
        let batches = roots.map(|url| {
            let link = Link::root(url.clone(), rules.max_redirects);
            let bucket = bucket_of(url.host(), settings.buckets);
            (bucket, vec![QueuedLink::new(LinkRef::from(&link), settings.key)])
        });
        client.put(&batches.collect::<Vec<_>>())?;
        FleetState::set_running(client)?;
        Ok(None)
    }

    /// Begins the round. Then runs the session with the number `session`, and stores this number in `sessions` when the
    /// session starts.
    fn run_session(
        &self,
        segments: SegmentStore,
        lease_times: LeaseTimes,
        session: u64,
        sessions: &mut u64,
    ) -> Result<SessionEnd, FleetCommandError> {
        let Participant { shared, settings, .. } = self;
        // The clock starts at zero.
        let lease = Lease::until(Time::ZERO + lease_times.lease);
        let named_roots = Some(self.named_roots.clone());
        let program = ProgramSettings { lease, archive_segments: true, named_roots, ..ProgramSettings::default() };
        let rules = shared.rules(program).map_err(|error| FleetCommandError::Usage(error.to_string()))?;
        let rules = rules.with_fingerprint_key(settings.key);
        // A fleet does not render.
        let fetchers = Fetchers::engine(rules.engine);
        let mut client = self.client()?;
        if let Some(code) = self.begin_round(&mut client, &segments, &rules)? {
            return Ok(SessionEnd::Exit(code));
        }
        let clock = Clock::start();
        let archive_rules = Arc::new(rules.clone());
        let messages = shared.messages;
        let printer = LivePrinter::default();
        let notice_printer = printer.clone();
        let fleet = SharedFleet::with_control(self.control());
        let watched_fleet = fleet.clone();
        let keeper_inbox = Arc::new(KeeperInbox::default());
        let orders_inbox = Arc::clone(&keeper_inbox);
        let setup = SessionSetup {
            clients: [client, self.client()?],
            settings: (*settings).clone(),
            generation: self.generation.clone(),
            segments,
            times: lease_times,
            session,
            now: Box::new(move || clock.now()),
            wall: wall_clock(&clock),
            lease: rules.lease.clone(),
            notice: Box::new(move |message| {
                if !messages.quiet {
                    notice_printer.print_line(local_crawl::format_message(messages, "note", message));
                }
            }),
            archive_start: Box::new(move |file| {
                segment_start(&archive_rules, &wall_clock(&clock).text(clock.now()), file)
            }),
            default_per_ip: rules.per_ip,
            watcher: Box::new(move |order| match order {
                FleetOrder::Status(status) => watched_fleet.set_status(status),
                // Nobody waits for the verdict: the pattern of an exclude was checked when it was added.
                FleetOrder::Control(control) => orders_inbox.send(KeeperMessage::Control(control, channel().0)),
                FleetOrder::TimeIsOver => orders_inbox.send(KeeperMessage::Stop(End::MaxTime)),
            }),
        };
        *sessions = session;
        let (session, frontier) = FleetSession::start(setup).map_err(|error| {
            FleetCommandError::Failed(format!("the threads of the fleet could not be started: {error}"))
        })?;
        let parts = CrawlParts {
            frontier,
            fetchers,
            target: OutputTarget::default(),
            output: None,
            directory: None,
            name: self.name.to_owned(),
            settled_before: 0,
            is_shared: true,
            fleet,
            printer,
            on_start: Box::new(|keeper: &KeeperHandle| {
                let inbox = keeper.inbox.clone();
                keeper_inbox.connect(&inbox);
                // An error means that the keeper has ended.
                session.set_waker(move || drop(inbox.send(KeeperMessage::Wake)));
            }),
        };
        // `--fail-on` applies to the results of all processes, so `final_exit_code` evaluates it.
        let messages = MessageSettings { fail_on: None, ..shared.messages };
        let settings = CommandSettings { messages, ..(*shared).clone() };
        let ended = local_crawl::crawl(&settings, rules, clock, parts);
        Ok(match ended {
            Ok(code) => match session.close() {
                Err(error) if error.kind == StoreErrorKind::Full => SessionEnd::Failed(error.into()),
                _ => SessionEnd::Exit(code),
            },
            Err(error) if error.as_store().is_some_and(|error| error.kind == StoreErrorKind::LeaseLost) => {
                SessionEnd::LeaseLost(error)
            }
            Err(error) => SessionEnd::Failed(error),
        })
    }

    /// Queues the URLs of the previous round again. Returns the exit code if a signal interrupted that.
    fn requeue(
        &self,
        client: &mut FleetClient,
        segments: &SegmentStore,
    ) -> Result<Option<ExitCode>, FleetCommandError> {
        let mut code = None;
        let should_continue = |count: Option<u64>| {
            if let Some(count) = count {
                let urls = wording::plural(count, "URL");
                local_crawl::print_line(
                    self.shared.messages,
                    &format!("{}: {urls} of the previous round queued", self.name),
                );
            }
            code = Interrupt::pending_exit_code(&mut self.signals.borrow_mut());
            code.is_none()
        };
        match requeue(client, self.settings, segments, should_continue) {
            Ok(()) => Ok(code.map(ExitCode::from)),
            Err(RequeueError::Store(error)) => Err(error.into()),
            Err(RequeueError::Results(error)) => Err(FleetCommandError::Failed(format!("{segments}: {error}"))),
        }
    }

    /// The exit code after the end of the whole crawl. Reads all records if the code depends on them (`--fail-on`, or no
    /// root has given a page), and passes the report to `state_code`.
    fn final_exit_code(
        &self,
        state_code: fn(MessageSettings, &CrawlReport) -> ExitCode,
    ) -> Result<ExitCode, FleetCommandError> {
        let results = Results::at(Path::new(&self.settings.out));
        // If the results cannot be read, it is not known that the roots have given no page.
        if self.shared.messages.fail_on.is_none() && results.has_root_page().unwrap_or(true) {
            return Ok(ExitCode::SUCCESS);
        }
        let mut report = CrawlReport::of(&results)?;
        // A finished crawl of a fleet queues no root again.
        report.missing_roots.may_succeed_later = false;
        Ok(state_code(self.shared.messages, &report))
    }

    /// Changes the crawl for all its processes, with a connection of its own.
    fn control(&self) -> FleetControl {
        let (address, owner, name) = (self.address.to_owned(), self.owner.to_owned(), self.name.to_owned());
        let (ca_cert, settings) = (self.ca_cert.map(Path::to_owned), self.settings.clone());
        Box::new(move |control| {
            let name = CrawlRound::store_name(&name, settings.round);
            let changed = connect(&address, &name, &owner, ca_cert.as_deref())
                .and_then(|mut client| change_crawl(&mut client, &settings, control));
            changed.map_err(|error| error.to_string())
        })
    }

    /// Opens a connection to the store of this round.
    fn client(&self) -> Result<FleetClient, FleetCommandError> {
        let name = CrawlRound::store_name(self.name, self.settings.round);
        connect(self.address, &name, self.owner, self.ca_cert)
    }
}
