//! Events for the crate `tracing`. Needs the feature of this name.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use argiope::{CannedResponse, CannedWeb, Crawl, ErrorKind, RobotsPolicy};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Writes the events of the crawler as lines.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<String>>);

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if matches!(field.name(), "url" | "status" | "left" | "message") {
            write!(self.0, " {}={value:?}", field.name()).expect("a string");
        }
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "argiope"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut lines = self.0.lock().expect("no panic");
        write!(lines, "{}", event.metadata().level()).expect("a string");
        event.record(&mut Fields(&mut lines));
        lines.push('\n');
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn a_crawl_records_its_start_its_pages_and_its_end() {
    let lines = Lines::default();
    let web = CannedWeb::from([
        ("https://h.example/", CannedResponse::html("<a href=/a>a</a>")),
        ("https://h.example/a", CannedResponse::failure(ErrorKind::Tls)),
    ]);
    tracing::subscriber::with_default(lines.clone(), || {
        let crawl = Crawl::builder("https://h.example/").robots(RobotsPolicy::Ignore).with_transport(web);
        let mut pages = crawl.start_blocking().expect("it starts");
        assert_eq!(pages.by_ref().count(), 2);
        pages.close().expect("it ends");
    });
    let lines = lines.0.lock().expect("no panic").clone();
    assert_eq!(
        lines,
        "INFO message=the crawl started\nDEBUG message=a page url=\"https://h.example/\" status=200\n\
         WARN message=a page failed url=\"https://h.example/a\"\nINFO message=the crawl ended left=0\n"
    );
}
