//! [`ObjectPrefix`]: results in object storage. This folder is the only one that uses the object storage client crate.
//!
//! Every object is created by one request on the condition that it does not exist. There are no multipart uploads, so a
//! process that dies leaves nothing to clean up.

mod http;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::BlockingHttp;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::{
    ClientOptions, Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload,
    RetryConfig,
};
use tokio::runtime::{Builder, Runtime};
use url::Url;

use super::{MAX_FILE, too_large};

/// How long one operation is retried before an error is returned.
const MAX_RETRY_TIME: Duration = Duration::from_secs(20);

/// A prefix in a bucket of object storage.
#[derive(Clone)]
pub struct ObjectPrefix {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    address: String,
    /// Runs the asynchronous client, one call at a time.
    runtime: Arc<Runtime>,
}

impl fmt::Display for ObjectPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

impl fmt::Debug for ObjectPrefix {
    /// Shows only the address, because the client holds credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectPrefix").field("address", &self.address).finish_non_exhaustive()
    }
}

impl ObjectPrefix {
    /// Opens `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or `az://CONTAINER/PREFIX` with the credentials of the
    /// environment.
    pub fn open(address: &str) -> io::Result<Self> {
        let url = Url::parse(address)
            .map_err(|error| io::Error::other(format!("this is not an address of object storage: {error}")))?;
        if address.contains('@') {
            // Addresses are shown in messages and stored with the crawl.
            let message = "an address of object storage must not contain credentials; set them in the environment";
            return Err(io::Error::other(message));
        }
        let io_error = |error: Error| io::Error::other(without_response_body(&error));
        let prefix = Path::from_url_path(url.path()).map_err(|error| io_error(error.into()))?;
        let http = BlockingHttp::new(authorities()?);
        let retry = RetryConfig { retry_timeout: MAX_RETRY_TIME, ..RetryConfig::default() };
        let store: Arc<dyn ObjectStore> = match url.scheme() {
            "gs" => {
                let builder = GoogleCloudStorageBuilder::from_env().with_url(address);
                Arc::new(builder.with_retry(retry).with_http_connector(http).build().map_err(io_error)?)
            }
            "az" => {
                let builder = MicrosoftAzureBuilder::from_env().with_url(address);
                Arc::new(builder.with_retry(retry).with_http_connector(http).build().map_err(io_error)?)
            }
            _ => Arc::new(s3(address).with_retry(retry).with_http_connector(http).build().map_err(io_error)?),
        };
        let runtime = Arc::new(Builder::new_current_thread().enable_time().build()?);
        Ok(Self { store, prefix, address: address.to_owned(), runtime })
    }

    fn path(&self, name: &str) -> Path {
        Path::from(format!("{}/{name}", self.prefix))
    }

    /// Converts an error. The message does not contain the address, because callers add it.
    fn io_error(error: &Error) -> io::Error {
        let kind = match error {
            Error::NotFound { .. } => io::ErrorKind::NotFound,
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => io::ErrorKind::PermissionDenied,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, without_response_body(error))
    }

    /// Creates an object. Returns `false` if the name already exists.
    pub fn create_new(&self, name: &str, content: &[u8]) -> io::Result<bool> {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let payload = PutPayload::from(content.to_vec());
        match self.runtime.block_on(self.store.put_opts(&self.path(name), payload, options)) {
            Ok(_) => Ok(true),
            // An earlier attempt of this call may have created the object although its response was lost. A caller that
            // must know compares the content.
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(false),
            Err(error) => Err(Self::io_error(&error)),
        }
    }

    /// An object of at most this size. Not more than that is requested.
    pub fn get(&self, name: &str, limit: u64) -> io::Result<Vec<u8>> {
        let path = self.path(name);
        let options = GetOptions { range: Some(GetRange::Bounded(0..limit)), ..GetOptions::default() };
        let got = self.runtime.block_on(self.store.get_opts(&path, options)).map_err(|error| Self::io_error(&error))?;
        if got.meta.size > limit {
            return Err(too_large(name, got.meta.size));
        }
        self.runtime.block_on(got.bytes()).map(Vec::from).map_err(|error| Self::io_error(&error))
    }

    /// A part of an object.
    pub fn get_range(&self, name: &str, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        // The length may come from the store.
        if length > MAX_FILE {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let path = self.path(name);
        let range = offset..offset.saturating_add(length);
        let got = self.runtime.block_on(self.store.get_range(&path, range));
        got.map(Vec::from).map_err(|error| Self::io_error(&error))
    }

    /// The objects of a folder, each as `folder/name`.
    pub fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let listed = self.runtime.block_on(self.store.list_with_delimiter(Some(&self.path(folder))));
        let objects = listed.map_err(|error| Self::io_error(&error))?.objects;
        Ok(objects.iter().filter_map(|object| Some(format!("{folder}/{}", object.location.filename()?))).collect())
    }
}

/// A client that is configured like the S3 tools: by `AWS_*` variables, or by the profile in `~/.aws`, or by the role
/// of the machine.
fn s3(address: &str) -> AmazonS3Builder {
    let mut builder = AmazonS3Builder::from_env().with_url(address);
    let has = |builder: &AmazonS3Builder, key| builder.get_config_value(&key).is_some();
    let profile = AwsProfile::read();
    // Key, secret and token belong together, so they are all taken from the environment or all from the profile.
    if !has(&builder, AmazonS3ConfigKey::AccessKeyId) {
        for (key, value) in [
            (AmazonS3ConfigKey::AccessKeyId, profile.get("aws_access_key_id")),
            (AmazonS3ConfigKey::SecretAccessKey, profile.get("aws_secret_access_key")),
            (AmazonS3ConfigKey::Token, profile.get("aws_session_token")),
        ] {
            if let Some(value) = value {
                builder = builder.with_config(key, value);
            }
        }
    }
    for (key, value) in
        [(AmazonS3ConfigKey::Region, profile.get("region")), (AmazonS3ConfigKey::Endpoint, profile.get("endpoint_url"))]
    {
        if let (Some(value), false) = (value, has(&builder, key)) {
            builder = builder.with_config(key, value);
        }
    }
    let endpoint = [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint]
        .iter()
        .find_map(|key| builder.get_config_value(key));
    if endpoint.is_some_and(|endpoint| endpoint.starts_with("http://")) {
        builder = builder.with_client_options(ClientOptions::new().with_allow_http(true));
    }
    builder
}

/// The certificates of `AWS_CA_BUNDLE`, as PEM. Those of the system are trusted too.
fn authorities() -> io::Result<Option<Vec<u8>>> {
    let Some(bundle) = std::env::var_os("AWS_CA_BUNDLE").filter(|path| !path.is_empty()) else { return Ok(None) };
    let with_variable = |error: io::Error| io::Error::other(format!("AWS_CA_BUNDLE: {error}"));
    std::fs::read(PathBuf::from(bundle)).map(Some).map_err(with_variable)
}

/// The settings of one profile in `~/.aws/credentials` and `~/.aws/config`.
#[derive(Default)]
struct AwsProfile {
    settings: Vec<(String, String)>,
}

impl AwsProfile {
    fn read() -> Self {
        let name = std::env::var("AWS_PROFILE").unwrap_or_else(|_| "default".to_owned());
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let mut profile = Self::default();
        for (variable, file) in [("AWS_SHARED_CREDENTIALS_FILE", "credentials"), ("AWS_CONFIG_FILE", "config")] {
            let path = std::env::var_os(variable).map_or_else(|| home.join(".aws").join(file), PathBuf::from);
            // A file that does not exist has no settings.
            profile.add(&std::fs::read_to_string(path).unwrap_or_default(), &name);
        }
        profile
    }

    /// Adds the settings of the profile `name` in a file with this text.
    fn add(&mut self, text: &str, name: &str) {
        let mut is_in_profile = false;
        for line in text.lines().map(str::trim) {
            if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                let section = section.trim();
                is_in_profile = section.strip_prefix("profile ").unwrap_or(section).trim() == name;
            } else if let (true, Some((key, value))) =
                (is_in_profile && !line.starts_with(['#', ';']), line.split_once('='))
            {
                self.settings.push((key.trim().to_owned(), value.trim().to_owned()));
            }
        }
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.settings.iter().find(|(found, _)| found == key).map(|(_, value)| value.as_str())
    }
}

/// The error message without the body of the response, which may contain signed data.
fn without_response_body(error: &Error) -> String {
    match error {
        Error::NotFound { .. } => "there is no such object or bucket".to_owned(),
        Error::PermissionDenied { .. } => "access denied".to_owned(),
        Error::Unauthenticated { .. } => "the credentials were not accepted".to_owned(),
        other => {
            let text = other.to_string();
            let end = text.find(['<', '\n']).unwrap_or(text.len());
            text[..end].trim_end_matches([' ', ':']).to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_read_from_both_files() {
        let mut profile = AwsProfile::default();
        profile.add("[other]\naws_access_key_id = no\n[mine]\n# comment\naws_access_key_id = yes\n", "mine");
        profile.add("[profile mine]\nregion=eu-1\n[default]\nregion=us-1\n", "mine");
        assert_eq!((profile.get("aws_access_key_id"), profile.get("region")), (Some("yes"), Some("eu-1")));
    }

    #[test]
    fn an_address_with_credentials_is_refused_without_showing_them() {
        let refused = ObjectPrefix::open("s3://key:secret@bucket/prefix").expect_err("refused").to_string();
        assert!(!refused.contains("secret") && !refused.contains("key"), "{refused}");
    }
}
