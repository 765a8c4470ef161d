//! [`ResultFolder`]: results in a folder that all processes can write to.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// A folder with the results of a fleet.
#[derive(Clone, Debug)]
pub struct ResultFolder {
    path: PathBuf,
}

impl fmt::Display for ResultFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())
    }
}

impl ResultFolder {
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Creates a file, which appears under its name only after its content is durable. Returns `false` if the name
    /// already exists.
    pub fn create_new(&self, name: &str, content: &[u8]) -> io::Result<bool> {
        let path = self.path.join(name);
        if path.exists() {
            return Ok(false);
        }
        let folder = path.parent().unwrap_or(&self.path);
        fs::create_dir_all(folder)?;
        let mut partial = path.clone().into_os_string();
        partial.push(format!(".{}.partial", std::process::id()));
        let partial = PathBuf::from(partial);
        let mut file = File::create(&partial)?;
        file.write_all(content)?;
        file.sync_all()?;
        // Unlike a rename, a hard link fails if the file exists.
        let linked = fs::hard_link(&partial, &path);
        fs::remove_file(&partial)?;
        let is_new = match linked {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(error),
        };
        File::open(folder)?.sync_all()?;
        Ok(is_new)
    }

    pub fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        fs::read(self.path.join(name))
    }

    /// A part of a file.
    pub fn get_range(&self, name: &str, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        let mut part = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        File::open(self.path.join(name))?.read_exact_at(&mut part, offset)?;
        Ok(part)
    }

    /// The files of a folder, each as `folder/name`. Empty if the folder does not exist.
    pub fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(self.path.join(folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in entries {
            names.extend(entry?.file_name().to_str().map(|name| format!("{folder}/{name}")));
        }
        Ok(names)
    }
}
