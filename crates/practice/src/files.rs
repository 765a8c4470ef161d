//! A site made of the HTML files of a folder. The files are read once, before the server starts.
//!
//! Only HTML is served, so that a measurement counts pages; everything else is a 404. The URL of a folder returns its
//! `index.html`.

use crate::response::Response;
use crate::site::Site;
use std::io;
use std::path::Path;

/// Maximum depth of folders, because symbolic links can form cycles.
const MAX_DEPTH: usize = 24;

/// Adds a page for every HTML file below the folder.
pub(crate) fn add_pages(mut site: Site, folder: &Path) -> io::Result<Site> {
    // Path on disk, path in URLs, depth.
    let mut folders = vec![(folder.to_path_buf(), String::from("/"), 0)];
    let mut has_pages = false;
    while let Some((folder, path, depth)) = folders.pop() {
        let with_folder_name =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
        for entry in std::fs::read_dir(&folder).map_err(with_folder_name)? {
            let entry = entry.map_err(with_folder_name)?;
            // Names that need percent-encoding in a URL are skipped. They are rare in documentation.
            let Some(name) = entry.file_name().to_str().filter(|name| needs_no_encoding(name)).map(str::to_owned)
            else {
                continue;
            };
            // A symbolic link without a target is skipped.
            let Ok(metadata) = std::fs::metadata(entry.path()) else { continue };
            if metadata.is_dir() && depth < MAX_DEPTH {
                folders.push((entry.path(), format!("{path}{name}/"), depth + 1));
            } else if metadata.is_file() && name.ends_with(".html") {
                let page = Response::html(std::fs::read(entry.path()).map_err(with_folder_name)?);
                if name == "index.html" {
                    site = site.page(&path, page.clone());
                }
                site = site.page(&format!("{path}{name}"), page);
                has_pages = true;
            }
        }
    }
    if has_pages { Ok(site) } else { Err(io::Error::other(format!("{}: no HTML files there", folder.display()))) }
}

fn needs_no_encoding(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~$+,;=@!()".contains(&byte))
}
