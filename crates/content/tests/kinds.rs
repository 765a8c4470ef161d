//! The main text of pages that are not articles: forum threads, shops, questions and answers, directory listings.

use argiope_content::{Article, Document};

const SENTENCES: [&str; 4] = [
    "I hung a web between the gate and the pear tree, and every morning one anchor thread is torn, although there is no wind.",
    "The anchor is probably too short, because a branch moves by several centimetres when the dew dries, and silk does not stretch.",
    "Use a longer bridge thread, tighten it in the evening, and leave one radius free, so that the frame moves with the branch.",
    "I tried that last year with a funnel web, and it lasted for a whole week of rain before it had to be built anew.",
];

fn paragraphs(first: usize, count: usize) -> String {
    (first..first + count).map(|number| format!("<p>{number}: {}</p>", SENTENCES[number % 4])).collect()
}

fn markdown(html: &str) -> String {
    let page = Document::parse(html).with_base("https://example.com/t/1").expect("an address");
    Article::of(&page).markdown()
}

fn check(html: &str, kept: &[&str], left_out: &[&str]) {
    let text = markdown(html);
    for words in kept {
        assert!(text.contains(words), "{words:?} is missing:\n{text}");
    }
    for words in left_out {
        assert!(!text.contains(words), "{words:?} does not belong there:\n{text}");
    }
}

#[test]
fn every_post_of_a_thread_is_kept() {
    let posts: String = (1..6)
        .map(|number| {
            format!(
                "<div id=p{number} class='post bg{}'><dl class=postprofile><dt><a href=/u{number}>weaver{number}</a></dl>\
                 <div class=postbody><h3><a href='#p{number}'>Re: Torn threads</a></h3><ul class=post-buttons><li>\
                 <a href='/q?p={number}'>Quote</a></ul><div class=content>{}</div></div></div>",
                number % 2,
                paragraphs(number * 10, 2)
            )
        })
        .collect();
    let html = format!(
        "<!doctype html><title>Torn threads - Weavers forum</title><div id=page-header><ul class=navbar><li>\
         <a href=/>Board index</a></ul></div><div id=page-body><h2><a href=/t1>Torn threads</a></h2>{posts}\
         <div class=pagination>page 1 of 1</div></div><div id=page-footer>Powered by a program</div>"
    );
    check(&html, &["10: ", "11: ", "31: ", "51: "], &["Board index", "Powered by", "page 1 of 1"]);
}

#[test]
fn a_long_question_does_not_hide_its_answers() {
    let post = |first, count| format!("<div class='prose post-body' itemprop=text>{}</div>", paragraphs(first, count));
    let html = format!(
        "<!doctype html><title>Why do threads tear?</title><header><a href=/>Home</a></header><div id=content>\
         <h1><a href=/q/1>Why do threads tear?</a></h1><div class=question>{}</div><h2>2 Answers</h2>\
         <div class=answer>{}<div class=post-menu><a href=/s>Share</a></div></div><div class=answer>{}</div></div>\
         <div id=sidebar><ul><li><a href=/q/2>How long is a radius?</a></ul></div>",
        post(0, 9),
        post(20, 2),
        post(30, 2)
    );
    check(&html, &["8: ", "20: ", "31: ", "## 2 Answers"], &["Share", "How long is a radius", "Home"]);
}

#[test]
fn a_list_of_products_is_the_content_of_a_shop() {
    let items: String = (1..25)
        .map(|number| {
            format!(
                "<li class=product><a href=/p/{number}><img src=/{number}.png alt='Web {number}'></a><h3><a href=/p/{number}>\
                 Orb web No. {number}</a></h3><p class=price>\u{a3}{number}.50</p><button>Add to basket</button></li>"
            )
        })
        .collect();
    let html = format!(
        "<!doctype html><title>Webs</title><header><nav><a href=/>Shop</a></nav></header><div class=cookie-banner>We use \
         cookies</div><main><h1>Webs</h1><ol class=products>{items}</ol><div class=pager><a href=/2>Next</a></div></main>\
         <footer>Terms</footer>"
    );
    check(
        &html,
        &["# Webs", "[Orb web No. 1](https://example.com/p/1)", "Orb web No. 24", "\u{a3}24.50"],
        &["cookies", "Terms", "Add to basket", "Next"],
    );
}

#[test]
fn questions_that_are_links_within_headings_are_kept() {
    let questions: String = (1..8)
        .map(|number| {
            format!(
                "<section><h2><a class=toc-backref href='#id{number}'>Why is the web number {number} round?</a>\
                 <a class=headerlink href='#why-{number}'>\u{b6}</a></h2>{}</section>",
                paragraphs(number * 10, 2)
            )
        })
        .collect();
    let html = format!(
        "<!doctype html><title>FAQ</title><div class=body role=main><h1>FAQ<a class=headerlink href='#f'>\u{b6}</a></h1>{questions}</div>"
    );
    check(&html, &["# FAQ\n", "Why is the web number 1 round?", "Why is the web number 7 round?", "71: "], &["\u{b6}"]);
}

#[test]
fn a_horizontal_rule_at_the_end_is_omitted() {
    let items: String = (0..50).map(|number| format!("<li><a href='d{number}/'>d{number}/</a></li>\n")).collect();
    let text = markdown(&format!("<title>Directory listing</title><h1>Directory listing</h1><hr><ul>{items}</ul><hr>"));
    assert!(text.ends_with("- [d49/](https://example.com/t/d49/)\n"), "{text}");
    assert_eq!(text.matches("[d7/]").count(), 1);
}

#[test]
fn comments_of_source_code_are_content() {
    let member = |number: usize| {
        format!(
            "<section class='tsd-panel tsd-member'><h3>method{number}</h3><div class='tsd-comment tsd-typography'>{}</div></section>",
            paragraphs(number, 2)
        )
    };
    let members: String = (0..8).map(member).collect();
    let html = format!(
        "<!doctype html><meta property=og:title content=Web><title>Web | docs</title><div class=tsd-page-toolbar><a href=/>docs</a></div>\
         <div class='col-8 col-content'><h1>Class Web</h1>{members}</div>"
    );
    check(&html, &["method0", "method7", "0: I hung", "8: I hung"], &[]);
}

#[test]
fn content_for_readers_without_scripts_is_kept_and_a_hint_is_not() {
    let html = format!(
        "<!doctype html><title>Post</title><body><nav><a href=/>Home</a></nav><noscript>Please enable scripts.</noscript>\
         <div class=post-body><div class=post-content><noscript>{}</noscript></div></div>",
        paragraphs(0, 5)
    );
    check(&html, &["0: I hung", "4: I hung"], &["Please enable", "Home"]);
}

#[test]
fn a_menu_or_a_dialog_of_consent_does_not_become_the_text() {
    let menu: String = (0..80).map(|number| format!("<li><a href=/m{number}>Module{number}</a>")).collect();
    let html = format!(
        "<!doctype html><title>Web</title><div id=main><h1>Class: Web</h1><section><p>It catches flies.</section></div>\
         <nav><h2>Home</h2><ul>{menu}</ul></nav><div id=consent-dialog class=cookie-consent>{}<button>Accept</button></div>",
        "<p>We use cookies to give you the best experience on our site, and share them with partners.".repeat(30)
    );
    check(&html, &["It catches flies"], &["Module7", "We use cookies"]);
}

#[test]
fn a_page_of_navigation_alone_keeps_it() {
    check(
        "<!doctype html><title>Map</title><nav><ul><li><a href=/a>First</a><li><a href=/b>Second</a></ul></nav>",
        &["First", "Second"],
        &[],
    );
}

#[test]
fn the_introduction_of_an_article_is_kept() {
    let html = format!(
        "<!doctype html><meta property=og:type content=article><title>Silk</title><nav><a href=/>Home</a></nav><main><h1>Silk</h1>\
         <p class=teaser-text>What a spider spins in one night, and why it eats the web in the morning, is told here.</p>\
         <article><div class=article-body>{}</div></article></main>",
        paragraphs(0, 6)
    );
    check(&html, &["What a spider spins", "5: The anchor"], &["Home"]);
}

#[test]
fn a_page_about_cookies_keeps_its_text() {
    let steps = "<p>Cut the dough into bars, bake them for twelve minutes, and let them cool on a rack.</p>".repeat(8);
    check(
        &format!("<body><div class=cookie-bar-recipe><h2>Cookie bars</h2>{steps}</div><p>More recipes</p>"),
        &["twelve minutes"],
        &[],
    );
}
