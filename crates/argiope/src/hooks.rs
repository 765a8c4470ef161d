//! The closures of a crawl, as the core calls them.

use std::fmt;
use std::sync::Arc;

use argiope_core::crawl::hooks::{OutgoingRequest, RequestHook, ResponseHook, ResponseStart};
use argiope_core::crawl::rules::ProgramSettings;
use argiope_core::page::follow::{LinkFilter, PageLink};

/// The closures of a crawl.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hooks {
    pub filter: Option<Filter>,
    pub request: Option<OnRequest>,
    pub response: Option<OnResponse>,
}

impl Hooks {
    /// The settings of a program that has these closures, and defaults otherwise.
    pub fn into_program_settings(self) -> ProgramSettings {
        let Self { filter, request, response } = self;
        ProgramSettings {
            link_filter: filter.map(|filter| Arc::new(filter) as _),
            request_hook: request.map(|hook| Arc::new(hook) as _),
            response_hook: response.map(|hook| Arc::new(hook) as _),
            ..ProgramSettings::default()
        }
    }
}

#[derive(Clone)]
pub(crate) struct OnRequest(pub Arc<dyn Fn(&mut OutgoingRequest<'_>) + Send + Sync>);

impl fmt::Debug for OnRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnRequest")
    }
}

impl RequestHook for OnRequest {
    fn before_request(&self, request: &mut OutgoingRequest<'_>) {
        (self.0)(request);
    }
}

#[derive(Clone)]
pub(crate) struct OnResponse(pub Arc<dyn Fn(&ResponseStart<'_>) -> bool + Send + Sync>);

impl fmt::Debug for OnResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnResponse")
    }
}

impl ResponseHook for OnResponse {
    fn wants_body(&self, response: &ResponseStart<'_>) -> bool {
        (self.0)(response)
    }
}

#[derive(Clone)]
pub(crate) struct Filter(pub Arc<dyn Fn(&PageLink<'_>) -> bool + Send + Sync>);

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Filter")
    }
}

impl LinkFilter for Filter {
    fn follows(&self, link: &PageLink<'_>) -> bool {
        (self.0)(link)
    }
}
