//! What a page declares about itself in its metadata: whether it is one dated article.

use argiope_core::page::page_budget::PageBudget;

use crate::document::{Document, Element, names};
use crate::structured::is_json_ld;

/// Classes that blog programs give to the text of a post.
const POST_CLASSES: [&str; 14] = [
    "entry-content",
    "post-content",
    "post-body",
    "entry-body",
    "article-body",
    "article-content",
    "hentry",
    "entry",
    "post",
    "article-text",
    "article__body",
    "article__content",
    "postentry",
    "articleBody",
];

/// What a page declares about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentKind {
    /// It is one article: its metadata say so, or it has one element with the class of a post.
    Article,
    /// Its metadata describe it for social networks. Programs that write them name the elements around the content
    /// consistently.
    Shared,
    /// Nothing. Documentation, man pages, forums and hand-written pages are of this kind.
    Plain,
}

impl ContentKind {
    /// The kind of a page.
    pub(super) fn of(page: &Document, budget: &PageBudget) -> Self {
        if declares_article(page, budget) || has_one_post(page, budget) {
            Self::Article
        } else if is_shared(page, budget) {
            Self::Shared
        } else {
            Self::Plain
        }
    }
}

/// Types of JSON-LD that stand for one article.
const ARTICLE_TYPES: [&str; 4] = ["Article\"", "BlogPosting\"", "\"Report\"", "\"Review\""];

/// Whether the metadata of a page says that it is one article with a date: OpenGraph, JSON-LD, microdata. Documentation,
/// shops, forums and lists declare nothing of the kind.
fn declares_article(page: &Document, budget: &PageBudget) -> bool {
    page.elements().take_while(|_| budget.visit()).any(|element| match element.name_id() {
        names::META => budget.spend(element.source_len()) && is_article_meta(element),
        names::SCRIPT => is_article_data(element, budget),
        names::TIME => element.raw_attribute("pubdate").is_some(),
        _ => false,
    })
}

/// Whether the metadata of a page describe it for social networks.
fn is_shared(page: &Document, budget: &PageBudget) -> bool {
    page.elements().take_while(|_| budget.visit()).any(|element| {
        let is_social = |name: &str| {
            element.raw_attribute(name).is_some_and(|value| value.starts_with("og:") || value.starts_with("twitter:"))
        };
        element.name_id() == names::META && (is_social("property") || is_social("name"))
    })
}

fn is_article_meta(meta: Element<'_>) -> bool {
    let is = |attribute: &str, value: &str| {
        meta.raw_attribute(attribute).is_some_and(|found| found.trim().eq_ignore_ascii_case(value))
    };
    let is_named = |name: &str| is("property", name) || is("name", name) || is("itemprop", name);
    (is_named("og:type") && is("content", "article")) || is_named("article:published_time") || is_named("datePublished")
}

fn is_article_data(script: Element<'_>, budget: &PageBudget) -> bool {
    if !script.raw_attribute("type").is_some_and(is_json_ld) {
        return false;
    }
    let text = script.raw();
    budget.spend(text.len() * ARTICLE_TYPES.len())
        && text.contains("@type")
        && ARTICLE_TYPES.iter().any(|name| text.contains(name))
}

/// Whether a page has exactly one element with a class that blog programs give to the text of a post.
fn has_one_post(page: &Document, budget: &PageBudget) -> bool {
    let mut posts =
        page.elements().take_while(|element| budget.visit() && budget.spend(element.source_len())).filter(|element| {
            let class = element.raw_attribute("class").unwrap_or_default();
            class.split_ascii_whitespace().any(|class| POST_CLASSES.contains(&class))
        });
    let Some(first) = posts.next() else { return false };
    posts.all(|other| other.node < first.end())
}
