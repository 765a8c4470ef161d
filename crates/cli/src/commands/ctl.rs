//! `argiope ctl DIR ...`: control of a running crawl.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use argiope_core::crawl::control::Control;
use argiope_core::crawl::rules::{Pace, Rate};
use argiope_core::crawl::status::Status;
use clap::{Args, Subcommand};

use super::control_socket::{self, ControlRequest};
use super::fleet::{self, FleetCtl};
use super::{FAILED, print_error, standard_output};
use crate::flags;
use crate::flags::config_file::UsageError;
use crate::locale::localized;
use crate::screen::view;
use argiope_core::base::escape::visible;

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  argiope ctl ./example.com.crawl status\n  \
                        argiope ctl ./example.com.crawl rate 2/s\n  \
                        argiope ctl ./example.com.crawl exclude '/calendar/'\n  \
                        argiope ctl redis://db.example:6379 --name news pause\n\n\
                        Pace, rate and excludes also apply to later runs of the crawl; a pause does not. In a crawl by\n\
                        many machines, every change holds for all processes until it is changed again.")]
pub struct CtlArgs {
    /// The crawl directory; with --name, the address of the store of many machines
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    #[command(flatten)]
    pub fleet: FleetCtl,
    #[command(subcommand)]
    pub action: CtlAction,
}

#[derive(Subcommand, Debug)]
#[command(disable_help_subcommand = true)]
pub enum CtlAction {
    /// Start no page until the crawl is resumed; requests of rendered pages that are open still start
    Pause,
    /// Continue after a pause
    Resume,
    /// End the crawl after the requests in flight; the same crawl command resumes it
    Stop,
    /// Show what the crawl is doing
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Change the pace of all hosts: gentle, steady or full
    Pace {
        /// The new pace
        #[arg(value_name = "PACE", value_parser = flags::one_of::<Pace>(Pace::WORDS))]
        pace: Pace,
    },
    /// Change the limit on pages over all hosts: 5/s, 30/m, or none
    Rate {
        /// Pages per second or minute, such as 5/s or 30/m; none removes the limit
        #[arg(value_name = "N/s|none", value_parser = parse_rate)]
        rate: RateLimit,
    },
    /// From now on, fetch no URL that matches this regular expression
    Exclude {
        /// Regular expression that is searched in the whole URL
        #[arg(value_name = "RE")]
        pattern: String,
    },
}

/// A rate limit; `None` means unlimited.
#[derive(Clone, Copy, Debug)]
pub struct RateLimit(Option<Rate>);

fn parse_rate(text: &str) -> Result<RateLimit, String> {
    match text {
        "none" => Ok(RateLimit(None)),
        text => text
            .parse()
            .map(|rate| RateLimit(Some(rate)))
            .map_err(|error: argiope_core::crawl::rules::BadValue| error.to_string()),
    }
}

/// Sends one request to the crawl and prints the result.
pub fn run(args: &CtlArgs) -> Result<ExitCode, UsageError> {
    let control = match &args.action {
        CtlAction::Pause => Control::Pause,
        CtlAction::Resume => Control::Resume,
        CtlAction::Stop => Control::Stop,
        CtlAction::Pace { pace } => Control::Pace { pace: *pace },
        CtlAction::Rate { rate } => Control::Rate { rate: rate.0 },
        CtlAction::Exclude { pattern } => Control::Exclude { pattern: pattern.clone() },
        CtlAction::Status { json } => {
            if let Some(location) = args.fleet.location(&args.directory) {
                return Ok(fleet::control(location, None, *json));
            }
            return Ok(match control_socket::request(&args.directory, &ControlRequest::Status) {
                Ok(response) => print_status(&response.status.unwrap_or_default(), *json),
                Err(why) => fail(&why),
            });
        }
    };
    if let Some(location) = args.fleet.location(&args.directory) {
        return Ok(fleet::control(location, Some(&control), false));
    }
    let confirmation = control.to_string();
    match control_socket::request(&args.directory, &ControlRequest::Control(control)) {
        Ok(_) => {
            // Ignored: if standard error is closed, the exit code still reports the result.
            let _ = writeln!(std::io::stderr(), "{}", localized(&visible(&confirmation)));
            Ok(ExitCode::SUCCESS)
        }
        Err(why) => Ok(fail(&why)),
    }
}

fn print_status(status: &Status, json: bool) -> ExitCode {
    let text = if json { serde_json::to_string(status).unwrap_or_default() + "\n" } else { view::status(status) };
    match standard_output::write_text(&text) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            fail(&format!("standard output cannot be written: {error}"))
        }
        _ => ExitCode::SUCCESS,
    }
}

fn fail(why: &str) -> ExitCode {
    print_error(&visible(why));
    ExitCode::from(FAILED)
}
