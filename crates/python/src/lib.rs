//! The extension module of the Python package `argiope-crawler`.
//!
//! The Python modules beside it (`python/argiope`) have the public classes for asyncio; this crate has pages, requests,
//! settings, and crawls that are polled (`docs/decisions/0017-python.md`).

mod command;
mod element;
mod errors;
mod page;
mod questions;
mod reading;
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
    use super::questions::{PyFoundLink, PyOutgoing};
    #[pymodule_export]
    use super::reading::{PyRows, PyStored, PyTable};
    #[pymodule_export]
    use super::request::PyRequest;
    #[pymodule_export]
    use super::source::{PyFeeding, PySource};

    /// The names of the settings.
    #[pyo3::pyfunction]
    fn keywords() -> Vec<&'static str> {
        super::settings::keywords()
    }

    /// The settings of the table: name, placeholder of the value, whether it is a list, words, and the first paragraph of
    /// the help.
    #[pyo3::pyfunction]
    fn settings() -> Vec<(&'static str, &'static str, bool, Vec<&'static str>, String)> {
        super::settings::described()
    }

    /// Runs the command `argiope` with these arguments, and returns its exit code.
    #[pyo3::pyfunction]
    fn command(py: pyo3::Python<'_>, arguments: Vec<std::ffi::OsString>) -> u8 {
        py.detach(|| super::command::run(arguments))
    }

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
