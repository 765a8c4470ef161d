//! `argiope ctl ADDRESS --name NAME`: changes a crawl for all its processes.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use argiope_core::base::escape::visible;
use argiope_core::crawl::control::Control;
use argiope_fleet::cluster::{CrawlHead, FleetClient, FleetSettings};
use clap::Args;

use super::status::{FleetStatusArgs, open, status};
use super::{FleetCommandError, FleetLocation};
use crate::locale::localized;

// The flags of `argiope ctl` for a shared crawl. Not a doc comment: clap would use it as the description of the command.
#[derive(Args, Clone, Debug, Default)]
pub struct FleetCtl {
    /// The name of the crawl, if DIR is the address of the store of many machines
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Read the password of the store from a file, as for crawl --frontier
    #[arg(long, value_name = "FILE", requires = "name")]
    frontier_password_file: Option<std::path::PathBuf>,
    /// Also trust the certificate authorities in this PEM file
    #[arg(long, value_name = "FILE", requires = "name")]
    ca_cert: Option<std::path::PathBuf>,
}

impl FleetCtl {
    /// The crawl at this address; `None` if it is a crawl directory.
    pub fn location(&self, address: &Path) -> Option<FleetLocation> {
        let Self { name, frontier_password_file, ca_cert } = self.clone();
        Some(FleetLocation { address: address.to_str()?.to_owned(), frontier_password_file, name: name?, ca_cert })
    }
}

/// Makes a change, or shows the status if there is none.
pub fn control(location: FleetLocation, control: Option<&Control>, json: bool) -> ExitCode {
    let Some(control) = control else {
        return status(&FleetStatusArgs { location, json }).unwrap_or_else(FleetCommandError::print);
    };
    let changed = open(&location).and_then(|(mut client, settings)| change_crawl(&mut client, &settings, control));
    match changed {
        Ok(()) => {
            // Ignored: if standard error is closed, the exit code still reports the result.
            let _ = writeln!(std::io::stderr(), "{}", localized(&visible(&control.to_string())));
            ExitCode::SUCCESS
        }
        Err(error) => error.print(),
    }
}

/// Makes a change that holds for all processes, those that join later included.
pub fn change_crawl(
    client: &mut FleetClient,
    settings: &FleetSettings,
    control: &Control,
) -> Result<(), FleetCommandError> {
    if let Some(pattern) = control.exclude_pattern() {
        argiope_core::page::scope::check_pattern(&pattern).map_err(FleetCommandError::Usage)?;
    }
    CrawlHead::change_orders(client, settings, |orders| orders.apply(control))?.map_err(FleetCommandError::Usage)?;
    Ok(())
}
