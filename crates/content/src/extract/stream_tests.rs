//! Tests that extraction without a tree gives the same results as extraction from the tree.

use std::sync::LazyLock;

use argiope_core::base::url::Url;
use argiope_core::page::page_budget::PageBudget;
use proptest::prelude::*;
use proptest::sample::select;

use super::stream::StreamPlan;
use super::values::{TreeFinder, read_fields};
use super::{Extracted, Extraction, Field, Tally};
use crate::document::Document;

const URL: &str = "https://example.com/shop/list?page=2";

/// The results and tallies without and with the tree; `None` if the page or the rules need the tree.
fn run_both(rules: &Extraction, html: &str) -> Option<[(Extracted, Tally); 2]> {
    let url = Url::parse(URL).expect("an address");
    let applies = |field: &Field| field.urls.accepts(URL);
    let plan = StreamPlan::of(&rules.fields)?;
    let budget = PageBudget::unlimited();
    let mut finder = plan.read(&rules.fields, applies, html, (&url, None), &budget)?;
    let [mut streamed, mut with_tree] = [rules.tally(), rules.tally()];
    let first = read_fields(&mut finder, &rules.fields, URL, &mut streamed);
    let page = Document::parse(html).with_url(&url);
    let second = read_fields(&mut TreeFinder::new(&page, &budget), &rules.fields, URL, &mut with_tree);
    Some([(first, streamed), (second, with_tree)])
}

fn assert_same(rules: &Extraction, html: &str) {
    let [streamed, tree] = run_both(rules, html).expect("the page needs no tree");
    assert!(streamed.0.data == tree.0.data, "{:.200}", html);
    assert_eq!(streamed.0.limited, tree.0.limited, "{:.200}", html);
    assert_eq!(streamed.1, tree.1, "{:.200}", html);
}

const FILE: &str = r#"
[fields]
title = "title"
heading = { select = "h1, h2, #main > p:first-child" }
number = { select = "td, .price, li", type = "number" }
word = { select = "p", regex = 'w(\w+)' }
all = { select = "p, div p, li", many = true }
text = "body"
links = { select = "a@href", many = true }
next = "a[rel~=next]@href"
last = { select = "a@href", regex = 'x(\d)' }
classes = { select = "*@class", many = true }
description = "meta:description"
metas = { select = "og:image", many = true }
store = "jsonld:Store.name"
after = { select = "h2 + p", many = true }
later = { select = "h1 ~ p", many = true }
second = { select = "li:nth-child(2n)", many = true }
direct = { select = "div > span > b, section span", many = true }
odd = { select = "p:not(.a):not(:first-child)", many = true }
named = { select = "x-y, .a.b", many = true }
scripts = { select = "script, style, template", many = true }
language = "html@lang"
[fields.items]
select = "li, .item"
fields.name = "b, a"
fields.links = { select = "a@href", many = true }
fields.class = "@class"
fields.price = { select = ".price", type = "number" }
fields.same = { select = "li", many = true }
[fields.first]
select = "div"
many = false
fields.name = "p"
"#;

fn pieces() -> Vec<&'static str> {
    vec![
        "<p>",
        "</p>",
        "<p class=a>",
        "<div>",
        "<div class='a b'>",
        "</div>",
        "<ul>",
        "</ul>",
        "<li>",
        "<li class=item>",
        "</li>",
        "<b>",
        "</b>",
        "<i>",
        "</i>",
        "<span>",
        "</span>",
        "<a href=x1>",
        "<a href='/y?a=1&amp;b=2' rel='up next'>",
        "<a href=''>",
        "<a name=z>",
        "</a>",
        "<h1>",
        "</h1>",
        "<h2 id=main>",
        "</h2>",
        "<table>",
        "<tr>",
        "<td>",
        "<td class=price>",
        "</td>",
        "</tr>",
        "</table>",
        "<br>",
        "<img src=i.png class=a>",
        "text w1 ",
        " &amp; &lt;b&gt; ",
        "12.50",
        "\n \t ",
        "£1,299.00",
        "\u{a0}é",
        "< not a tag",
        "<!-- <p> -->",
        "<script>a<b</script>",
        "<style>p{}</style>",
        "<script type='application/ld+json'>{\"@type\":\"Store\",\"name\":\"N\"}</script>",
        "<template><p class=a>",
        "</template>",
        "<svg><path/><a href=s>",
        "<title>",
        "</title>",
        "</svg>",
        "<math><mi>",
        "</math>",
        "<x-y>",
        "</x-y>",
        "<object>",
        "</object>",
        "<base href=/base/>",
        "<meta name=description content=' d '>",
        "<meta property=og:image content=i.png>",
        "<body class=b>",
        "<body>",
        "</body>",
        "<html lang=en>",
        "<html>",
        "<head>",
        "</head>",
        "<section>",
        "</section>",
        "<div id=main>",
        "<select><option>a<option>b",
        "</select>",
        "<noscript>",
        "</noscript>",
        "<textarea>",
        "</textarea>",
        "<dl><dt>a<dd>b",
        "</dl>",
        "<button>",
        "</button>",
        "<frameset>",
        "<![CDATA[x]]>",
        "<p",
    ]
}

proptest! {
    #[test]
    fn streaming_equals_the_tree(parts in proptest::collection::vec(select(pieces()), 0..40), page in any::<bool>()) {
        static RULES: LazyLock<Extraction> = LazyLock::new(|| Extraction::from_toml(FILE, "f").expect("rules"));
        let rules = &*RULES;
        prop_assert!(StreamPlan::of(&rules.fields).is_some());
        let head = if page { "<!doctype html><html lang=de><head><title>T</title></head><body>" } else { "" };
        let html = format!("{head}{}", parts.concat());
        if let Some([streamed, tree]) = run_both(rules, &html) {
            prop_assert_eq!(streamed.0.data, tree.0.data);
            prop_assert_eq!(streamed.0.limited, tree.0.limited);
            prop_assert_eq!(streamed.1, tree.1);
        }
    }
}

/// Rules that match no inline elements except links in table cells.
const BLOCKS: &str = r#"
[fields]
heading = "h1"
heads = { select = "h2", many = true }
all = { select = "p, li", many = true }
links = { select = "td a@href", many = true }
description = "meta:description"
store = "jsonld:Store.name"
after = { select = "h2 + p", many = true }
later = { select = "div ~ p", many = true }
second = { select = "p:nth-child(2n)", many = true }
[fields.items]
select = "li"
fields.name = "p"
"#;

fn inline_pieces() -> Vec<&'static str> {
    vec![
        "<b>x</b>",
        "<span class='<i>'>a</span> ",
        "<I>y</i>",
        "<code><span>a</span><span>b</span></code>",
        "<a href=z><em>x</em></a>",
        "<a href=z>x<a>y</a>",
        "<nobr>a<nobr>b</nobr>",
        "<em><p>x</p></em>",
        "<em><strong>",
        "</strong>",
        "<span\n>x</span\n>",
        "<b/>x</b>",
        "<b>x<",
        "<<b>x</b>",
        "<b><!-- </b> -->x</b>",
        "<b><br></b>",
        "<span title=\"",
        "<span x=\">\">y</span>",
        "<q><q><q><q><q>x</q></q></q></q></q>",
        "<td><a href=in><b>1</b></a>",
    ]
}

proptest! {
    #[test]
    fn streaming_equals_the_tree_for_inline_elements(
        parts in proptest::collection::vec(select([pieces(), inline_pieces(), inline_pieces()].concat()), 0..40),
    ) {
        static RULES: LazyLock<Extraction> = LazyLock::new(|| Extraction::from_toml(BLOCKS, "f").expect("rules"));
        if let Some([streamed, tree]) = run_both(&RULES, &parts.concat()) {
            prop_assert_eq!(streamed.0.data, tree.0.data);
            prop_assert_eq!(streamed.0.limited, tree.0.limited);
            prop_assert_eq!(streamed.1, tree.1);
        }
    }
}

#[test]
fn ordinary_pages_need_no_tree() {
    let rules = Extraction::from_toml(FILE, "f").expect("rules");
    for html in [
        "<!doctype html><html lang=en><head><title>A</title><base href=/b/></head><body class=c><div id=main><p>one w2</p>\
         <ul><li class=a><a href=x1>1</a><b>B</b><li><a href=y>2</a></ul></div></body></html>",
        "<p>one<p>two",
        "",
    ] {
        assert_same(&rules, html);
    }
}

#[test]
fn streaming_has_the_limits_of_the_tree() {
    let rules = Extraction::from_rules(["p[]=p", "b=b@class", "t=h1"]).expect("rules");
    assert_same(&rules, &"<p>0123456789".repeat(20_000));
    assert_same(&rules, &format!("<h1>{}</h1>", "word ".repeat(300_000)));
    assert_same(&rules, &"<b>x</b>".repeat(200_000));
    let rules = Extraction::from_rules(["p[]=p"]).expect("rules");
    for inline in ["<i>x</i>", "<i><u></u></i>", "x<i>y</i>", "<i></i>"] {
        // Numbers of nodes below, around and above the limit of 500,000.
        for count in [83_332, 124_998, 166_664, 249_996, 300_000] {
            let html = format!("<p>a</p>{}<p>b</p>{}<p>c", inline.repeat(count), inline.repeat(3));
            assert_same(&rules, &html);
        }
    }
    let rules = Extraction::from_rules(["p[]=p", "b=b@class", "t=h1"]).expect("rules");
    // The heading is behind the 16 MiB that are parsed.
    let late = format!("<i>{}</i><h1>t</h1>", "x".repeat(17 << 20));
    assert_same(&rules, &late);
}

#[test]
fn pages_with_late_attributes_or_deeply_nested_matches_need_the_tree() {
    let rules = Extraction::from_rules(["p[]=body.late p", "t[]=div"]).expect("rules");
    assert!(run_both(&rules, "<p>a</p><body class=late>").is_none());
    assert!(run_both(&rules, &"<div>x".repeat(100)).is_none(), "a hundred open texts");
    let url = Url::parse(URL).expect("an address");
    let data = rules.read("<p>a</p><body class=late>", (&url, None), &PageBudget::unlimited(), &mut rules.tally()).data;
    assert_eq!(data.get("p"), Some(&serde_json::json!(["a"])));
}

#[test]
fn rules_that_a_stream_cannot_match_need_the_tree() {
    for rule in
        ["a=p:has(b)", "a=p:contains('x')", "a=p:last-child", "a=p@html", "a=microdata:name", "a=p:empty", "a=@lang"]
    {
        let rules = Extraction::from_rules([rule]).expect(rule);
        assert!(StreamPlan::of(&rules.fields).is_none(), "{rule}");
    }
    // More selectors than the matcher has bits for.
    let many: Vec<String> = (0..60).map(|number| format!("f{number}=p")).collect();
    assert!(StreamPlan::of(&Extraction::from_rules(many).expect("rules").fields).is_none());
}
