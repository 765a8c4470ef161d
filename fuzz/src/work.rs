//! Costs of the readers of pages, for arbitrary input: the work on a page is in proportion to the page.
//!
//! The input is a part of a page. Its last byte selects a variant of the reader, and the rest is repeated until the page
//! has the sizes that are compared. What the readers charge must grow with the page. Work that nobody charges shows as
//! time and memory, so the targets run with `-timeout=5 -malloc_limit_mb=100`.

use argiope_content::{Article, Document, Extraction, PageRewriter, ParseLimits, ReferenceUse, Replacement, Selector};
use argiope_content::{TextFormat, rewrite_css, rewrite_page, rewrite_svg};
use argiope_core::Url;
use argiope_core::page::examine::tokenizer::Dialect;
use argiope_core::page::page_budget::PageBudget;

/// Bytes of the smallest page.
const SIZE: usize = 16 * 1024;
/// Bytes used of an input. A part is repeated often enough that nesting reaches its limit in the smallest page.
const MAX_PART: usize = 128;
/// What a page of twice the size may cost at most.
const MAX_GROWTH: f64 = 2.2;
/// Steps that do not count as growth: what is done once for a page, and a part that is cut at the end of it.
const ONCE: f64 = 65_536.0;

/// Text and Markdown: linear, and at most four times the page and its URLs.
pub fn text(data: &[u8]) {
    let (part, variant) = split(data);
    let format = if variant % 2 == 0 { TextFormat::Plain } else { TextFormat::Markdown };
    grows(&part, |html, budget| {
        let page = parse(html, budget);
        Article::within(&page, budget).render(format, budget);
    });
    let html = page_of(&part, SIZE);
    let budget = PageBudget::for_page(html.len());
    let page = parse(&html, &budget);
    let urls = page.elements().flat_map(|element| [element.url("href"), element.url("src")]).flatten();
    let urls: usize = urls.map(|url| url.len()).sum();
    let text = Article::within(&page, &budget).render(format, &budget).text;
    assert!(text.len() <= html.len() * 4 + urls + 400, "{} bytes of {}", text.len(), html.len());
}

/// Selectors. The input is the page; the variant selects the selector.
pub fn selectors(data: &[u8]) {
    const SELECTORS: [&str; 10] = [
        "div b",
        "div div > p ~ b",
        "b + i ~ u",
        "div:contains('zz')",
        "div:has(b:last-child)",
        "*:not(:has(> i))",
        "p:nth-last-of-type(3n+1)",
        "[class~=a] [id]",
        "li:nth-child(2n) ~ li:only-of-type",
        ":is(div, p):has(+ b)",
    ];
    let (part, variant) = split(data);
    let selector = Selector::parse(SELECTORS[usize::from(variant) % SELECTORS.len()]).expect("a selector");
    grows(&part, |html, budget| {
        let page = parse(html, &PageBudget::unlimited());
        selector.matches_within(page.root(), budget).count();
    });
}

/// Fields: texts, regular expressions, items, markup, JSON-LD, microdata and metadata.
pub fn fields(data: &[u8]) {
    const RULES: [&str; 8] = [
        "x = { select = 'div, p', regex = 'never (matches|this)', many = true }",
        "x = { select = '*', many = true }",
        "x = { select = '*@html', many = true }",
        "x = { select = 'a@href', many = true }",
        "x = { select = 'jsonld:Product', many = true }",
        "x = { select = 'microdata:Product', many = true }",
        "x = { select = 'meta:description', many = true }",
        "x = { select = 'div', fields = { a = 'b', c = '@id' } }",
    ];
    let (part, variant) = split(data);
    let rules = format!("[fields]\n{}", RULES[usize::from(variant) % RULES.len()]);
    let rules = Extraction::from_toml(&rules, "rules").expect("rules");
    grows(&part, |html, budget| {
        rules.read(html, (&url(), None), budget, &mut rules.tally());
    });
}

/// JSON-LD and microdata whose values consist of the input.
pub fn structured(data: &[u8]) {
    let (part, variant) = split(data);
    let rules = ["jsonld:a.a", "jsonld:Product.offers[1]", "microdata:a", "microdata:Product.a"];
    let rules = format!("[fields]\nx = {{ select = '{}', many = true }}", rules[usize::from(variant) % rules.len()]);
    let rules = Extraction::from_toml(&rules, "rules").expect("rules");
    let part = part.replace('<', "");
    for [start, end] in [["[", "0]"], ["{\"@graph\":[", "0]}"], ["", ""]] {
        grows(&part, |json, budget| {
            let html = format!("<script type='application/ld+json'>{start}{json}{end}</script>");
            rules.read(&html, (&url(), None), budget, &mut rules.tally());
        });
    }
    grows(&format!("<div itemscope itemprop='a b' {part}>"), |html, budget| {
        rules.read(html, (&url(), None), budget, &mut rules.tally());
    });
}

/// Copies of pages, style sheets and pictures: their length is in proportion to the page.
pub fn rewrite(data: &[u8]) {
    struct Keep;
    impl PageRewriter for Keep {
        fn replace(&mut self, _url: &str, _use: ReferenceUse) -> Replacement {
            Replacement::With("x".to_owned())
        }
    }
    let (part, variant) = split(data);
    let lengths = [1, 2, 4].map(|factor| {
        let page = page_of(&part, SIZE * factor);
        let copy = match variant % 3 {
            0 => rewrite_page(&page, Dialect::Html, "", &mut Keep),
            1 => rewrite_css(&page, |_, _| Replacement::Keep),
            _ => rewrite_svg(&page, &mut Keep),
        };
        copy.len() as f64
    });
    check_growth(&part, lengths);
}

fn split(data: &[u8]) -> (String, u8) {
    let (variant, part) = data.split_last().unwrap_or((&0, &[]));
    (String::from_utf8_lossy(part.get(..MAX_PART).unwrap_or(part)).into_owned(), *variant)
}

fn url() -> Url {
    Url::parse("http://h.test/folder/page").expect("a URL")
}

fn parse(html: &str, budget: &PageBudget) -> Document {
    Document::parse_within(html, &ParseLimits::default(), budget).with_url(&url())
}

/// A page of about this many bytes.
fn page_of(part: &str, bytes: usize) -> String {
    part.repeat(bytes / part.len().max(1))
}

/// Checks that a reader's charges for pages that repeat a part grow with the page.
fn grows(part: &str, read: impl Fn(&str, &PageBudget)) {
    let costs = [1, 2, 4].map(|factor| {
        let page = page_of(part, SIZE * factor);
        // The budget counts, and does not refuse.
        let budget = PageBudget::unlimited();
        read(&page, &budget);
        [budget.steps() as f64, budget.peak_memory() as f64]
    });
    check_growth(part, costs.map(|[steps, _]| steps));
    check_growth(part, costs.map(|[_, memory]| memory));
}

fn check_growth(part: &str, costs: [f64; 3]) {
    for (cost, doubled) in [(costs[0], costs[1]), (costs[1], costs[2])] {
        assert!(doubled <= cost * MAX_GROWTH + ONCE, "{part:?}: {costs:?}");
    }
}
