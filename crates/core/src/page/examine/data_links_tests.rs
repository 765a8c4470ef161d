//! Tests of [`DataReader`].

use proptest::prelude::*;

use super::*;

/// The links of a script.
fn links(form: ScriptForm, script: &str) -> Vec<String> {
    read(form, script.as_bytes(), script.len())
}

/// The links of a script that is cut at a position.
fn read(form: ScriptForm, script: &[u8], cut: usize) -> Vec<String> {
    let mut reader = DataReader::default();
    reader.begin(form);
    let (first, second) = script.split_at(cut.min(script.len()));
    reader.feed(first);
    reader.feed(second);
    reader.end();
    reader.links().map(|link| String::from_utf8_lossy(link).into_owned()).collect()
}

fn json(script: &str) -> Vec<String> {
    links(ScriptForm::Json, script)
}

fn code(script: &str) -> Vec<String> {
    links(ScriptForm::Code, script)
}

#[test]
fn strings_in_fields_named_like_links_are_found() {
    let data = r#"{"props":{"posts":[{"href":"/a","title":"/not"},{"pageUrl":"https:\/\/h.example\/b?x=1&y=2"}],
        "full_path":"/c","permalink":"/d","slug":"e","url":7,"@url":"/f","URL":"/g","pageURL":"/h"}}"#;
    assert_eq!(json(data), ["/a", "https://h.example/b?x=1&amp;y=2", "/c", "/d", "/f", "/g", "/h"]);
}

#[test]
fn fields_with_other_names_are_not_links() {
    let data = r#"{"imageUrl":"/a","curl":"/b","hreflang":"/c","apiPath":"/d","baseUrl":"/e","urls":"/f","x":"/g"}"#;
    assert!(json(data).is_empty());
}

#[test]
fn patterns_files_and_programs_are_not_links() {
    for value in [
        "/blog/[slug]",
        "/a/:id",
        "/a/*",
        "/a b",
        "/a.PNG",
        "/b/c.js?v=1",
        "/_next/x",
        "/api/x",
        "relative",
        "#a",
        "",
        "mailto:a@b.example",
        "ftp://a.example/",
        "//",
        "http:///",
        "https://host",
        "/a{b}",
        "/^x$",
    ] {
        assert!(json(&format!(r#"{{"href":"{value}"}}"#)).is_empty(), "{value}");
    }
    for value in ["/", "/a.html", "//h.example/a", "https://h.example", "/v1.2/x", "/a/b#c", "http://127.0.0.1:80/"] {
        assert_eq!(json(&format!(r#"{{"href":"{value}"}}"#)), [value], "{value}");
    }
}

#[test]
fn escapes_are_resolved() {
    assert_eq!(json(r#"{"\u0068ref":"\u002fa\/\u00e9\x41"}"#), ["/a/&#xe9;A"]);
    assert!(json(r#"{"href":"/\ud83d\ude00"}"#).is_empty(), "pairs are left out");
    assert!(json(&format!(r#"{{"href":"/{}"}}"#, "x".repeat(MAX_VALUE))).is_empty());
}

#[test]
fn literals_of_values_that_a_variable_gets_are_read() {
    assert_eq!(code(r#"window.__DATA__ = {"list":[{"url":"/a"},{"url":'/b'}]};"#), ["/a", "/b"]);
    assert_eq!(code(r#"var d={path:"/a",on:!0,n:-1.5,x:void 0,y:null,z:name};go(d)"#), ["/a"]);
    assert_eq!(code(r#"window.__NUXT__=(function(a){return {data:[{url:"/a",t:a}],b:{}}}("x"))"#), ["/a"]);
    assert_eq!(code(r#"kit.start(app, element, {node_ids:[0,2],data:[{type:"data",data:{slug:"/a"}}]});"#), ["/a"]);
    assert_eq!(code("/* { */ x = /[\"/]\"/; // {\n y = {url:'/a'}"), ["/a"]);
}

#[test]
fn literals_with_code_are_not_read() {
    for script in [
        r#"$.ajax({url:"/a",success:function(){}})"#,
        r#"x={url:"/a"+id}"#,
        r#"x={url:a+"/b"}"#,
        r#"x={url:"/a",b:f(1)}"#,
        r#"x={url:"/a",get b(){return 1}}"#,
        r#"if(a){url="/b"}"#,
        r#"x={url:"/a""#,
        r#"s="{url:'/a'}""#,
    ] {
        assert!(code(script).is_empty(), "{script}");
    }
}

#[test]
fn data_within_strings_is_read() {
    let flight = r#"self.__next_f.push([1,"5:[\"$\",\"a\",null,{\"href\":\"/a\",\"children\":\"A \\\"b\\\"\"}]\n"])"#;
    assert_eq!(code(flight), ["/a"]);
    let cut = r#"self.__next_f.push([1,"5:[\"$\",{\"href\":\"/b\"},{\"href\":\"/c"])"#;
    assert_eq!(code(cut), ["/b"], "a string that is cut is not a link");
    assert_eq!(code(r#"x = JSON.parse('{"list":[{"url":"/a\\u002fb"}]}')"#), ["/a/b"]);
}

#[test]
fn strings_that_keys_refer_to_by_index_are_found() {
    let payload =
        r#"[{"data":1},{"posts":2},[3,5],{"path":4,"title":6},"/blog/a",{"path":7,"title":8},"/no","/blog/b","x"]"#;
    assert_eq!(json(payload), ["/blog/a", "/blog/b"]);
}

#[test]
fn the_links_of_all_scripts_are_kept_up_to_a_limit() {
    let mut reader = DataReader::default();
    for number in 0..=MAX_DATA_LINKS {
        reader.begin(ScriptForm::Json);
        reader.feed(format!(r#"{{"url":"/{number}"}}"#).as_bytes());
        reader.end();
    }
    assert_eq!(reader.links().count(), MAX_DATA_LINKS);
    assert!(reader.is_capped() && reader.weight() < 1 << 20);
}

#[test]
fn deep_and_broken_scripts_keep_little() {
    for piece in [
        "{",
        "[",
        "\"",
        "\\\"",
        "{\"url\":",
        "{\"a\":\"{\\\"b\\\":\\\"",
        "/",
        "`",
        "'",
        "[\"/a\",",
        "\"\\u00e9",
        "{url:1},",
    ] {
        for form in [ScriptForm::Json, ScriptForm::Code] {
            let mut reader = DataReader::default();
            reader.begin(form);
            (0..200_000).for_each(|_| reader.feed(piece.as_bytes()));
            reader.end();
            assert!(reader.weight() < 1 << 20, "{piece}: {}", reader.weight());
        }
    }
}

proptest! {
    #[test]
    fn the_result_does_not_depend_on_how_a_script_is_split(
        script in r#"([{}\[\],:"'/\\ =(;`*\n]|url|"url":|"/a"|\\u002f|[0-9]|&){0,24}"#,
        cut in 0usize..60,
    ) {
        for form in [ScriptForm::Json, ScriptForm::Code] {
            prop_assert_eq!(read(form, script.as_bytes(), cut), links(form, &script));
        }
    }
}
