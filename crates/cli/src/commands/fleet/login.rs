//! The password of the store: from the address, from a file, or from the environment.
//!
//! Invariant: a password is in no message. An address with a password is visible to all users of the machine in the list
//! of processes, so there are two other ways to give it.

use std::path::Path;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::FleetCommandError;

/// The environment variable with the password.
const VARIABLE: &str = "ARGIOPE_FRONTIER_PASSWORD";

/// The address of the store with its password. A file has precedence over the environment. An address that has a password
/// already is used as it is, and so is one without a scheme, which is refused later.
pub fn address_with_password(address: &str, file: Option<&Path>) -> Result<String, FleetCommandError> {
    let Some((scheme, rest)) = address.split_once("://") else { return Ok(address.to_owned()) };
    let (user, hosts) = rest.rsplit_once('@').unwrap_or(("", rest));
    if user.contains(':') {
        return match file {
            Some(_) => Err(FleetCommandError::Usage("--frontier-password-file: the address has a password too".into())),
            None => Ok(address.to_owned()),
        };
    }
    let password = match file {
        Some(path) => Some(password_in(path)?),
        None => std::env::var(VARIABLE).ok(),
    };
    Ok(match password.filter(|password| !password.is_empty()) {
        Some(password) => format!("{scheme}://{user}:{}@{hosts}", utf8_percent_encode(&password, NON_ALPHANUMERIC)),
        None => address.to_owned(),
    })
}

/// The first line of a file.
fn password_in(path: &Path) -> Result<String, FleetCommandError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| FleetCommandError::Failed(format!("--frontier-password-file {}: {error}", path.display())))?;
    match text.lines().next().filter(|line| !line.is_empty()) {
        Some(line) => Ok(line.to_owned()),
        None => {
            Err(FleetCommandError::Failed(format!("--frontier-password-file {}: the file is empty", path.display())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_of_a_file_is_added_to_the_address() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "p@ss:/w\n").expect("written");
        let with = |address: &str| address_with_password(address, Some(file.path())).ok();
        assert_eq!(with("redis://a:1,b:2").as_deref(), Some("redis://:p%40ss%3A%2Fw@a:1,b:2"));
        assert_eq!(with("rediss://me@a:1").as_deref(), Some("rediss://me:p%40ss%3A%2Fw@a:1"));
        assert_eq!(with("redis://me:other@a:1"), None);
        assert_eq!(with("a:1").as_deref(), Some("a:1"));
        std::fs::write(file.path(), "\n").expect("written");
        assert_eq!(with("redis://a:1"), None);
    }
}
