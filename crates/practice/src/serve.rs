//! The server as a program: flags, one line of JSON when it is ready, then commands on standard input.
//!
//! Invariant: while it serves, standard output contains only lines of JSON, so that a parent process can parse it.

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
    /// The number of pages of the web, if it is a graph.
    pub pages: Option<u64>,
    /// The file with the authority's certificate (`--ca-out`).
    pub ca: Option<PathBuf>,
}

/// Limit on the roots in [`ReadyLine`].
const MAX_ROOTS_SHOWN: usize = 1000;

/// Runs the program with these arguments (without the program's name) and returns its exit code: 0 if it ended
/// normally, 1 if serving failed, 2 for wrong arguments.
pub fn serve_main(args: impl IntoIterator<Item = String>) -> i32 {
    let mut args = args.into_iter();
    let print_error = |text: &dyn std::fmt::Display| {
        let _ = writeln!(io::stderr(), "argiope-practice: {text}");
    };
    let options = match args.next().as_deref() {
        Some("serve") => ServeOptions::parse(args),
        Some("demo") => ServeOptions::parse(args).and_then(|options| {
            let options = ServeOptions { family: Family::Demo, ..options };
            options.check().map(|()| options)
        }),
        Some("help" | "--help" | "-h") => {
            let _ = io::stdout().write_all(HELP.as_bytes());
            return 0;
        }
        Some("hostile") => return hostile(args, &print_error),
        Some("ideal") => return print_ideal(args, &print_error),
        Some(other) => Err(format!("{other}: no such command; the commands are serve, demo, hostile and ideal")),
        None => Err("a command is needed: argiope-practice serve, demo, hostile, ideal or --help".to_owned()),
    };
    match options {
        Err(error) => {
            print_error(&error);
            2
        }
        Ok(options) => match run(&options) {
            Ok(()) => 0,
            Err(error) => {
                print_error(&error);
                1
            }
        },
    }
}

/// Serves cases of the hostile catalogue; returns the exit code.
fn hostile(args: impl Iterator<Item = String>, print_error: &dyn Fn(&dyn std::fmt::Display)) -> i32 {
    raise_file_limit();
    match crate::hostile::serve(args) {
        Ok(()) => 0,
        Err(error) => {
            print_error(&error);
            if error.kind() == io::ErrorKind::InvalidInput { 2 } else { 1 }
        }
    }
}

/// Prints the minimum time of a crawl of a graph, as a line of JSON; returns the exit code.
fn print_ideal(flags: impl Iterator<Item = String>, print_error: &dyn Fn(&dyn std::fmt::Display)) -> i32 {
    let flags: Vec<String> = flags.collect();
    if flags.iter().any(|flag| matches!(flag.as_str(), "--help" | "-h")) {
        let _ = io::stdout().write_all(HELP.as_bytes());
        return 0;
    }
    match crate::ideal::parse(flags) {
        Err(error) => {
            print_error(&error);
            2
        }
        Ok((options, limits)) => {
            // The port is not used: nothing is served.
            let graph = crate::Graph::new(options.plan, 80, options.tls.is_some());
            i32::from(print_json(&graph.ideal(limits)).is_err())
        }
    }
}

fn run(options: &ServeOptions) -> io::Result<()> {
    raise_file_limit();
    let opened = options.open()?;
    if let Some(file) = &options.roots_out {
        std::fs::write(file, opened.roots.join("\n") + "\n")?;
    }
    let web = opened.web.start()?;
    if let Some(file) = &options.ca_out {
        std::fs::write(file, web.ca_pem())?;
    }
    let ready = ReadyLine {
        pid: std::process::id(),
        addresses: web.addresses(),
        roots: opened.roots.into_iter().take(MAX_ROOTS_SHOWN).collect(),
        pages: opened.graph.map(|graph| graph.total_pages()),
        ca: options.ca_out.clone(),
    };
    print_json(&ready)?;
    for line in io::stdin().lock().lines() {
        match line?.trim() {
            "stats" => print_json(&web.stats())?,
            "release" => {
                web.release()?;
                print_json(&web.stats())?;
            }
            "stop" => return web.stop(),
            "" => {}
            other => print_json(
                &serde_json::json!({ "fault": format!("{other}: no such command; the commands are stats, release and stop") }),
            )?,
        }
    }
    if options.forever {
        // Serves until a signal ends the process: the condition is never met.
        while !web.wait_until(Duration::from_secs(3600), |_| false) {}
    }
    web.stop()
}

/// Raises the limit on file descriptors, because every connection needs one. Errors are ignored.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

fn print_json(value: &impl Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, value)?;
    out.write_all(b"\n")?;
    out.flush()
}
