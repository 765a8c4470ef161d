//! What rendering a page adds to its visit, and what it replaces: [`Visit::add_rendered`].

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashSet;

use crate::base::link::LinkKind;
use crate::base::link_list::LinkList;
use crate::base::url::Url;
use crate::crawl::render_facts::{RenderFacts, StaticFacts};
use crate::crawl::response::WholeResponse;
use crate::crawl::rules::Rules;
use crate::crawl::visit::{StaticPage, Visit};
use crate::http::conn::Headers;
use crate::render::{RenderReason, RenderedPage};

impl Visit {
    /// Whether the page has hardly any content without its scripts.
    pub fn looks_empty(&self) -> bool {
        self.findings.facts.as_ref().is_some_and(|facts| facts.needs_scripts)
    }

    /// Replaces the findings of the page by those of the rendered document, and keeps the links that only the static
    /// page has. A link that only scripts made has the kind `script`. If there is no readable document, the static findings
    /// stay. The facts about the response stay in any case, and whether the page looks empty without scripts.
    pub fn add_rendered(&mut self, rendered: RenderedPage, reason: RenderReason, cached: u32, rules: &Arc<Rules>) {
        let words = |visit: &Self| visit.findings.facts.as_ref().map_or(0, |facts| facts.words);
        let before = self.static_facts();
        let mut has_document = false;
        let RenderedPage {
            end,
            document,
            busy,
            virtual_time,
            requests,
            refused,
            errors,
            links,
            refused_links,
            screenshot,
        } = rendered;
        if let Some(document) = document {
            let (digest, looks_empty) = (self.findings.digest, self.looks_empty());
            let of_static_page = self.for_keeper.edges.take();
            let headers = self.body.as_mut().map(|body| std::mem::take(&mut body.headers)).unwrap_or_default();
            let charset = self.findings.charset;
            let of_response = self.body.take();
            let archived = self.for_keeper.archive.is_some().then(|| document.clone().into_bytes());
            let response = WholeResponse {
                head: head(&headers),
                body: document.into_bytes(),
                started: self.facts.started,
                arrived: self.facts.started,
                ended: self.facts.started,
                ..WholeResponse::default()
            };
            has_document = response.replace_page_of(self, rules);
            if has_document {
                self.static_page =
                    of_response.filter(|_| rules.keep_static_pages).map(|body| Box::new(StaticPage { body, charset }));
            } else {
                self.body = of_response;
            }
            if let Some(body) = &mut self.body {
                body.headers = headers;
            }
            if has_document {
                self.findings.digest = digest;
                if let Some((exchange, document)) = self.for_keeper.archive.as_mut().zip(archived) {
                    exchange.add_rendered(&document);
                    if let Some(picture) = &screenshot {
                        exchange.add_screenshot(picture);
                    }
                }
                if let Some(facts) = &mut self.findings.facts {
                    facts.needs_scripts = looks_empty;
                }
                self.merge_links(&of_static_page.unwrap_or_default(), &links, &refused_links, rules);
            } else {
                self.for_keeper.edges = of_static_page;
            }
        }
        let gained = |now: u64, before: u64| if has_document { now.saturating_sub(before) } else { 0 };
        self.findings.render = Some(Box::new(RenderFacts {
            reason,
            end,
            ms: millis(busy),
            virtual_ms: millis(virtual_time),
            requests,
            cached,
            refused,
            words: gained(words(self), before.words),
            links: self.findings.links.saturating_sub(before.links),
            errors,
            without_scripts: has_document.then_some(before),
        }));
    }

    /// The findings that are compared with those of the rendered document.
    fn static_facts(&self) -> StaticFacts {
        let findings = &self.findings;
        StaticFacts {
            title: findings.title.clone(),
            canonical: findings.canonical.as_ref().map(|url| url.as_str().into()),
            noindex: findings.noindex,
            words: findings.facts.as_ref().map_or(0, |facts| facts.words),
            links: findings.links,
        }
    }

    /// Adds the links that only the static page has, and those that scripts opened, to the links of the document. Where
    /// requests were refused is recorded only, like the target of a form.
    fn merge_links(&mut self, of_static_page: &LinkList, opened: &[String], refused: &[String], rules: &Arc<Rules>) {
        let of_document = self.for_keeper.edges.take().unwrap_or_default();
        let mut merged = merge(of_static_page, &of_document, opened, &self.link.url, rules.max_url);
        for url in refused.iter().filter_map(|text| Url::parse(text).ok()) {
            let is_known = merged.texts().any(|(known, kind, ..)| known == url.as_str() && kind == LinkKind::Form);
            if url.as_str().len() <= rules.max_url && !is_known {
                merged.push(url.as_str(), LinkKind::Form, false);
            }
        }
        self.findings.rejected.clear();
        self.findings.skipped.clear();
        let body = self.body.take();
        self.follow_links(&merged, self.findings.nofollow, body.as_ref().map_or(&[], |body| &body.bytes), rules);
        self.body = body;
        self.findings.all_links = rules.with_links.then(|| Box::new(merged.clone()));
        self.for_keeper.edges = Some(Box::new(merged));
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// The head for the rendered document: with the fields of the response that say something about the links of the page.
fn head(headers: &Headers) -> Vec<u8> {
    let mut head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n".to_vec();
    let is_kept = |name: &str| ["x-robots-tag", "link", "refresh"].iter().any(|kept| name.eq_ignore_ascii_case(kept));
    for (name, value) in headers.iter().filter(|(name, _)| is_kept(name)) {
        head.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// The links of the rendered document, then those that only the static page has, then those that scripts opened.
fn merge(of_page: &LinkList, of_document: &LinkList, opened: &[String], page: &Url, max_url: usize) -> LinkList {
    // Links in the data of scripts do not count: a script that makes elements of them adds these links.
    let known: HashSet<&str> =
        of_page.texts().filter(|(_, kind, ..)| *kind != LinkKind::Data).map(|(url, ..)| url).collect();
    let mut seen: HashSet<(&str, LinkKind)> = HashSet::new();
    let mut merged = LinkList::with_capacity(of_page.len() + of_document.len(), of_page.bytes() + of_document.bytes());
    let rendered = of_document.texts().map(|(url, kind, nofollow, anchor)| {
        let is_new = kind.is_page() && !known.contains(url);
        (url, if is_new { LinkKind::Script } else { kind }, nofollow, anchor)
    });
    for (url, kind, nofollow, anchor) in rendered.chain(of_page.texts()) {
        let is_linked = kind == LinkKind::Data && LinkKind::ALL.iter().any(|kind| seen.contains(&(url, *kind)));
        if !is_linked && seen.insert((url, kind)) {
            merged.push(url, kind, nofollow);
            if let Some(anchor) = anchor {
                merged.set_anchor(merged.len() - 1, anchor);
            }
        }
    }
    let mut added: HashSet<Url> = HashSet::new();
    for url in opened.iter().filter_map(|text| Url::parse(text).ok()) {
        let is_known = seen.iter().any(|(known, kind)| *known == url.as_str() && kind.is_page());
        if url != *page && url.as_str().len() <= max_url && !is_known && added.insert(url.clone()) {
            merged.push(url.as_str(), LinkKind::Script, false);
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::job::{Job, Purpose};
    use crate::base::link::Link;
    use crate::base::time::Time;
    use crate::crawl::hooks::{ResponseHook, ResponseStart};
    use crate::crawl::rules::{Config, Environment, ProgramSettings};
    use crate::render::RenderEnd;

    /// The visit of a page that was fetched.
    fn visit_of(body: &str, rules: &Arc<Rules>) -> Box<Visit> {
        let link = Link::root(Url::parse("http://h.example/").expect("a URL"), 5);
        let job = Job::detached(link, Purpose::Page, []);
        let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n".to_vec();
        WholeResponse { head, body: body.as_bytes().to_vec(), ..WholeResponse::default() }.into_visit(job, rules)
    }

    fn rendered(document: &str) -> RenderedPage {
        RenderedPage {
            end: RenderEnd::Idle,
            document: Some(document.into()),
            busy: Duration::from_millis(48),
            virtual_time: Duration::from_millis(2_500),
            requests: 3,
            refused: 1,
            errors: vec!["TypeError: x".into()],
            links: Vec::new(),
            refused_links: Vec::new(),
            screenshot: None,
        }
    }

    #[test]
    fn a_rendered_document_adds_links_and_keeps_what_the_response_says() {
        let config = Config { roots: vec!["http://h.example/".into()], ..Config::default() };
        let rules = Arc::new(config.compile(1).expect("valid settings"));
        let body = "<title>Static</title><a href=/static>s</a><div id=app></div><script src=/app.js></script>";
        let mut visit = visit_of(body, &rules);
        let (digest, bytes) = (visit.findings.digest, visit.facts.bytes_body);
        let document = "<title>Rendered</title><a href=/new>three more words</a><img src=/i.png>";
        let links = ["http://h.example/pushed#top", "http://h.example/", "http://h.example/static", "about:blank"];
        let refused_links = vec!["http://h.example/changed".to_owned(), "about:blank".to_owned()];
        let rendered = RenderedPage { links: links.map(str::to_owned).to_vec(), refused_links, ..rendered(document) };
        visit.add_rendered(rendered, RenderReason::Always, 1, &rules);
        assert_eq!(visit.findings.title.as_deref(), Some("Rendered"));
        assert_eq!((visit.findings.digest, visit.facts.bytes_body), (digest, bytes));
        assert!(visit.looks_empty(), "without its scripts");
        let followed: Vec<_> =
            visit.for_keeper.found.iter().map(|(url, kind)| (url.target().to_owned(), kind)).collect();
        let expected = [("/new", LinkKind::Script), ("/static", LinkKind::Anchor), ("/pushed", LinkKind::Script)];
        assert_eq!(followed, expected.map(|(url, kind)| (url.to_owned(), kind)));
        let edges = visit.for_keeper.edges.as_ref().expect("links");
        assert_eq!(
            edges.texts().last().map(|(url, kind, ..)| (url, kind)),
            Some(("http://h.example/changed", LinkKind::Form))
        );
        let facts = visit.findings.render.expect("it was rendered");
        assert_eq!((facts.links, facts.words, facts.ms, facts.virtual_ms), (2, 2, 48, 2_500));
        assert_eq!(visit.facts.started, Time::ZERO);
    }

    #[test]
    fn a_link_in_data_that_a_script_made_an_element_of_is_one_of_the_script() {
        let config = Config { roots: vec!["http://h.example/".into()], ..Config::default() };
        let rules = Arc::new(config.compile(1).expect("valid settings"));
        let data = r#"<script type=application/json>[{"url":"/a"},{"url":"/b"}]</script>"#;
        let mut visit = visit_of(data, &rules);
        assert_eq!(visit.findings.links, 0);
        visit.add_rendered(rendered(&format!("<a href=/a>a</a>{data}")), RenderReason::Always, 0, &rules);
        let edges = visit.for_keeper.edges.expect("the links of the page");
        let found: Vec<_> = edges.texts().map(|(url, kind, ..)| (url.to_owned(), kind)).collect();
        let expected = [("http://h.example/a", LinkKind::Script), ("http://h.example/b", LinkKind::Data)];
        assert_eq!(found, expected.map(|(url, kind)| (url.to_owned(), kind)));
        assert_eq!((visit.findings.links, visit.findings.render.expect("it was rendered").links), (1, 1));
    }

    #[test]
    fn a_rendered_document_is_read_while_responses_use_all_the_memory() {
        let config = Config { roots: vec!["http://h.example/".into()], ..Config::default() };
        let rules = Arc::new(config.compile(1).expect("valid settings"));
        let mut visit = visit_of("<title>Static</title>", &rules);
        let (mut waiting, mut other) = (rules.budget.hold(), rules.budget.hold());
        waiting.grow(usize::try_from(rules.budget.limit()).expect("64 bits"));
        assert!(other.try_overdraft());
        let held = rules.budget.response_bytes();
        let links: String = (0..2_000).map(|n| format!("<a href=/{n}>{n}</a>")).collect();
        visit.add_rendered(rendered(&format!("<title>Rendered</title>{links}")), RenderReason::Always, 0, &rules);
        assert_eq!((visit.findings.title.as_deref(), visit.findings.links), (Some("Rendered"), 2_000));
        assert!(rules.budget.response_bytes() > held, "its links are charged");
    }

    /// Refuses all bodies.
    #[derive(Debug)]
    struct NoBodies;

    impl ResponseHook for NoBodies {
        fn wants_body(&self, _: &ResponseStart<'_>) -> bool {
            false
        }
    }

    #[test]
    fn the_response_hook_is_not_called_for_a_rendered_document() {
        let config = Config { roots: vec!["http://h.example/".into()], ..Config::default() };
        let rules = Arc::new(config.compile(1).expect("valid settings"));
        let mut visit = visit_of("<title>Static</title>", &rules);
        let program = ProgramSettings { response_hook: Some(Arc::new(NoBodies)), ..ProgramSettings::default() };
        let rules = Arc::new(
            config
                .compile_in(Environment { fingerprint_key: 1, ..Environment::default() }, program)
                .expect("valid settings"),
        );
        visit.add_rendered(rendered("<title>Rendered</title>"), RenderReason::Always, 0, &rules);
        assert_eq!(visit.findings.title.as_deref(), Some("Rendered"));
    }

    #[test]
    fn a_document_that_cannot_be_read_leaves_the_findings_of_the_static_page() {
        let config = Config { roots: vec!["http://h.example/".into()], ..Config::default() };
        let rules = Arc::new(config.compile(1).expect("valid settings"));
        let mut visit = visit_of("<title>Static</title><a href=/a>a</a>", &rules);
        let not_http = WholeResponse { head: b"no head\r\n\r\n".to_vec(), ..WholeResponse::default() };
        assert!(!not_http.replace_page_of(&mut visit, &rules));
        assert_eq!((visit.findings.title.as_deref(), visit.findings.links), (Some("Static"), 1));
    }
}
