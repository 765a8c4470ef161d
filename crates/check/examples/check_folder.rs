//! Checks a folder without a network and prints the findings: `cargo run --release --example check_folder -- FOLDER`.

use std::path::PathBuf;

use argiope_check::output::{self, TextOptions};
use argiope_check::{CheckOptions, CheckProgress, FolderCheck, RemoteFaults};

#[allow(clippy::print_stdout)]
fn main() -> std::io::Result<()> {
    let folders: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let options = CheckOptions { external: false, ..CheckOptions::default() };
    let report = FolderCheck::scan(&folders, &options, &CheckProgress::default())?.finish(&RemoteFaults::default());
    print!("{}", output::text(&report, TextOptions::default()));
    println!("{}", output::summary_line(&report.summary));
    Ok(())
}
