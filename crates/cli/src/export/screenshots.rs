//! The pictures of rendered pages as PNG files.

use std::fs;
use std::path::Path;

use argiope_core::Url;
use argiope_runtime::atomic_file::AtomicFile;

use super::archived::ArchivedPages;
use super::file_names::FileNames;
use super::of_file;
use super::site::create_folders;
use crate::records::ReadError;
use crate::results::Results;
use crate::ticker::Ticker;
use crate::wording;

/// Writes one file per page of the latest round that has a picture. Returns what the user is told.
pub fn screenshots(results: &Results, folder: &Path) -> Result<String, ReadError> {
    let mut archive = ArchivedPages::open(results)?;
    fs::create_dir_all(folder)?;
    let (mut names, mut ticker) = (FileNames::default(), Ticker::start());
    let (mut read, mut written) = (0, 0);
    results.latest_pages(|record| {
        read += 1;
        ticker.tick(read);
        let (Some(picture), Ok(url)) = (archive.screenshot(record)?, Url::parse(&record.url)) else { return Ok(()) };
        let name = names.assign(&url, "png").to_string_lossy().into_owned();
        create_folders(folder, &name)?;
        let path = folder.join(&name);
        AtomicFile::write_output_in_folder(&path, picture).map_err(|error| of_file(&path, error))?;
        written += 1;
        Ok(())
    })?;
    Ok(match written {
        0 => "no page has a picture: crawl with --render, --warc and --screenshot".to_owned(),
        _ => wording::plural(written, "picture"),
    })
}
