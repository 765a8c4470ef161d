use super::*;
use crate::records::ANY_FINGERPRINT_KEY;

fn page(url: &str) -> PageSummary<'_> {
    PageSummary {
        url,
        host: "h",
        via: Some("http://h/"),
        depth: 1,
        is_root: false,
        is_guess: false,
        outcome: Outcome::Ok,
        status: Some(200),
        error: None,
        redirect: None,
        redirect_in_scope: true,
        content_type: Some("text/html"),
        charset: Some("utf-8"),
        bytes_wire: 10,
        bytes_body: 20,
        truncated: None,
        needs_scripts: false,
        render: None,
        is_soft_404: false,
        digest: None,
        links: 0,
        new_links: 0,
        tries: 1,
        total: Some(Duration::from_millis(5)),
    }
}

#[test]
fn outcomes_statuses_and_failures_are_counted() {
    let mut report = CrawlReport::default();
    let failure = Failure::new(ErrorKind::Reset, "gone");
    report.add(&page("http://h/ok"));
    report.add(&PageSummary { outcome: Outcome::HttpError, status: Some(404), ..page("http://h/404") });
    report.add(&PageSummary {
        outcome: Outcome::Failed,
        status: None,
        error: Some(&failure),
        tries: 4,
        ..page("http://h/r")
    });
    report.close(Duration::from_secs(2), 0, End::Finished);
    assert_eq!(report.outcomes.total(), 3);
    assert_eq!(report.statuses.iter().collect::<Vec<_>>(), [(&200, &1), (&404, &1)]);
    let urls = vec!["http://h/r".into()];
    assert_eq!(report.failures.get(&ErrorKind::Reset), Some(&FailureGroup { count: 1, urls }));
    assert_eq!((report.bytes_wire, report.bytes_body, report.retries, report.broken_total), (30, 60, 3, 2));
    let time = Duration::from_millis(15);
    let totals = HostTotals { pages: 3, bytes: 30, broken: 2, time, failed: 1, has_responded: true, was_lost: false };
    assert_eq!(report.hosts["h"], totals);
    assert!((report.pages_per_second() - 1.5).abs() < 1e-9);
}

#[test]
fn a_broken_link_lists_the_pages_that_contain_it_up_to_a_limit() {
    let mut report = CrawlReport::default();
    let broken = "http://h/gone";
    let link = [Backlinks::fingerprint_of_text(broken)];
    for page in 0..14 {
        report.add_links(&format!("http://h/{page}"), link);
    }
    report.add(&PageSummary {
        via: Some("http://h/0"),
        outcome: Outcome::HttpError,
        status: Some(410),
        ..page(broken)
    });
    report.close(Duration::ZERO, 0, End::Finished);
    let only = &report.broken[0];
    assert_eq!(only.reason, BrokenReason::Status(410));
    assert_eq!((only.on_pages.len(), only.more_pages), (10, 4));
    assert_eq!(&*only.on_pages[0], "http://h/0");
}

#[test]
fn lists_are_limited_and_counts_are_not() {
    let mut report = CrawlReport::default();
    for number in 0..2_500 {
        let url = format!("http://h{number}/");
        let host = format!("h{number}");
        report.add(&PageSummary { host: &host, outcome: Outcome::HttpError, status: Some(500), ..page(&url) });
        report.add(&PageSummary {
            outcome: Outcome::Redirect,
            status: Some(301),
            redirect: Some("http://h/"),
            ..page(&url)
        });
    }
    assert_eq!((report.broken.len(), report.broken_total), (MAX_BROKEN, 2_500));
    assert_eq!((report.redirects.len(), report.outcomes.get(Outcome::Redirect)), (MAX_REDIRECTS, 2_500));
}

#[test]
fn roots_with_a_problem_are_listed_with_the_reason() {
    let mut report = CrawlReport::default();
    let root = |url| PageSummary { is_root: true, via: None, ..page(url) };
    let dead = Failure::new(ErrorKind::DnsNxdomain, "no such name");
    report.add(&root("http://fine/"));
    report.add(&PageSummary { outcome: Outcome::Failed, status: None, error: Some(&dead), ..root("http://dead/") });
    report.add(&PageSummary {
        outcome: Outcome::Redirect,
        status: Some(301),
        redirect: Some("http://w/"),
        ..root("http://in/")
    });
    let out =
        PageSummary { redirect_in_scope: false, redirect: Some("http://w/"), status: Some(301), ..root("http://out/") };
    report.add(&PageSummary { outcome: Outcome::Redirect, ..out });
    report.add(&PageSummary { outcome: Outcome::Robots, status: None, ..root("http://no/") });
    let unread = Failure::new(ErrorKind::RobotsUnreachable, "http://unread/robots.txt answered 500");
    let unreadable = PageSummary { error: Some(&unread), ..root("http://unread/") };
    report.add(&PageSummary { outcome: Outcome::Robots, status: None, ..unreadable });
    assert_eq!(
        report.roots,
        [
            RootProblem::Failed { url: "http://dead/".into(), reason: BrokenReason::Failure(dead.clone()) },
            RootProblem::OutOfScope { url: "http://out/".into(), to: "http://w/".into() },
            RootProblem::Disallowed { url: "http://no/".into() },
            RootProblem::Failed { url: "http://unread/".into(), reason: BrokenReason::Failure(unread.clone()) },
        ]
    );
}

#[test]
fn a_visit_is_converted_with_the_scope_of_its_redirect() {
    let config = argiope_core::crawl::rules::Config { roots: vec!["https://h.example/".into()], ..Default::default() };
    let rules = config.compile(ANY_FINGERPRINT_KEY).unwrap();
    let link = argiope_core::Link::root(Url::parse("https://h.example/").unwrap(), 10);
    let mut visit = Visit::not_fetched(link, Outcome::Redirect, None, argiope_core::Time::ZERO);
    for (to, in_scope) in [("https://www.h.example/x", true), ("https://elsewhere.example/", false)] {
        visit.facts.redirect = Some(Url::parse(to).unwrap());
        let page = PageSummary::of(&visit, &rules);
        assert_eq!((page.url, page.host, page.is_root), ("https://h.example/", "h.example", true));
        assert_eq!((page.redirect, page.redirect_in_scope), (Some(to), in_scope));
    }
}

#[test]
fn all_members_of_a_redirect_loop_are_counted_as_broken() {
    let (mut report, mut detail) = (CrawlReport::default(), ReportDetail::default());
    let failure = Failure::new(ErrorKind::RedirectLoop, "a loop");
    let redirect =
        |url, to| PageSummary { outcome: Outcome::Redirect, status: Some(302), redirect: Some(to), ..page(url) };
    let pages = [
        redirect("http://h/f/a", "http://h/f/b"),
        redirect("http://h/elsewhere", "http://h/"),
        PageSummary { error: Some(&failure), ..redirect("http://h/f/b", "http://h/f/a") },
    ];
    for page in &pages {
        let members = report.add(page);
        detail.add(page, page.depth, None);
        members.iter().for_each(|member| detail.add_loop_member(member));
    }
    assert_eq!((report.broken_total, report.hosts["h"].broken), (2, 2));
    let broken = detail.get("broken").expect("a group");
    assert_eq!((broken.count, broken.broken), (2, 2));
    assert_eq!(broken.urls, ["http://h/f/b", "http://h/f/a"].map(Box::from));
    for (group, count) in [("host:h", 2), ("section:h/f/", 2), ("status:302", 2), ("section:h/", 0)] {
        assert_eq!(detail.get(group).map(|group| group.broken), Some(count), "{group}");
    }
    assert_eq!(detail.get("error:redirect_loop").map(|group| group.count), Some(1));
    assert_eq!(
        detail.tree.nodes.iter().map(|node| (node.pages, node.broken)).collect::<Vec<_>>(),
        [(3, 2), (3, 2), (2, 2)]
    );
}
