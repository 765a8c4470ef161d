//! Calls of closures that the library's user gives.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::base::outcome::{ErrorKind, Failure};

/// Calls a closure of the library's user. A panic becomes a failure that names the closure, so that it neither ends the
/// crawl nor looks like a bug of the crawler.
///
/// # Errors
///
/// The closure panicked.
pub(crate) fn call_closure<T>(name: &str, call: impl FnOnce() -> T) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(call))
        .map_err(|panic| Failure::new(ErrorKind::Hook, format!("the closure {name} panicked: {}", panic_text(&*panic))))
}

/// The message of a panic.
fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&'static str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
