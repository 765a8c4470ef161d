//! Families of pages for tests of cost: each has one structure, repeated as often as is asked for.

/// Pages of one structure.
pub struct Family {
    pub name: &'static str,
    /// The page with this many repetitions.
    pub page: fn(usize) -> String,
}

/// A family whose pages are a start, a repeated part and an end.
macro_rules! repeated {
    ($name:literal, $start:expr, $part:expr, $end:expr) => {
        Family { name: $name, page: |n| format!("{}{}{}", $start, $part.repeat(n), $end) }
    };
    ($name:literal, $part:expr) => {
        repeated!($name, "", $part, "")
    };
}

/// A family whose pages have a part, repeated, within another one, repeated too.
macro_rules! nested {
    ($name:literal, $open:expr, $close:expr, $inner:expr) => {
        Family { name: $name, page: |n| format!("{}{}{}", $open.repeat(n), $inner.repeat(n), $close.repeat(n)) }
    };
}

/// A family whose part depends on its number.
macro_rules! numbered {
    ($name:literal, $start:expr, $part:expr) => {
        Family { name: $name, page: |n| $start.to_owned() + &(0..n).map($part).collect::<String>() }
    };
}

const LONG: &str = "They build webs, which are sticky, round and large, and wait in them. ";

pub const FAMILIES: &[Family] = &[
    repeated!("text", LONG),
    repeated!("paragraphs", "<p>They build webs, which are sticky, and wait in them for a long, long time.</p>"),
    repeated!("unclosed paragraphs", "<p>x"),
    repeated!("line breaks", "<p>", "x<br>", "</p>"),
    repeated!("rules", "<p>x", "<hr>", ""),
    repeated!("references", "<p>", "&amp;&lt;&nbsp;&#x41;&notin;", ""),
    repeated!("references without an end", "<p>", "&am", ""),
    repeated!("ampersands", "<p>", "&", ""),
    repeated!("markup characters", "<p>", "*_[]`\\<", ""),
    repeated!("comments", "x<!-- y -->"),
    repeated!("unclosed comments", "<!-- <!-"),
    repeated!("CDATA", "<svg>", "<![CDATA[x]]>", "</svg>"),
    repeated!("unclosed tags", "<a <b "),
    repeated!("angle brackets", "<p>", "<", ""),
    repeated!("end tags", "</x></p></b>"),
    nested!("end tags in a deep page", "<span>", "</span>", "</x></section>"),
    nested!("divs", "<div>", "</div>", "x"),
    nested!("divs with text at each end", "<div>x", "zz</div>", "y "),
    nested!(
        "divs with classes",
        "<div class='nav menu' id=x>",
        "</div>",
        "<p class=a>long text, with commas, and so on"
    ),
    nested!(
        "content wrappers",
        "<div class='post-body sidebar'>",
        "</div>",
        "<div class='article-body'>text, text</div>"
    ),
    nested!("articles", "<article>", "</article>", "<p>text, with commas"),
    repeated!("articles side by side", "<article><p>text, with commas</article>"),
    repeated!("sections with names", "<section class='story-content'>text, with commas</section>"),
    nested!("figures", "<figure>", "</figure>", "<i>x</i>"),
    nested!("headers", "<span>", "</span>", "<header></header>"),
    nested!("quotes", "<blockquote>", "</blockquote>", "<p>a"),
    nested!("quotes with line breaks", "<blockquote>", "</blockquote>", "a<br>"),
    nested!("lists", "<ul><li>", "</ul>", "<li>a"),
    nested!("ordered lists", "<ol start=4000000000><li>", "</ol>", "<li>a"),
    repeated!("items without a list", "<li>x"),
    repeated!("definitions", "<dl>", "<dt>a<dd>b", "</dl>"),
    nested!("quotes in items", "<ul><li><blockquote>", "</blockquote></ul>", "<h3>a</h3>"),
    nested!("headings", "<h2><div>", "</div></h2>", "text of a heading"),
    repeated!("linked headings", "<div>", "<h3><a href=/x>a heading that is long enough</a></h3>", "</div>"),
    nested!("lists of linked headings", "<div>", "</div>", "<h3><a href=/x>a heading that is long enough</a></h3>"),
    nested!("emphasis", "<b><i>", "</i></b>", "x "),
    repeated!("emphasis side by side", "<p>", "<b>x</b> <i>y</i>", ""),
    nested!("code", "<code>", "</code>", "`x "),
    repeated!("backticks", "<p><code>", "`", "</code>"),
    nested!("listings", "<pre>", "</pre>", "x\n"),
    Family {
        name: "listings in a long class",
        page: |n| format!("<div class='{}'>{}", "language ".repeat(n), "<pre>x</pre>".repeat(n)),
    },
    repeated!("links", "<a href=x>y</a> "),
    nested!("links in links", "<a href=x>", "</a>", "y"),
    Family {
        name: "links with a long base",
        page: |n| format!("<base href='http://h.test/{}'>{}", "b".repeat(2_000), "<a href=x>y</a> ".repeat(n)),
    },
    repeated!("images", "<img src=/x alt='a picture'>"),
    Family {
        name: "a table with one wide row",
        page: |n| format!("<table><tr>{}{}</table>", "<td>x".repeat(n), "<tr><td>y".repeat(n)),
    },
    Family {
        name: "a table whose last row is wide",
        page: |n| format!("<table>{}<tr>{}</table>", "<tr><td>y".repeat(n), "<td>x".repeat(n)),
    },
    repeated!("tables", "<table><tr><th>a<th>b<tr><td>1<td>2</table>"),
    nested!("tables in tables", "<table><tr><td>a<td>", "</table>", "<tr><td>b<td>c"),
    repeated!("cells with spans", "<table><tr>", "<td rowspan=1000 colspan=1000>x", "</table>"),
    repeated!("rows without cells", "<table>", "<tr>", "</table>"),
    repeated!("rows without a table", "<tr></tr><td></td>"),
    nested!("rows in a deep page", "<span>", "</span>", "<tr></tr><td></td>"),
    nested!("cells with blocks", "<table><tr><td><ul><li>", "</ul></table>", "x"),
    repeated!("options", "<select>", "<option>x<optgroup>", "</select>"),
    repeated!("hidden elements", "<object>a <iframe>b</iframe></object>"),
    nested!("objects", "<object>", "</object>", "zz "),
    nested!("templates", "<template>", "</template>", "<p>zz"),
    nested!("SVG", "<svg><g>", "</g></svg>", "<path d=x /><title>y</title>"),
    nested!("titles in SVG", "<svg><g>", "", "<title>y</title>"),
    nested!("MathML", "<math><mrow>", "</mrow></math>", "<mi>x</mi>"),
    nested!("foreign objects", "<svg><foreignObject>", "</foreignObject></svg>", "<p>x"),
    repeated!("frames with srcdoc", "<iframe srcdoc='<p>x<iframe srcdoc=y>'></iframe>"),
    repeated!("scripts", "<script>if (a < b) { '</scr' }</script>"),
    repeated!("unclosed scripts", "<script><!-- <script "),
    repeated!("styles", "<style>a { color: red }</style>"),
    numbered!("custom elements", "", |i| format!("<x-{i}>y</x-{i}>")),
    numbered!("ids", "", |i| format!("<p id=i{i}>x")),
    numbered!("attributes of one element", "<p ", |i| format!("a{i}=b ")),
    repeated!("elements with attributes", "<p a=1 b=2 c=3 d=4 e=5 f=6 class='x y z' id=q>x"),
    repeated!("words of a class", "<p class='", "a ", "'>x"),
    Family {
        name: "children of a long class",
        page: |n| format!("<p class='{}'>{}", "a ".repeat(n), "<b>x</b>".repeat(n)),
    },
    repeated!("siblings", "<p><b>x</b><i></i>"),
    repeated!("siblings with text between", "<b></b>x<!---->y<!---->z"),
    repeated!("siblings of different types", "<b></b><i></i><u></u><s></s>"),
    nested!("deep siblings", "<div><i></i>", "<b></b></div>", "<p></p>"),
    repeated!(
        "JSON-LD",
        "<script type=application/ld+json>[",
        "{\"@type\":\"Product\",\"name\":\"x\"},",
        "0]</script>"
    ),
    repeated!("JSON-LD blocks", "<script type=application/ld+json>{\"@type\":\"Product\"}</script>"),
    repeated!("JSON-LD with numbers", "<script type=application/ld+json>[", "0,", "0]</script>"),
    repeated!("JSON-LD with a control character", "<script type=application/ld+json>[\"\n", "x", "\"]</script>"),
    repeated!("JSON-LD that does not end", "<script type=application/ld+json>", "[{\"a\":", "</script>"),
    Family {
        name: "JSON-LD of nested products",
        page: |n| {
            let (open, close) = ("{\"@type\":\"Product\",\"name\":".repeat(50), "}".repeat(50));
            format!("<script type=application/ld+json>{open}[{}0]{close}</script>", "\"x\",".repeat(n))
        },
    },
    repeated!("microdata", "<div itemscope itemtype=http://s/Product><b itemprop=name>x</b></div>"),
    nested!("microdata items", "<div itemscope itemprop=name>", "</div>", "<b itemprop=name>x</b>"),
    nested!("microdata with several names", "<div itemscope itemprop='name b c'>", "</div>", "x"),
    nested!("microdata properties", "<b itemprop=name>", "</b>", "x "),
    repeated!("names of a property", "<div itemscope><b itemprop='", "name ", "'>x</b></div>"),
    repeated!("metas", "<meta name=description content=x><meta property=og:image content=/i.png>"),
    repeated!("bases", "<base href=/x>"),
    repeated!("titles", "<title>x</title>"),
    repeated!("h1", "<h1>x</h1>"),
    repeated!("bodies", "<body a=b><html c=d>"),
    repeated!("forms", "<form><input name=a><button>x</button></form>"),
    repeated!("noscript", "<noscript><img src=x></noscript>"),
    repeated!("plain text", "<plaintext>", "<b>", ""),
];

pub const SELECTORS: &[&str] = &[
    "div",
    "div b",
    "div > div > b",
    "div div div div div div p",
    "div b, ul li, table td, span x",
    "x ~ b",
    "b ~ b ~ b ~ i",
    "b + i + u + s",
    "div > b ~ i",
    "b ~ i > u, div ~ p b",
    ".a > b",
    ".nav .menu p",
    "[class~=z] ~ [id]",
    "#q + p",
    "p:first-child",
    "p:last-child, b:only-child",
    "b:nth-child(3n+1)",
    "b:nth-last-child(odd)",
    "b:nth-of-type(5)",
    "i:nth-last-of-type(2n)",
    "i:only-of-type",
    "div:has(b)",
    "div:has(x)",
    "div:has(> b)",
    "b:has(+ i)",
    "b:has(~ x)",
    "div:has(b ~ i > x)",
    "div:has(div:has(div:has(x)))",
    "div:has(:not(:has(p)))",
    "div:not(:has(b)):is(div, p) :is(b, i):not(x *)",
    "div:contains('zz')",
    "div:contains('x')",
    "*:contains('x x')",
    "div:has(p:contains('zz')) b",
    ":empty",
    ":is(div b, p i) ~ u",
];
