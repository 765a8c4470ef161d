use argiope_core::base::value::DigestAlgorithm;
use argiope_core::page::examine::places::{ASSET_PLACES, AssetForm, AssetUse, SVG_PLACES};
use argiope_core::page::examine::tokenizer::Dialect;
use argiope_core::page::examine::{ExamineLimits, Examiner};
use argiope_core::{LinkKind, Url};
use proptest::prelude::*;

use super::*;

/// Gives every URL a prefix that names its use.
struct Prefix;

impl PageRewriter for Prefix {
    fn replace(&mut self, url: &str, use_as: ReferenceUse) -> Replacement {
        if url.starts_with('#') || url.starts_with("data:") {
            return Replacement::Keep;
        }
        if url.starts_with("javascript:") {
            return Replacement::Remove;
        }
        Replacement::With(format!("{}:{url}", format!("{use_as:?}").to_lowercase()))
    }
}

fn rewritten(page: &str) -> String {
    rewrite_page(page, Dialect::Html, "", &mut Prefix)
}

#[test]
fn the_urls_of_a_page_are_replaced() {
    for (page, expected) in [
        ("<a href=x>t</a>", "<a href=\"link:x\">t</a>"),
        ("<A HREF='x?a&amp;b' id=i>", "<A HREF=\"link:x?a&amp;b\" id=\"i\">"),
        (
            "<img src=\"a.png\" srcset='b.png 1x, c.png 2x'>",
            "<img src=\"image:a.png\" srcset=\"image:b.png 1x, image:c.png 2x\">",
        ),
        ("<p style='background:url(x)'>", "<p style=\"background:url('image:x')\">"),
        ("<style>a{b:url(x)}</style>", "<style>a{b:url('image:x')}</style>"),
        ("<style media=\"a>b\">@import 'x';</style>", "<style media=\"a&gt;b\">@import 'style:x';</style>"),
        ("<link rel=stylesheet href=s integrity=x crossorigin>", "<link rel=\"stylesheet\" href=\"style:s\">"),
        (
            "<svg><use xlink:href='#i'/><image href=i /></svg>",
            "<svg><use xlink:href=\"#i\"></use><image href=\"image:i\"></image></svg>",
        ),
        ("<svg><rect fill='url(x#a)'/></svg>", "<svg><rect fill=\"url('image:x#a')\"></rect></svg>"),
        ("<meta http-equiv=refresh content='5; url=x'>", "<meta http-equiv=\"refresh\" content=\"5; url=refresh:x\">"),
        ("<textarea><img src=x></textarea>", "<textarea>&lt;img src=x></textarea>"),
        ("<xmp><b>&amp;</xmp>", "<pre>&lt;b&gt;&amp;amp;</pre>"),
        (
            "<video src=v poster=p><source src=s></video>",
            "<video src=\"media:v\" poster=\"image:p\"><source src=\"media:s\"></video>",
        ),
        ("<table background=x><td background=y>", "<table background=\"image:x\"><td background=\"image:y\">"),
        (
            "<iframe srcdoc='<img src=x><script>y</script>'></iframe>",
            "<iframe srcdoc=\"&lt;img src=&quot;image:x&quot;&gt;\"></iframe>",
        ),
        ("<noscript><img src=x></noscript>", "<img src=\"image:x\">"),
    ] {
        assert_eq!(rewritten(page), expected, "{page}");
    }
}

#[test]
fn what_acts_by_itself_is_left_out() {
    for page in [
        "<script src=s></script><script>a='<img src=x>'</script>",
        "<SCRIPT>x</SCRIPT >",
        "<svg><script>x</script></svg>",
        "<base href=/b/ target=_top>",
        "<link rel=preconnect href=//c>",
        "<link rel='canonical dns-prefetch' href=//c>",
        "<meta http-equiv='Content-Security-Policy' content=\"default-src 'self'\">",
        "<meta http-equiv=set-cookie content=a>",
        "<!-- <img src=x> -->",
        "<?xml-stylesheet href=x?>",
        "<svg><set attributeName=href to=x /><animate attributeName=xlink:href /></svg>",
        "<svg><set x:attributeName=fill attributeName=href to=x /></svg>",
    ] {
        let copy = rewritten(page).replace("<svg>", "").replace("</svg>", "");
        assert_eq!(copy, "", "{page}");
    }
    assert_eq!(rewritten("<a href='java&#115;cript:x' onclick=y ping=z>t"), "<a>t");
}

#[test]
fn inserted_text_comes_right_after_the_doctype() {
    let with = |page: &str| rewrite_page(page, Dialect::Html, "[I]", &mut Prefix);
    assert_eq!(with("<!-- c --><!doctype html><html><head lang='>'>"), "<!doctype html>[I]<html><head lang=\"&gt;\">");
    assert_eq!(with("<p><!doctype html>"), "[I]<p>");
    assert_eq!(with("<!doctype <script>"), "[I]");
    assert_eq!(with("text"), "[I]text");
}

#[test]
fn xhtml_becomes_html() {
    let copy = rewrite_page(
        "<?xml version='1.0'?><!DOCTYPE html [<!ENTITY e '<script/>'>]><h:html xmlns:h='x'><h:div/><br/>\
         <style>a > b {c:url(x)}</style><h:script>x</h:script><![CDATA[<img src=x>]]></h:html>",
        Dialect::Xml,
        "[I]",
        &mut Prefix,
    );
    assert_eq!(
        copy,
        "<!DOCTYPE html>[I]<html xmlns:h=\"x\"><div></div><br><style>a > b {c:url('image:x')}</style>\
         &lt;img src=x&gt;</html>"
    );
}

#[test]
fn an_svg_image_keeps_only_elements_of_svg() {
    for (svg, expected) in [
        ("<g><rect fill='url(#a)'/></g>", "<g><rect fill=\"url(#a)\"></rect></g>"),
        ("<x:g xmlns:x='y'><script>z</script></x:g>", "<g></g>"),
        ("<foreignObject><h:p xmlns:h='x'>t</h:p></foreignObject>t", "t"),
        ("<style>@import 'x';</style>", "<style>@import 'style:x';</style>"),
        ("<style>a{b:image-set(var(--x))}</style>", "<style></style>"),
        ("<image xlink:href='x' onload='y'/>", "<image xlink:href=\"image:x\"></image>"),
        ("&e;&lt;<![CDATA[<a>]]>", "&amp;e;&lt;&lt;a&gt;"),
    ] {
        let copy = rewrite_svg(&format!("<?xml-stylesheet href='x'?><svg>{svg}</svg><svg/>"), &mut Prefix);
        let content = copy.split_once('>').map_or("", |(_, content)| content);
        assert_eq!(content, format!("{expected}</svg>"), "{svg}");
    }
    assert_eq!(rewrite_svg("<html><svg/></html>", &mut Prefix).matches("<svg").count(), 1);
}

proptest! {
    /// Whatever a page is made of, each `<` of the copy begins a tag, with a name of a known form.
    #[test]
    fn a_copy_has_no_markup_but_its_own(page in "(<|</|<!--|-->|<!\\[CDATA\\[|\\]\\]>|<script|<style|<svg|<title|<xmp|<plaintext|>|/>|=|'|\"| |a|&lt;|&#60;|<b c=){0,30}") {
        let copy = rewritten(&page);
        for (at, _) in copy.match_indices('<') {
            // A comparison in a style sheet: `(width < 9em)`.
            if copy[at + 1..].starts_with([' ', '=']) {
                continue;
            }
            let after = copy[at + 1..].trim_start_matches('/');
            prop_assert!(after.starts_with(|next: char| next.is_ascii_alphabetic()), "{page} -> {copy}");
            let end = after.find(['<', '>']).unwrap_or(0);
            prop_assert_eq!(after.get(end..=end), Some(">"), "{} -> {}", page, copy);
        }
        let copy = copy.to_lowercase();
        let is_script = |(at, _): (usize, &str)| !copy[at + 7..].starts_with(|next: char| next.is_alphanumeric() || next == '-');
        prop_assert!(!copy.match_indices("<script").any(is_script), "{page} -> {copy}");
    }
}

/// The paths of the resources that `--assets` finds in a page or in another file.
fn assets(kind: &str, page: &str) -> Vec<String> {
    let limits = ExamineLimits {
        max_links: 1_000,
        max_url: 1_000,
        max_attrs: 100,
        agent: "argiope".into(),
        assets: true,
        anchors: false,
        digest: DigestAlgorithm::default(),
    };
    let mut examiner = Examiner::new(&Url::parse("http://h/").expect("a URL"), Some(kind.as_bytes()), limits);
    examiner.feed(page.as_bytes());
    let links = examiner.finish().links;
    let assets = links.iter().filter(|link| link.kind == LinkKind::Asset);
    assets.map(|link| link.url.as_str().trim_start_matches("http://h/").to_owned()).collect()
}

/// The URLs that a copy of a page loads.
fn loaded(page: &str) -> Vec<String> {
    struct Loads(Vec<String>);
    impl PageRewriter for Loads {
        fn replace(&mut self, url: &str, use_as: ReferenceUse) -> Replacement {
            if use_as != ReferenceUse::Link && !url.starts_with('#') {
                self.0.push(url.to_owned());
            }
            Replacement::Keep
        }
    }
    let mut loads = Loads(Vec::new());
    rewrite_page(page, Dialect::Html, "", &mut loads);
    loads.0
}

#[test]
fn every_place_of_a_resource_is_known_to_the_examiner_and_to_the_copy() {
    for &(element, attribute, form, use_as) in ASSET_PLACES {
        let element = if element == "*" { "td" } else { element };
        let value = if form == AssetForm::Srcset { "x.png 1x, y.png 2x" } else { "x.png" };
        let found = if form == AssetForm::Srcset { vec!["x.png", "y.png"] } else { vec!["x.png"] };
        let page = format!("<{element} type=image {attribute}='{value}'>");
        assert_eq!(assets("text/html", &page), found, "{page}");
        let is_loaded = !matches!(use_as, AssetUse::PlugIn) && element != "bgsound";
        assert_eq!(loaded(&page), if is_loaded { found } else { Vec::new() }, "{page}");
        let nested = format!("<iframe srcdoc=\"{page}\"></iframe>");
        assert_eq!(assets("text/html", &nested), assets("text/html", &page), "{nested}");
    }
    for element in SVG_PLACES {
        for attribute in ["href", "xlink:href"] {
            let page = format!("<svg><{element} {attribute}=x.svg><{element} {attribute}='#here'></svg>");
            assert_eq!(assets("text/html", &page), ["x.svg"], "{page}");
            assert_eq!(loaded(&page), ["x.svg"], "{page}");
        }
    }
    for (page, found) in [
        ("<p style='background: url(x.png)'>", vec!["x.png"]),
        ("<style>@import 'x.css'; p { background: url(y.png) }</style>", vec!["x.css", "y.png"]),
        ("<link rel=stylesheet href=x.css><link rel=icon href=y.png>", vec!["x.css", "y.png"]),
        ("<applet archive='x.jar, y.jar'></applet>", vec!["x.jar", "y.jar"]),
        ("<script src=x.js></script>", vec!["x.js"]),
        ("<script type=module>import a from './x.js'; if (a < 1) import('./y.js')</script>", vec!["x.js", "y.js"]),
        ("<script>// <!-- <script> </script>\nimport('./x.js')</script><img src=y.png>", vec!["x.js", "y.png"]),
        ("<script type=importmap>{\"imports\": {\"a\": \"./x.js?a&amp;b\"}}</script>", vec!["x.js?a&amp;b"]),
        ("<script type=text/template>import './x.js'</script>", vec![]),
        ("<template><script>import './x.js'</script></template>", vec![]),
    ] {
        assert_eq!(assets("text/html", page), found, "{page}");
    }
    assert_eq!(assets("text/javascript; charset=utf-8", "export * from './x.js'"), ["x.js"]);
}
