//! `argiope-practice hostile`: serves all cases, for testing other crawlers.
//!
//! Invariant: standard output has one line per case with tab-separated fields.

use super::{CaseSetup, Category, RunningCase, catalogue};
use std::io::{self, BufRead, Write};

/// The help text.
pub const HELP: &str = "\
The hostile web, served on loopback addresses.

Usage: argiope-practice hostile [--list] [--forever] [NAME...]

A NAME is a case (H110), the beginning of several (H11), or a category (connection); without one, everything is served.
Each case is one line: its name, its category, the class of outcome that is expected, the URLs to crawl, the name server
to use where it has names of its own (or -), and what it is about.

  --list       only prints the cases
  --forever    keeps serving when standard input ends
";

/// Serves the requested cases until standard input ends.
pub fn serve(arguments: impl IntoIterator<Item = String>) -> io::Result<()> {
    let (flags, names): (Vec<String>, Vec<String>) = arguments.into_iter().partition(|word| word.starts_with('-'));
    if flags.iter().any(|flag| matches!(flag.as_str(), "--help" | "-h")) {
        return io::stdout().write_all(HELP.as_bytes());
    }
    if let Some(unknown) = flags.iter().find(|flag| !matches!(flag.as_str(), "--list" | "--forever")) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{unknown}: no such flag\n\n{HELP}")));
    }
    let is_case = |name: &str| {
        let mut cases = catalogue().into_iter();
        cases.any(|case| case.id.starts_with(name) || case.category.name() == name)
    };
    if let Some(unknown) = names.iter().find(|name| !is_case(name)) {
        let message = format!("no case is called {unknown}; hostile --list names them");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let has = |flag: &str| flags.iter().any(|other| other == flag);
    let wanted = |id: &str, category: Category| {
        names.is_empty() || names.iter().any(|name| id.starts_with(name.as_str()) || category.name() == name)
    };
    let mut out = io::stdout().lock();
    let mut scenes: Vec<RunningCase> = Vec::new();
    for (ordinal, case) in catalogue().into_iter().enumerate() {
        if !wanted(case.id, case.category) {
            continue;
        }
        let start = [case.id, case.category.name(), &case.expect.to_string()].join("\t");
        match case.showing {
            CaseSetup::Elsewhere { file, test } => writeln!(out, "{start}\t-\t-\t{} ({test} in {file})", case.title)?,
            CaseSetup::Here(_) if has("--list") => writeln!(out, "{start}\t-\t-\t{}", case.title)?,
            CaseSetup::Here(_) => {
                let Some(builder) = case.builder(ordinal)? else { continue };
                let running = builder.start()?;
                let dns = running.dns().map_or_else(|| "-".to_owned(), |address| address.to_string());
                writeln!(out, "{start}\t{}\t{dns}\t{}", running.roots.join(" "), case.title)?;
                scenes.push(running);
            }
        }
    }
    out.flush()?;
    drop(out);
    if scenes.is_empty() {
        return Ok(());
    }
    for line in io::stdin().lock().lines() {
        line?;
    }
    while has("--forever") {
        std::thread::park();
    }
    Ok(())
}
