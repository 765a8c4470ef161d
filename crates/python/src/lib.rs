//! The extension module of the Python package `argiope-crawler`.
//!
//! The Python modules beside it (`python/argiope`) have the public classes for asyncio; this crate has pages, requests,
//! settings, and crawls that are polled (`docs/decisions/0016-python.md`).

mod element;
mod errors;
mod page;
mod request;
mod settings;
mod source;
mod values;
mod wake_event;

/// What `argiope` is made of. Use `argiope`.
#[pyo3::pymodule(gil_used = false)]
mod _argiope {
    #[pymodule_export]
    use super::element::PyElement;
    #[pymodule_export]
    use super::page::{PyLink, PyPage};
    #[pymodule_export]
    use super::request::PyRequest;
    #[pymodule_export]
    use super::source::{PyFeeding, PySource};

    /// The names of the settings.
    #[pyo3::pyfunction]
    fn keywords() -> Vec<&'static str> {
        super::settings::keywords()
    }

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
