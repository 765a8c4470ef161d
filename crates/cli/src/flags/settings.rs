//! The settings of the command: those of the crawl, and those that the library does not have.

use std::net::SocketAddr;
use std::path::PathBuf;

use argiope_core::crawl::rules::{Config, ConfigError, HeaderLine, ProgramSettings, Rules};
use argiope_core::crawl::settings::{
    CHECK, CRAWL, DEMO, EXPORT, RENDER, SettingForm, Settings, local, parse_text, secret,
};
use serde::Serialize;

/// All settings of `argiope crawl`, as the flags and the configuration file give them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CommandSettings {
    #[serde(flatten)]
    pub crawl: Config,
    #[serde(flatten)]
    pub io: CommandIo,
    #[serde(flatten)]
    pub messages: MessageSettings,
    #[serde(skip)]
    pub fleet: FleetFlags,
    /// Remarks on the settings, which are printed when the crawl starts.
    #[serde(skip)]
    pub notes: Vec<String>,
}

argiope_core::settings! {
    /// What the command reads before the crawl, writes after it, and serves meanwhile.
    #[derive(Eq)]
    pub struct CommandIo {
        "Input and directory" in CRAWL => {
            /// Read roots from a file, one per line (- is standard input)
            ///
            /// Blank lines and lines that start with # are skipped.
            input: Option<PathBuf> = None => local("FILE").short('i').common(CRAWL);
            /// Add this root to the crawl in the directory `out` (repeatable; @FILE: the roots in a file, one per line)
            ///
            /// The roots of the crawl are known and are not given again. Known links are judged again.
            add_root: Vec<String> = Vec::new() => local("URL").unstored().page("howto/many-sites.md#add-and-remove-sites");
            /// Remove this root from the crawl in the directory `out` (repeatable; @FILE as for `add_root`)
            ///
            /// Pages that were fetched stay, also that of the root.
            remove_root: Vec<String> = Vec::new() => local("URL").unstored().page("howto/many-sites.md#add-and-remove-sites");
        }
        "Output and resources" in CRAWL | DEMO => {
            /// When the crawl ends, write a table of all pages and extracted fields to this file (- is standard output)
            csv: Option<PathBuf> = None => local("FILE").unused(DEMO);
            /// With `csv`: write cells that a spreadsheet would run as formulas unchanged
            ///
            /// By default they get a leading apostrophe. Control characters are escaped in any case.
            raw_csv: bool = false => local("").unused(DEMO);
        }
        "Push" in CRAWL | EXPORT => {
            /// Send the records of pages to this URL over HTTP, in batches; one that the receiver does not take is sent again
            ///
            /// Each batch is a POST of NDJSON. The receiver has it when it answers 2xx. Every record has an `id` that
            /// stays the same when it is sent again, also after the process was killed. The URL may have a name and a
            /// password.
            to: Option<String> = None => secret("URL").page("howto/push.md");
            /// Form of the batches
            ///
            /// ndjson: one record per line. bulk: for the URL of Elasticsearch or OpenSearch that ends with INDEX/_bulk.
            to_format: PushFormat = PushFormat::Ndjson => local("FORMAT").needs("to");
            /// Send this header to the receiver, such as Authorization (repeatable)
            to_header: Vec<HeaderLine> = Vec::new() => secret("NAME: VALUE").needs("to");
        }
        "Watch" in CRAWL | DEMO => {
            /// Serve a dashboard, /metrics and /api/v1 at this address while the crawl runs
            serve: Option<SocketAddr> = None => local("ADDR:PORT").unstored().common(DEMO);
            /// Ask every client of the dashboard for the token in this file
            ///
            /// Required unless ADDR is a loopback address.
            serve_token_file: Option<PathBuf> = None => local("FILE").unstored();
        }
    }
}

argiope_core::settings! {
    /// What the command prints on standard error, and when it exits with code 3.
    #[derive(Copy, Eq)]
    pub struct MessageSettings {
        "Messages" in CRAWL | DEMO | RENDER => {
            /// Print only errors
            quiet: bool = false => local("").short('q').contradicts("verbose").common(CRAWL | DEMO | CHECK).also(CHECK)
                .texts(&[(CHECK, "No progress and no summary on standard error")]);
            /// Print a line per page; -vv: also the links that are not followed
            verbose: u8 = 0 => local("").short('v').counted().common(CRAWL | DEMO);
            /// No live view and no progress lines; the final report stays
            no_progress: bool = false => local("").common(DEMO);
            /// Print messages as JSON on standard error, one object per line
            log_json: bool = false => local("");
            /// Exit with code 3 if links are broken
            ///
            /// `broken`: the crawl directory has broken links. `new-broken`, with `recrawl`: some of them were not broken
            /// in the round before.
            fail_on: Option<FailOn> = None => local("WHAT").common(CRAWL | DEMO)
                .texts(&[(DEMO, "Exit with code 3 if links are broken (`broken`)")]);
        }
    }
}

argiope_core::settings! {
    /// Where a crawl is shared with other processes.
    #[derive(Eq)]
    pub struct FleetFlags {
        "Many machines" in CRAWL => {
            /// Share the crawl with other processes through a Redis or Valkey server or cluster
            ///
            /// Written redis://HOST:PORT[,HOST:PORT...], or rediss:// for TLS. Without roots, the process joins an
            /// existing crawl.
            frontier: Option<String> = None => secret("ADDRESS").page("fleet/README.md");
            /// Read the password of the store from a file
            ///
            /// Without it, the password is in the address or in the variable ARGIOPE_FRONTIER_PASSWORD.
            frontier_password_file: Option<PathBuf> = None => local("FILE").unstored();
            /// The name of the shared crawl
            name: Option<String> = None => local("NAME").unstored();
            /// Number of groups into which hosts are divided
            buckets: u32 = 4096 => local("N").unstored().unused(CRAWL);
            /// How long a lease lasts, in seconds
            lease: u64 = 10 => local("SECONDS").unstored().unused(CRAWL);
        }
    }
}

argiope_core::words! {
    /// Findings that cause exit code 3 at the end of a crawl.
    FailOn {
        /// A broken link: an error status or a failure.
        Broken = "broken",
        /// A broken link that was not broken in the round before (`--recrawl`).
        NewBroken = "new-broken",
    }
}

argiope_core::words! {
    /// How records are sent to a receiver.
    PushFormat {
        /// One record in each line, which begins with its `id`.
        Ndjson = "ndjson",
        /// The bulk interface of Elasticsearch and OpenSearch.
        Bulk = "bulk",
    }
}

argiope_core::setting_values! {
    FailOn: SettingForm::Words(FailOn::WORDS), parse_text;
    PushFormat: SettingForm::Words(PushFormat::WORDS), parse_text;
}

impl CommandIo {
    /// Whether the roots of an existing crawl are changed.
    pub fn changes_roots(&self) -> bool {
        !self.add_root.is_empty() || !self.remove_root.is_empty()
    }
}

impl CommandSettings {
    /// Checks all settings, and compiles those of the crawl. With `-vv`, pages also report the links that are not
    /// followed.
    pub fn rules(&self, program: ProgramSettings) -> Result<Rules, ConfigError> {
        self.io.check_paths()?;
        let report_skips = self.messages.verbose > 1;
        argiope_runtime::rules(&self.crawl, ProgramSettings { report_skips, ..program })
    }

    /// Every key that a configuration file may have.
    pub fn keys() -> impl Iterator<Item = &'static str> {
        [Config::keys(), CommandIo::keys(), MessageSettings::keys(), FleetFlags::keys()].into_iter().flatten()
    }
}

/// The settings of the crawl among stored settings. `run` records contain all settings of the command.
pub fn crawl_settings_of_stored(
    mut settings: serde_json::Map<String, serde_json::Value>,
) -> Result<Config, serde_json::Error> {
    let others = [CommandIo::keys(), MessageSettings::keys()].concat();
    settings.retain(|key, _| !others.contains(&key.as_str()));
    serde_json::from_value(settings.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn custom_settings() -> CommandSettings {
        let messages = MessageSettings {
            quiet: true,
            verbose: 2,
            no_progress: true,
            log_json: true,
            fail_on: Some(FailOn::Broken),
        };
        let io = CommandIo { input: Some("roots.txt".into()), csv: Some("pages.csv".into()), ..CommandIo::default() };
        let crawl = Config { roots: vec!["h".into()], depth: Some(3), ..Config::default() };
        CommandSettings { crawl, io, messages, ..CommandSettings::default() }
    }

    #[test]
    fn settings_without_a_value_are_not_written() {
        let written = serde_json::to_string(&CommandSettings::default()).unwrap();
        assert!(!written.contains("null"), "{written}");
    }

    #[test]
    fn the_settings_of_the_crawl_can_be_read_from_a_record_of_all_settings() {
        let serde_json::Value::Object(written) = serde_json::to_value(custom_settings()).unwrap() else {
            panic!("expected an object")
        };
        assert_eq!(
            (&written["verbose"], &written["csv"], &written["depth"]),
            (&2.into(), &"pages.csv".into(), &3.into())
        );
        assert_eq!(crawl_settings_of_stored(written).unwrap(), custom_settings().crawl);
    }
}
