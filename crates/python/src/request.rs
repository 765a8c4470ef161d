//! `Request`: a URL to fetch, with everything that differs from a plain GET.

use argiope::{Method, Request};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyString, PyType};

use crate::errors::{bad_url, input_error, raised};
use crate::page::{PyLink, PyPage};
use crate::values::from_python;

const METHODS: [Method; 6] = [Method::Get, Method::Post, Method::Put, Method::Patch, Method::Delete, Method::Head];

/// A URL to fetch, and how.
///
/// Requests are roots (`argiope.crawl(Request(...))`) or are fed to a running crawl. Two requests are the same if
/// method, URL, body and `key` are the same; only the first of them is sent.
#[pyclass(frozen, name = "Request", module = "argiope")]
pub struct PyRequest {
    request: Request,
    priority: i16,
    data: serde_json::Value,
}

#[pymethods]
impl PyRequest {
    #[new]
    #[pyo3(signature = (url, *, method = "GET", headers = None, body = None, form = None, json = None, priority = 0,
        data = None, key = None, idempotent = false, depth = None, found_on = None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        url: &str,
        method: &str,
        headers: Option<&Bound<'_, PyAny>>,
        body: Option<&Bound<'_, PyAny>>,
        form: Option<&Bound<'_, PyAny>>,
        json: Option<&Bound<'_, PyAny>>,
        priority: i16,
        data: Option<&Bound<'_, PyAny>>,
        key: Option<&str>,
        idempotent: bool,
        depth: Option<u32>,
        found_on: Option<&Bound<'_, PyPage>>,
    ) -> PyResult<Self> {
        let mut request = Request::get(url).map_err(|error| bad_url(url, error))?.method(parse_method(method)?);
        request = with_body(request, body, form, json)?;
        for (name, value) in headers.map(pairs).transpose()?.into_iter().flatten() {
            request = request.header(name, value);
        }
        let data = data.map(from_python).transpose()?.unwrap_or_default();
        request = request.priority(priority).user_data(data.clone());
        if let Some(key) = key {
            request = request.key(key);
        }
        if idempotent {
            request = request.idempotent();
        }
        if let Some(page) = found_on {
            request = page.get().mark_found(request)?;
        }
        if let Some(depth) = depth {
            request = request.depth(depth);
        }
        Ok(Self { request, priority, data })
    }

    /// Fills in a form of a page, as a browser would. `fields` replaces values of the same names, and adds others.
    #[classmethod]
    #[pyo3(signature = (page, css, fields = None))]
    fn from_form(
        _class: &Bound<'_, PyType>,
        page: &Bound<'_, PyPage>,
        css: &str,
        fields: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let fields = fields.map(pairs).transpose()?.unwrap_or_default();
        let fields = fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let request = Request::from_form(page.get().live()?, css, fields).map_err(|error| raised(&error))?;
        Ok(Self { request, priority: 0, data: serde_json::Value::Null })
    }

    /// The URL in its normal form.
    #[getter]
    fn url(&self) -> &str {
        self.request.url().as_str()
    }

    /// The priority: requests with a higher one are sent first.
    #[getter]
    fn priority(&self) -> i16 {
        self.priority
    }

    /// The value that the page of this request has as `page.data`.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        crate::values::to_python(py, &self.data)
    }

    fn __repr__(&self) -> String {
        format!("Request({:?})", self.request.url().as_str())
    }
}

impl PyRequest {
    /// The request for an object: text, a `Request` or a `Link`.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Request> {
        if let Ok(text) = object.cast::<PyString>() {
            let url = text.to_cow()?;
            return Request::get(&url).map_err(|error| bad_url(&url, error));
        }
        if let Ok(request) = object.cast::<Self>() {
            return Ok(request.get().request.clone());
        }
        if let Ok(link) = object.cast::<PyLink>() {
            return link.get().request();
        }
        let name = object.get_type().name()?;
        Err(pyo3::exceptions::PyTypeError::new_err(format!("{name} is not a URL: pass text, a Request or a Link")))
    }

    /// The requests of an object, which is one of the above or several of them.
    pub fn all_of(object: &Bound<'_, PyAny>) -> PyResult<Vec<Request>> {
        let is_one =
            object.is_instance_of::<PyString>() || object.is_instance_of::<Self>() || object.is_instance_of::<PyLink>();
        if is_one {
            return Ok(vec![Self::of(object)?]);
        }
        object.try_iter()?.map(|item| Self::of(&item?)).collect()
    }
}

fn with_body(
    request: Request,
    body: Option<&Bound<'_, PyAny>>,
    form: Option<&Bound<'_, PyAny>>,
    json: Option<&Bound<'_, PyAny>>,
) -> PyResult<Request> {
    match (body, form, json) {
        (None, None, None) => Ok(request),
        (Some(body), None, None) => match body.extract::<&str>() {
            Ok(text) => Ok(request.body(text)),
            Err(_) => Ok(request.body(body.extract::<Vec<u8>>()?)),
        },
        (None, Some(form), None) => {
            let fields = pairs(form)?;
            Ok(request.form(fields.iter().map(|(name, value)| (name.as_str(), value.as_str()))))
        }
        (None, None, Some(json)) => Ok(request.json(&from_python(json)?)),
        _ => Err(input_error("a request has one body: give one of body, form and json".into())),
    }
}

fn parse_method(name: &str) -> PyResult<Method> {
    let known = METHODS.into_iter().find(|method| method.as_str().eq_ignore_ascii_case(name));
    known.ok_or_else(|| input_error(format!("method {name:?}: write one of GET POST PUT PATCH DELETE HEAD")))
}

/// Names and values: a mapping, or pairs.
fn pairs(object: &Bound<'_, PyAny>) -> PyResult<Vec<(String, String)>> {
    if let Ok(dict) = object.cast::<PyDict>() {
        return dict.iter().map(|(name, value)| Ok((name.extract()?, value.extract()?))).collect();
    }
    if let Ok(mapping) = object.cast::<PyMapping>() {
        return mapping.items()?.iter().map(|pair| pair.extract()).collect();
    }
    object.try_iter()?.map(|pair| pair?.extract()).collect()
}
