//! [`Request`]: a URL to fetch, how to fetch it, and data that is returned with its page.

use std::sync::Arc;

use argiope_core::base::custom_request::{CustomRequest, MAX_REQUEST_BODY, MAX_REQUEST_EXTRAS, Method};
use argiope_core::base::link::LinkKind;
use argiope_core::crawl::hooks::check_header;
use argiope_core::{BadUrl, Link, Url};
use serde_json::Value;
use url::form_urlencoded;

use crate::form::{self, FormField};
use crate::{Error, Page};

/// A URL to fetch, for [`Crawl::feed`](crate::Crawl::feed) or as a root
/// ([`Crawl::builder`](crate::Crawl::builder)), with everything that differs from a plain GET.
///
/// Two requests are the same if method, URL, body and [`key`](Request::key) are the same. Then only the first of them is
/// sent. The target of a redirect after a POST, such as the page behind a login form, is fetched even if its URL is
/// known. A POST or PATCH is sent at most once: it is not retried, and not repeated when a crawl resumes, unless it is marked
/// [`idempotent`](Request::idempotent).
///
/// ```
/// # fn run(crawl: &argiope::Crawl, page: &argiope::Page) -> Result<(), argiope::Error> {
/// use argiope::Request;
///
/// crawl.feed(["https://example.com/a"])?;
/// crawl.feed([Request::get("https://example.com/b")?.found_on(page).priority(5)])?;
/// crawl.feed([Request::post("https://example.com/search")?.form([("q", "orb web")]).user_data("page 1")])?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Request {
    url: Url,
    /// The page on which the URL was found.
    via: Option<Url>,
    depth: u32,
    /// Everything that differs from a plain GET.
    custom: CustomRequest,
}

impl Request {
    fn to(url: Url) -> Self {
        Self { url, via: None, depth: 0, custom: CustomRequest::default() }
    }

    /// A GET request for a URL.
    ///
    /// # Errors
    ///
    /// It is not an http or https URL.
    pub fn get(url: &str) -> Result<Self, BadUrl> {
        Url::parse(url).map(Self::to)
    }

    /// A POST request for a URL. [`Request::form`], [`Request::json`] or [`Request::body`] sets the body.
    ///
    /// # Errors
    ///
    /// It is not an http or https URL.
    pub fn post(url: &str) -> Result<Self, BadUrl> {
        Self::get(url).map(|request| request.method(Method::Post))
    }

    /// Fills in a form of a page, as a browser would. Hidden fields, preset values and checked boxes are sent along, in
    /// the encoding that the form specifies (`application/x-www-form-urlencoded` or `multipart/form-data`).
    /// `fields` replaces all values of the same names, and adds others. The request is marked as found on the page.
    ///
    /// ```
    /// # fn run(crawl: &argiope::Crawl, page: &argiope::Page) -> Result<(), argiope::Error> {
    /// let login = argiope::Request::from_form(page, "form#login", [("name", "me"), ("password", "secret")])?;
    /// crawl.feed([login])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `css` is not a selector or matches no form, or the form is not sent to an http or https URL, or it is sent
    /// as `text/plain`.
    pub fn from_form<'a>(
        page: &Page,
        css: &str,
        fields: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, Error> {
        let found = page.select(css)?.into_iter().find(|element| element.name() == "form");
        let form = found.ok_or_else(|| unusable("form", css, "no form of the page matches"))?;
        let mut values = form::values(page.document(), &form);
        let fields: Vec<_> = fields.into_iter().collect();
        values.retain(|field| fields.iter().all(|(name, _)| field.name != *name));
        values.extend(fields.into_iter().map(|(name, value)| FormField::text(name, value)));
        let action = form.attribute("action").filter(|action| !action.trim().is_empty());
        let url = match &action {
            Some(action) => page
                .document()
                .resolve(action)
                .ok_or_else(|| unusable("form", action, "not an http or https address"))?,
            None => page.url().clone(),
        };
        let is = |name: &str, value: &str| {
            form.attribute(name).is_some_and(|actual| actual.trim().eq_ignore_ascii_case(value))
        };
        let pairs = || values.iter().map(|field| (&*field.name, &*field.value));
        let request = if !is("method", "post") {
            let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs()).finish();
            let without_query = url.as_str().split('?').next().unwrap_or_default();
            Self::get(&format!("{without_query}?{query}"))?
        } else if is("enctype", "multipart/form-data") {
            let (boundary, body) = form::multipart(&values);
            let content_type = format!("multipart/form-data; boundary={boundary}");
            Self::to(url).method(Method::Post).body(body).content_type(&content_type)
        } else if is("enctype", "text/plain") {
            return Err(unusable("form", css, "its enctype text/plain is not supported; build the request yourself"));
        } else {
            Self::to(url).method(Method::Post).form(pairs())
        };
        Ok(request.found_on(page))
    }

    /// Sets the method.
    #[must_use]
    pub fn method(mut self, method: Method) -> Self {
        self.custom.method = method;
        self
    }

    /// Sets a header. It replaces a header of the same name that was set before or that the crawl sends. After a
    /// redirect to another origin it is not sent, unless it describes a body that is sent there too.
    #[must_use]
    pub fn header(mut self, name: impl Into<Box<str>>, value: impl Into<Box<str>>) -> Self {
        let name = name.into();
        self.custom.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(&name));
        self.custom.headers.push((name, value.into()));
        self
    }

    fn content_type(self, value: &str) -> Self {
        self.header("Content-Type", value)
    }

    /// Sets the body, up to 16 MiB.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.custom.body = body.into().into_boxed_slice();
        self
    }

    /// Sends these fields as a form does (`application/x-www-form-urlencoded`).
    #[must_use]
    pub fn form<'a>(self, fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        self.body(body).content_type("application/x-www-form-urlencoded")
    }

    /// Sends a JSON value.
    #[must_use]
    pub fn json(self, value: &Value) -> Self {
        self.body(value.to_string()).content_type("application/json")
    }

    /// Sets the priority. Requests with a higher priority are sent first, regardless of their depth. The default is 0.
    ///
    /// The priority orders the queue of a host. A few requests that were already taken from the queue may be sent
    /// earlier.
    #[must_use]
    pub fn priority(mut self, priority: i16) -> Self {
        self.custom.priority = priority;
        self
    }

    /// Attaches a value that is returned as [`Page::user_data`], even after a redirect or after the crawl was resumed.
    #[must_use]
    pub fn user_data(mut self, data: impl Into<Value>) -> Self {
        self.custom.data = data.into();
        self
    }

    /// Makes the request distinct from all others for its URL, so that the URL is fetched again: once for each key. The
    /// targets of its redirects have the same key.
    ///
    /// ```
    /// # fn run(crawl: &argiope::Crawl) -> Result<(), argiope::Error> {
    /// use argiope::Request;
    ///
    /// let status = "https://example.com/status";
    /// crawl.feed([Request::get(status)?.key("before"), Request::get(status)?.key("after")])?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn key(mut self, key: impl Into<Box<str>>) -> Self {
        self.custom.key = key.into();
        self
    }

    /// Declares that the request may be sent twice. Then it is retried after failures, and sent again by a resumed
    /// crawl that was interrupted before the result was known. All methods except POST and PATCH are always idempotent.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.custom.is_idempotent = true;
        self
    }

    /// Sets the page on which the URL was found. The record names that page, and the depth is one more than that of the
    /// page.
    #[must_use]
    pub fn found_on(mut self, page: &Page) -> Self {
        self.via = Some(page.url().clone());
        self.depth = page.depth().saturating_add(1);
        self
    }

    /// Sets the depth.
    #[must_use]
    pub fn depth(mut self, depth: u32) -> Self {
        self.depth = depth;
        self
    }

    /// The URL.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The link that the frontier stores. Checks the limits on body, headers and user data.
    pub(crate) fn into_link(self, max_redirects: u8) -> Result<Link, Error> {
        let Self { url, via, depth, custom } = self;
        if custom.body.len() > MAX_REQUEST_BODY {
            return Err(unusable("body", url.as_str(), "the body of a request has at most 16 MiB"));
        }
        for (name, value) in &custom.headers {
            check_header(name, value).map_err(|error| unusable("header", name, &error.to_string()))?;
        }
        let encoded = custom.encode();
        if encoded.len() - custom.body.len() > MAX_REQUEST_EXTRAS {
            return Err(unusable("user_data", url.as_str(), "headers and user data have at most 1 MiB"));
        }
        // The frontier stores the encoded form, so it must be possible to decode it.
        if CustomRequest::decode(&encoded).is_none_or(|read| read.headers.len() != custom.headers.len()) {
            let problem = "a request has at most 65,535 headers, and user data that is nested at most 120 levels deep";
            return Err(unusable("user_data", url.as_str(), problem));
        }
        let request = (custom != CustomRequest::default()).then(|| Arc::new(custom));
        Ok(Link { via, depth, kind: LinkKind::Root, request, ..Link::root(url, max_redirects) })
    }
}

/// The error for an invalid part of a request.
fn unusable(what: &str, value: &str, problem: &str) -> Error {
    Error::input(format!("{what} {value:?}: {problem}"))
}

/// Types that can be fed to a crawl: URLs as text, [`Url`]s and [`Request`]s.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be fed to a crawl",
    note = "feed a list of URLs, as text or `Url`, or of `Request`s: `crawl.feed([url])`"
)]
pub trait IntoRequest {
    /// Converts the value to a request. A URL becomes a GET request.
    ///
    /// # Errors
    ///
    /// It is not an http or https URL.
    fn into_request(self) -> Result<Request, BadUrl>;
}

impl IntoRequest for Request {
    fn into_request(self) -> Result<Request, BadUrl> {
        Ok(self)
    }
}

impl IntoRequest for Url {
    fn into_request(self) -> Result<Request, BadUrl> {
        Ok(Request::to(self))
    }
}

impl IntoRequest for &str {
    fn into_request(self) -> Result<Request, BadUrl> {
        Request::get(self)
    }
}

impl IntoRequest for String {
    fn into_request(self) -> Result<Request, BadUrl> {
        Request::get(&self)
    }
}

impl IntoRequest for &String {
    fn into_request(self) -> Result<Request, BadUrl> {
        Request::get(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_could_not_be_read_back_are_refused() {
        let nested = (0..200).fold(serde_json::json!(1), |value, _| serde_json::json!([value]));
        let request = Request::get("http://h.example/").unwrap();
        assert!(request.clone().user_data(nested).into_link(5).is_err());
        let mut many = request.clone();
        many.custom.headers = (0..=u16::MAX).map(|number| (format!("a{number}").into(), "".into())).collect();
        assert!(many.into_link(5).is_err());
        let twice = request.header("X-Token", "old").header("x-token", "new").into_link(5).unwrap();
        let headers = twice.request.map(|request| request.headers.clone()).unwrap_or_default();
        assert_eq!(headers, [("x-token".into(), "new".into())]);
    }
}
