//! A site made of the HTML files of a folder: real documentation to crawl, held in memory while it is served.
//!
//! Only HTML is served, so that what is measured is pages; everything else is a 404. As with other servers, a folder's
//! address stands for its `index.html`.
//!
//! Invariant: what is served is what the files were when the server started.

use crate::response::Response;
use crate::site::Site;
use std::io;
use std::path::Path;

/// How deep folders may lie in each other: links between folders can go round in circles.
const DEEPEST: usize = 24;

/// Adds a page for every HTML file below the folder.
pub(crate) fn serve(mut site: Site, folder: &Path) -> io::Result<Site> {
    let mut folders = vec![(folder.to_path_buf(), String::from("/"), 0)];
    let mut found = false;
    while let Some((folder, path, depth)) = folders.pop() {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
        for entry in std::fs::read_dir(&folder).map_err(named)? {
            let entry = entry.map_err(named)?;
            // A name that would need escapes in a URL is rare enough in documentation to do without.
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
