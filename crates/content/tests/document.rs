//! The tree of a parsed page: optional tags, misnested elements, and what selectors find in it.

use argiope_content::{Document, ParseLimits, Selector};
use argiope_core::page::page_budget::PageBudget;
use serde_json::Value;

fn texts(html: &str, css: &str) -> Vec<String> {
    let page = Document::parse(html);
    page.select(css).expect("a selector").iter().map(|element| element.text()).collect()
}

#[test]
fn optional_tags_are_implied() {
    assert_eq!(texts("<ul><li>a<li>b<ul><li>c</ul><li>d</ul>", "ul > li:last-child"), ["c", "d"]);
    assert_eq!(texts("<p>a<p>b<div>c</div>", "body > p"), ["a", "b"]);
    assert_eq!(texts("<table><tr><td>a<td>b<tr><td>c</table>", "table > tbody > tr > td"), ["a", "b", "c"]);
    assert_eq!(texts("<table><tr><th>h<td>a<table><tr><td>in</table>b</table>", "td > table td"), ["in"]);
    assert_eq!(texts("<dl><dt>a<dd>b<dt>c</dl>", "dl > dt"), ["a", "c"]);
    assert_eq!(texts("<select><option>a<option>b</select>", "select > option"), ["a", "b"]);
    assert_eq!(texts("<title>t</title><meta name=x><h1>h</h1>", "head > title, body > h1"), ["t", "h"]);
}

#[test]
fn misnested_elements_end_with_their_container() {
    assert_eq!(texts("<div><b>a</div><p>b</p>", "body > p"), ["b"]);
    assert_eq!(texts("<b><div>a</b>b</div><p>c", "body p"), ["c"]);
    assert_eq!(texts("<a href=1>a<a href=2>b</a>", "body > a"), ["a", "b"]);
    assert_eq!(texts("</div></p></body>after<p>more", "body > p"), ["more"]);
    assert_eq!(texts("<svg><title>drawing</title><p>out</svg><p>x", "body > p"), ["out", "x"]);
}

#[test]
fn text_omits_invisible_content_and_collapses_white_space() {
    assert_eq!(texts("<p>a &amp; b<script>no</script> <b>c</b>d<br>e <!-- x -->f</p>", "p"), ["a & b cd e f"]);
    assert_eq!(texts("<div><p>a</p><p>b</p></div>", "div"), ["a b"]);
    assert_eq!(texts("<p>1 < 2 && 3 <<4", "p"), ["1 < 2 && 3 <<4"]);
    assert_eq!(texts("<textarea><b>raw</b></textarea>", "textarea"), ["<b>raw</b>"]);
    let script = Document::parse("<script type=application/ld+json>[\"a<\"]<</script>");
    assert_eq!(script.select("script").unwrap()[0].html(), "<script type=\"application/ld+json\">[\"a<\"]<</script>");
    assert_eq!(texts("<template><p>no</template><p>yes", "p"), ["yes"]);
}

#[test]
fn elements_are_serialized_as_html() {
    let page = Document::parse("<div class='a&quot;b'><p>x &lt; y<br>z<script>1<2</script></div>");
    let div = page.select("div").unwrap()[0].html();
    assert_eq!(div, "<div class=\"a&quot;b\"><p>x &lt; y<br>z<script>1<2</script></p></div>");
}

#[test]
fn selectors_of_many_kinds_match() {
    let html = "<div id=top class='big box'><p class=a>1</p><p lang=en-GB>2</p><span data-x='One Two'>3</span><p>4</p></div><p>5</p>";
    for (css, expected) in [
        ("#top > p", vec!["1", "2", "4"]),
        (".box.big span", vec!["3"]),
        ("p:nth-child(2n)", vec!["2", "4", "5"]),
        ("p:nth-of-type(3), span", vec!["3", "4"]),
        ("div > p:last-of-type", vec!["4"]),
        ("p:not(.a)", vec!["2", "4", "5"]),
        ("p + span", vec!["3"]),
        (".a ~ p", vec!["2", "4"]),
        ("[lang|=en]", vec!["2"]),
        ("[data-x~=Two]", vec!["3"]),
        ("[data-x^=one i]", vec!["3"]),
        ("[data-x$='Two'][data-x*=' ']", vec!["3"]),
        ("div:has(> span) > p.a", vec!["1"]),
        ("p:has(+ span)", vec!["2"]),
        (":is(span, .a):not(:last-child)", vec!["1", "3"]),
        ("p:contains(\"5\")", vec!["5"]),
        ("body > :nth-last-child(-n+1)", vec!["5"]),
        ("DIV P:only-child", vec![]),
    ] {
        assert_eq!(texts(html, css), expected, "{css}");
    }
}

#[test]
fn the_error_of_a_selector_has_its_position() {
    for (css, message) in [
        ("div >", "expected a selector, found the end at character 6 of the selector \"div >\""),
        ("a[href", "expected an operator such as = or ^= or a closing ] at character 7 of the selector \"a[href\""),
        ("p:hover-ish", "unknown pseudo-class :hover-ish at character 2 of the selector \"p:hover-ish\""),
        (
            "p:nth-child(x)",
            "expected a formula such as 2n+1, odd or 3 at character 13 of the selector \"p:nth-child(x)\"",
        ),
        ("", "expected a selector, found the end at character 1 of the selector \"\""),
        ("a, , b", "expected a selector, found ',' at character 4 of the selector \"a, , b\""),
    ] {
        assert_eq!(Selector::parse(css).expect_err(css).to_string(), message);
    }
}

#[test]
fn references_are_resolved_against_the_base() {
    let page = Document::parse("<base href=/docs/><a href='intro.html?a=1&amp;b=2'>x</a><a href=mailto:a@b>y</a>");
    let page = page.with_base("https://example.com/index.html").unwrap();
    let links = page.select("a").unwrap();
    assert_eq!(links[0].url("href").as_deref(), Some("https://example.com/docs/intro.html?a=1&b=2"));
    assert_eq!(links[1].url("href"), None);
}

#[test]
fn structured_data_is_read() {
    let page = Document::parse(
        r#"<meta property="og:title" content="OG"><meta name=Description content=" d ">
        <script type="application/ld+json">{"@graph":[{"@type":"Product","name":"Web","offers":[{"price":"9.50"},{"price":8}]}]}</script>
        <script type="application/ld+json">/* <![CDATA[ */ {"@type":"Organization","name":"Orb"} /* ]]> */</script>
        <div itemscope itemtype="https://schema.org/Book"><b itemprop=name>Silk</b>
        <div itemprop=author itemscope itemtype="https://schema.org/Person"><i itemprop=name>A</i></div><img itemprop=image src=/i.png></div>"#,
    )
    .with_base("https://example.com/")
    .unwrap();
    assert_eq!(page.meta("description").as_deref(), Some("d"));
    assert_eq!(page.meta("og:title").as_deref(), Some("OG"));
    let find = |path: &str, roots: &[serde_json::Value]| {
        let path = argiope_content::DataPath::parse(path).unwrap();
        serde_json::to_string(&path.find(roots)).unwrap()
    };
    let json = page.json_ld();
    assert_eq!(find("Product.offers.price", &json), r#"["9.50",8]"#);
    assert_eq!(find("Product.offers[1].price", &json), "[8]");
    assert_eq!(find("name", &json), r#"["Web","Orb"]"#);
    let items = page.microdata();
    assert_eq!(find("Book.author.name", &items), r#"["A"]"#);
    assert_eq!(find("Book.name", &items), r#"["Silk"]"#);
    assert_eq!(find("Book.image", &items), r#"["https://example.com/i.png"]"#);
}

#[test]
fn hostile_pages_cost_bounded_work() {
    // Each page takes well under a second; a quadratic builder would take minutes.
    let deep = "<div>".repeat(100_000) + "x";
    let page = Document::parse(deep);
    assert_eq!(page.select("div").unwrap().len(), 100_000);
    assert!(argiope_content::Article::of(&page).text().contains('x'));

    let misnested = "<b><i><a><p>".repeat(50_000);
    assert!(Document::parse(misnested).truncated().is_none());
    let tables = "<table><tr><td>".repeat(50_000) + &"</p>".repeat(100_000);
    assert!(Document::parse(tables).truncated().is_none());

    let many = "<p>x".repeat(1_000_000);
    let page = Document::parse(many);
    assert_eq!(page.truncated(), Some("the page has more elements than are parsed"));
    assert!(page.select("p").unwrap().len() > 200_000);

    let own_names: String = (0..100_000).map(|number| format!("<x{number}>")).collect();
    assert!(Document::parse(own_names).truncated().is_none());

    let long = "y".repeat(20 << 20);
    let page =
        Document::parse_within(long, &ParseLimits { max_bytes: 1 << 20, max_nodes: 1000 }, &PageBudget::unlimited());
    assert_eq!(page.truncated(), Some("the page is longer than what is parsed"));
    assert_eq!(page.root().text().len(), 1 << 20);
}

#[test]
fn microdata_items_with_several_names_do_not_multiply_without_limit() {
    let page = |levels: usize, names: &str| {
        let nested = format!("<div itemscope itemprop='{names}'>").repeat(levels);
        Document::parse(format!("<div itemscope>{nested}<b itemprop=name>x</b>"))
    };
    // Each level doubles the copies of the level below it.
    assert_eq!(strings(&page(4, "a b").microdata()), 16);
    let counts = [10, 20, 30].map(|levels| strings(&page(levels, "a b").microdata()));
    assert!(counts.iter().all(|count| *count <= 16_384), "{counts:?}");
    assert!(strings(&page(8, "a b c d e f g h").microdata()) <= 16_384);
}

#[test]
fn nested_microdata_values_repeat_the_text_of_a_page_a_bounded_number_of_times() {
    let nested = "<span itemprop=a>".repeat(2000);
    let page = Document::parse(format!("<div itemscope>{nested}{}", "text ".repeat(20_000)));
    let bytes = Value::from(page.microdata()).to_string().len();
    assert!((100_000..5_000_000).contains(&bytes), "{bytes} bytes");
}

/// The number of strings in these values.
fn strings(values: &[Value]) -> usize {
    let count = |value: &Value| match value {
        Value::Array(values) => strings(values),
        Value::Object(object) => object.values().map(|value| strings(std::slice::from_ref(value))).sum(),
        other => usize::from(other.is_string()),
    };
    values.iter().map(count).sum()
}

#[test]
fn hostile_selectors_cost_bounded_work() {
    let page = Document::parse("<div>".repeat(600) + &"<p><span>x</span></p>".repeat(2000));
    // Ten kilobytes of descendant combinators, and nested tests that visit everything repeatedly.
    let long = ["div"; 2500].join(" ");
    assert_eq!(page.select(&long).unwrap().len(), 0);
    let costly = "div:has(:has(:has(p:nth-last-child(3n+1):not(:first-child))))";
    let selector = Selector::parse(costly).unwrap();
    let budget = PageBudget::new(100_000, 1 << 20);
    assert_eq!(selector.matches_within(page.root(), &budget).count(), 0);
    assert!(budget.is_used_up());
    assert!(!page.select(costly).unwrap().is_empty(), "each compound is tested with each element once");
    let siblings = ["p"; 300].join("~");
    assert!(Selector::parse(&siblings).unwrap_err().message.contains("more than 200 times"));
    let nested = format!("{}p{}", ":not(".repeat(100), ")".repeat(100));
    assert!(Selector::parse(&nested).unwrap_err().message.contains("nested"));
    assert!(Selector::parse(&"a ".repeat(100_000)).unwrap_err().message.contains("longer"));
}

#[test]
fn the_root_is_an_element_of_the_page() {
    let page = Document::parse("<html lang=en itemscope itemtype=https://schema.org/Book><p itemprop=name>Silk");
    assert_eq!(page.select("html").unwrap().len(), 1);
    assert_eq!(page.first(&Selector::parse("[lang]").unwrap()).unwrap().name(), "html");
    assert_eq!(page.root().all(&Selector::parse("html").unwrap()).len(), 0, "an element is not within itself");
    assert_eq!(page.microdata(), [serde_json::json!({"@type": "https://schema.org/Book", "name": "Silk"})]);
    let rules = argiope_content::Extraction::from_rules(["lang=html@lang"]).unwrap();
    let data = rules.apply(&page, "", &PageBudget::unlimited(), &mut rules.tally()).data;
    assert_eq!(data.get("lang"), Some(&serde_json::json!("en")));
}
