//! The work on a page grows in proportion to the page: every reader with every family of pages, in charged steps.
//!
//! The budget counts and does not refuse, so these tests show that the algorithms are linear, not that a limit ends
//! them. That no work is left uncharged is what the fuzz targets look for.

mod families;

use argiope_content::{Article, Document, Extraction, ParseLimits, Selector, TextFormat};
use argiope_core::base::url::Url;
use argiope_core::page::page_budget::PageBudget;
use families::{FAMILIES, Family, SELECTORS};

/// The size of the smallest page of a family, in repetitions. It is four times the nesting that is followed: what is
/// done for each level costs more only up to there.
const SIZE: usize = 2_200;
/// What a page of twice the size may cost at most.
const MAX_GROWTH: f64 = 2.2;

/// The URL of all pages.
const URL: &str = "http://h.test/folder/page";

fn parse(html: &str, budget: &PageBudget) -> Document {
    let url = Url::parse(URL).unwrap();
    Document::parse_within(html, &ParseLimits::default(), budget).with_url(&url)
}

fn extract(rules: &str, html: &str, budget: &PageBudget) {
    let rules = Extraction::from_toml(rules, "rules").unwrap();
    rules.read(html, (&Url::parse(URL).unwrap(), None), budget, &mut rules.tally());
}

/// Steps and memory of a reader.
type Cost = (f64, f64);

fn cost(read: impl FnOnce(&PageBudget)) -> Cost {
    let budget = PageBudget::unlimited();
    read(&budget);
    (budget.steps() as f64, budget.peak_memory() as f64)
}

/// The pages of a family of 1, 2 and 4 times the size.
fn pages(family: &Family) -> [String; 3] {
    [1, 2, 4].map(|factor| (family.page)(SIZE * factor))
}

/// What is wrong if a doubled page costs more than [`MAX_GROWTH`] times as much.
fn fault(reader: &str, family: &Family, costs: [Cost; 3]) -> Option<String> {
    let growth = |(steps, memory): Cost, (more_steps, more_memory): Cost| {
        (more_steps / steps.max(1.0)).max(more_memory / memory.max(1.0))
    };
    let growth = growth(costs[0], costs[1]).max(growth(costs[1], costs[2]));
    (growth > MAX_GROWTH).then(|| format!("{reader}, {}: {growth:.2}, {costs:?}", family.name))
}

/// The families that fault a reader.
fn faults(reader: &str, read: &dyn Fn(&str, &PageBudget)) -> Vec<String> {
    let check = |family| fault(reader, family, pages(family).map(|page| cost(|budget| read(&page, budget))));
    FAMILIES.iter().filter_map(check).collect()
}

#[test]
fn text_and_markdown_grow_with_the_page() {
    let mut all = Vec::new();
    for format in [TextFormat::Plain, TextFormat::Markdown] {
        all.extend(faults(&format!("{format:?}"), &|html, budget| {
            let page = parse(html, budget);
            Article::within(&page, budget).render(format, budget);
        }));
    }
    assert!(all.is_empty(), "{all:#?}");
}

#[test]
fn selectors_grow_with_the_page() {
    let selectors: Vec<Selector> = SELECTORS.iter().map(|css| Selector::parse(css).unwrap()).collect();
    let mut all = Vec::new();
    for family in FAMILIES {
        let pages = pages(family).map(|html| parse(&html, &PageBudget::unlimited()));
        for (css, selector) in SELECTORS.iter().zip(&selectors) {
            let costs = [0, 1, 2].map(|index: usize| {
                cost(|budget| {
                    selector.matches_within(pages[index].root(), budget).count();
                })
            });
            all.extend(fault(css, family, costs));
        }
    }
    assert!(all.is_empty(), "{all:#?}");
}

/// Checks that fields with these rules grow with the page. Each set of rules is a test of its own, so that they run in
/// parallel.
fn assert_fields_grow(rules: &str) {
    let all = faults(rules, &|html, budget| extract(rules, html, budget));
    assert!(all.is_empty(), "{all:#?}");
}

#[test]
fn fields_with_a_regular_expression_grow_with_the_page() {
    assert_fields_grow("[fields]\nx = { select = 'div, li', regex = 'never (matches|this)' }");
}

#[test]
fn fields_of_links_grow_with_the_page() {
    assert_fields_grow("[fields]\nx = 'p:has(b)'\nlinks = { select = 'a@href', many = true }");
}

#[test]
fn items_grow_with_the_page() {
    assert_fields_grow(
        "[fields.items]\nselect = 'div, li, tr'\nfields.a = 'b'\nfields.b = 'td:last-child'\nfields.c = '@id'",
    );
}

#[test]
fn fields_of_json_ld_grow_with_the_page() {
    assert_fields_grow("[fields]\na = 'jsonld:Product.name'\nb = { select = 'jsonld:Product', many = true }");
}

#[test]
fn fields_of_microdata_grow_with_the_page() {
    assert_fields_grow("[fields]\na = { select = 'microdata:name', many = true }\nb = 'microdata:Product'");
}

#[test]
fn fields_of_metadata_grow_with_the_page() {
    assert_fields_grow("[fields]\na = 'meta:description'\nb = { select = 'og:image', many = true }");
}

#[test]
fn a_text_has_at_most_four_times_the_page_and_its_urls() {
    for family in FAMILIES {
        let html = (family.page)(SIZE * 4);
        let budget = PageBudget::for_page(html.len());
        let page = parse(&html, &budget);
        let urls = page.elements().filter_map(|element| element.url("href").or_else(|| element.url("src")));
        let urls: usize = urls.map(|url| url.len()).sum();
        for format in [TextFormat::Plain, TextFormat::Markdown] {
            let text = Article::within(&page, &budget).render(format, &budget).text;
            assert!(text.len() <= html.len() * 4 + urls + 400, "{}: {}", family.name, text.len());
        }
    }
}

#[test]
fn ordinary_pages_are_far_below_their_budget() {
    let paragraph = "<p class=text>They build <a href=/web>webs</a>, which are <b>sticky</b> and round.</p>\n";
    let html = format!("<title>Orb weavers</title><main><h1>Orb weavers</h1>{}</main>", paragraph.repeat(2_000));
    let budget = PageBudget::for_page(html.len());
    let page = parse(&html, &budget);
    let article = Article::within(&page, &budget);
    for format in [TextFormat::Plain, TextFormat::Markdown] {
        assert!(!article.render(format, &budget).is_cut);
    }
    for css in SELECTORS {
        Selector::parse(css).unwrap().matches_within(page.root(), &budget).count();
    }
    assert!(!budget.is_used_up(), "text, Markdown and {} selectors", SELECTORS.len());
}
