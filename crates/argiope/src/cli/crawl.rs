//! `argiope crawl` and `argiope demo`: a crawl from the command line to the exit code.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use argiope::keeping::{Keeping, Mail, Setting, Taker};
use argiope::report::Report;
use argiope::{Error, crawl::engine_kind, run_lines};
use argiope_core::keeper::{End, Settled};
use argiope_core::rules::{Config, FailOn};
use argiope_engine::Clock;
use argiope_practice::{Running, demo as practice};
use argiope_store::MemoryFrontier;

use super::config::Usage;
use super::interrupt::Interrupt;
use super::live::{Live, View};
use super::output::Output;
use super::teller::Teller;
use super::{FAILED, complain, escape, report};

/// `--fail-on broken` found something.
const BROKEN: u8 = 3;

/// Crawls as the settings say.
pub fn run(config: Config) -> Result<ExitCode, Usage> {
    let rules = match argiope::rules(&config) {
        Ok(rules) => Arc::new(rules),
        Err(Error::Config(error)) => return Err(error.into()),
        Err(error) => return Ok(fail(&error.to_string())),
    };
    let output = match config.jsonl.as_deref().map(Output::open).transpose() {
        Ok(output) => output,
        Err(why) => return Ok(fail(&why)),
    };
    if config.insecure && !config.quiet {
        let _ = writeln!(std::io::stderr(), "warning: certificates are not checked (--insecure)");
    }
    let clock = Clock::start();
    let shown = Shown::default();
    let picture = shown.clone();
    let live = match Live::start(View::choose(!config.quiet && !config.no_progress), move || picture.snapshot()) {
        Ok(live) => Arc::new(live),
        Err(error) => return Ok(fail(&format!("the live view could not be started: {error}"))),
    };
    let stop = shown.clone();
    let mut teller = Teller::new(Arc::clone(&rules), output, config.verbose > 0, Arc::clone(&live), move || {
        stop.tell(Mail::Leave);
    });
    teller.line(&run_lines::first(&config, &argiope::keeping::wall_clock(&clock).text(argiope_core::Time::ZERO)));
    let teller = Arc::new(Mutex::new(Some(teller)));
    let started = Keeping::start(Setting {
        frontier: MemoryFrontier::new(rules.fingerprint_key),
        rules: Arc::clone(&rules),
        engine: engine_kind(config.engine),
        clock,
        taker: Telling(Arc::clone(&teller)),
        open: false,
    });
    let keeping = match started {
        Ok(keeping) => keeping,
        Err(error) => return Ok(fail(&format!("the crawl could not be started: {error}"))),
    };
    shown.set(&keeping);
    let drain = shown.clone();
    let interrupt = match Interrupt::watch(move || drain.tell(Mail::Stop(End::Interrupted))) {
        Ok(interrupt) => interrupt,
        Err(error) => return Ok(fail(&format!("signals could not be watched: {error}"))),
    };
    let ended = keeping.join();
    let teller = teller.lock().unwrap_or_else(PoisonError::into_inner).take();
    let summary = match ended {
        Ok(summary) => summary,
        Err(error) => {
            drop(live);
            return Ok(fail(&error.to_string()));
        }
    };
    let Some(teller) = teller else {
        return Ok(fail("the records were lost"));
    };
    for notice in &summary.notices {
        live.say(format!("note: {}", escape::visible(notice)));
    }
    let (report, written) = teller.close(summary.elapsed, summary.left, summary.end);
    if let Ok(live) = Arc::try_unwrap(live) {
        live.stop();
    }
    if !config.quiet {
        // Where standard error is closed there is nobody left to tell.
        let _ = write!(std::io::stderr(), "{}", report::render(&report, config.verbose > 1));
    }
    if let Err(why) = written {
        return Ok(fail(&why));
    }
    Ok(code(&config, &report, summary.end, &interrupt))
}

/// Crawls the built-in practice web.
pub fn demo(mut config: Config) -> Result<ExitCode, Usage> {
    let (web, roots): (Running, _) = match practice::web().and_then(|(web, roots)| Ok((web.start()?, roots))) {
        Ok(served) => served,
        Err(error) => return Ok(fail(&format!("the practice web could not be served on loopback addresses: {error}"))),
    };
    let authority = std::env::temp_dir().join(format!("argiope-demo-{}.pem", std::process::id()));
    if let Err(error) = std::fs::write(&authority, web.ca_pem()) {
        return Ok(fail(&format!("{} cannot be written: {error}", authority.display())));
    }
    config.roots = roots;
    config.ca_cert = Some(authority.clone());
    let done = run(config);
    // What is left in the temporary folder does no harm.
    let _ = std::fs::remove_file(&authority);
    drop(web);
    done
}

fn code(config: &Config, report: &Report, end: End, interrupt: &Interrupt) -> ExitCode {
    if end == End::Interrupted
        && let Some(code) = interrupt.code()
    {
        return ExitCode::from(code);
    }
    match config.fail_on {
        Some(FailOn::Broken) if report.broken_total > 0 => ExitCode::from(BROKEN),
        _ => ExitCode::SUCCESS,
    }
}

fn fail(why: &str) -> ExitCode {
    complain(&escape::visible(why));
    ExitCode::from(FAILED)
}

/// What other threads may ask of the crawl once it runs.
#[derive(Clone, Default)]
struct Shown(Arc<Mutex<Option<(std::sync::mpsc::Sender<Mail>, Arc<Mutex<argiope::snapshot::Snapshot>>)>>>);

impl Shown {
    fn set(&self, keeping: &Keeping) {
        let pair = (keeping.inbox.clone(), Arc::clone(&keeping.picture));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(pair);
    }

    fn tell(&self, mail: Mail) {
        if let Some((inbox, _)) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            // A crawl that is over needs no telling.
            let _ = inbox.send(mail);
        }
    }

    fn snapshot(&self) -> argiope::snapshot::Snapshot {
        let shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*shared {
            Some((_, picture)) => picture.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            None => argiope::snapshot::Snapshot::default(),
        }
    }
}

struct Telling(Arc<Mutex<Option<Teller>>>);

impl Taker for Telling {
    fn take(&mut self, settled: Settled) {
        if let Some(teller) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            teller.visit(&settled.visit, &settled.line);
        }
    }

    fn rest(&mut self) {
        if let Some(teller) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            teller.rest();
        }
    }
}
