//! The cookies that a crawl starts with, read from a file that the user names. The file is never written.

use std::time::SystemTime;

use argiope_core::crawl::rules::{Config, ConfigError};
use argiope_core::http::cookies::CookieJar;

/// The cookies of the file that the settings name; an empty jar if they name none or turn cookies off.
pub fn initial(config: &Config) -> Result<CookieJar, ConfigError> {
    let Some(path) = config.cookies.as_deref().filter(|_| !config.no_cookies) else {
        return Ok(CookieJar::default());
    };
    let config_error = |problem: String| ConfigError { key: "cookies", value: path.display().to_string(), problem };
    let file = std::fs::read(path).map_err(|error| config_error(error.to_string()))?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    CookieJar::from_netscape(&file, now).map_err(|bad| config_error(bad.to_string()))
}
