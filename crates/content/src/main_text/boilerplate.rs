//! Detects boilerplate: navigation, footers, banners, share buttons, comments.

use std::sync::LazyLock;

use argiope_core::page::page_budget::PageBudget;
use regex::Regex;

use super::measure::Measure;
use crate::document::{Document, Element, names};

/// How many characters of an attribute are read.
const MAX_ATTRIBUTE_CHARS: usize = 400;

/// Words in classes and ids that indicate boilerplate.
static BOILERPLATE: LazyLock<Regex> = LazyLock::new(|| {
    let words = [
        "nav(bar|igation)?",
        "(sub|main|top|side|mega|site|mobile)?-?menus?",
        "breadcrumbs?",
        "(site|page|global)?-?footer",
        "(site|page|global)-?header",
        "masthead",
        "side-?bar",
        "right-?(rail|col|column)",
        "cookies?",
        "consent",
        "gdpr",
        "news-?letters?",
        "subscri(be|ption)s?",
        "sign-?up",
        "log-?in",
        "register",
        "social(-?(media|links|icons|bar|share|buttons))?",
        "share(s|d|r|-?(bar|buttons?|tools?|links?|this))?",
        "sharing",
        "add-?this",
        "sharedaddy",
        "related(-?\\w+)?",
        "recommend(s|ed|ations?)?",
        "recirc(ulation)?",
        "read-?(more|next|also)",
        "see-?also",
        "more-?(stories|from|on|news|articles|posts)",
        "(most|latest|popular|trending|recent)-?(read|viewed|popular|news|posts|stories|articles|now)?",
        "comments?(-?(area|list|section|form|wrapper|respond))?",
        "disqus(-thread)?",
        "respond",
        "reply",
        "promos?",
        "promo(tion|tional)?",
        "advert(s|isement|isements|ising)?",
        "ads?",
        "ad-?(slot|unit|container|wrapper|block|banner)",
        "dfp",
        "google-?ad",
        "sponsor(s|ed|ship)?",
        "outbrain",
        "taboola",
        "pop-?ups?",
        "modal",
        "lightbox",
        "overlay",
        "dialog",
        "toast",
        "paginat(ion|or)",
        "pager",
        "tool-?bar",
        "widgets?(-?area)?",
        "skip-?(link|to|nav)?",
        "sr-?only",
        "visually-?hidden",
        "screen-?reader(-text)?",
        "no-?print",
        "print-?(only|button)",
        "tags?(-?(list|cloud|links))?",
        "post-?tags",
        "categories",
        "author-?(bio|box|info|card|profile|block|about)",
        "about-?(the-?)?author",
        "by-?line",
        "date-?line",
        "time-?stamp",
        "pub(lish(ed)?)?-?date",
        "(post|entry|article|story)-?(meta|info|footer|actions|tools|nav|navigation|share|tags|date|author)",
        "meta(-?(data|info))?",
        "caption(-?text)?",
        "photo-?credit",
        "image-?(caption|credit)",
        "credits?",
        "copyright",
        "disclaimer",
        "correction-?link",
        "feedback",
        "rating",
        "vote",
        "donat(e|ion)",
        "pay-?wall",
        "call-?to-?action",
        "cta",
        "teaser-?list",
        "jump-?links?",
        "toc",
        "table-?of-?contents",
        "collapsed-?content",
        "video-?player",
        "media-?player",
        "gallery",
        "slide-?show",
        "carousel",
        "infobox-?ads",
        "edit-?section",
        "mw-editsection",
        "reference-?list",
        "catlinks",
        "navbox",
        "noprint",
        "print-?footer",
        "headerlink",
    ];
    Regex::new(&format!("(?:^|[\\s_-])(?:{})(?:$|[\\s_-])", words.join("|"))).expect("a constant pattern")
});

/// Words in classes and ids that indicate content. They override the boilerplate words of the same element.
static CONTENT: LazyLock<Regex> = LazyLock::new(|| {
    let words = "article-?(body|content|text)|(post|entry|story|page|main|body)-?(body|content|text)|content-?(body|main|area|text)|main-?content|rich-?text|prose|mw-parser-output";
    Regex::new(&format!("(?:^|[\\s_-])(?:{words})(?:$|[\\s_-])")).expect("a constant pattern")
});

/// The attributes `class`, `id`, `data-testid` and `data-component` in lower case, separated by spaces. A hyphen marks
/// each change from lower to upper case: `relatedPosts` becomes `related-posts`.
pub(super) fn words_of(element: Element<'_>) -> String {
    let mut words = String::new();
    for name in ["class", "id", "data-testid", "data-component"] {
        let Some(value) = element.raw_attribute(name) else { continue };
        let mut is_after_lower = false;
        for character in value.chars().take(MAX_ATTRIBUTE_CHARS) {
            if character.is_ascii_uppercase() && is_after_lower {
                words.push('-');
            }
            is_after_lower = character.is_ascii_lowercase();
            words.push(character.to_ascii_lowercase());
        }
        words.push(' ');
    }
    words
}

/// Whether these words indicate content. [`words_of`] returns the words of an element.
pub(super) fn indicates_content(words: &str) -> bool {
    CONTENT.is_match(words)
}

/// Whether attributes say that the element is not visible.
fn is_hidden(element: Element<'_>) -> bool {
    if element.raw_attribute("hidden").is_some() {
        return true;
    }
    if element.raw_attribute("aria-hidden").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        // `aria-hidden` hides an element from screen readers only. Most elements that have it are invisible as well.
        // These three elements often are visible, for example in formulas.
        return !matches!(element.name_id(), names::SPAN | names::I | names::IMG);
    }
    element.raw_attribute("style").is_some_and(|style| {
        let style: String = style.chars().filter(|next| !next.is_whitespace()).take(MAX_ATTRIBUTE_CHARS).collect();
        style.contains("display:none") || style.contains("visibility:hidden")
    })
}

fn is_boilerplate_role(element: Element<'_>) -> bool {
    element.attribute("role").is_some_and(|role| {
        matches!(
            role.trim().to_ascii_lowercase().as_str(),
            "navigation"
                | "banner"
                | "complementary"
                | "contentinfo"
                | "search"
                | "dialog"
                | "alertdialog"
                | "menu"
                | "menubar"
                | "tablist"
                | "toolbar"
                | "form"
        )
    })
}

/// Sets the flag in `removed` of each boilerplate element. The flags of its descendants are not set. Boilerplate is
/// detected by element name, by role and by whether the element is hidden; with `by_class` also by class and id.
pub(super) fn mark(page: &Document, by_class: bool, removed: &mut [bool], budget: &PageBudget) {
    let measure = Measure::of(page, &[], budget);
    let mut declared = DeclaredContent { page, next: Vec::new() };
    // The end of the `article` and `main` elements so far.
    let mut content_end = 0;
    let all = measure.text(page.root()).max(1);
    let mut next = 1u32;
    let count = page.len() as u32;
    while next < count {
        let id = next;
        next += 1;
        let element = page.element(id);
        let name = element.name_id();
        if !budget.visit() || !budget.spend(element.source_len() * 2) {
            break;
        }
        if name == crate::document::TEXT || matches!(name, names::HTML | names::BODY) {
            continue;
        }
        if matches!(name, names::ARTICLE | names::MAIN) {
            content_end = element.end().max(content_end);
        }
        // The header of an article contains its headline. The header of a page contains navigation.
        let looks_like_boilerplate = match name {
            names::HEADER => id >= content_end,
            _ => looks_like_boilerplate(element, name, by_class),
        };
        let is_boilerplate = looks_like_boilerplate
            && !(by_class && holds_content(element, &measure, all, |element| declared.is_within(element, budget)));
        if is_noise(element, name, budget) || is_boilerplate {
            if let Some(mark) = removed.get_mut(id as usize) {
                *mark = true;
            }
            next = element.end().max(next);
        }
    }
    budget.release(measure.memory());
}

/// The elements that declare themselves as the content. They are searched for when the first question is asked.
struct DeclaredContent<'a> {
    page: &'a Document,
    /// For each node, the first such element from it on.
    next: Vec<u32>,
}

impl DeclaredContent<'_> {
    /// Whether there is one within an element.
    fn is_within(&mut self, element: Element<'_>, budget: &PageBudget) -> bool {
        if self.next.is_empty() && budget.hold(self.page.len() * size_of::<u32>()) {
            self.next = vec![u32::MAX; self.page.len()];
            let mut nearest = u32::MAX;
            for (id, next) in self.next.iter_mut().enumerate().rev() {
                let inner = self.page.element(id as u32);
                if !budget.visit() || !budget.spend(inner.source_len() * 2) {
                    break;
                }
                if inner.name_id() != crate::document::TEXT && declares_content(inner) {
                    nearest = id as u32;
                }
                *next = nearest;
            }
        }
        self.next.get(element.node as usize + 1).is_some_and(|&next| next < element.end())
    }
}

/// Whether an element declares itself as the content.
fn declares_content(inner: Element<'_>) -> bool {
    matches!(inner.name_id(), names::MAIN)
        || inner.raw_attribute("itemprop").is_some_and(|property| property.contains("articleBody"))
        || (matches!(inner.name_id(), names::DIV | names::SECTION) && indicates_content(words_of(inner).trim()))
}

/// Words that indicate boilerplate even if the element is long.
static LONG_BOILERPLATE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("comment|disqus|respond|related|recommend|footer|cookie|consent|newsletter|sidebar$|side-bar$")
        .expect("a constant pattern")
});

/// Whether an element that looks like boilerplate contains the content: a large part of the text of the page (`all`
/// characters), or an element that declares itself as the content. Some sites give boilerplate names to wrappers.
fn holds_content(
    element: Element<'_>,
    measure: &Measure,
    all: u32,
    has_declared_content: impl FnOnce(Element<'_>) -> bool,
) -> bool {
    let text = measure.text(element);
    if text * 2 >= all {
        return true;
    }
    if text < 250 || measure.link_density(element) > 0.3 {
        return false;
    }
    if has_declared_content(element) {
        return true;
    }
    text * 4 >= all && !LONG_BOILERPLATE.is_match(words_of(element).trim())
}

/// Whether an element never contains content, because of its name or because it is hidden.
fn is_noise(element: Element<'_>, name: names::Name, budget: &PageBudget) -> bool {
    match name {
        names::HEAD_ELEMENT
        | names::SCRIPT
        | names::STYLE
        | names::TEMPLATE
        | names::NOSCRIPT
        | names::IFRAME
        | names::OBJECT => true,
        names::EMBED | names::CANVAS | names::SVG | names::MAP | names::AUDIO | names::VIDEO | names::NOFRAMES => true,
        names::BUTTON | names::SELECT | names::TEXTAREA | names::INPUT | names::DATALIST | names::DIALOG => true,
        names::FIGURE => {
            // Figures may contain listings and tables, which are content. Figures with only images are not.
            !element
                .descendants()
                .take_while(|_| budget.visit())
                .any(|inner| matches!(inner.name_id(), names::PRE | names::TABLE | names::BLOCKQUOTE | names::CODE))
        }
        _ => is_hidden(element),
    }
}

/// Whether an element looks like boilerplate by its element name or role. With `by_class`, class and id count too.
fn looks_like_boilerplate(element: Element<'_>, name: names::Name, by_class: bool) -> bool {
    match name {
        names::NAV | names::FOOTER | names::ASIDE | names::MENU => return true,
        names::P | names::PRE | names::CODE | names::TD | names::TH | names::TR | names::ARTICLE | names::MAIN => {
            return false;
        }
        names::EM | names::STRONG | names::B | names::I | names::TBODY => return false,
        // The text of a heading may be a link to the table of contents, with a class such as `toc`: it is content. The
        // symbol that links to the heading itself is not.
        names::A if element.parent().is_some_and(|parent| parent.name_id().is_heading()) => {
            return by_class && words_of(element).split_ascii_whitespace().any(|word| word == "headerlink");
        }
        _ if name.is_heading() => return false,
        _ => {}
    }
    if is_boilerplate_role(element) {
        return true;
    }
    if !by_class {
        return false;
    }
    let words = words_of(element);
    // Without words there is at most the space after an empty attribute.
    if words.len() < 2 {
        return false;
    }
    BOILERPLATE.is_match(words.trim()) && !indicates_content(words.trim())
}
