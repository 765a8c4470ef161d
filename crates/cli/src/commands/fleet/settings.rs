//! The settings of a shared crawl: those of the process that started it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use argiope_core::rules::Config;
use argiope_store::cluster::{FleetClient, FleetSettings};
use argiope_store::segments::{is_object_storage, redacted_place};

use super::{FleetFlags, PAUSE, Refusal};
use crate::commands::crawl;
use crate::flags::settings::CommandSettings;

/// How long a process without roots waits until another process creates the crawl.
const JOIN: Duration = Duration::from_secs(60);

/// Settings that each process chooses for itself. The first process chooses all others.
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

/// The settings of the shared crawl. A process with roots stores its own if there are none yet; a process without roots
/// waits for them.
pub fn settings(
    own: &CommandSettings,
    client: &mut FleetClient,
    flags: &FleetFlags,
    name: &str,
) -> Result<FleetSettings, Refusal> {
    let config = &own.crawl;
    let absolute = place(config)?.display().to_string();
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
            round: 1,
            buckets: flags.buckets,
            max_pages: config.max_pages,
            max_bytes: config.max_bytes.map(|size| size.0),
            rate: config.rate.map(|rate| rate.per_second),
            per_ip: config.per_ip.filter(|most| *most > 0).map(|most| most as u64),
            max_pages_per_host: config.max_pages_per_host,
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

/// The folder of the results as an absolute path, or the prefix.
pub fn place(config: &Config) -> Result<PathBuf, Refusal> {
    let out = config.out.clone().unwrap_or_default();
    if is_object_storage(&out) && out.to_string_lossy().contains('@') {
        // The address would be stored with the crawl and shown in messages.
        let shown = redacted_place(&out);
        return Err(Refusal::Usage(format!("--out {shown}: give no credentials here; set them in the environment")));
    }
    Ok(if is_object_storage(&out) { out } else { std::path::absolute(&out).unwrap_or(out) })
}

/// The limits that a recrawl may change.
const LIMITS: &[&str] = &["rate", "per-ip", "max-time", "max-bytes", "max-pages-per-host"];

/// The settings of the next round: those of the previous one, with the limits that this process gives.
pub fn next_round(config: &Config, previous: &FleetSettings) -> Result<FleetSettings, Refusal> {
    let damaged = || Refusal::Failed("the settings of the crawl cannot be read".into());
    let mut shared: serde_json::Value = serde_json::from_str(&previous.config).map_err(|_| damaged())?;
    let (mine, default) = (shared_part(config), shared_part(&Config::default()));
    for key in LIMITS {
        if mine.get(key) != default.get(key)
            && let Some(value) = mine.get(key)
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
        per_ip: merged.per_ip.filter(|most| *most > 0).map(|most| most as u64),
        max_pages_per_host: merged.max_pages_per_host,
        created: 0,
        config: shared.to_string(),
        ..previous.clone()
    })
}

/// The settings as JSON, without [`LOCAL`] ones, but with the roots.
fn shared_part(config: &Config) -> serde_json::Value {
    let mut value = serde_json::to_value(config).unwrap_or_default();
    if let Some(map) = value.as_object_mut() {
        map.retain(|key, _| key == "roots" || !LOCAL.contains(&key.as_str()));
    }
    value
}

/// The settings of the first process, with the [`LOCAL`] ones of this process. Any other setting that differs is an
/// error that names it.
pub fn shared_config(config: &Config, settings: &FleetSettings) -> Result<Config, Refusal> {
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
    // These limits hold over all processes: the store counts pages, and each process gets its part of the rate.
    (merged.max_pages, merged.max_bytes, merged.rate, merged.max_pages_per_host) = (None, None, None, None);
    merged.input = None;
    Ok(merged)
}
