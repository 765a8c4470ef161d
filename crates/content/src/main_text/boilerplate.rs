//! Detects boilerplate: navigation, footers, banners, share buttons, comments.

use std::sync::LazyLock;

use argiope_core::page::page_budget::{PageBudget, REGEX};
use regex::Regex;

use super::comments::Comments;
use super::measure::Measure;
use super::noscript::is_short_noscript;
use crate::document::{Document, Element, names};

/// How many characters of an attribute are read.
const MAX_ATTRIBUTE_CHARS: usize = 400;
/// How many nodes before a heading are looked at.
const MAX_BEFORE_HEADING: usize = 8;
/// An element with fewer characters is boilerplate if it looks like it.
const MIN_CONTENT: u32 = 250;
/// How many elements of a dialog are looked at.
const MAX_CONSENT: usize = 200;
/// A form with more characters may have the content in it.
const MAX_FORM: u32 = 600;

/// Words in classes and ids of what surrounds the content of any page.
const SURROUNDING: &[&str] = &[
    "nav(bar|igation|header|footer|links|menu|list|path)?",
    "(sub|main|top|side|mega|site|mobile)?-?menus?",
    "breadcrumbs?",
    "(site|page|global)?-?footer",
    "(site|page|global)-?header",
    "masthead",
    "side-?bar",
    "right-?(rail|col|column)",
    "cookies?(-?(bar|banner|notice|consent|info|law|policy|popup|layer))?",
    "consent",
    "gdpr",
    "news-?letters?",
    "sign-?up",
    "log-?in",
    "social(-?(media|links|icons|bar|share|buttons))?",
    "share(-?(bar|buttons?|tools?|links?|this))?",
    "sharing",
    "add-?this",
    "(sharedaddy|sd-\\w+|jp-relatedposts)",
    "related(-?(posts?|articles?|news|content|links|stories|items|products?|topics|reading|entries|pages|videos?|widget|box|list))?",
    "recommend(ed|ations?)",
    "recirc(ulation)?",
    "read-?(more|next|also)",
    "more-?(stories|from|on|news|articles|posts)",
    "(most|latest|popular|trending|recent)-?(read|viewed|popular|news|posts|stories|articles|comments|now)",
    "comments-?(area|list|section|form|wrapper|respond|container|block)?",
    "comment-?(area|list|section|form|respond|thread)",
    "disqus(-thread)?",
    "promos?",
    "promo(tion|tional)?",
    "advert(s|isement|isements|ising)?",
    "ads?",
    "ad-?(slot|unit|container|wrapper|block|banner)",
    "dfp",
    "google-?ad",
    "sponsor(ed|ship)?",
    "outbrain",
    "taboola",
    "pop-?ups?",
    "modal",
    "lightbox",
    "paginat(ion|or)",
    "pager",
    "post-(menu|buttons)",
    "tool-?bar",
    "skip-?(link|to|nav)?",
    "sr-?only",
    "visually-?hidden",
    "screen-?reader(-text)?",
    "no-?print",
    "print-?(only|button)",
    "tag-?(list|cloud|links)",
    "post-?tags",
    "call-?to-?action",
    "cta",
    "edit-?section",
    "mw-editsection",
    "catlinks",
    "navbox",
    "print-?footer",
    "headerlink",
];

/// Further words in classes and ids of what surrounds an article. On other pages they are names of content.
const AROUND_ARTICLE: &[&str] = &[
    "cookies?",
    "subscri(be|ption)s?",
    "register",
    "share(s|d|r)",
    "related(-?\\w+)?",
    "recommends",
    "see-?also",
    "(most|latest|popular|trending|recent)",
    "comments?(-?(area|list|section|form|wrapper|respond))?",
    "respond",
    "reply",
    "sponsors",
    "overlay",
    "dialog",
    "toast",
    "widgets?(-?area)?",
    "tags?",
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
    "vote",
    "donat(e|ion)",
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
    "reference-?list",
    "teasers?(-?\\w+)?",
    "author(-?\\w+)?",
    "kommentare?",
    "legend",
    "info-?box",
    "like-?(box|text|button)?s?",
    "ratings?",
    "contact(-?(box|person|info))?",
    "disclosure",
    "licen[cs]e(-?(info|area|text))?",
    "advads(-?\\w+)*",
    "articleside",
    "aside-?(content|box)?",
    "image-?(description|author|copyright|source)",
];

/// Matches [`SURROUNDING`].
static ON_ANY_PAGE: LazyLock<Regex> = LazyLock::new(|| words_pattern(SURROUNDING.iter()));
/// Matches both lists.
static ON_ARTICLES: LazyLock<Regex> = LazyLock::new(|| words_pattern(SURROUNDING.iter().chain(AROUND_ARTICLE)));

fn words_pattern<'a>(words: impl Iterator<Item = &'a &'a str>) -> Regex {
    let words: Vec<&str> = words.copied().collect();
    Regex::new(&format!("(?:^|[\\s_-])(?:{})(?:$|[\\s_-])", words.join("|"))).expect("a constant pattern")
}

/// Which class names and ids mark boilerplate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MarkingNames {
    /// Those of an article and of any page.
    OfArticles,
    /// Those of any page.
    OfAnyPage,
    /// None.
    None,
}

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
        push_words(&mut words, value);
    }
    words
}

/// Like [`words_of`], without tokens that are the state of an element (`is-...`, `has-...`) and with the id only if it
/// is not the anchor of a section.
fn marking_words(element: Element<'_>) -> String {
    let mut words = String::new();
    let class = element.raw_attribute("class").unwrap_or_default();
    let class = class.get(..class.floor_char_boundary(MAX_ATTRIBUTE_CHARS)).unwrap_or_default();
    for token in class.split_ascii_whitespace().filter(|token| !is_state(token)) {
        push_words(&mut words, token);
    }
    for name in ["id", "data-testid", "data-component"] {
        let Some(value) = element.raw_attribute(name) else { continue };
        if name == "id" && is_section(element, class) && begins_with_heading(element) {
            continue;
        }
        push_words(&mut words, value);
    }
    words
}

/// Whether a class says how an element is, not what it is: `isPaywall`, `has-sidebar`, `no-comments`.
fn is_state(class: &str) -> bool {
    let token = class.rsplit("--").next().unwrap_or(class);
    let is_word = |rest: &str| rest.starts_with(|next: char| next == '-' || next.is_ascii_uppercase());
    let mut states = ["is", "has", "no", "with", "without"].iter();
    let is_setting = ["-enabled", "-disabled"].iter().any(|end| token.ends_with(end));
    is_setting || (token != "no-print" && states.any(|state| token.strip_prefix(state).is_some_and(is_word)))
}

/// Whether an element is a section. Its id is an anchor, which is made from its heading.
fn is_section(element: Element<'_>, class: &str) -> bool {
    element.name_id() == names::SECTION || class.split_ascii_whitespace().any(|token| token.starts_with("sect"))
}

/// Whether the first text of an element is a heading.
pub(super) fn begins_with_heading(element: Element<'_>) -> bool {
    let page = element.document;
    for id in (element.node + 1..element.end()).take(MAX_BEFORE_HEADING) {
        let Some(node) = page.node(id) else { break };
        if node.name.is_heading() {
            return true;
        }
        if node.name == crate::document::TEXT && !page.raw_text(node).trim_ascii().is_empty() {
            return false;
        }
    }
    false
}

/// Appends the words of an attribute and a space.
fn push_words(words: &mut String, value: &str) {
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
/// detected by element name, by role, by whether the element is hidden, and by these class names and ids.
pub(super) fn mark(page: &Document, names: MarkingNames, removed: &mut [bool], budget: &PageBudget) {
    let measure = Measure::of(page, &[], budget);
    let mut declared = Within { page, is_wanted: declares_content, next: Vec::new() };
    let comments = Comments::of(page, &measure, budget);
    let mut landmarks = Within { page, is_wanted: is_landmark, next: Vec::new() };
    // The end of the `article` and `main` elements so far.
    let mut content_end = 0;
    let all = measure.prose(page.root()).max(1);
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
        let looks_like_boilerplate = match name {
            // The header of an article contains its headline. The header of a page contains navigation.
            names::HEADER => id >= content_end,
            // Some programs put the whole page into a form.
            names::FORM => measure.text(element) < MAX_FORM,
            // So it is with notes and footnotes.
            names::ASIDE if id < content_end => {
                measure.link_density(element) > 0.3 || names == MarkingNames::OfArticles
            }
            _ => looks_like_boilerplate(element, name, (names, comments), budget),
        };
        let is_boilerplate = looks_like_boilerplate
            && !landmarks.is_any_within(element, budget)
            && (is_consent(element, budget)
                || !holds_content(element, &measure, all, |element| declared.is_any_within(element, budget)));
        if is_boilerplate || is_noise(element, name, names, budget) {
            if let Some(mark) = removed.get_mut(id as usize) {
                *mark = true;
            }
            next = element.end().max(next);
        }
    }
    budget.release(measure.memory());
}

/// Elements of some kind. They are searched for when the first question is asked.
struct Within<'a> {
    page: &'a Document,
    is_wanted: fn(Element<'_>) -> bool,
    /// For each node, the first such element from it on.
    next: Vec<u32>,
}

impl Within<'_> {
    /// Whether there is one within an element.
    fn is_any_within(&mut self, element: Element<'_>, budget: &PageBudget) -> bool {
        if self.next.is_empty() && budget.hold(self.page.len() * size_of::<u32>()) {
            self.next = vec![u32::MAX; self.page.len()];
            let mut nearest = u32::MAX;
            for (id, next) in self.next.iter_mut().enumerate().rev() {
                let inner = self.page.element(id as u32);
                if !budget.visit() || !budget.spend(inner.source_len() * 2) {
                    break;
                }
                if inner.name_id() != crate::document::TEXT && (self.is_wanted)(inner) {
                    nearest = id as u32;
                }
                *next = nearest;
            }
        }
        self.next.get(element.node as usize + 1).is_some_and(|&next| next < element.end())
    }
}

/// Whether an element is marked as the main content of the page.
pub(super) fn is_landmark(element: Element<'_>) -> bool {
    element.name_id() == names::MAIN
        || element.raw_attribute("role").is_some_and(|role| role.trim().eq_ignore_ascii_case("main"))
}

/// Whether an element declares itself as the content.
fn declares_content(inner: Element<'_>) -> bool {
    is_landmark(inner)
        || inner.raw_attribute("itemprop").is_some_and(|property| property.contains("articleBody"))
        || (matches!(inner.name_id(), names::DIV | names::SECTION) && indicates_content(words_of(inner).trim()))
}

/// Words that indicate boilerplate even if the element is long.
static LONG_BOILERPLATE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("comment|disqus|respond|related|recommend|footer|cookie|consent|newsletter|sidebar$|side-bar$|menu|nav")
        .expect("a constant pattern")
});

/// Whether an element that looks like boilerplate contains the content: a large part of the prose of the page (`all`
/// characters), or an element that declares itself as the content. Some sites give boilerplate names to wrappers.
fn holds_content(
    element: Element<'_>,
    measure: &Measure,
    all: u32,
    has_declared_content: impl FnOnce(Element<'_>) -> bool,
) -> bool {
    let prose = measure.prose(element);
    if measure.text(element) < MIN_CONTENT || measure.link_density(element) > 0.5 {
        return false;
    }
    if measure.link_density(element) <= 0.3 && has_declared_content(element) {
        return true;
    }
    // A consent dialog, a sidebar or the comments may be longer than the content.
    let is_named = LONG_BOILERPLATE.is_match(words_of(element).trim());
    if is_named {
        prose * 10 >= all * 9
    } else {
        prose * 2 >= all || (prose * 4 >= all && measure.link_density(element) <= 0.3)
    }
}

/// Whether an element never contains content, because of its name or because it is hidden.
fn is_noise(element: Element<'_>, name: names::Name, marking: MarkingNames, budget: &PageBudget) -> bool {
    match name {
        names::HEAD_ELEMENT | names::SCRIPT | names::STYLE | names::TEMPLATE | names::IFRAME | names::OBJECT => true,
        names::NOSCRIPT => is_short_noscript(element, budget),
        names::EMBED | names::CANVAS | names::SVG | names::MAP | names::AUDIO | names::VIDEO | names::NOFRAMES => true,
        names::SELECT | names::TEXTAREA | names::INPUT | names::DATALIST | names::DIALOG => true,
        // The heading of a section that can be opened is often a button.
        names::BUTTON => {
            !element.parent().is_some_and(|parent| parent.name_id().is_heading() || parent.name_id() == names::DT)
        }
        names::LABEL => marking == MarkingNames::OfArticles,
        _ => is_hidden(element),
    }
}

/// Whether a caption belongs to a figure. What is rendered of a figure depends on the format.
fn is_in_figure(caption: Element<'_>) -> bool {
    std::iter::successors(caption.parent(), Element::parent).take(3).any(|around| around.name_id() == names::FIGURE)
}

/// Whether an element looks like boilerplate by its element name or role, or by these class names and ids.
fn looks_like_boilerplate(
    element: Element<'_>,
    name: names::Name,
    (marking, comments): (MarkingNames, Comments),
    budget: &PageBudget,
) -> bool {
    match name {
        names::FOOTER if element.parent().is_some_and(|parent| parent.name_id() == names::BLOCKQUOTE) => return false,
        names::NAV | names::FOOTER | names::ASIDE | names::MENU => return true,
        names::FIGURE => return false,
        names::FIGCAPTION => return marking == MarkingNames::OfArticles && !is_in_figure(element),
        names::P | names::PRE | names::CODE | names::TD | names::TH | names::TR | names::ARTICLE | names::MAIN => {
            return false;
        }
        names::EM | names::STRONG | names::B | names::I | names::TBODY | names::DT | names::DD | names::CAPTION => {
            return false;
        }
        // The text of a heading may be a link to the table of contents, with a class such as `toc`: it is content. The
        // symbol that links to the heading itself is not.
        names::A if element.parent().is_some_and(|parent| parent.name_id().is_heading()) => {
            let words = marking_words(element);
            return marking != MarkingNames::None && words.split_ascii_whitespace().any(|word| word == "headerlink");
        }
        _ if name.is_heading() => return false,
        _ => {}
    }
    if is_boilerplate_role(element) {
        return true;
    }
    let pattern = match marking {
        MarkingNames::OfArticles => &ON_ARTICLES,
        MarkingNames::OfAnyPage => &ON_ANY_PAGE,
        MarkingNames::None => return is_consent(element, budget),
    };
    let words = marking_words(element);
    // Without words there is at most the space after an empty attribute.
    if words.len() < 2 {
        return false;
    }
    let words = match comments {
        Comments::AreContent => {
            words.split_ascii_whitespace().filter(|word| !word.contains("comment")).collect::<Vec<_>>().join(" ")
        }
        Comments::AreNot => words,
    };
    pattern.is_match(words.trim()) && !INTRODUCTION.is_match(words.trim()) && !indicates_content(words.trim())
}

/// Words in classes and ids of dialogs that ask for consent. They may be longer than the content.
static CONSENT: LazyLock<Regex> = LazyLock::new(|| {
    let cookie =
        "cookies?-?(?:consent|banner|notice|bar|pop-?up|layer|law|dialog|modal|message|wall|overlay)(?:-\\w+)*";
    let programs =
        "onetrust(?:-\\w+)*|cookiebot(?:-?\\w+)*|cybotcookiebotdialog|didomi(?:-\\w+)*|usercentrics(?:-\\w+)*";
    let consent = "(?:consent|gdpr)-?(?:banner|dialog|modal|layer|pop-?up|overlay|notice|box)";
    Regex::new(&format!("(?:^|[\\s_-])(?:{cookie}|{consent}|{programs})(?:$|[\\s_-])")).expect("a constant pattern")
});

/// Whether an element is a dialog that asks for consent: it has its name, and something to press. A wrapper of the page
/// has a heading of the first rank.
fn is_consent(element: Element<'_>, budget: &PageBudget) -> bool {
    let is_box = matches!(element.name_id(), names::DIV | names::SECTION | names::ASIDE | names::FORM | names::DIALOG);
    if !is_box {
        return false;
    }
    let words = marking_words(element);
    if !budget.spend(words.len() * REGEX) || !CONSENT.is_match(words.trim()) {
        return false;
    }
    let mut has_button = false;
    for inner in element.descendants().take(MAX_CONSENT).take_while(|_| budget.visit()) {
        if inner.name_id() == names::H1 {
            return false;
        }
        has_button |= is_button(inner);
    }
    has_button
}

/// Whether an element is something to press.
fn is_button(element: Element<'_>) -> bool {
    let says = |name: &str, word: &str| element.raw_attribute(name).is_some_and(|value| value.contains(word));
    matches!(element.name_id(), names::BUTTON | names::INPUT)
        || says("role", "button")
        || (element.name_id() == names::A && (says("class", "btn") || says("class", "button") || says("href", "#")))
}

/// Words in classes of the first paragraph of an article.
static INTRODUCTION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("(?:^|[\\s_-])(?:teaser-?(?:text|intro)|(?:article|news)-?teaser|intro-?text|lead-?text)(?:$|[\\s_-])")
        .expect("a constant pattern")
});
