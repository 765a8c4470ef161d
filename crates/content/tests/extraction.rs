//! Rules that extract fields from pages: their results, and the errors of wrong rules.

use argiope_content::{Document, Extraction, ValueType};
use argiope_core::Url;
use argiope_core::page::page_budget::PageBudget;
use serde_json::{Value, json};

const SHOP: &str = r#"<title>Shop</title><meta name=description content="All webs"><ol>
<li class=product data-id=1><h3><a href=/p/1>Orb web</a></h3><span class=price>£51.77</span><time>12 March 2026</time></li>
<li class=product data-id=2><h3><a href=/p/2>Funnel web</a></h3><span class=price>£1,299.00</span></li>
<li class=product data-id=3><h3><a href=/p/3>Sheet web</a></h3><span class=price>sold out</span></li></ol>
<script type="application/ld+json">{"@type":"Store","rating":4.5}</script>"#;

fn shop() -> Document {
    Document::parse(SHOP).with_base("https://shop.test/list").unwrap()
}

fn data(rules: &Extraction) -> Value {
    Value::Object(rules.apply(&shop(), "https://shop.test/list", &PageBudget::unlimited(), &mut rules.tally()).data)
}

#[test]
fn rules_in_command_line_syntax_extract_fields() {
    let rules = Extraction::from_rules([
        "title=title",
        "names[]=h3",
        "first=h3 > a@href",
        "markup=h3@html",
        "description=meta:description",
        "rating=jsonld:Store.rating",
        "missing=.none",
        "at=a[href*='@']@href",
    ])
    .unwrap();
    assert_eq!(
        data(&rules),
        json!({
            "title": "Shop", "names": ["Orb web", "Funnel web", "Sheet web"], "first": "https://shop.test/p/1",
            "markup": "<h3><a href=\"/p/1\">Orb web</a></h3>", "description": "All webs", "rating": 4.5,
        })
    );
}

#[test]
fn the_urls_of_a_rules_file_apply_to_its_own_fields_only() {
    let file = "urls = '/shop/'\n[fields]\ntitle = 'title'\nlisted = { select = 'title', urls = 'list' }\n";
    let file = || Extraction::from_toml(file, "shop.toml").unwrap();
    let rule = || Extraction::from_rules(["name=title"]).unwrap();
    let names = |rules: &Extraction, url: &str| -> Vec<String> {
        rules.apply(&shop(), url, &PageBudget::unlimited(), &mut rules.tally()).data.keys().cloned().collect()
    };
    let (mut file_first, mut rule_first) = (file(), rule());
    file_first.merge(rule()).unwrap();
    rule_first.merge(file()).unwrap();
    for rules in [file_first, rule_first] {
        assert_eq!(names(&rules, "https://a.test/list"), ["name"], "`listed` needs both patterns");
        assert_eq!(names(&rules, "https://a.test/shop/1").len(), 2);
        assert_eq!(names(&rules, "https://a.test/shop/list").len(), 3);
    }
}

#[test]
fn a_rules_file_has_items_types_and_filters() {
    let text = r##"
[fields]
title = "title"
elsewhere = { select = "h3", urls = "/other/" }
dates = { select = "time", type = "date", many = true }
[fields.products]
select = "li.product"
urls = ["/list"]
fields.name = "h3"
fields.price = { select = ".price", type = "number" }
fields.id = { select = "@data-id", type = "number" }
fields.slug = { select = "a@href", regex = '/p/(\d+)' }
"##;
    let rules = Extraction::from_toml(text, "shop.toml").unwrap();
    let columns = rules.columns();
    assert_eq!(
        columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>(),
        ["title", "elsewhere", "dates", "products.name", "products.price", "products.id", "products.slug"]
    );
    let mut tally = rules.tally();
    let found = rules.apply(&shop(), "https://shop.test/list", &PageBudget::unlimited(), &mut tally);
    assert_eq!(
        Value::Object(found.data),
        json!({
            "title": "Shop", "dates": ["2026-03-12"],
            "products": [
                {"name": "Orb web", "price": 51.77, "id": 1, "slug": "1"},
                {"name": "Funnel web", "price": 1299.0, "id": 2, "slug": "2"},
                {"name": "Sheet web", "id": 3, "slug": "3"},
            ],
        })
    );
    let counts: Vec<(&str, u64, u64)> =
        tally.fields.iter().map(|field| (field.name.as_str(), field.tried, field.matched)).collect();
    assert_eq!(
        counts,
        [
            ("title", 1, 1),
            ("elsewhere", 0, 0),
            ("dates", 1, 1),
            ("products", 1, 1),
            ("products.name", 1, 1),
            ("products.price", 1, 1),
            ("products.id", 1, 1),
            ("products.slug", 1, 1),
        ]
    );
}

#[test]
fn the_error_of_a_rule_quotes_the_rule() {
    for (rule, message) in [
        ("title", r#"rule "title": expected NAME=SELECTOR, such as price=.price"#),
        ("a b=h1", r#"rule "a b=h1": "a b" is not a field name: letters, digits, _ and - are allowed"#),
        ("t=h1 >", r#"rule "t=h1 >": expected a selector, found the end at character 5 of the selector "h1 >""#),
        ("t=jsonld:a..b", r#"rule "t=jsonld:a..b": part 2 of the path "a..b" is empty"#),
        ("t=h1@", r#"rule "t=h1@": an attribute name is missing after @"#),
        ("t=", r#"rule "t=": the selector is empty"#),
        ("t=og:", r#"rule "t=og:": a name is missing after og:"#),
    ] {
        assert_eq!(Extraction::from_rules([rule]).expect_err(rule).to_string(), message);
    }
    assert_eq!(Extraction::from_rules(["t=h1", "t=h2"]).unwrap_err().to_string(), "t=h2: the name `t` is used twice");
}

#[test]
fn the_error_of_a_rules_file_names_line_and_field() {
    for (text, message) in [
        (
            "[fields]\n\nprice = { select = \".p\", typ = \"number\" }",
            "f line 3, field `price`: unknown key `typ`; known are select, regex, type, format, decimal, many, urls and fields",
        ),
        (
            "[fields]\nprice = { select = \".p\", type = \"money\" }",
            "f line 2, field `price`: unknown type \"money\"; known are text, number and date",
        ),
        (
            "[fields]\nx = { select = \"p\", regex = \"(\" }",
            "f line 2, field `x`: the regular expression \"(\" cannot be used: unclosed group",
        ),
        ("[fields]\nx = 3", "f line 2, field `x`: a field is a selector in quotes, or a table with `select`"),
        ("[fields.x]\nfields.a = \"p\"", "f line 1, field `x`: `select` is missing"),
        (
            "[fields.x]\nselect = \"li\"\nfields.a = \"p::before\"",
            "f line 3, field `x.a`: pseudo-elements select nothing; use @ATTRIBUTE, or @html for the markup at character 4 of the selector \"p::before\"",
        ),
        ("urls = \"x\"", "f line 1: there are no fields; write them below [fields]"),
        ("fields = [", "f line 1: unclosed array, expected `]`"),
    ] {
        assert_eq!(Extraction::from_toml(text, "f").expect_err(text).to_string(), message);
    }
}

#[test]
fn numbers_and_dates_are_coerced() {
    let number = |text: &str, more: &str| {
        let rules = format!("[fields]\nx = {{ select = \"p\", type = \"number\" {more} }}");
        let rules = Extraction::from_toml(&rules, "f").unwrap();
        rules
            .apply(&Document::parse(format!("<p>{text}</p>")), "", &PageBudget::unlimited(), &mut rules.tally())
            .data
            .remove("x")
    };
    for (text, expected) in [
        ("42", json!(42)),
        ("$1,299.00", json!(1299.0)),
        ("1.299,50 €", json!(1299.5)),
        ("1,299", json!(1299)),
        ("0,5 l", json!(0.5)),
        ("-3.5 °C", json!(-3.5)),
        ("1 234 567", json!(1234567)),
        ("page 3 of 5", json!(3)),
        ("CHF 1'000.–", json!(1000)),
        ("1.000.000", json!(1000000)),
        ("ISO-8601", json!(8601)),
    ] {
        assert_eq!(number(text, ""), Some(expected), "{text}");
    }
    assert_eq!(number("1.299", ", decimal = \",\""), Some(json!(1299)));
    assert_eq!(number("none", ""), None);
    let date = |text: &str, more: &str| {
        let rules = format!("[fields]\nx = {{ select = \"p\", type = \"date\" {more} }}");
        let rules = Extraction::from_toml(&rules, "f").unwrap();
        rules
            .apply(&Document::parse(format!("<p>{text}</p>")), "", &PageBudget::unlimited(), &mut rules.tally())
            .data
            .remove("x")
    };
    for (text, expected) in [
        ("2026-03-01", "2026-03-01"),
        ("2026-03-01T10:00:00Z", "2026-03-01T10:00:00Z"),
        ("2026-03-01T10:00:00+02:00", "2026-03-01T08:00:00Z"),
        ("March 1, 2026", "2026-03-01"),
        ("1st of March 2026", "2026-03-01"),
        ("01.03.2026", "2026-03-01"),
        ("Sun, 01 Mar 2026 10:00:00 GMT", "2026-03-01T10:00:00Z"),
        ("2026-03-01 10:00", "2026-03-01T10:00:00"),
    ] {
        assert_eq!(date(text, ""), Some(json!(expected)), "{text}");
    }
    for text in ["March 1st, 2026", "Mar 1st, 2026", "Sunday, March 1st, 2026"] {
        assert_eq!(date(text, ""), Some(json!("2026-03-01")), "{text}");
    }
    assert_eq!(date("03/01/2026", ", format = \"%m/%d/%Y\""), Some(json!("2026-03-01")));
    assert_eq!(date("soon", ""), None);
}

#[test]
fn large_data_is_limited() {
    let block = format!("{{\"@type\":\"Product\",\"name\":\"{}\"}}", "x".repeat(6 << 20));
    let page = Document::parse(format!("<script type=application/ld+json>{block}</script><h1>t</h1>"));
    let rules = Extraction::from_rules(["name=jsonld:Product.name", "t=h1"]).unwrap();
    let found = rules.apply(&page, "", &PageBudget::unlimited(), &mut rules.tally());
    assert_eq!(found.limited, Some("the page has more JSON-LD than is read"));
    assert_eq!(Value::Object(found.data), json!({"t": "t"}));
    let streamed = format!("<script type=application/ld+json>{block}</script><h1>t</h1>");
    let url = Url::parse("http://h/").unwrap();
    let found = rules.read(&streamed, (&url, None), &PageBudget::unlimited(), &mut rules.tally());
    assert_eq!(found.limited, Some("the page has more JSON-LD than is read"), "without a tree");

    let limit_of = |rule: &str, page: &str| {
        let rules = Extraction::from_rules([rule]).unwrap();
        rules.apply(&Document::parse(page), "", &PageBudget::unlimited(), &mut rules.tally()).limited
    };
    let microdata = Some("the page has more microdata than is read");
    let item = |inside: &str| format!("<div itemscope itemtype=T>{inside}</div>");
    let values = format!("<p itemprop=a>{}", "x".repeat(100_000)).repeat(50);
    assert_eq!(limit_of("a=microdata:T.a", &item(&values)), microdata);
    assert_eq!(limit_of("a=microdata:T.a", &item("<p itemprop=a>x")), None);
    let nested = (0..40).fold(String::new(), |page, _| format!("<div itemscope itemprop=b>{page}</div>"));
    assert_eq!(limit_of("a=microdata:T.a", &item(&nested)), microdata, "nested too deep");
    let many =
        format!("<script type=application/ld+json>{{\"@type\":\"T\",\"a\":[{}0]}}</script>", "0,".repeat(300_000));
    assert_eq!(limit_of("a[]=jsonld:T.a", &many), Some("a path visits more values of structured data than are read"));

    let nested = "[".repeat(200_000) + &"]".repeat(200_000);
    assert!(Document::parse(format!("<script type=application/ld+json>{nested}</script>")).json_ld().is_empty());

    let page = Document::parse("<p>0123456789".repeat(100_000));
    let rules = Extraction::from_rules(["p[]=p", "all=body@html"]).unwrap();
    let found = rules.apply(&page, "", &PageBudget::unlimited(), &mut rules.tally());
    assert_eq!(found.limited, Some("a rule matched more elements than are read"));
    assert_eq!(found.data.get("p").and_then(Value::as_array).map(Vec::len), Some(10_000));
}

#[test]
fn the_schema_of_rules_has_the_types_that_they_extract() {
    let text = r#"
[fields]
title = "title"
dates = { select = "time", type = "date", many = true }
brand = "jsonld:brand"
price = { select = "jsonld:price", type = "number" }
[fields.products]
select = "li.product"
fields.name = "h3"
fields.id = { select = "@data-id", type = "number" }
"#;
    let rules = Extraction::from_toml(text, "shop.toml").unwrap();
    let schema = rules.json_schema();
    let date = json!({"type": "string", "anyOf": [{"format": "date"}, {"format": "date-time"}]});
    let item = json!({
        "type": "object", "additionalProperties": false,
        "properties": {"name": {"type": "string"}, "id": {"type": "number"}},
    });
    assert_eq!(
        schema["properties"],
        json!({
            "title": {"type": "string"},
            "dates": {"type": "array", "items": date},
            "brand": {},
            "price": {"type": "number"},
            "products": {"type": "array", "items": item},
        })
    );
    assert_eq!((&schema["type"], &schema["additionalProperties"]), (&json!("object"), &json!(false)));
    let types: Vec<(ValueType, bool)> = rules.columns().iter().map(|column| (column.value, column.many)).collect();
    let expected =
        [ValueType::Text, ValueType::Date, ValueType::Any, ValueType::Number, ValueType::Text, ValueType::Number];
    assert_eq!(types, expected.map(|kind| (kind, kind == ValueType::Date)));
}
