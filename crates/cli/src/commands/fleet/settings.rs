//! The settings of a shared crawl. The process that starts the crawl chooses them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use argiope_core::rules::Config;
use argiope_store::cluster::{FleetClient, FleetSettings};
use argiope_store::segments::{is_object_storage, redacted_place};

use super::{FleetCommandError, FleetFlags, RETRY_PAUSE};
use crate::commands::crawl;
use crate::flags::settings::CommandSettings;

/// How long a process without roots waits until another process creates the crawl.
const JOIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Settings that each process chooses for itself, and those that are compared separately (`roots`, `out`, `max-pages`). All
/// others are those of the first process.
const LOCAL_SETTINGS: &[&str] = &[
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

/// The settings of the shared crawl. A process with roots stores its own settings if there are none yet. A process without
/// roots waits until another process has stored them. `interrupted` returns an exit code if a signal must end the wait.
pub fn join_settings(
    own_settings: &CommandSettings,
    client: &mut FleetClient,
    flags: &FleetFlags,
    name: &str,
    mut interrupted: impl FnMut() -> Option<u8>,
) -> Result<FleetSettings, FleetCommandError> {
    let config = &own_settings.crawl;
    let own_out = results_location(config)?.display().to_string();
    let found = if config.roots.is_empty() && config.input.is_none() {
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
        let first = FleetSettings {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            key: argiope_runtime::unpredictable(),
            round: 1,
            buckets: flags.buckets,
            max_pages: config.max_pages,
            max_bytes: config.max_bytes.map(|size| size.0),
            rate: config.rate.map(|rate| rate.per_second),
            per_ip: config.per_ip.filter(|limit| *limit > 0).map(|limit| limit as u64),
            max_pages_per_host: config.max_pages_per_host,
            // `create` replaces 0 by the time of the store.
            created: 0,
            out: own_out.clone(),
            config: shared_part(config).to_string(),
        };
        first.create(client)?
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
    if config.max_pages.is_some() && config.max_pages != found.max_pages {
        let limit = found.max_pages.map_or("no limit".to_owned(), |max_pages| format!("--max-pages {max_pages}"));
        return Err(FleetCommandError::Usage(format!(
            "{name} was started with {limit}: --max-pages cannot be changed"
        )));
    }
    Ok(found)
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
    let damaged = || FleetCommandError::Failed("the settings of the crawl cannot be read".into());
    let mut shared: serde_json::Value = serde_json::from_str(&previous.config).map_err(|_| damaged())?;
    let (own, default) = (shared_part(config), shared_part(&Config::default()));
    for key in CHANGEABLE_LIMITS {
        // A value other than the default was given by the user.
        if own.get(key) != default.get(key)
            && let Some(value) = own.get(key)
        {
            shared[*key] = value.clone();
        }
    }
    let merged: Config = serde_json::from_value(shared.clone()).map_err(|_| damaged())?;
    Ok(FleetSettings {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        round: previous.round + 1,
        max_pages: config.max_pages.or(previous.max_pages),
        max_bytes: merged.max_bytes.map(|size| size.0),
        rate: merged.rate.map(|rate| rate.per_second),
        per_ip: merged.per_ip.filter(|limit| *limit > 0).map(|limit| limit as u64),
        max_pages_per_host: merged.max_pages_per_host,
        // The caller sets the time.
        created: 0,
        config: shared.to_string(),
        ..previous.clone()
    })
}

/// The settings as JSON, without the [`LOCAL_SETTINGS`], but with the roots.
fn shared_part(config: &Config) -> serde_json::Value {
    let mut value = serde_json::to_value(config).unwrap_or_default();
    if let Some(map) = value.as_object_mut() {
        map.retain(|key, _| key == "roots" || !LOCAL_SETTINGS.contains(&key.as_str()));
    }
    value
}

/// The settings of the first process, with the [`LOCAL_SETTINGS`] of this process. It is an error if the user gives this
/// process a different value for any other setting; the message names the setting.
pub fn shared_config(config: &Config, settings: &FleetSettings) -> Result<Config, FleetCommandError> {
    let damaged = || FleetCommandError::Failed("the settings of the crawl cannot be read".into());
    let first: serde_json::Value = serde_json::from_str(&settings.config).map_err(|_| damaged())?;
    let (first, own) = (first.as_object().cloned().ok_or_else(damaged)?, shared_part(config));
    let default = shared_part(&Config::default());
    for (key, value) in own.as_object().into_iter().flatten() {
        let is_default = default.get(key) == Some(value);
        if !is_default && first.get(key) != Some(value) {
            let first_value = first.get(key).map_or("its default".to_owned(), ToString::to_string);
            let flag = if key == "roots" { "its roots are".to_owned() } else { format!("--{key} is") };
            let why =
                format!("the crawl was started with other settings: {flag} {first_value} there, and {value} here");
            return Err(FleetCommandError::Usage(why));
        }
    }
    let mut merged = serde_json::to_value(config).map_err(|_| damaged())?;
    for (key, value) in first {
        merged[key] = value;
    }
    let mut merged: Config = serde_json::from_value(merged).map_err(|_| damaged())?;
    // These limits apply to the sum of all processes. The fleet enforces them: the store counts pages and bytes, and each
    // process gets its part of the rate.
    (merged.max_pages, merged.max_bytes, merged.rate, merged.max_pages_per_host) = (None, None, None, None);
    merged.input = None;
    Ok(merged)
}
