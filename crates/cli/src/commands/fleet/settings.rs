//! The settings of a shared crawl. The process that starts the crawl chooses those that are shared
//! ([`SharedSettings`]).

use std::path::PathBuf;
use std::time::{Duration, Instant};

use argiope_core::crawl::rules::{Config, Root};
use argiope_fleet::cluster::{CrawlHead, FleetClient, FleetSettings};
use argiope_fleet::segments::{SegmentStore, is_object_storage, redacted_place};
use serde_json::Value;

use super::{FleetCommandError, RETRY_PAUSE};
use crate::commands::crawl;
use crate::flags::settings::CommandSettings;
use crate::flags::shared_settings::SharedSettings;
use crate::results::segments::CrawlStart;

/// How long a process without roots waits until another process creates the crawl.
const JOIN_TIMEOUT: Duration = Duration::from_secs(60);

/// The settings of the shared crawl. A process with roots stores its own settings if there are none yet. A process without
/// roots waits until another process has stored them. `interrupted` returns an exit code if a signal must end the wait.
pub fn join_settings(
    own_settings: &CommandSettings,
    client: &mut FleetClient,
    name: &str,
    mut interrupted: impl FnMut() -> Option<u8>,
) -> Result<FleetSettings, FleetCommandError> {
    let config = &own_settings.crawl;
    let own_out = results_location(config)?.display().to_string();
    let found = if config.roots.is_empty() && own_settings.io.input.is_none() {
        let deadline = Instant::now() + JOIN_TIMEOUT;
        let mut is_announced = false;
        loop {
            if let Some(found) = FleetSettings::read(client)? {
                break found;
            }
            if let Some(code) = interrupted() {
                return Err(FleetCommandError::Interrupted(code));
            }
            if Instant::now() >= deadline {
                return Err(FleetCommandError::Failed(format!(
                    "{name}: there is no such crawl; start it with its roots"
                )));
            }
            if !std::mem::replace(&mut is_announced, true) {
                let seconds = JOIN_TIMEOUT.as_secs();
                crawl::print_line(
                    own_settings.messages,
                    &format!("{name}: waiting up to {seconds} s for another process to start this crawl"),
                );
            }
            std::thread::sleep(RETRY_PAUSE);
        }
    } else {
        let shared = SharedSettings::of(config);
        shared.check().map_err(FleetCommandError::Usage)?;
        let first = FleetSettings {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            key: argiope_runtime::unpredictable(),
            round: 1,
            buckets: own_settings.fleet.buckets,
            max_pages: config.max_pages,
            max_bytes: config.max_bytes.map(|size| size.0),
            rate: config.rate.map(|rate| rate.per_second),
            per_ip: config.per_ip.filter(|limit| *limit > 0).map(|limit| limit as u64),
            max_pages_per_host: config.max_pages_per_host,
            max_time_ms: config.max_time.map(|span| span.0.as_millis() as u64),
            // `create` replaces 0 by the time of the store.
            created: 0,
            out: own_out.clone(),
            config: stored(&shared),
        };
        match FleetSettings::read(client)? {
            Some(found) => found,
            None => {
                refuse_lost(client, name, config)?;
                first.create(client)?
            }
        }
    };
    if found.version != env!("CARGO_PKG_VERSION") {
        let why = format!(
            "{name} was started by version {}, and this is version {}: use the same one",
            found.version,
            env!("CARGO_PKG_VERSION")
        );
        return Err(FleetCommandError::Usage(why));
    }
    if found.out != own_out {
        return Err(FleetCommandError::Usage(format!(
            "{name} writes to {}: --out {own_out} is another place",
            found.out
        )));
    }
    Ok(found)
}

/// The limits that a process can change while the crawl runs, or after it has ended at one of them. The change holds for
/// all processes. A limit with its first value changes nothing, so that a supervisor can repeat a command.
pub fn change_limits(
    config: &Config,
    first: &FleetSettings,
    client: &mut FleetClient,
    name: &str,
) -> Result<(), FleetCommandError> {
    let max_time_ms = config.max_time.map(|span| span.0.as_millis() as u64);
    let rate = config.rate.map(|rate| rate.per_second);
    let changed = CrawlHead::change_orders(client, first, |orders| {
        let now = first.with_orders(orders);
        let counted = [
            ("--max-pages", config.max_pages, first.max_pages, now.max_pages, &mut orders.max_pages),
            ("--max-bytes", config.max_bytes.map(|size| size.0), first.max_bytes, now.max_bytes, &mut orders.max_bytes),
        ];
        for (flag, wanted, of_start, current, order) in counted {
            match (wanted, current) {
                (Some(wanted), _) if Some(wanted) == of_start || Some(wanted) == current => {}
                (Some(wanted), Some(current)) if wanted > current => *order = Some(wanted),
                (Some(_), Some(current)) => {
                    return Err(format!("{name} has {flag} {current}: this limit can be raised only"));
                }
                (Some(_), None) => {
                    return Err(format!(
                        "{name} was started without {flag}, so nothing was counted: it cannot be added"
                    ));
                }
                (None, _) => {}
            }
        }
        if max_time_ms.is_some() && max_time_ms != first.max_time_ms {
            orders.max_time_ms = max_time_ms;
        }
        if rate.is_some() && rate != first.rate {
            orders.rate = rate;
        }
        Ok(())
    })?;
    changed.map(drop).map_err(FleetCommandError::Usage)
}

/// The keys of the shared settings that [`change_limits`] changes.
const CHANGED_WHILE_RUNNING: &[&str] = &["rate", "max-time", "max-bytes"];

/// What happened to a crawl that has results and is not in the store, and how to continue it.
pub fn lost_crawl(name: &str, out: &str) -> String {
    format!(
        "{name} has results in {out}, and the store does not hold it any more: the store was emptied or replaced, or the \
         crawl was removed. argiope fleet restore ADDRESS --name {name} --out {out} puts it into the store again, with \
         all that the results hold. To start anew, use another --out"
    )
}

/// Refuses to start a crawl that has results. A process that creates a crawl puts it into the store before it writes
/// the first result, so the store is read once more after the results.
fn refuse_lost(client: &mut FleetClient, name: &str, config: &Config) -> Result<(), FleetCommandError> {
    let out = results_location(config)?;
    let results = SegmentStore::open(&out);
    // Results that cannot be read give their error when they are opened.
    let is_same = results.rounds().is_ok_and(|rounds| rounds > 0)
        && CrawlStart::read(&out, &results).is_ok_and(|start| start.fleet == name);
    if is_same && FleetSettings::read(client)?.is_none() {
        return Err(FleetCommandError::Failed(lost_crawl(name, &redacted_place(&out))));
    }
    Ok(())
}

/// Where the results are stored: an absolute path, or `s3://BUCKET/PREFIX`.
pub fn results_location(config: &Config) -> Result<PathBuf, FleetCommandError> {
    let out = config.out.clone().unwrap_or_default();
    if is_object_storage(&out) && out.to_string_lossy().contains('@') {
        // The location is stored with the crawl and printed in messages, so credentials in it would leak.
        let shown = redacted_place(&out);
        return Err(FleetCommandError::Usage(format!(
            "--out {shown}: give no credentials here; set them in the environment"
        )));
    }
    Ok(if is_object_storage(&out) { out } else { std::path::absolute(&out).unwrap_or(out) })
}

/// The limits that a recrawl may change.
const CHANGEABLE_LIMITS: &[&str] = &["rate", "per-ip", "max-time", "max-bytes", "max-pages-per-host"];

/// The settings of the next round: those of the previous round, except for the limits that the user gives to this process.
pub fn next_round(config: &Config, previous: &FleetSettings) -> Result<FleetSettings, FleetCommandError> {
    let (own, default) = (SharedSettings::of(config).by_key(), SharedSettings::default().by_key());
    let mut shared = read_stored(previous)?.by_key();
    for &key in CHANGEABLE_LIMITS {
        // A value other than the default was given by the user.
        if own.get(key) != default.get(key)
            && let Some(value) = own.get(key)
        {
            shared.insert(key.to_owned(), value.clone());
        }
    }
    let shared = SharedSettings::from_keys(shared).map_err(|_| damaged())?;
    let merged = shared.limits();
    Ok(FleetSettings {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        round: previous.round + 1,
        max_pages: config.max_pages.or(previous.max_pages),
        max_bytes: merged.max_bytes.map(|size| size.0),
        rate: merged.rate.map(|rate| rate.per_second),
        per_ip: merged.per_ip.filter(|limit| *limit > 0).map(|limit| limit as u64),
        max_pages_per_host: merged.max_pages_per_host,
        max_time_ms: merged.max_time.map(|span| span.0.as_millis() as u64),
        // The caller sets the time.
        created: 0,
        config: stored(&shared),
        ..previous.clone()
    })
}

fn damaged() -> FleetCommandError {
    FleetCommandError::Failed("the settings of the crawl cannot be read".into())
}

/// The text that the store has for these settings.
fn stored(settings: &SharedSettings) -> String {
    Value::from(settings.by_key()).to_string()
}

/// The shared settings of a crawl. Anything else in the store is ignored.
fn read_stored(settings: &FleetSettings) -> Result<SharedSettings, FleetCommandError> {
    SharedSettings::read(&settings.config)
        .map_err(|why| FleetCommandError::Failed(format!("the settings of the crawl cannot be read: {why}")))
}

/// The settings with which this process takes part: the shared ones of the crawl, and its own for everything else. It is an
/// error if the user gives this process a different value for a shared setting; the message names the setting.
pub fn joined_config(config: &Config, settings: &FleetSettings) -> Result<Config, FleetCommandError> {
    let shared = read_stored(settings)?;
    let first = shared.by_key();
    let (own, default) = (SharedSettings::of(config).by_key(), SharedSettings::default().by_key());
    for (key, value) in &own {
        let is_default = default.get(key) == Some(value);
        if !is_default && first.get(key) != Some(value) && !CHANGED_WHILE_RUNNING.contains(&key.as_str()) {
            let first_value = first.get(key).map_or("its default".to_owned(), ToString::to_string);
            let flag = if key == "roots" { "its roots are".to_owned() } else { format!("--{key} is") };
            let why =
                format!("the crawl was started with other settings: {flag} {first_value} there, and {value} here");
            return Err(FleetCommandError::Usage(why));
        }
    }
    if let Some(key) = shared.missing_in(config) {
        let why = format!("the crawl was started with --{key}, which is not taken from the store: give it here too");
        return Err(FleetCommandError::Usage(why));
    }
    let mut joined = shared.with_own(config);
    // These limits apply to the sum of all processes. The fleet enforces them: the store counts pages and bytes, and each
    // process gets its part of the rate and learns when the time is over.
    (joined.max_pages, joined.max_bytes, joined.rate, joined.max_pages_per_host) = (None, None, None, None);
    joined.max_time = None;
    Ok(joined)
}

/// The roots that the user of this process has named. Those of the store get no headers, logins and client certificates,
/// and may not be on a private network.
pub fn named_roots(config: &Config, joined: &Config) -> Result<Vec<Root>, FleetCommandError> {
    Root::parse_all(&config.roots, joined.max_url).map_err(|error| FleetCommandError::Usage(error.to_string()))
}

/// The setting with a secret that is sent nowhere, because this process names no root.
pub fn unused_secret(config: &Config) -> Option<&'static str> {
    let secrets =
        [("--header", !config.header.is_empty()), ("--user", config.user.is_some()), ("--cert", config.cert.is_some())];
    secrets.into_iter().find_map(|(flag, is_set)| (is_set && config.roots.is_empty()).then_some(flag))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The settings that the first process of a crawl stores.
    fn fleet(config: String) -> FleetSettings {
        FleetSettings {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            key: 1,
            round: 1,
            buckets: 64,
            max_pages: None,
            max_bytes: None,
            rate: None,
            per_ip: None,
            max_pages_per_host: None,
            max_time_ms: None,
            created: 0,
            out: "results".to_owned(),
            config,
        }
    }

    #[test]
    fn a_process_keeps_its_own_secrets() {
        let first = Config { roots: vec!["h.example".into()], depth: Some(3), ..Config::default() };
        let own = Config {
            header: vec!["X-Key: secret".parse().unwrap()],
            user: Some("me:secret".parse().unwrap()),
            proxy: Some("http://me:secret@proxy.example:8080".to_owned()),
            ..Config::default()
        };
        let merged = joined_config(&own, &fleet(stored(&SharedSettings::of(&first)))).ok().unwrap();
        assert_eq!((merged.header, merged.user, merged.proxy), (own.header, own.user, own.proxy));
        assert_eq!((merged.roots, merged.depth), (first.roots, Some(3)));
    }

    #[test]
    fn a_setting_that_is_not_taken_from_the_store_must_be_given_to_every_process() {
        let first =
            Config { roots: vec!["h.example".into()], extract_file: Some("rules.toml".into()), ..Config::default() };
        let settings = fleet(stored(&SharedSettings::of(&first)));
        let refused = joined_config(&Config::default(), &settings).err();
        assert!(matches!(refused, Some(FleetCommandError::Usage(why)) if why.contains("--extract-file")));
        assert!(joined_config(&first, &settings).is_ok());
    }
}
