//! [`Error`]: why a crawl could not start, or stopped before its end.

use std::fmt;
use std::io;
use std::sync::Arc;

use argiope_content::{RuleError, SelectError};
use argiope_core::BadUrl;
use argiope_core::crawl::rules::ConfigError;
use argiope_core::crawl::schedule::store_error::{Remedy, StoreError, StoreErrorKind};

/// Why a crawl could not start, or stopped before its end.
///
/// The type is opaque, so that new causes are not breaking changes. Test the cause with [`Error::is_config`],
/// [`Error::is_store`], [`Error::is_input`], [`Error::is_sink`], [`Error::is_engine`] and [`Error::is_internal`]. A
/// failure of a single page is never an `Error`: it is the page's outcome.
#[derive(Clone, Debug)]
pub struct Error {
    cause: Cause,
}

/// The kinds of errors, with their details.
#[derive(Clone, Debug)]
enum Cause {
    Config(ConfigError),
    Input(Arc<dyn std::error::Error + Send + Sync>),
    Store(StoreError),
    Sink { message: Box<str>, source: Arc<dyn std::error::Error + Send + Sync> },
    Engine { message: Box<str>, source: Option<Arc<io::Error>> },
    Internal(Box<str>),
}

/// Invalid input, with the error that was found in it.
#[derive(Debug)]
struct BadInput {
    message: String,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for BadInput {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.source)
    }
}

impl Error {
    /// The engine could not start, or one of its threads panicked.
    pub fn engine(message: impl Into<Box<str>>, source: Option<io::Error>) -> Self {
        Self { cause: Cause::Engine { message: message.into(), source: source.map(Arc::new) } }
    }

    /// The operating system refused what the engine needs: a thread, a socket, a file descriptor.
    pub fn system(error: io::Error) -> Self {
        Self::engine(error.to_string(), Some(error))
    }

    /// A bug in Argiope.
    pub fn internal(message: impl Into<Box<str>>) -> Self {
        Self { cause: Cause::Internal(message.into()) }
    }

    /// A URL, a selector, a rule or a request is invalid.
    pub fn input(message: impl Into<String>) -> Self {
        Self { cause: Cause::Input(Arc::from(Box::<dyn std::error::Error + Send + Sync>::from(message.into()))) }
    }

    /// Input is invalid for a reason that has an error of its own, which becomes the source.
    pub fn input_from(message: impl Into<String>, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        let error = BadInput { message: message.into(), source: Box::new(source) };
        Self { cause: Cause::Input(Arc::new(error)) }
    }

    /// The user's own output failed. `when` completes "the sink failed", for example "at http://h/".
    pub fn sink(when: &str, source: Box<dyn std::error::Error + Send + Sync>) -> Self {
        let message = format!("the sink failed {when}: {source}").into();
        Self { cause: Cause::Sink { message, source: Arc::from(source) } }
    }

    /// The same error in other words. `rename` replaces the keys of settings, `remedy_words` the words of remedies.
    #[must_use]
    pub fn reworded(
        self,
        rename: impl Fn(&'static str) -> &'static str,
        remedy_words: impl Fn(Remedy) -> &'static str,
    ) -> Self {
        let cause = match self.cause {
            Cause::Config(ConfigError { key, value, problem }) => {
                Cause::Config(ConfigError { key: rename(key), value, problem })
            }
            Cause::Store(error) => Cause::Store(error.reworded(remedy_words)),
            other @ (Cause::Engine { .. } | Cause::Input(_) | Cause::Sink { .. } | Cause::Internal(_)) => other,
        };
        Self { cause }
    }

    /// The operating system refused to start a thread.
    pub fn no_thread(error: io::Error) -> Self {
        Self::engine(format!("the crawl's threads could not be started: {error}"), Some(error))
    }

    /// A setting is invalid.
    pub fn is_config(&self) -> bool {
        matches!(self.cause, Cause::Config(_))
    }

    /// A URL, a selector, an extraction rule or a request is invalid, or came after the end of the crawl.
    pub fn is_input(&self) -> bool {
        matches!(self.cause, Cause::Input(_))
    }

    /// The crawl directory or another file could not be read or written.
    pub fn is_store(&self) -> bool {
        matches!(self.cause, Cause::Store(_))
    }

    /// The user's own output failed: [`std::error::Error::source`] is its error.
    pub fn is_sink(&self) -> bool {
        matches!(self.cause, Cause::Sink { .. })
    }

    /// The engine could not start, or one of its threads panicked.
    pub fn is_engine(&self) -> bool {
        matches!(self.cause, Cause::Engine { .. })
    }

    /// Argiope has a bug.
    pub fn is_internal(&self) -> bool {
        matches!(self.cause, Cause::Internal(_))
    }

    /// The invalid setting, if that is the cause.
    pub fn as_config(&self) -> Option<&ConfigError> {
        if let Cause::Config(error) = &self.cause { Some(error) } else { None }
    }

    /// The failure of the store, if that is the cause.
    pub fn as_store(&self) -> Option<&StoreError> {
        if let Cause::Store(error) = &self.cause { Some(error) } else { None }
    }

    /// What the user can do about the error.
    pub fn advice(&self) -> &'static str {
        const REPORT: &str = "please report this bug; start again to resume";
        match &self.cause {
            Cause::Config(_) => "correct the setting and start again",
            Cause::Input(_) => "correct the URL, selector, rule or request that the message names",
            Cause::Store(error) => match error.kind {
                StoreErrorKind::Locked => "wait until the other process has ended, or use another crawl directory",
                StoreErrorKind::Damaged => "restore the damaged file from a copy, or start over",
                StoreErrorKind::Format => "use another crawl directory, or the version of Argiope that wrote this one",
                StoreErrorKind::OtherCrawl => "use another crawl directory, or start over",
                StoreErrorKind::Full => "make room for what the message names; start again to resume",
                StoreErrorKind::LeaseLost => "start again: other processes may have taken over the hosts",
                StoreErrorKind::Misuse => "correct the call to the frontier, or report the bug if Argiope made it",
                // The kind `File`, and kinds that are added later.
                _ => "check what the message names; committed pages are safe",
            },
            Cause::Sink { .. } => "correct the sink; start again to resume in a crawl directory",
            Cause::Engine { source: Some(_), .. } => {
                "check the limits on threads and open files; start again to resume"
            }
            // A thread of the engine panicked.
            Cause::Engine { source: None, .. } => REPORT,
            Cause::Internal(_) => REPORT,
        }
    }

    /// The message, and the advice unless the message itself says what to do.
    pub fn message_with_advice(&self) -> String {
        if self.includes_advice() { self.to_string() } else { format!("{self}; {}", self.advice()) }
    }

    /// Whether the message itself says what to do. The advice would repeat it.
    fn includes_advice(&self) -> bool {
        match &self.cause {
            Cause::Config(_) | Cause::Input(_) => true,
            Cause::Store(error) => error.remedy().is_some(),
            // An error that does not come from the system is about an engine that the system cannot run. Its message
            // names the engines that work.
            Cause::Engine { source, .. } => source.as_ref().is_some_and(|error| error.raw_os_error().is_none()),
            Cause::Sink { .. } | Cause::Internal(_) => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Config(error) => error.fmt(f),
            Cause::Input(error) => error.fmt(f),
            Cause::Store(error) => error.fmt(f),
            Cause::Sink { message, .. } | Cause::Engine { message, .. } | Cause::Internal(message) => {
                f.write_str(message)
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.cause {
            // `Display` already shows these errors, so the source is the source of each.
            Cause::Config(error) => error.source(),
            Cause::Input(error) => error.source(),
            Cause::Store(error) => error.source(),
            Cause::Sink { source, .. } => Some(&**source),
            Cause::Engine { source, .. } => source.as_deref().map(|source| source as _),
            Cause::Internal(_) => None,
        }
    }
}

impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Self {
        Self { cause: Cause::Config(error) }
    }
}

impl From<BadUrl> for Error {
    fn from(error: BadUrl) -> Self {
        Self { cause: Cause::Input(Arc::new(error)) }
    }
}

impl From<SelectError> for Error {
    fn from(error: SelectError) -> Self {
        Self { cause: Cause::Input(Arc::new(error)) }
    }
}

impl From<RuleError> for Error {
    fn from(error: RuleError) -> Self {
        Self { cause: Cause::Input(Arc::new(error)) }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self { cause: Cause::Store(error) }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn an_error_names_its_kind_its_source_and_what_to_do() {
        let config = Error::from(ConfigError { key: "rate", value: "x".into(), problem: "write a number".into() });
        assert!(config.is_config() && config.as_config().is_some() && config.source().is_none());
        let input = Error::input("\"x\": not a URL");
        assert!(input.is_input() && input.to_string() == "\"x\": not a URL" && input.source().is_none());
        let store = Error::from(StoreError::new(StoreErrorKind::Full, "the disk is full"));
        assert!(store.is_store() && store.to_string() == "the disk is full" && store.source().is_none());
        let engine = Error::no_thread(io::Error::other("too many"));
        assert!(engine.is_engine() && engine.to_string().ends_with("too many") && engine.source().is_some());
        let sink = Error::sink("at http://h/", "disk on fire".into());
        assert!(sink.is_sink() && sink.to_string() == "the sink failed at http://h/: disk on fire");
        assert_eq!(sink.source().map(ToString::to_string).as_deref(), Some("disk on fire"));
        let internal = Error::internal("a bug");
        assert!(internal.is_internal() && internal.source().is_none());
        let advice = [config, store, sink, engine, internal].map(|error| error.advice());
        assert!(advice.iter().all(|advice| !advice.is_empty()));
    }

    #[test]
    fn an_error_of_the_store_has_its_cause_and_advice_for_its_kind() {
        let store = |kind| Error::from(StoreError::new(kind, "it failed"));
        let with_source = StoreError::new(StoreErrorKind::File, "it failed").with_source(io::Error::other("a cause"));
        assert_eq!(Error::from(with_source).source().map(ToString::to_string).as_deref(), Some("a cause"));
        let (locked, other) = (store(StoreErrorKind::Locked), store(StoreErrorKind::OtherCrawl));
        assert!(locked.advice().starts_with("wait until the other process has ended"), "{}", locked.advice());
        assert!(other.advice().starts_with("use another crawl directory"), "{}", other.advice());
        assert_eq!(other.message_with_advice(), "it failed; use another crawl directory, or start over");
        let with_remedy = StoreError::new(StoreErrorKind::OtherCrawl, "it failed").with_remedy(Remedy::OtherDirectory);
        assert_eq!(Error::from(with_remedy).message_with_advice(), "it failed; use another crawl directory");
        let unsupported = Error::engine("no io_uring; --engine tokio works", Some(io::ErrorKind::Unsupported.into()));
        assert_eq!(unsupported.message_with_advice(), "no io_uring; --engine tokio works");
        let panicked = Error::engine("a worker thread died", None);
        assert_eq!(
            panicked.message_with_advice(),
            "a worker thread died; please report this bug; start again to resume"
        );
    }
}
