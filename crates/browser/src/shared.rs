//! What the fetcher and the thread of the browser both know.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::{Mutex, MutexGuard, PoisonError};

use argiope_core::crawl::visit::Visit;
use argiope_core::page::url_shape;
use argiope_core::render::{Evidence, TemplateId};

/// What the fetcher and its worker both know.
#[derive(Debug, Default)]
pub(crate) struct SharedState {
    /// What rendering has gained, by template.
    pub(crate) evidence: Mutex<Evidence>,
    /// Why pages are not rendered any more.
    pub(crate) gave_up: Mutex<Option<String>>,
    pub(crate) notices: Mutex<Vec<String>>,
}

/// The template that the address of a page belongs to.
pub(crate) fn template(visit: &Visit) -> TemplateId {
    let url = &visit.link.url;
    TemplateId { host: hash(url.host()), template: hash(url_shape::pattern(url.as_ref())) }
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The content of a mutex. What it protects is valid even if a thread panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
