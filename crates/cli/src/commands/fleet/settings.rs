//! The settings of a shared crawl. The process that starts the crawl chooses them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use argiope_core::crawl::rules::Config;
use argiope_store::cluster::{FleetClient, FleetSettings};
use argiope_store::segments::{is_object_storage, redacted_place};
use serde_json::{Map, Value};

use super::{FleetCommandError, FleetFlags, RETRY_PAUSE};
use crate::commands::crawl;
use crate::flags::settings::{CommandSettings, crawl_settings_of_stored};

/// How long a process without roots waits until another process creates the crawl.
const JOIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Settings that each process chooses for itself, and those that [`join_settings`] compares (`out`, `max-pages`). All
/// others are those of the first process.
const LOCAL_SETTINGS: &[&str] = &[
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
    "max-pages",
    "fresh",
    "recrawl",
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
            config: Value::from(shared_part(config)).to_string(),
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
    let mut shared: Map<String, Value> = serde_json::from_str(&previous.config).map_err(|_| damaged())?;
    let (own, default) = (shared_part(config), shared_part(&Config::default()));
    for &key in CHANGEABLE_LIMITS {
        // A value other than the default was given by the user.
        if own.get(key) != default.get(key)
            && let Some(value) = own.get(key)
        {
            shared.insert(key.to_owned(), value.clone());
        }
    }
    let merged = crawl_settings_of_stored(shared.clone()).map_err(|_| damaged())?;
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
        config: Value::from(shared).to_string(),
        ..previous.clone()
    })
}

/// The settings as JSON, without the [`LOCAL_SETTINGS`].
fn shared_part(config: &Config) -> Map<String, Value> {
    let mut settings = all_settings(config);
    settings.retain(|key, _| !LOCAL_SETTINGS.contains(&key.as_str()));
    settings
}

/// The settings as JSON, without secrets.
fn all_settings(config: &Config) -> Map<String, Value> {
    match serde_json::to_value(config) {
        Ok(Value::Object(settings)) => settings,
        _ => Map::new(),
    }
}

/// The settings of the first process, with the [`LOCAL_SETTINGS`] of this process. It is an error if the user gives this
/// process a different value for any other setting; the message names the setting.
pub fn shared_config(config: &Config, settings: &FleetSettings) -> Result<Config, FleetCommandError> {
    let damaged = || FleetCommandError::Failed("the settings of the crawl cannot be read".into());
    let first: Map<String, Value> = serde_json::from_str(&settings.config).map_err(|_| damaged())?;
    let (own, default) = (shared_part(config), shared_part(&Config::default()));
    for (key, value) in &own {
        let is_default = default.get(key) == Some(value);
        if !is_default && first.get(key) != Some(value) {
            let first_value = first.get(key).map_or("its default".to_owned(), ToString::to_string);
            let flag = if key == "roots" { "its roots are".to_owned() } else { format!("--{key} is") };
            let why =
                format!("the crawl was started with other settings: {flag} {first_value} there, and {value} here");
            return Err(FleetCommandError::Usage(why));
        }
    }
    let mut merged = all_settings(config);
    merged.extend(first);
    let merged = crawl_settings_of_stored(merged).map_err(|_| damaged())?;
    // Secrets are not serialized, so they are copied.
    let (header, user) = (config.header.clone(), config.user.clone());
    let (auth, proxy) = (config.auth.clone(), config.proxy.clone());
    let mut merged = Config { header, user, auth, proxy, ..merged };
    // These limits apply to the sum of all processes. The fleet enforces them: the store counts pages and bytes, and each
    // process gets its part of the rate.
    (merged.max_pages, merged.max_bytes, merged.rate, merged.max_pages_per_host) = (None, None, None, None);
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The settings that the first process of a crawl stores.
    fn stored(config: String) -> FleetSettings {
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
        let merged = shared_config(&own, &stored(Value::from(shared_part(&first)).to_string())).ok().unwrap();
        assert_eq!((merged.header, merged.user, merged.proxy), (own.header, own.user, own.proxy));
        assert_eq!((merged.roots, merged.depth), (first.roots, Some(3)));
    }
}
