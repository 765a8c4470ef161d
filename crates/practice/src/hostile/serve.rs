//! `argiope-practice hostile`: serves all cases, for testing other crawlers.
//!
//! Standard output has one line per case, with tab-separated fields.

use super::{CaseSetup, Category, RunningCase, catalogue};
use std::io::{self, BufRead, Write};

/// The help text.
pub const HELP: &str = "\
The hostile web, served on loopback addresses.

Usage: argiope-practice hostile [--list] [--forever] [NAME...]

A NAME is a case (H110), the beginning of several (H11), or a category (connection); without one, everything is served.
Each case is one line: its name, its category, the expected class of outcome, the URLs to crawl, the name server to use
(or - if the case has none), and its title.

  --list       prints the cases and serves none
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
    let is_selected = |id: &str, category: Category| {
        names.is_empty() || names.iter().any(|name| id.starts_with(name.as_str()) || category.name() == name)
    };
    let mut out = io::stdout().lock();
    let mut running_cases: Vec<RunningCase> = Vec::new();
    for (ordinal, case) in catalogue().into_iter().enumerate() {
        if !is_selected(case.id, case.category) {
            continue;
        }
        let first_fields = [case.id, case.category.name(), &case.expect.to_string()].join("\t");
        match case.setup {
            CaseSetup::Elsewhere { file, test } => {
                writeln!(out, "{first_fields}\t-\t-\t{} ({test} in {file})", case.title)?
            }
            CaseSetup::Here(_) if has("--list") => writeln!(out, "{first_fields}\t-\t-\t{}", case.title)?,
            CaseSetup::Here(_) => {
                let Some(builder) = case.builder(ordinal)? else { continue };
                let running = builder.start()?;
                let dns = running.dns().map_or_else(|| "-".to_owned(), |address| address.to_string());
                writeln!(out, "{first_fields}\t{}\t{dns}\t{}", running.roots.join(" "), case.title)?;
                running_cases.push(running);
            }
        }
    }
    out.flush()?;
    drop(out);
    if running_cases.is_empty() {
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
