//! Tests of Markdown.

use super::*;

fn markdown(html: &str) -> String {
    let page = Document::parse(html);
    let removed = vec![false; page.len()];
    let selection = Selection {
        page: &page,
        roots: &[page.root().node],
        removed: &removed,
        headline: None,
        is_article: false,
        has_readings: false,
        links: &|_| None,
    };
    render(selection, TextFormat::Markdown, &PageBudget::for_page(html.len())).text
}

#[test]
fn lines_that_look_like_a_listing_or_an_underline_are_escaped() {
    assert_eq!(markdown("<p>~~~<p>~~~ text<p>~~"), "\\~~~\n\n\\~~~ text\n\n~~\n");
    assert_eq!(markdown("<p>a<br>==<p>b<br>--"), "a  \n\\==\n\nb  \n\\--\n");
}

#[test]
fn paragraphs_that_begin_like_an_ordered_list_are_escaped() {
    let html = "<p>1986. A great year<p>3) third<p>7.<p>2.5 metres<p>1234567890. ten digits<p>No. 1. end";
    let expected = "1986\\. A great year\n\n3\\) third\n\n7\\.\n\n2.5 metres\n\n1234567890. ten digits\n\nNo. 1. end\n";
    assert_eq!(markdown(html), expected);
    assert_eq!(markdown("<p>a<br>1. b<ol><li>1. c</ol>"), "a  \n1\\. b\n\n1. 1\\. c\n");
}

#[test]
fn headings_and_cells_cannot_begin_a_list() {
    assert_eq!(markdown("<h2>1. Webs</h2><ol><li><h3>2. Silk</h3></ol>"), "## 1. Webs\n\n1. ### 2. Silk\n");
    let table = "<table><tr><th>Rank<th>Name<tr><td>1.<td>Orb</table>";
    assert_eq!(markdown(table), "| Rank | Name |\n| --- | --- |\n| 1. | Orb |\n");
}

#[test]
fn a_link_within_code_is_a_link() {
    let html = "<base href=http://h/><p><code>a <a href=/b>b</a>(c)</code> and <a href=/d><code>d</code></a>";
    let page = Document::parse(html).with_base("http://h/").expect("an address");
    let markdown = super::super::Article::of_part(&page, &super::super::ContentPart::Full, &PageBudget::unlimited());
    assert_eq!(markdown.markdown(), "`a` [`b`](http://h/b)`(c)` and [`d`](http://h/d)\n");
}

#[test]
fn terms_are_items_with_their_definitions() {
    let html = "<dl><dt>a<dd>first<p>second<dt>b<dt>c<dd><pre>x\n\ny</pre><dl><dt>d<dd>e</dl></dl><p>end";
    let expected =
        "- **a**\n\n  first\n\n  second\n- **b**\n- **c**\n\n  ```\n  x\n\n  y\n  ```\n\n  - **d**\n\n    e\n\nend\n";
    assert_eq!(markdown(html), expected);
}

#[test]
fn formulas_are_their_tex() {
    let html = "<p>So <span class=katex><math><mi>x</mi><annotation encoding='application/x-tex'>x_1\\{</annotation></math>\
        <span class=katex-html aria-hidden=true>x1</span></span>, <math alttext='\\frac{a}{b}' display=block><mi>a</mi></math>.";
    assert_eq!(markdown(html), "So $x_1\\{$, $$\\frac{a}{b}$$.\n");
}

#[test]
fn cells_over_several_columns_and_rows_keep_their_places() {
    let html = "<table><tr><th colspan=2>Wide<th>C<tr><td rowspan=2>Tall<td>b1<td>c1<tr><td>b2<td>c2<td>extra</table>";
    let expected = "| Wide |  | C |\n| --- | --- | --- |\n| Tall | b1 | c1 |\n|  | b2 | c2 extra |\n";
    assert_eq!(markdown(html), expected);
}

#[test]
fn emphasis_that_would_be_text_has_no_marks() {
    assert_eq!(markdown("<p><b>a:</b>b <b>c:</b> d x<i>(y)</i> <i>z</i>s"), "a:b **c:** d x(y) *z*s\n");
}

#[test]
fn readings_and_invisible_characters_are_left_out() {
    assert_eq!(
        markdown("<p><ruby>漢<rt>かん</rt>字<rt>じ</rt></ruby> so\u{ad}ft &amp;lt; a\u{202e}"),
        "漢字 soft \\&lt; a\n"
    );
}

#[test]
fn notes_are_quotes_and_a_picture_keeps_its_caption() {
    let note = "<div class='admonition warning'><p class=admonition-title>Warning<p>Hot.</div><p>x";
    assert_eq!(markdown(note), "> Warning\n>\n> Hot.\n\nx\n");
}

#[test]
fn a_formula_cannot_be_a_link_a_picture_or_code() {
    let formula = |tex: &str| markdown(&format!("<p>so <math alttext=\"{tex}\"><mi>x</mi></math>"));
    assert_eq!(formula("a_{1} \\frac{b}{c} \\$ [0, 1]"), "so $a_{1} \\frac{b}{c} \\$ [0, 1]$\n");
    for injected in [
        "x$ [Click](javascript:alert(1)) $",
        "[Click](javascript:alert(1))",
        "![](https://evil.test/t.png)",
        "x` code",
        "[a][b]",
    ] {
        assert_eq!(formula(injected), "so x\n", "{injected}");
    }
    assert_eq!(formula("x\u{1b}[2J\u{202e}"), "so $x[2J$\n");
}
