//! `argiope demo`: a crawl of the built-in practice web, in memory; or that web alone, to try commands on.

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::ExitCode;

use argiope_core::crawl::rules::ProgramSettings;
use argiope_practice::{RunningWeb, demo as practice};
use argiope_runtime::fetchers::Fetchers;
use argiope_runtime::keeper_thread::{Clock, KeeperHandle, MemoryFrontier};
use argiope_runtime::writer_thread::OutputTarget;

use super::crawl::{CrawlParts, crawl, fail, fail_with, first_line, needs_earlier_round};
use super::crawl_control::SharedFleet;
use super::interrupt::Interrupt;
use super::record_stream::RecordStream;
use super::standard_output::print_text;
use super::{FAILED, print_error};
use crate::flags::config_file::UsageError;
use crate::flags::settings::CommandSettings;
use crate::screen::live::LivePrinter;
use crate::wording;

/// Crawls the built-in practice web.
pub fn run(mut settings: CommandSettings) -> Result<ExitCode, UsageError> {
    let messages = settings.messages;
    let (web, roots): (RunningWeb, _) = match practice::web().and_then(|(web, roots)| Ok((web.start()?, roots))) {
        Ok(served) => served,
        Err(error) => {
            return Ok(fail(messages, &format!("the practice web could not be served on loopback addresses: {error}")));
        }
    };
    // The certificate authority of the practice web. With an unpredictable name and `create_new`, an existing file or
    // symbolic link is never opened.
    let ca_file = std::env::temp_dir().join(format!("argiope-demo-{:016x}.pem", argiope_runtime::unpredictable()));
    let written = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&ca_file)
        .and_then(|mut file| file.write_all(web.ca_pem().as_bytes()));
    if let Err(error) = written {
        return Ok(fail(messages, &format!("{} cannot be written: {error}", ca_file.display())));
    }
    settings.crawl.roots = roots;
    settings.crawl.ca_cert = Some(ca_file.clone());
    let result = crawl_in_memory(&settings);
    // Ignored: a leftover file in the temporary folder is harmless.
    let _ = std::fs::remove_file(&ca_file);
    drop(web);
    result
}

/// Serves the practice web until SIGINT or SIGTERM.
pub fn serve(port: u16) -> ExitCode {
    // Signals queue from here on, so none is lost before the web is served.
    let served = Interrupt::listen().and_then(|signals| {
        let (web, sites) = practice::web_to_try(port)?;
        Ok((signals, web.start()?, sites))
    });
    let (mut signals, web, sites) = match served {
        Ok(served) => served,
        Err(error) => {
            print_error(&format!("the practice web could not be served on loopback addresses, port {port}: {error}"));
            return ExitCode::from(FAILED);
        }
    };
    let mut text = String::new();
    for (url, description) in sites {
        let _ = writeln!(text, "{url:<28}{description}");
    }
    let code = print_text(&(text + "serving until Ctrl-C\n"));
    while Interrupt::pending_exit_code(&mut signals).is_none() {
        let _ = signals.wait();
    }
    drop(web);
    code
}

/// Crawls without a crawl directory: the crawl cannot be resumed.
fn crawl_in_memory(settings: &CommandSettings) -> Result<ExitCode, UsageError> {
    let CommandSettings { crawl: config, io, messages, .. } = settings;
    let messages = *messages;
    for (is_set, flag) in
        [(io.csv.is_some(), "--csv"), (config.warc, "--warc"), (needs_earlier_round(settings), "--fail-on new-broken")]
    {
        if is_set {
            return Err(UsageError(format!("{flag} is not supported by demo, which keeps no crawl directory")));
        }
    }
    let rules = settings.rules(ProgramSettings::default())?;
    let output = match config.jsonl.as_deref().map(RecordStream::open).transpose() {
        Ok(output) => output,
        Err(why) => return Ok(fail(messages, &why)),
    };
    let clock = Clock::start();
    let target = OutputTarget { first_line: Some(first_line(settings, &clock)), ..OutputTarget::default() };
    let frontier = MemoryFrontier::new(rules.fingerprint_key);
    let on_start = Box::new(|_: &KeeperHandle| ());
    let parts = CrawlParts {
        frontier,
        fetchers: Fetchers::engine(config.engine)
            .with_browser(&rules)
            .map_err(|why| UsageError(wording::browser(&why)))?,
        target,
        output,
        directory: None,
        name: "practice web".to_owned(),
        settled_before: 0,
        is_shared: false,
        fleet: SharedFleet::default(),
        printer: LivePrinter::default(),
        on_start,
    };
    Ok(crawl(settings, rules, clock, parts).unwrap_or_else(|error| fail_with(messages, &error)))
}
