use proptest::prelude::*;

use super::*;

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

fn scope(root: &str, scope_kind: ScopeKind) -> Scope {
    Scope::new(&[url(root)], scope_kind, &[], &[], None, 4096).unwrap()
}

fn judge(scope: &Scope, text: &str) -> ScopeVerdict {
    scope.judge(url(text).as_ref(), 1, LinkKind::Anchor)
}

fn assert_scope(root: &str, scope_kind: ScopeKind, rule: ScopeRule, inside: &[&str], outside: &[&str]) {
    let scope = scope(root, scope_kind);
    for text in inside {
        assert_eq!(judge(&scope, text), ScopeVerdict::Follow, "{root} {scope_kind:?} {text}");
    }
    for text in outside {
        assert_eq!(judge(&scope, text), ScopeVerdict::Reject(rule), "{root} {scope_kind:?} {text}");
    }
}

#[test]
fn page_scope_contains_only_the_roots() {
    assert_scope(
        "https://a.test/x",
        ScopeKind::Page,
        ScopeRule::Page,
        &["https://a.test/x", "https://a.test/x#part"],
        &["https://a.test/", "https://a.test/x/", "https://a.test/x?q", "http://a.test/x"],
    );
}

#[test]
fn prefix_scope_is_the_directory_of_the_root() {
    assert_scope(
        "https://a.test/docs/index.html",
        ScopeKind::Prefix,
        ScopeRule::Prefix,
        &["https://a.test/docs/", "http://www.a.test:8080/docs/b?c", "https://a.test/docs/x/y"],
        &[
            "https://a.test/docs",
            "https://a.test/docsx/",
            "https://a.test/",
            "https://b.test/docs/",
            "https://a.test/?/docs/",
        ],
    );
    // Without a slash at the end, `docs` is a page in the root directory.
    assert_scope("https://a.test/docs", ScopeKind::Prefix, ScopeRule::Prefix, &["https://a.test/other"], &[]);
}

#[test]
fn host_scope_ignores_www_port_and_scheme() {
    assert_scope(
        "https://www.a.test/",
        ScopeKind::Host,
        ScopeRule::Host,
        &["http://a.test/", "https://a.test:8443/x", "https://WWW.A.TEST/", "https://a.test./"],
        &["https://b.a.test/", "https://aa.test/", "https://www.www.a.test/", "https://a.test.evil.test/"],
    );
    assert_scope(
        "http://127.0.0.1:81/",
        ScopeKind::Host,
        ScopeRule::Host,
        &["http://127.0.0.1/"],
        &["http://127.0.0.2/"],
    );
    assert_scope("http://[::1]:81/", ScopeKind::Host, ScopeRule::Host, &["http://[::1]/"], &["http://[::2]/"]);
    // `www.` is removed only if a domain name remains.
    assert_scope("http://www.test/", ScopeKind::Host, ScopeRule::Host, &[], &["http://test/"]);
}

#[test]
fn domain_scope_is_the_registrable_domain() {
    assert_scope(
        "https://shop.example.co.uk/",
        ScopeKind::Domain,
        ScopeRule::Domain,
        &["https://example.co.uk/", "http://a.b.example.co.uk:99/", "https://example.co.uk./"],
        &["https://other.co.uk/", "https://notexample.co.uk/", "https://co.uk/"],
    );
    // Names below a private suffix belong to different owners.
    assert_scope(
        "https://me.github.io/",
        ScopeKind::Domain,
        ScopeRule::Domain,
        &[],
        &["https://you.github.io/", "https://github.io/"],
    );
    // There is a public suffix between the two names.
    assert_scope("https://amazonaws.com/", ScopeKind::Domain, ScopeRule::Domain, &[], &["https://b.s3.amazonaws.com/"]);
    // IP addresses and names without a domain equal only themselves.
    assert_scope(
        "http://10.1.2.3/",
        ScopeKind::Domain,
        ScopeRule::Domain,
        &["http://10.1.2.3:8/"],
        &["http://9.1.2.3/", "http://1.10.1.2/"],
    );
    assert_scope("http://[::1]/", ScopeKind::Domain, ScopeRule::Domain, &["http://[::1]:8/"], &["http://[::2]/"]);
    assert_scope(
        "http://localhost/",
        ScopeKind::Domain,
        ScopeRule::Domain,
        &["http://localhost:1/"],
        &["http://a.localhost/"],
    );
}

#[test]
fn any_scope_contains_every_host() {
    // The rule is not used, because no URL is outside.
    assert_scope("https://a.test/", ScopeKind::Any, ScopeRule::Host, &["https://b.example/"], &[]);
}

#[test]
fn include_applies_to_all_but_roots_and_exclude_to_all() {
    let roots = [url("https://a.test/"), url("https://a.test/secret/")];
    let include = ["/docs/".to_owned(), r"\?page=\d+$".to_owned()];
    let scope = Scope::new(&roots, ScopeKind::Host, &include, &["secret".to_owned()], None, 4096).unwrap();
    assert_eq!(judge(&scope, "https://a.test/docs/x"), ScopeVerdict::Follow);
    assert_eq!(judge(&scope, "https://a.test/?page=12"), ScopeVerdict::Follow);
    assert_eq!(judge(&scope, "https://a.test/other"), ScopeVerdict::Reject(ScopeRule::Include));
    assert_eq!(judge(&scope, "https://a.test/docs/secret"), ScopeVerdict::Reject(ScopeRule::Exclude));
    let root = |text| scope.judge(url(text).as_ref(), 0, LinkKind::Root);
    assert_eq!(root("https://a.test/"), ScopeVerdict::Follow, "roots need no include");
    assert_eq!(root("https://a.test/secret/"), ScopeVerdict::Reject(ScopeRule::Exclude));
}

#[test]
fn patterns_match_the_url_as_written_or_decoded() {
    let roots = [url("https://a.test/")];
    let scope = |include: &[&str], exclude: &[&str]| {
        let texts = |patterns: &[&str]| patterns.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        Scope::new(&roots, ScopeKind::Host, &texts(include), &texts(exclude), None, 4096).unwrap()
    };
    for pattern in ["/café/", "/caf%C3%A9/", "^https://a.test/caf"] {
        let page = "https://a.test/caf%C3%A9/1";
        assert_eq!(judge(&scope(&[], &[pattern]), page), ScopeVerdict::Reject(ScopeRule::Exclude), "{pattern}");
        assert_eq!(judge(&scope(&[pattern], &[]), page), ScopeVerdict::Follow, "{pattern}");
    }
    assert_eq!(judge(&scope(&[], &["/admin/"]), "https://a.test/%61dmin/x"), ScopeVerdict::Reject(ScopeRule::Exclude));
    assert_eq!(judge(&scope(&[], &["/b "]), "https://a.test/b%20c"), ScopeVerdict::Reject(ScopeRule::Exclude));
    assert_eq!(judge(&scope(&[], &["/b c"]), "https://a.test/b+c"), ScopeVerdict::Follow);
}

#[test]
fn depth_and_length_limits_are_inclusive() {
    let scope = Scope::new(&[url("https://a.test/")], ScopeKind::Host, &[], &[], Some(2), 20).unwrap();
    let judge = |text, depth| scope.judge(url(text).as_ref(), depth, LinkKind::Anchor);
    assert_eq!(judge("https://a.test/x", 2), ScopeVerdict::Follow);
    assert_eq!(judge("https://a.test/x", 3), ScopeVerdict::Reject(ScopeRule::Depth));
    assert_eq!(judge("https://a.test/45678", 0), ScopeVerdict::Follow);
    assert_eq!(judge("https://a.test/456789", 0), ScopeVerdict::Reject(ScopeRule::MaxUrl));
}

#[test]
fn only_links_to_pages_are_followed_unless_assets_are_included() {
    let scope = scope("https://a.test/", ScopeKind::Host);
    let other = url("https://a.test/x");
    let kinds = [LinkKind::Asset, LinkKind::Canonical, LinkKind::Alternate, LinkKind::Form, LinkKind::Other];
    for kind in kinds {
        assert_eq!(scope.judge(other.as_ref(), 1, kind), ScopeVerdict::Reject(ScopeRule::Kind), "{kind:?}");
    }
    let scope = scope.with_assets(Some(AssetsScope::Any), &[]);
    assert_eq!(scope.judge(other.as_ref(), 1, LinkKind::Asset), ScopeVerdict::Follow);
    assert_eq!(scope.judge(other.as_ref(), 1, LinkKind::Form), ScopeVerdict::Reject(ScopeRule::Kind));
}

#[test]
fn resources_have_a_scope_of_their_own() {
    let judge = |assets, text| {
        let scope = scope("https://www.a.test/d/", ScopeKind::Prefix)
            .with_assets(Some(assets), &[url("https://www.a.test/d/")]);
        scope.judge(url(text).as_ref(), 1, LinkKind::Asset)
    };
    let cdn = "https://cdn.other.test/x.png";
    assert_eq!(judge(AssetsScope::Any, cdn), ScopeVerdict::Follow);
    assert_eq!(judge(AssetsScope::Host, cdn), ScopeVerdict::Reject(ScopeRule::Host));
    assert_eq!(judge(AssetsScope::Domain, cdn), ScopeVerdict::Reject(ScopeRule::Domain));
    assert_eq!(judge(AssetsScope::Domain, "https://img.a.test/x.png"), ScopeVerdict::Follow);
    assert_eq!(judge(AssetsScope::Host, "https://a.test/elsewhere.png"), ScopeVerdict::Follow);
    let shallow = Scope::new(&[url("https://a.test/")], ScopeKind::Host, &[], &[], Some(0), 4096).unwrap();
    let shallow = shallow.with_assets(Some(AssetsScope::Any), &[]);
    let at = |depth, kind| shallow.judge(url(cdn).as_ref(), depth, kind);
    assert_eq!(at(3, LinkKind::Asset), ScopeVerdict::Follow, "style sheets may import others");
    assert_eq!(at(9, LinkKind::Asset), ScopeVerdict::Reject(ScopeRule::Depth), "the extra depth is limited");
    assert_eq!(at(1, LinkKind::Anchor), ScopeVerdict::Reject(ScopeRule::Depth));
}

#[test]
fn sitemap_files_need_only_a_host_in_scope() {
    let include = ["/docs/".to_owned()];
    let scope = Scope::new(&[url("https://a.test/docs/")], ScopeKind::Prefix, &include, &[], Some(0), 4096).unwrap();
    let judge = |text| scope.judge(url(text).as_ref(), 1, LinkKind::SitemapFile);
    assert_eq!(judge("https://a.test/sitemap.xml"), ScopeVerdict::Follow);
    assert_eq!(judge("https://b.test/sitemap.xml"), ScopeVerdict::Reject(ScopeRule::Host));
}

#[test]
fn the_error_names_the_invalid_pattern() {
    let bad = |pattern: &str| {
        let texts = ["fine".to_owned(), pattern.to_owned()];
        Scope::new(&[url("https://a.test/")], ScopeKind::Host, &texts, &[], None, 4096).unwrap_err()
    };
    assert_eq!(bad("(").pattern, "(");
    assert_eq!(bad(r"\w{1000}{1000}").pattern, r"\w{1000}{1000}");
}

#[test]
fn names_of_rules_are_distinct() {
    let names: HashSet<_> = ScopeRule::ALL.iter().map(|rule| rule.as_str()).collect();
    assert_eq!(names.len(), ScopeRule::ALL.len());
}

proptest! {
    #[test]
    fn the_cache_of_the_last_host_does_not_change_a_verdict(
        hosts in prop::collection::vec("(www\\.|b\\.|)(a|c|a{64})\\.(test|co\\.uk)", 1..6),
        targets in prop::collection::vec((0usize..6, "/(d/|)(e|)", any::<bool>()), 1..12),
    ) {
        for scope_kind in [ScopeKind::Page, ScopeKind::Prefix, ScopeKind::Host, ScopeKind::Domain, ScopeKind::Any] {
            let scope = scope("http://www.a.test/d/e", scope_kind);
            let mut judge = scope.host_caching_judge();
            for (host, path, is_page) in &targets {
                // DNS does not allow a label of 64 letters, but a URL may have one.
                let text = format!("http://{}{path}", hosts[host % hosts.len()]);
                let target = UrlRef::from_normal(&text).expect("an address");
                let kind = if *is_page { LinkKind::Anchor } else { LinkKind::SitemapFile };
                prop_assert_eq!(judge.judge(target, 1, kind), scope.judge(target, 1, kind), "{}", text);
            }
        }
    }

    #[test]
    fn a_wider_scope_never_rejects_what_a_narrower_one_follows(host in "(www\\.|b\\.|)(a|c)\\.(test|co\\.uk)", path in "/(d/|)(e|)", port in 1u16..3) {
        let target = url(&format!("http://{host}:{port}{path}"));
        let order = [ScopeKind::Page, ScopeKind::Prefix, ScopeKind::Host, ScopeKind::Domain, ScopeKind::Any];
        let follows: Vec<bool> = order
            .into_iter()
            .map(|scope_kind| scope("http://www.a.test/d/e", scope_kind).judge(target.as_ref(), 1, LinkKind::Anchor))
            .map(|verdict| verdict == ScopeVerdict::Follow)
            .collect();
        prop_assert!(follows.is_sorted(), "{target}: {follows:?}");
    }
}

#[test]
fn a_scope_stores_only_the_sets_that_its_kind_needs() {
    let roots: Vec<Url> = (0..10).map(|number| url(&format!("https://h{number}.test/d/"))).collect();
    let sizes = |scope_kind| {
        let scope = Scope::new(&roots, scope_kind, &[], &[], None, 4096).unwrap();
        (scope.roots.len(), scope.hosts.len(), scope.directories.len(), scope.domains.len())
    };
    assert_eq!(sizes(ScopeKind::Any), (0, 0, 0, 0));
    assert_eq!(sizes(ScopeKind::Host), (0, 10, 0, 0));
    assert_eq!(sizes(ScopeKind::Domain), (0, 0, 0, 10));
    assert_eq!(sizes(ScopeKind::Prefix), (0, 10, 10, 0));
    assert_eq!(sizes(ScopeKind::Page), (10, 10, 0, 0));
}

#[test]
fn the_reason_of_a_bad_pattern_is_one_line() {
    let error = compile_patterns(&["[".to_owned()]).expect_err("an open class");
    assert_eq!(error.to_string(), "the pattern \"[\" cannot be used: unclosed character class");
}
