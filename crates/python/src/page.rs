//! `Page`, `Link` and `Element`: views of a page. Python objects are made when an attribute is read.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

use argiope::{Ack, Page, Request};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use serde_json::Value;

use crate::element::PyElement;
use crate::errors::{bad_selector, bad_url, raised};
use crate::values::{map_to_python, to_python};

/// A page of a crawl: what became of a URL, with its headers and body.
///
/// Attributes make Python objects only when they are read. The body is parsed at most once.
#[pyclass(frozen, name = "Page", module = "argiope")]
pub struct PyPage {
    page: Page,
    /// The acknowledgement, until the page is processed or given back.
    ack: Mutex<Option<Ack>>,
    /// The URLs that redirected to this page, for `fetch`.
    redirects: Mutex<Vec<String>>,
    url: PyOnceLock<Py<PyAny>>,
    body: PyOnceLock<Py<PyBytes>>,
}

impl PyPage {
    pub fn new(page: Page, ack: Ack) -> Self {
        let ack = Mutex::new(Some(ack));
        Self { page, ack, redirects: Mutex::default(), url: PyOnceLock::new(), body: PyOnceLock::new() }
    }

    /// The page of the library.
    pub fn live(&self) -> PyResult<&Page> {
        Ok(&self.page)
    }

    /// Marks a request as found on this page.
    pub fn mark_found(&self, request: Request) -> PyResult<Request> {
        Ok(request.found_on(&self.page))
    }

    fn take_ack(&self) -> Option<Ack> {
        self.ack.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[pymethods]
impl PyPage {
    /// The URL in its normal form.
    #[getter]
    fn url<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let make = || Ok::<_, PyErr>(self.page.url().as_str().into_pyobject(py)?.into_any().unbind());
        Ok(self.url.get_or_try_init(py, make)?.bind(py).clone())
    }

    /// The status code; None if there was no response.
    #[getter]
    fn status(&self) -> Option<u16> {
        self.page.status()
    }

    /// What became of the URL, such as "ok", "redirect" or "failed".
    #[getter]
    fn outcome(&self) -> &'static str {
        self.page.outcome().as_str()
    }

    /// Whether the page was fetched with a 2xx status.
    #[getter]
    fn ok(&self) -> bool {
        self.page.is_ok()
    }

    /// Why there is no usable response, or why it is incomplete: a `PageError` with `kind` and `message`, or None.
    #[getter]
    fn error<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(failure) = self.page.error() else { return Ok(None) };
        let class = py.import("argiope._types")?.getattr("PageError")?;
        class.call1((failure.kind.as_str(), &*failure.message)).map(Some)
    }

    /// The target, if the response is a redirect. The target is a page of its own.
    #[getter]
    fn redirect(&self) -> Option<&str> {
        self.page.redirect().map(|url| url.as_str())
    }

    /// The URLs that redirected to this page, if it is the result of `argiope.fetch`.
    #[getter]
    fn redirects(&self) -> Vec<String> {
        self.redirects.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why the body is incomplete, such as "length" or "time"; None if it is complete.
    #[getter]
    fn truncated(&self) -> Option<&'static str> {
        self.page.truncated().map(|truncated| truncated.as_str())
    }

    /// The media type without parameters, such as "text/html".
    #[getter]
    fn content_type(&self) -> Option<&str> {
        self.page.content_type()
    }

    /// The IP address that answered.
    #[getter]
    fn ip(&self) -> Option<String> {
        self.page.ip().map(|ip| ip.to_string())
    }

    /// The title, with white space collapsed.
    #[getter]
    fn title(&self) -> Option<&str> {
        self.page.title()
    }

    /// The number of links from a root to this page.
    #[getter]
    fn depth(&self) -> u32 {
        self.page.depth()
    }

    /// The page on which the link to this one was found.
    #[getter]
    fn referrer(&self) -> Option<&str> {
        self.page.referrer().map(|url| url.as_str())
    }

    /// The method of the request.
    #[getter]
    fn method(&self) -> &'static str {
        self.page.method().as_str()
    }

    /// The value that was set with `Request(data=...)`.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, self.page.user_data())
    }

    /// All response headers as pairs of name and value, in order.
    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.page.headers().collect::<Vec<_>>())
    }

    /// The first value of a response header. The case of the name does not matter.
    fn header(&self, name: &str) -> Option<&str> {
        self.page.header(name)
    }

    /// The body, with content codings decoded; empty if it was not kept.
    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.body.get_or_init(py, || PyBytes::new(py, self.page.body()).unbind()).bind(py).clone()
    }

    /// The body as text, in the declared or detected charset.
    #[getter]
    fn html(&self) -> std::borrow::Cow<'_, str> {
        self.page.html()
    }

    /// The record of the page, as the command writes it: a dict.
    #[getter]
    fn record<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut record = Vec::new();
        self.page.record().encode(&mut record);
        py.import("json")?.call_method1("loads", (String::from_utf8_lossy(&record),))
    }

    /// The links of the page, distinct by URL and kind, in page order, also those that the crawl does not follow.
    #[getter]
    fn links<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let links = py.detach(|| self.page.links());
        let make = |index| Py::new(py, PyLink { page: self.page.clone(), index });
        PyTuple::new(py, (0..links.len()).map(make).collect::<PyResult<Vec<_>>>()?)
    }

    /// All elements that a CSS selector matches.
    fn select(&self, py: Python<'_>, css: &str) -> PyResult<Vec<PyElement>> {
        let page = &self.page;
        let found = py.detach(|| page.select(css).map(|all| all.iter().map(|element| element.index()).collect()));
        let found: Vec<u32> = found.map_err(bad_selector)?;
        Ok(found.into_iter().map(|index| PyElement::new(page, index)).collect())
    }

    /// The first element that a CSS selector matches, or None.
    fn select_first(&self, py: Python<'_>, css: &str) -> PyResult<Option<PyElement>> {
        let page = &self.page;
        let found = py.detach(|| page.select_first(css).map(|found| found.map(|element| element.index())));
        Ok(found.map_err(bad_selector)?.map(|index| PyElement::new(page, index)))
    }

    /// The text of the first element that a CSS selector matches, or None.
    fn select_text(&self, py: Python<'_>, css: &str) -> PyResult<Option<String>> {
        py.detach(|| self.page.select_text(css)).map_err(bad_selector)
    }

    /// Extracts fields by rules such as "price=.price" and "links[]=a@href": a dict.
    #[pyo3(signature = (*rules))]
    fn extract<'py>(&self, py: Python<'py>, rules: Vec<String>) -> PyResult<Bound<'py, PyDict>> {
        let rules = argiope::Extraction::from_rules(&rules).map_err(|error| raised(&error.into()))?;
        map_to_python(py, &py.detach(|| self.page.extract(&rules)))
    }

    /// The values at a path in the page's JSON-LD, such as "Product.offers.price".
    fn json_ld<'py>(&self, py: Python<'py>, path: &str) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &Value::Array(py.detach(|| self.page.json_ld(path))))
    }

    /// The content of a `meta` element by its name; OpenGraph properties are named "og:title" and so on.
    fn meta(&self, py: Python<'_>, name: &str) -> Option<String> {
        py.detach(|| self.page.meta(name))
    }

    /// The body as JSON. Bodies of JSON are kept with the setting `bodies="text"` or "all".
    fn json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let value = py.detach(|| self.page.json::<Value>()).map_err(|error| raised(&error))?;
        to_python(py, &value)
    }

    /// The main text: the article without navigation and footers.
    fn text(&self, py: Python<'_>) -> String {
        py.detach(|| self.page.text())
    }

    /// The main text as Markdown, with absolute links.
    fn markdown(&self, py: Python<'_>) -> String {
        py.detach(|| self.page.markdown())
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.page.record() == other.page.record() && self.page.body() == other.page.body()
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.page.url().as_str().hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        let status =
            self.page.status().map_or_else(|| self.page.outcome().as_str().to_owned(), |code| code.to_string());
        format!("<Page {status} {}>", self.page.url().as_str())
    }

    /// The page is processed. For `argiope.Crawl`.
    fn _done(&self) {
        self.take_ack().into_iter().for_each(Ack::done);
    }

    /// The page is processed, and the crawl directory says so when this returns.
    fn _done_durably(&self, py: Python<'_>) -> PyResult<()> {
        let Some(ack) = self.take_ack() else { return Ok(()) };
        py.detach(|| ack.done_durably_blocking()).map_err(|error| raised(&error))
    }

    /// The page is delivered again. For `argiope.Crawl`.
    fn _give_back(&self) {
        drop(self.take_ack());
    }

    /// This process has inherited the page by a fork: the parent process decides about it.
    fn _disown(&self) {
        std::mem::forget(self.take_ack());
    }

    /// Sets `redirects`. For `argiope.fetch`.
    fn _redirected(&self, urls: Vec<String>) {
        *self.redirects.lock().unwrap_or_else(PoisonError::into_inner) = urls;
    }
}

/// A link of a page. It can be fed to the crawl, which then knows the page on which it was found.
#[pyclass(frozen, name = "Link", module = "argiope")]
pub struct PyLink {
    page: Page,
    index: usize,
}

impl PyLink {
    fn link(&self) -> PyResult<&argiope::LinkedUrl> {
        self.page.links().get(self.index).ok_or_else(|| PyTypeError::new_err("a link without a page"))
    }

    /// The request for the target.
    pub fn request(&self) -> PyResult<Request> {
        let url = self.link()?.url.as_str();
        Ok(Request::get(url).map_err(|error| bad_url(url, error))?.found_on(&self.page))
    }
}

#[pymethods]
impl PyLink {
    /// The target.
    #[getter]
    fn url(&self) -> PyResult<&str> {
        Ok(self.link()?.url.as_str())
    }

    /// The text of its element, with white space collapsed.
    #[getter]
    fn text(&self) -> PyResult<&str> {
        Ok(&self.link()?.text)
    }

    /// The `rel` attribute of its element.
    #[getter]
    fn rel(&self) -> PyResult<&str> {
        Ok(&self.link()?.rel)
    }

    /// The kind of element that contains the link, such as "page" or "asset".
    #[getter]
    fn kind(&self) -> PyResult<&'static str> {
        Ok(self.link()?.kind.as_str())
    }

    /// Whether it is marked `rel=nofollow`.
    #[getter]
    fn nofollow(&self) -> PyResult<bool> {
        Ok(self.link()?.nofollow)
    }

    /// Whether the target is in the scope of the crawl.
    #[getter]
    fn in_scope(&self) -> PyResult<bool> {
        Ok(self.link()?.in_scope)
    }

    fn __str__(&self) -> PyResult<&str> {
        self.url()
    }

    fn __repr__(&self) -> PyResult<String> {
        let link = self.link()?;
        Ok(format!("<Link {} {:?}>", link.url.as_str(), link.text))
    }
}
