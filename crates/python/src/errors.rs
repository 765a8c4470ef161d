//! Errors of the crawler as exceptions. Their classes are in `argiope/_errors.py`.

use argiope::{BadUrl, Error, SelectError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

static ERROR: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static SETTING_ERROR: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// The exception for an error of the crawler.
pub fn raised(error: &Error) -> PyErr {
    let kind = match error {
        error if error.is_config() => "config",
        error if error.is_input() => "input",
        error if error.is_store() => "store",
        error if error.is_engine() => "engine",
        _ => "internal",
    };
    let message = error.message_with_advice();
    if error.is_config() { setting_error(message) } else { new(&ERROR, "Error", message, kind, error.advice()) }
}

/// The exception for a selector that is not valid.
pub fn bad_selector(error: SelectError) -> PyErr {
    raised(&Error::from(error))
}

/// The exception for a text that is not a URL.
pub fn bad_url(url: &str, error: BadUrl) -> PyErr {
    input_error(format!("{url:?}: {error}"))
}

/// The exception for input that cannot be used.
pub fn input_error(message: String) -> PyErr {
    let advice = Error::input("").advice();
    new(&ERROR, "Error", message, "input", advice)
}

/// The exception for a crawl directory that cannot be read.
pub fn store_error(message: String) -> PyErr {
    new(&ERROR, "Error", message, "store", "check what the message names")
}

/// The exception for a setting that cannot be used.
pub fn setting_error(message: String) -> PyErr {
    new(&SETTING_ERROR, "SettingError", message, "config", "correct the setting and start again")
}

/// The exception for a crawl that was started in another process.
pub fn forked() -> PyErr {
    let message = "this crawl was started in the parent process and cannot be used after a fork";
    new(&ERROR, "Error", message.to_owned(), "input", "start a new crawl in this process")
}

/// An instance of a class of `argiope._errors`.
fn new(
    class: &'static PyOnceLock<Py<PyType>>,
    name: &'static str,
    message: String,
    kind: &'static str,
    advice: &'static str,
) -> PyErr {
    Python::attach(|py| match class.import(py, "argiope._errors", name) {
        Ok(class) => PyErr::from_type(class.clone(), (message, kind, advice)),
        Err(error) => error,
    })
}
