//! [`CheckedLinks`]: what `argiope check -d` found in a crawl directory.

use std::io;
use std::path::Path;

use argiope_check::CHECK_FILE;
use argiope_core::Url;
use argiope_store::disk::{Files as _, OsFiles};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::records::ReadError;
use crate::results::Results;

/// Maximum number of places that are shown of a target.
const MAX_PLACES: usize = 1;
/// The largest file of findings that is read. A finding has a few hundred bytes.
const MAX_FILE: u64 = 256 << 20;

/// The findings of a check.
#[derive(Debug, Default, Deserialize)]
pub struct CheckedLinks {
    pub findings: Vec<CheckedLink>,
    pub summary: CheckedSummary,
}

/// The totals of a check.
#[derive(Debug, Default, Deserialize)]
pub struct CheckedSummary {
    pub links: u64,
    pub external: u64,
    pub broken: u64,
    pub broken_places: u64,
    pub unknown: u64,
}

/// A target that is broken or could not be checked.
#[derive(Debug, Deserialize)]
pub struct CheckedLink {
    #[serde(rename = "type")]
    pub verdict: String,
    pub url: String,
    pub kind: String,
    pub message: String,
    pub on: Vec<CheckedPlace>,
}

/// A page that references the target.
#[derive(Debug, Deserialize)]
pub struct CheckedPlace {
    pub page: String,
}

impl CheckedLinks {
    /// Reads the findings of the check that made this directory; `None` if another command made it.
    pub fn of(results: &Results) -> Result<Option<Self>, ReadError> {
        let file = results.location().join(CHECK_FILE);
        let text = match read_own(results.location(), CHECK_FILE) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ReadError::Refused(format!("{} cannot be read: {error}", file.display()))),
        };
        let damaged = |error| ReadError::Refused(format!("{} is damaged: {error}", file.display()));
        serde_json::from_slice(&text).map(Some).map_err(damaged)
    }

    /// The broken targets.
    pub fn broken(&self) -> impl Iterator<Item = &CheckedLink> {
        self.findings.iter().filter(|finding| finding.verdict == "broken")
    }

    /// The figures and the broken targets, as JSON.
    pub fn to_json(&self) -> Value {
        let CheckedSummary { links, external, broken, broken_places, unknown } = self.summary;
        let targets: Vec<Value> = self
            .broken()
            .map(|link| json!({ "url": link.url, "kind": link.kind, "message": link.message, "places": link.on.len() }))
            .collect();
        json!({
            "links": links, "external": external, "broken": broken, "broken_places": broken_places, "unknown": unknown,
            "targets": targets,
        })
    }
}

/// Reads a file of a crawl directory: a regular file, and no symbolic link.
fn read_own(directory: &Path, name: &str) -> io::Result<Vec<u8>> {
    let file = OsFiles::new(directory).open(name)?;
    let length = file.length()?;
    if length > MAX_FILE {
        return Err(io::Error::other(format!("it has {length} bytes, more than Argiope writes")));
    }
    let mut content = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    let read = file.read_at(&mut content, 0)?;
    content.truncate(read);
    Ok(content)
}

impl CheckedLink {
    /// Whether the target is on another host than the page that references it.
    pub fn is_external(&self) -> bool {
        let host = |url: &str| Url::parse(url).ok().map(|url| url.host().trim_start_matches("www.").to_owned());
        let target = host(&self.url);
        target.is_some() && target != self.on.first().and_then(|place| host(&place.page))
    }

    /// Where the target is referenced: the first page, and how many places there are beside it.
    pub fn places(&self) -> String {
        let first = self.on.first().map_or("", |place| place.page.as_str());
        match self.on.len().saturating_sub(MAX_PLACES) {
            0 => format!("on {first}"),
            more => format!("on {first} and in {more} more place{}", if more == 1 { "" } else { "s" }),
        }
    }
}
