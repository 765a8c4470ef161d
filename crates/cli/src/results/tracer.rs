//! [`Tracer`]: what the results of a crawl contain about single URLs and hosts.
//!
//! A crawl directory has an index. The segments of a fleet have none: each question reads them from front to back.

use std::collections::HashMap;

use argiope_core::{LinkKind, Url, UrlRef};
use argiope_store::disk::{
    CrawlSettings, GraphRound, HistoryEvent, HostTrace, LinkGraph, TracedLink, UrlTrace, UrlTracer,
};

use super::{Results, segments};
use crate::records::{self, ReadError};

/// Answers questions about single URLs.
pub enum Tracer {
    Index(UrlTracer),
    Segments(Results),
}

impl Tracer {
    pub(super) fn open(results: &Results) -> Result<Self, ReadError> {
        Ok(match results {
            Results::Directory(directory) => Self::Index(UrlTracer::open(directory)?),
            Results::Fleet(_) => Self::Segments(results.clone()),
        })
    }

    pub fn into_graph(self) -> Result<LinkGraph, ReadError> {
        Ok(match self {
            Self::Index(tracer) => tracer.into_graph()?,
            Self::Segments(results) => results.graph(GraphRound::Latest)?,
        })
    }

    /// The settings of a crawl directory, which may be newer than those in the record of its last run.
    pub fn newer_settings(&self) -> Option<&CrawlSettings> {
        match self {
            Self::Index(tracer) => Some(tracer.settings()),
            Self::Segments(_) => None,
        }
    }

    /// The `run` records that have the settings of the runs, in order.
    pub fn runs(&mut self) -> Result<Vec<Vec<u8>>, ReadError> {
        match self {
            Self::Index(tracer) => Ok(tracer.runs()?),
            Self::Segments(results) => segments::runs(results.location()),
        }
    }

    /// The roots on the first root's host: one, or one with https and one with http.
    pub fn first_roots(&self) -> Result<Vec<Url>, ReadError> {
        let results = match self {
            Self::Index(tracer) => {
                let first = tracer.roots().first().map_or("", String::as_str);
                // A root that was given without a scheme is stored as "https://… or http://…".
                return Ok(first.split(" or ").filter_map(|url| Url::parse(url).ok()).collect());
            }
            Self::Segments(results) => results,
        };
        let mut roots: Vec<Url> = Vec::new();
        results.walk(|event| {
            if let HistoryEvent::Link { url, kind: LinkKind::Root, .. } = event
                && let Ok(url) = Url::parse(url)
            {
                let is_first = roots.first().is_none_or(|first| first.host() == url.host());
                if is_first && roots.iter().all(|root| root.is_https() != url.is_https()) {
                    roots.push(url);
                }
            }
            Ok(())
        })?;
        Ok(roots)
    }

    /// The links to a URL, and its records.
    pub fn url(&mut self, url: &str) -> Result<UrlTrace, ReadError> {
        Ok(self.urls(&[url])?.pop().unwrap_or_default())
    }

    /// The links to each of these URLs, and their records.
    pub fn urls(&mut self, urls: &[&str]) -> Result<Vec<UrlTrace>, ReadError> {
        let results = match self {
            Self::Index(tracer) => return urls.iter().map(|url| Ok(tracer.url(url)?)).collect(),
            Self::Segments(results) => results,
        };
        let mut traces = vec![UrlTrace::default(); urls.len()];
        let positions: HashMap<&str, usize> = urls.iter().enumerate().map(|(at, url)| (*url, at)).collect();
        results.walk(|event| {
            match event {
                HistoryEvent::Link { url, via, depth, tries, kind, .. } => {
                    if let Some(trace) = positions.get(url).and_then(|at| traces.get_mut(*at)) {
                        trace.links.push(TracedLink { via: via.map(Into::into), depth, tries, kind });
                    }
                }
                HistoryEvent::FinalOutcome { line, .. } | HistoryEvent::Line { line } => {
                    let url = records::read_lazily(line)?.url();
                    if let Some(trace) = positions.get(&*url).and_then(|at| traces.get_mut(*at)) {
                        trace.records.push(line.to_vec());
                    }
                }
                HistoryEvent::Round | HistoryEvent::Note { .. } => {}
            }
            Ok(())
        })?;
        Ok(traces)
    }

    /// The first link to a URL.
    pub fn first_link(&mut self, url: &str) -> Result<Option<TracedLink>, ReadError> {
        match self {
            Self::Index(tracer) => Ok(tracer.url(url)?.links.into_iter().next()),
            Self::Segments(results) => results.find(|event| match event {
                HistoryEvent::Link { url: found, via, depth, tries, kind, .. } if found == url => {
                    Ok(Some(TracedLink { via: via.map(Into::into), depth, tries, kind }))
                }
                _ => Ok(None),
            }),
        }
    }

    /// What is known about a host.
    pub fn host(&mut self, host: &str) -> Result<HostTrace, ReadError> {
        let results = match self {
            Self::Index(tracer) => return Ok(tracer.host(host)?),
            Self::Segments(results) => results,
        };
        let is_of_host = |url: &str| UrlRef::from_normal(url).is_some_and(|url| url.host() == host);
        let mut trace = HostTrace::default();
        results.walk(|event| {
            match event {
                HistoryEvent::Link { url, again: false, .. } if is_of_host(url) => trace.known += 1,
                HistoryEvent::FinalOutcome { line, .. } if is_of_host(&records::read_lazily(line)?.url()) => {
                    trace.settled += 1;
                }
                HistoryEvent::Note { host: found, note } if found == host => trace.note = Some(note.to_vec()),
                HistoryEvent::Round => trace.settled = 0,
                _ => {}
            }
            Ok(())
        })?;
        Ok(trace)
    }
}
