//! The server as a program: flags, one line of JSON when it is ready, then commands on standard input.
//!
//! Invariant: standard output contains only lines of JSON, so that a parent process can parse it.

use crate::family::{Family, HELP, ServeOptions};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The first line of output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadyLine {
    pub pid: u32,
    pub addresses: Vec<SocketAddr>,
    /// The first thousand roots (`--roots-out` writes all).
    pub roots: Vec<String>,
    /// The number of pages to find, if known.
    pub pages: Option<u64>,
    /// The file with the authority's certificate, if requested.
    pub ca: Option<PathBuf>,
}

const ROOTS_SHOWN: usize = 1000;

/// Runs the program with these arguments (without the program's name) and returns its exit code: 0 if it ended
/// normally, 1 if serving failed, 2 for wrong arguments.
pub fn serve_main(args: impl IntoIterator<Item = String>) -> i32 {
    let mut args = args.into_iter();
    let complain = |text: &dyn std::fmt::Display| {
        let _ = writeln!(io::stderr(), "argiope-practice: {text}");
    };
    let order = match args.next().as_deref() {
        Some("serve") => ServeOptions::parse(args),
        Some("demo") => ServeOptions::parse(args).map(|order| ServeOptions { family: Family::Demo, ..order }),
        Some("help" | "--help" | "-h") => {
            let _ = io::stdout().write_all(HELP.as_bytes());
            return 0;
        }
        Some("hostile") => return hostile(args, &complain),
        Some("ideal") => return tell_ideal(args, &complain),
        Some(other) => Err(format!("{other}: no such command; it is serve, demo, hostile or ideal")),
        None => Err("say what to do: argiope-practice serve, demo, hostile or --help".to_owned()),
    };
    match order {
        Err(fault) => {
            complain(&fault);
            2
        }
        Ok(order) => match run(&order) {
            Ok(()) => 0,
            Err(error) => {
                complain(&error);
                1
            }
        },
    }
}

fn hostile(args: impl Iterator<Item = String>, complain: &dyn Fn(&dyn std::fmt::Display)) -> i32 {
    allow_many_files();
    match crate::hostile::serve(args) {
        Ok(()) => 0,
        Err(error) => {
            complain(&error);
            if error.kind() == io::ErrorKind::InvalidInput { 2 } else { 1 }
        }
    }
}

/// Prints the minimum time of a crawl of a graph, as a line of JSON.
fn tell_ideal(flags: impl Iterator<Item = String>, complain: &dyn Fn(&dyn std::fmt::Display)) -> i32 {
    let flags: Vec<String> = flags.collect();
    if flags.iter().any(|flag| matches!(flag.as_str(), "--help" | "-h")) {
        let _ = io::stdout().write_all(HELP.as_bytes());
        return 0;
    }
    match crate::ideal::parse(flags) {
        Err(fault) => {
            complain(&fault);
            2
        }
        Ok((order, may)) => {
            let graph = crate::Graph::new(order.plan, 80, order.tls.is_some());
            i32::from(say(&graph.ideal(may)).is_err())
        }
    }
}

fn run(order: &ServeOptions) -> io::Result<()> {
    allow_many_files();
    let opened = order.open()?;
    if let Some(file) = &order.roots_out {
        std::fs::write(file, opened.roots.join("\n") + "\n")?;
    }
    let web = opened.web.start()?;
    if let Some(file) = &order.ca_out {
        std::fs::write(file, web.ca_pem())?;
    }
    let ready = ReadyLine {
        pid: std::process::id(),
        addresses: web.addresses(),
        roots: opened.roots.into_iter().take(ROOTS_SHOWN).collect(),
        pages: opened.graph.map(|graph| graph.total_pages()),
        ca: order.ca_out.clone(),
    };
    say(&ready)?;
    for line in io::stdin().lock().lines() {
        match line?.trim() {
            "stats" => say(&web.stats())?,
            "release" => {
                web.release()?;
                say(&web.stats())?;
            }
            "stop" => return web.stop(),
            "" => {}
            other => {
                say(&serde_json::json!({ "fault": format!("{other}: no such command; it is stats, release or stop") }))?
            }
        }
    }
    if order.forever {
        // Serves until a signal ends the process.
        while !web.wait_until(Duration::from_secs(3600), |_| false) {}
    }
    web.stop()
}

/// Raises the limit of open files, because every connection is one. Ignored if that fails.
fn allow_many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

fn say(value: &impl Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, value)?;
    out.write_all(b"\n")?;
    out.flush()
}
