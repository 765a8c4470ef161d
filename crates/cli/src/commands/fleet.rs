//! `argiope crawl --frontier`, `argiope fleet` and `argiope merge`: one crawl on many machines.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use argiope_core::lease::Lease;
use argiope_core::output::escape::visible;
use argiope_core::rules::Config;
use argiope_core::schedule::frontier::{StoreError, StoreErrorKind};
use argiope_core::{Fate, Frontier as _, Link, LinkKind, LinkRef, Time, Url};
use argiope_runtime::Error;
use argiope_runtime::directory::Directory;
use argiope_runtime::keeper_thread::{Clock, KeeperHandle, KeeperMessage};
use argiope_runtime::writer_thread::OutputTarget;
use argiope_store::cluster::{
    FleetClient, FleetSession, FleetSettings, FleetState, LeaseTimes, Members, Nodes, QueuedLink, SessionSetup,
    Unreachable, bucket_of,
};
use argiope_store::segments::{SegmentStore, is_object_storage};
use clap::{Args, Subcommand};

use super::crawl::{self, CrawlParts};
use super::interrupt::Interrupt;
use super::{FAILED, USAGE, print_error};
use crate::flags::config_file::UsageError;
use crate::flags::settings::CommandSettings;
use crate::records::StoredRecord;

/// How long a store may be out of reach at the start.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a process without roots waits for the crawl.
const JOIN: Duration = Duration::from_secs(60);
/// How long between two looks.
const PAUSE: Duration = Duration::from_millis(500);

/// Records of one commit when results are merged.
const MERGE_COMMIT: u64 = 1_000;

/// What each process decides for itself. Everything else is decided by the first one.
const LOCAL: &[&str] = &[
    "roots",
    "input",
    "out",
    "concurrency",
    "header",
    "user",
    "auth",
    "cookies",
    "proxy",
    "resolve",
    "dns",
    "ca-cert",
    "cert",
    "key",
    "max-memory",
    "drain-time",
    "engine",
    "log-skips",
    "max-pages",
    "fresh",
    "recrawl",
    "serve",
    "serve-token-file",
];

#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Many machines")]
pub struct FleetFlags {
    /// Share the crawl with other processes through a Redis or Valkey server or cluster
    ///
    /// Written redis://HOST:PORT[,HOST:PORT...], or rediss:// for TLS. Without roots, the process joins an existing
    /// crawl.
    #[arg(long, value_name = "ADDRESS")]
    frontier: Option<String>,
    /// The name of the shared crawl
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Number of groups into which hosts are divided
    #[arg(long, value_name = "N", hide = true, default_value_t = 4096,
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    buckets: u32,
    /// How long a lease lasts, in seconds
    #[arg(long, value_name = "SECONDS", hide = true, default_value_t = 30,
          value_parser = clap::value_parser!(u64).range(1..=600))]
    lease: u64,
}

impl FleetFlags {
    /// Whether the crawl is shared.
    pub fn is_set(&self) -> bool {
        self.frontier.is_some()
    }

    /// Takes over a key of the configuration file, unless its flag is there.
    pub fn set_default(&mut self, key: &str, value: &str) {
        let place = if key == "frontier" { &mut self.frontier } else { &mut self.name };
        place.get_or_insert_with(|| value.to_owned());
    }

    pub fn check(&self) -> Result<(), UsageError> {
        match (&self.frontier, &self.name) {
            (Some(_), None) => Err(UsageError("--frontier needs --name, the name of the shared crawl".into())),
            (None, Some(_)) => Err(UsageError("--name is the name of a shared crawl and needs --frontier".into())),
            _ => Ok(()),
        }
    }

    fn times(&self) -> LeaseTimes {
        let lease = Duration::from_secs(self.lease);
        LeaseTimes { lease, renew_every: lease / 3 }
    }
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  argiope fleet status redis://db.example:6379 --name news
      the processes of a shared crawl, what they do, and what is queued
  argiope fleet remove redis://db.example:6379 --name news
      frees the store when the crawl is over; the results stay")]
pub struct FleetArgs {
    #[command(subcommand)]
    action: FleetAction,
}

#[derive(Subcommand, Debug)]
enum FleetAction {
    /// Show the processes and the progress of a shared crawl
    Status(FleetStatusArgs),
    /// Remove a shared crawl from the store; its results stay
    Remove(FleetRemoval),
}

#[derive(Args, Debug)]
struct FleetPlace {
    /// The servers, as for --frontier
    #[arg(value_name = "ADDRESS")]
    address: String,
    /// The name of the shared crawl
    #[arg(long, value_name = "NAME")]
    name: String,
    /// Trust the certificates in this PEM file
    #[arg(long, value_name = "FILE")]
    ca_cert: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  argiope fleet status redis://db.example:6379 --name news --json")]
struct FleetStatusArgs {
    #[command(flatten)]
    place: FleetPlace,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  argiope fleet remove redis://db.example:6379 --name news --yes")]
struct FleetRemoval {
    #[command(flatten)]
    place: FleetPlace,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// Remove the crawl even if it is not finished: queued URLs are lost
    #[arg(long)]
    unfinished: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Example:
  argiope merge /shared/news ./news.crawl
      makes one crawl directory for report, export, explain and audit")]
pub struct MergeArgs {
    /// The folder with the results
    #[arg(value_name = "PREFIX")]
    results: PathBuf,
    /// The crawl directory to make
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Why a process cannot take part, with the exit code.
enum Refusal {
    Failed(String),
    /// The store does not answer now.
    Unreachable(String),
    Usage(String),
}

impl From<Unreachable> for Refusal {
    fn from(fault: Unreachable) -> Self {
        let why = format!("the store of the fleet: {}", fault.message);
        if fault.is_final { Self::Failed(why) } else { Self::Unreachable(why) }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.message.into())
    }
}

/// Takes part in a crawl that other processes share.
pub fn crawl(settings: &CommandSettings, flags: &FleetFlags) -> Result<ExitCode, UsageError> {
    let CommandSettings { crawl: config, messages } = settings;
    let address = flags.frontier.as_deref().unwrap_or_default();
    let name = flags.name.clone().unwrap_or_default();
    match &config.out {
        None => return Err(UsageError("--frontier needs --out, the folder for the results of all processes".into())),
        Some(out) if is_object_storage(out) => {
            return Err(UsageError("--out: object storage is not supported yet; name a shared folder".into()));
        }
        Some(_) => {}
    }
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
        return Err(UsageError("--name: letters, digits, '-', '_' and '.' only".into()));
    }
    for (is_set, flag) in [
        (config.jsonl.is_some(), "--jsonl"),
        (config.warc, "--warc"),
        (config.recrawl, "--recrawl"),
        (config.fresh, "--fresh"),
        (config.per_ip.is_some_and(|most| most > 0), "--per-ip"),
        (messages.fail_on.is_some(), "--fail-on"),
        (config.max_bytes.is_some(), "--max-bytes"),
        (config.max_disk.is_some(), "--max-disk"),
        (config.max_pages_per_host.is_some(), "--max-pages-per-host"),
    ] {
        if is_set {
            return Err(UsageError(format!("{flag} is not supported together with --frontier")));
        }
    }
    match take_part(settings, address, &name, flags) {
        Ok(code) => Ok(code),
        Err(Refusal::Failed(why) | Refusal::Unreachable(why)) => Ok(crawl::fail(*messages, &why)),
        Err(Refusal::Usage(why)) => {
            crawl::fail(*messages, &why);
            Ok(ExitCode::from(USAGE))
        }
    }
}

fn connect(address: &str, name: &str, owner: &str, ca_cert: Option<&Path>) -> Result<FleetClient, Refusal> {
    let authority = match ca_cert {
        Some(path) => {
            Some(std::fs::read(path).map_err(|error| Refusal::Failed(format!("{}: {error}", path.display())))?)
        }
        None => None,
    };
    let until = Instant::now() + CONNECT;
    loop {
        match Nodes::open(address, authority.as_deref()) {
            Ok(nodes) => return Ok(FleetClient::new(nodes, name, owner)),
            Err(fault) if fault.is_final || Instant::now() >= until => return Err(fault.into()),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

fn take_part(own: &CommandSettings, address: &str, name: &str, flags: &FleetFlags) -> Result<ExitCode, Refusal> {
    let CommandSettings { crawl: config, messages } = own;
    let ca_cert = config.ca_cert.as_deref().filter(|_| address.starts_with("rediss://"));
    let owner = format!("{:012x}", argiope_runtime::unpredictable() >> 16);
    let mut client = connect(address, name, &owner, ca_cert)?;
    let settings = settings(own, &mut client, flags)?;
    let shared = CommandSettings { crawl: shared_config(config, &settings)?, messages: *messages };
    let out = PathBuf::from(&settings.out);
    let about = serde_json::json!({ "fleet": name, "key": settings.key, "config": settings.config }).to_string();
    let segments =
        SegmentStore::create(&out, &about).map_err(|error| Refusal::Failed(format!("{}: {error}", out.display())))?;
    let part = Part { shared: &shared, address, name, owner: &owner, ca_cert, settings: &settings };
    let mut signals =
        Interrupt::listen().map_err(|error| Refusal::Failed(format!("signals could not be watched: {error}")))?;
    let (mut sessions, mut is_waiting) = (0, false);
    loop {
        match part.take_turn(&mut client, &segments, flags.times(), &mut sessions) {
            Ok(Some(code)) => return Ok(code),
            Ok(None) => is_waiting = false,
            // A process that took part waits for the store as long as it takes.
            Err(Refusal::Unreachable(why)) if sessions > 0 => {
                if !std::mem::replace(&mut is_waiting, true) {
                    crawl::tell(*messages, "note", &format!("{why}; waiting until it answers"));
                }
            }
            Err(refusal) => return Err(refusal),
        }
        if let Some(code) = Interrupt::pending(&mut signals) {
            return Ok(ExitCode::from(code));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Which records count is written beside them, once that cannot change any more.
fn finish(client: &mut FleetClient, settings: &FleetSettings, segments: &SegmentStore) -> Result<(), Refusal> {
    let unreadable = |error: std::io::Error| Refusal::Failed(format!("{segments} cannot be read: {error}"));
    if segments.is_final().map_err(unreadable)? {
        return Ok(());
    }
    let positions = client.positions(settings.buckets)?;
    segments
        .write_final_positions(&positions)
        .map_err(|error| Refusal::Failed(format!("{segments} cannot be written: {error}")))
}

/// The settings that hold: those of the first process.
fn settings(own: &CommandSettings, client: &mut FleetClient, flags: &FleetFlags) -> Result<FleetSettings, Refusal> {
    let config = &own.crawl;
    let out = config.out.clone().unwrap_or_default();
    let absolute = if is_object_storage(&out) { out } else { std::path::absolute(&out).unwrap_or(out) };
    let absolute = absolute.display().to_string();
    let name = client.name().to_owned();
    let found = if config.roots.is_empty() && config.input.is_none() {
        let until = Instant::now() + JOIN;
        let mut told = false;
        loop {
            if let Some(found) = FleetSettings::read(client)? {
                break found;
            }
            if Instant::now() >= until {
                return Err(Refusal::Failed(format!("{name}: there is no such crawl; start it with its roots")));
            }
            if !std::mem::replace(&mut told, true) {
                let seconds = JOIN.as_secs();
                crawl::say(
                    own.messages,
                    &format!("{name}: waiting up to {seconds} s for another process to start this crawl"),
                );
            }
            std::thread::sleep(PAUSE);
        }
    } else {
        let first = FleetSettings {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            key: argiope_runtime::unpredictable(),
            buckets: flags.buckets,
            max_pages: config.max_pages,
            rate: config.rate.map(|rate| rate.per_second),
            created: 0,
            out: absolute.clone(),
            config: shared_part(config).to_string(),
        };
        first.create(client)?
    };
    if found.version != env!("CARGO_PKG_VERSION") {
        let words = format!(
            "{name} was started by version {}, and this is version {}: use the same one",
            found.version,
            env!("CARGO_PKG_VERSION")
        );
        return Err(Refusal::Usage(words));
    }
    if found.out != absolute {
        return Err(Refusal::Usage(format!("{name} writes to {}: --out {absolute} is another place", found.out)));
    }
    if config.max_pages.is_some() && config.max_pages != found.max_pages {
        let limit = found.max_pages.map_or("no limit".to_owned(), |most| format!("--max-pages {most}"));
        return Err(Refusal::Usage(format!("{name} was started with {limit}: --max-pages cannot be changed")));
    }
    Ok(found)
}

/// The settings as JSON, without what each process decides for itself, but with the roots.
fn shared_part(config: &Config) -> serde_json::Value {
    let mut value = serde_json::to_value(config).unwrap_or_default();
    if let Some(map) = value.as_object_mut() {
        map.retain(|key, _| key == "roots" || !LOCAL.contains(&key.as_str()));
    }
    value
}

/// The first process's settings with what this one decides for itself. What differs is refused by name.
fn shared_config(config: &Config, settings: &FleetSettings) -> Result<Config, Refusal> {
    let damaged = || Refusal::Failed("the settings of the crawl cannot be read".into());
    let first: serde_json::Value = serde_json::from_str(&settings.config).map_err(|_| damaged())?;
    let (first, mine) = (first.as_object().cloned().ok_or_else(damaged)?, shared_part(config));
    let default = shared_part(&Config::default());
    for (key, value) in mine.as_object().into_iter().flatten() {
        let is_default = default.get(key) == Some(value);
        if !is_default && first.get(key) != Some(value) {
            let theirs = first.get(key).map_or("its default".to_owned(), ToString::to_string);
            let flag = if key == "roots" { "its roots are".to_owned() } else { format!("--{key} is") };
            let words = format!("the crawl was started with other settings: {flag} {theirs} there, and {value} here");
            return Err(Refusal::Usage(words));
        }
    }
    let mut merged = serde_json::to_value(config).map_err(|_| damaged())?;
    for (key, value) in first {
        merged[key] = value;
    }
    let mut merged: Config = serde_json::from_value(merged).map_err(|_| damaged())?;
    // These limits hold over all processes: the store keeps one, and each process gets its part of the other.
    (merged.max_pages, merged.rate) = (None, None);
    merged.input = None;
    Ok(merged)
}

/// One session of this process: from joining until it ends or loses its lease.
struct Part<'a> {
    /// The settings of the crawl, which all processes share, with the messages of this process.
    shared: &'a CommandSettings,
    address: &'a str,
    name: &'a str,
    owner: &'a str,
    ca_cert: Option<&'a Path>,
    settings: &'a FleetSettings,
}

/// How a session ended.
enum SessionEnd {
    /// With this exit code: the crawl is over, or a person or a limit stopped this process.
    Code(ExitCode),
    /// Other processes own the hosts now; this one can join again.
    LeaseLost(Error),
    Failed(Error),
}

impl Part<'_> {
    /// One session, unless the crawl is over. `None`: the lease was lost, and this process is to join again.
    fn take_turn(
        &self,
        client: &mut FleetClient,
        segments: &SegmentStore,
        times: LeaseTimes,
        sessions: &mut u64,
    ) -> Result<Option<ExitCode>, Refusal> {
        let Part { shared, settings, name, .. } = self;
        let state = FleetState::read(client)?;
        if let FleetState::Finished | FleetState::MaxPages = state {
            finish(client, settings, segments)?;
            let why = if state == FleetState::Finished { "finished" } else { "at its limit of pages" };
            crawl::say(shared.messages, &format!("{name}: this crawl is {why}; argiope report {}", settings.out));
            return Ok(Some(ExitCode::SUCCESS));
        }
        let number = *sessions + 1;
        match self.run(segments.clone(), times, number, sessions)? {
            SessionEnd::Code(code) => {
                if let FleetState::Finished | FleetState::MaxPages = FleetState::read(client)? {
                    finish(client, settings, segments)?;
                    return Ok(Some(ExitCode::SUCCESS));
                }
                Ok(Some(code))
            }
            SessionEnd::LeaseLost(error) => {
                // Everything that was not settled is forgotten, as after a crash.
                crawl::tell(shared.messages, "note", &format!("{error}; joining again"));
                Ok(None)
            }
            SessionEnd::Failed(error) => Ok(Some(crawl::refuse(shared.messages, &error))),
        }
    }

    fn run(
        &self,
        segments: SegmentStore,
        times: LeaseTimes,
        session: u64,
        sessions: &mut u64,
    ) -> Result<SessionEnd, Refusal> {
        let Part { shared, settings, .. } = self;
        let mut rules = shared.rules().map_err(|error| Refusal::Usage(error.to_string()))?;
        rules.fingerprint_key = settings.key;
        let mut client = self.client()?;
        if FleetState::read(&mut client)? == FleetState::Created {
            let roots = rules.roots.iter().filter_map(|root| root.candidates.first());
            let links = roots.map(|url| Link::root(url.clone(), rules.max_redirects));
            let batches: Vec<(u32, Vec<QueuedLink>)> = links
                .map(|link| {
                    let bucket = bucket_of(link.url.host(), settings.buckets);
                    (bucket, vec![QueuedLink::new(LinkRef::from(&link), settings.key)])
                })
                .collect();
            client.put(&batches)?;
            FleetState::set_running(&mut client)?;
        }
        if let Some(most) = rules.max_time {
            let left = most.saturating_sub(settings.age(&mut client)?);
            if left.is_zero() {
                crawl::say(shared.messages, &format!("{}: this crawl is at its time limit", self.name));
                return Ok(SessionEnd::Code(ExitCode::SUCCESS));
            }
            rules.max_time = Some(left);
        }
        let clock = Clock::start();
        rules.lease = Lease::until(Time::ZERO + times.lease);
        let (quiet, json) = (shared.messages.quiet, shared.messages.log_json);
        let setup = SessionSetup {
            clients: [client, self.client()?],
            settings: (*settings).clone(),
            segments,
            times,
            session,
            now: Box::new(move || clock.now()),
            lease: rules.lease.clone(),
            notice: Box::new(move |words| notice(words, quiet, json)),
        };
        *sessions = session;
        let (session, frontier) = FleetSession::start(setup)
            .map_err(|error| Refusal::Failed(format!("the threads of the fleet could not be started: {error}")))?;
        let parts = CrawlParts {
            frontier,
            target: OutputTarget::default(),
            output: None,
            report: None,
            earlier: 0,
            is_shared: true,
            started: Box::new(|keeper: &KeeperHandle| {
                let inbox = keeper.inbox.clone();
                // A keeper that has left needs no news.
                session.set_waker(move || drop(inbox.send(KeeperMessage::Wake)));
            }),
        };
        let ended = crawl::crawl(shared, rules, clock, parts);
        Ok(match ended {
            Ok(code) => {
                session.close();
                SessionEnd::Code(code)
            }
            Err(error) if error.as_store().is_some_and(|error| error.kind == StoreErrorKind::LeaseLost) => {
                SessionEnd::LeaseLost(error)
            }
            Err(error) => SessionEnd::Failed(error),
        })
    }

    fn client(&self) -> Result<FleetClient, Refusal> {
        connect(self.address, self.name, self.owner, self.ca_cert)
    }
}

fn notice(words: &str, quiet: bool, json: bool) {
    if quiet {
        return;
    }
    let line = if json { crate::screen::json_log::message("note", words) } else { format!("note: {}", visible(words)) };
    // Ignored: if standard error is closed, the message has no reader.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// `argiope fleet status` and `argiope fleet remove`.
pub fn run(args: &FleetArgs) -> Result<ExitCode, UsageError> {
    let done = match &args.action {
        FleetAction::Status(args) => status(args),
        FleetAction::Remove(removal) => remove(removal),
    };
    Ok(match done {
        Ok(code) => code,
        Err(Refusal::Failed(why) | Refusal::Unreachable(why)) => {
            print_error(&visible(&why));
            ExitCode::from(FAILED)
        }
        Err(Refusal::Usage(why)) => {
            print_error(&visible(&why));
            ExitCode::from(USAGE)
        }
    })
}

fn open(place: &FleetPlace) -> Result<(FleetClient, FleetSettings), Refusal> {
    let mut client = connect(&place.address, &place.name, "status", place.ca_cert.as_deref())?;
    match FleetSettings::read(&mut client)? {
        Some(settings) => Ok((client, settings)),
        None => Err(Refusal::Failed(format!("{}: there is no such crawl", place.name))),
    }
}

fn status(args: &FleetStatusArgs) -> Result<ExitCode, Refusal> {
    let place = &args.place;
    let (mut client, settings) = open(place)?;
    let state = match FleetState::read(&mut client)? {
        FleetState::Created => "being started",
        FleetState::Running => "running",
        FleetState::Finished => "finished",
        FleetState::MaxPages => "finished: the limit of pages is reached",
    };
    let states = client.survey(settings.buckets)?;
    let sum = |of: fn(&argiope_store::cluster::BucketState) -> u64| states.iter().map(of).sum::<u64>();
    let owned = states.iter().filter(|state| !state.owner.is_empty()).count();
    let members = Members::all(&mut client)?;
    let leased_by = |id: &str| states.iter().filter(|state| state.owner == id).map(|state| state.leased).sum::<u64>();
    if args.json {
        let processes: Vec<_> = members
            .iter()
            .map(|member| {
                let (id, version, buckets) = (&member.id, &member.version, member.buckets);
                let leased = leased_by(id);
                serde_json::json!({ "id": id, "version": version, "buckets": buckets, "leased": leased, "seen_ms": member.at })
            })
            .collect();
        let json = serde_json::json!({
            "name": place.name,
            "state": state,
            "known": sum(|state| state.known),
            "queued": sum(|state| state.queued),
            "leased": sum(|state| state.leased),
            "settled": sum(|state| state.settled),
            "pages": sum(|state| state.pages),
            "buckets": settings.buckets,
            "owned": owned,
            "single_copy": client.nodes.single_copy,
            "out": settings.out,
            "processes": processes,
        });
        let _ = writeln!(std::io::stdout(), "{json}");
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("{}: {state}\n", place.name);
    text += &format!(
        "URLs: {} known, {} queued, {} leased, {} settled, {} of them pages\n",
        sum(|state| state.known),
        sum(|state| state.queued),
        sum(|state| state.leased),
        sum(|state| state.settled),
        sum(|state| state.pages)
    );
    text += &format!("buckets: {owned} of {} have an owner\nresults: {}\n", settings.buckets, settings.out);
    for member in &members {
        let (id, version, buckets) = (&member.id, &member.version, member.buckets);
        let leased = leased_by(id);
        text += &format!("process {id}: {buckets} buckets, {leased} URLs leased, version {version}\n");
    }
    // Ignored: if standard output is closed, the text has no reader.
    let _ = writeln!(std::io::stdout(), "{}", argiope_core::output::escape::visible_lines(text.trim_end()));
    Ok(ExitCode::SUCCESS)
}

fn remove(removal: &FleetRemoval) -> Result<ExitCode, Refusal> {
    let name = &removal.place.name;
    let (mut client, settings) = open(&removal.place)?;
    let is_over = matches!(FleetState::read(&mut client)?, FleetState::Finished | FleetState::MaxPages);
    if !is_over && !removal.unfinished {
        return Err(Refusal::Failed(format!(
            "{name} is not over; --unfinished removes it, and what is queued is lost"
        )));
    }
    // Readers need the positions once the store has forgotten them.
    let segments = SegmentStore::open(Path::new(&settings.out));
    finish(&mut client, &settings, &segments)?;
    if !removal.yes {
        let _ = write!(std::io::stderr(), "remove {name} from the store? Its results in {} stay. [y/N] ", settings.out);
        let mut answer = String::new();
        let _ = std::io::stdin().read_line(&mut answer);
        if !answer.trim().eq_ignore_ascii_case("y") {
            return Err(Refusal::Failed("nothing was removed".into()));
        }
    }
    client.remove(settings.buckets)?;
    Ok(ExitCode::SUCCESS)
}

/// Makes a crawl directory of a fleet's results.
pub fn merge(args: &MergeArgs) -> Result<ExitCode, UsageError> {
    Ok(match merged(args) {
        Ok(records) => {
            let _ = writeln!(std::io::stderr(), "{records} records in {}", args.directory.display());
            ExitCode::SUCCESS
        }
        Err(Refusal::Failed(why) | Refusal::Unreachable(why) | Refusal::Usage(why)) => {
            print_error(&visible(&why));
            ExitCode::from(FAILED)
        }
    })
}

fn merged(args: &MergeArgs) -> Result<u64, Refusal> {
    let results = args.results.display();
    if !SegmentStore::is_there(&args.results) {
        return Err(Refusal::Failed(format!("{results} does not hold the results of many machines")));
    }
    if args.directory.exists() {
        return Err(Refusal::Failed(format!("{} exists already; name another directory", args.directory.display())));
    }
    let failed = |error: &dyn std::fmt::Display| Refusal::Failed(format!("{results}: {error}"));
    let segments = SegmentStore::open(&args.results);
    let about = segments.about().map_err(|error| failed(&error))?;
    let about: serde_json::Value = serde_json::from_str(&about).map_err(|error| failed(&error))?;
    let config: Config =
        serde_json::from_str(about["config"].as_str().unwrap_or_default()).map_err(|error| failed(&error))?;
    let rules = argiope_runtime::rules(&config).map_err(|error| failed(&error))?;
    let mut directory = Directory::open(&args.directory, &rules, &config)?;
    let mut records = 0_u64;
    let mut fault = None;
    let read = segments.read(|line| {
        records += 1;
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let added = add(&mut directory, line)
            .and_then(|()| if records.is_multiple_of(MERGE_COMMIT) { directory.commit() } else { Ok(()) });
        added.map_err(|error| {
            let words = error.message.to_string();
            fault = Some(error);
            std::io::Error::other(words)
        })
    });
    if let Some(error) = fault {
        return Err(error.into());
    }
    read.map_err(|error| failed(&error))?;
    directory.commit()?;
    Ok(records)
}

/// Adds one record to a crawl directory, as if it had been crawled there.
fn add(directory: &mut Directory, line: &[u8]) -> Result<(), StoreError> {
    let record = StoredRecord::read(line)?;
    let frontier = &mut directory.frontier;
    let (Ok(url), Some(outcome)) = (Url::parse(&record.url), record.outcome) else {
        return frontier.keep_line(line);
    };
    let kind = match (record.is_page(), record.via.is_some()) {
        (false, _) if record.r#for.as_deref() == Some("robots") => return frontier.keep_line(line),
        (false, _) => LinkKind::SitemapFile,
        (true, false) => LinkKind::Root,
        (true, true) => LinkKind::Anchor,
    };
    let via = record.via.as_deref().and_then(|via| Url::parse(via).ok());
    let link = Link { url, via, depth: record.depth, redirects: 0, tries: record.tries, kind };
    let Some(lane) = frontier.offer(LinkRef::from(&link))? else {
        return Err(StoreError::new(StoreErrorKind::Damaged, format!("{} has two records", record.url)));
    };
    for taken in frontier.take(lane, usize::MAX)? {
        let fate = Fate { outcome, status: record.status, record: line, is_fetched_page: record.is_page() };
        frontier.settle(&taken, fate)?;
    }
    Ok(())
}
