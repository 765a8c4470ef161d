//! A site made of the HTML files of a folder, held in memory while it is served.
//!
//! Only HTML is served, so that a measurement counts pages; everything else is a 404. The URL of a folder stands for its
//! `index.html`.
//!
//! Invariant: the content is that of the files at the start of the server.

use crate::response::Response;
use crate::site::Site;
use std::io;
use std::path::Path;

/// Maximum depth of folders: symbolic links can form cycles.
const DEEPEST: usize = 24;

/// Adds a page for every HTML file below the folder.
pub(crate) fn serve(mut site: Site, folder: &Path) -> io::Result<Site> {
    let mut folders = vec![(folder.to_path_buf(), String::from("/"), 0)];
    let mut found = false;
    while let Some((folder, path, depth)) = folders.pop() {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
        for entry in std::fs::read_dir(&folder).map_err(named)? {
            let entry = entry.map_err(named)?;
            // Names that need escapes in a URL are rare in documentation and skipped.
            let Some(name) = entry.file_name().to_str().filter(|name| is_plain(name)).map(str::to_owned) else {
                continue;
            };
            let Ok(data) = std::fs::metadata(entry.path()) else { continue };
            if data.is_dir() && depth < DEEPEST {
                folders.push((entry.path(), format!("{path}{name}/"), depth + 1));
            } else if data.is_file() && name.ends_with(".html") {
                let answer = Response::html(std::fs::read(entry.path()).map_err(named)?);
                if name == "index.html" {
                    site = site.page(&path, answer.clone());
                }
                site = site.page(&format!("{path}{name}"), answer);
                found = true;
            }
        }
    }
    if found { Ok(site) } else { Err(io::Error::other(format!("{}: no HTML files there", folder.display()))) }
}

fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~$+,;=@!()".contains(&byte))
}
