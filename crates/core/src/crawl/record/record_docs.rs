//! Makes the field tables of `docs/records.md`, and `docs/records.schema.json`, from the fields of records.
//!
//! `UPDATE_RECORDS=1 cargo nextest run -p argiope-core record_docs` writes them again.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::part::PartRecord;
use super::{CrawlRecord, FieldKind, RecordField, Section};

/// The headings above the tables.
const TABLES: [(Section, &str); 4] = [
    (Section::Url, "## The URL and what became of it\n"),
    (Section::Response, "## The response\n"),
    (Section::Content, "## The content of a page\n"),
    (Section::Links, "## The links of a page\n"),
];

/// Compares a file of `docs` with what the code says, or writes it.
#[allow(clippy::disallowed_methods, reason = "the test reads and writes pages of the documentation")]
fn compare(name: &str, expected: impl Fn(&str) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    let expected = expected(&page);
    if std::env::var_os("UPDATE_RECORDS").is_some() {
        std::fs::write(&path, expected).expect("docs can be written");
    } else {
        assert!(page == expected, "docs/{name} differs from the fields of records: run the test with UPDATE_RECORDS=1");
    }
}

fn fields(section: Section) -> impl Iterator<Item = &'static RecordField> {
    CrawlRecord::FIELDS.iter().filter(move |field| field.section == section)
}

fn table(section: Section) -> String {
    let rows = fields(section).map(|field| format!("| `{}` | {} |\n", field.name, field.doc.trim()));
    format!("| field | what |\n|---|---|\n{}", rows.collect::<String>())
}

/// The page with the first table after each heading replaced.
fn with_tables(page: &str) -> String {
    TABLES.iter().fold(page.to_owned(), |page, (section, heading)| {
        let start = page.find(heading).expect("the heading");
        let table_start = start + page[start..].find("| field |").expect("a table");
        let table_end = table_start + page[table_start..].find("\n\n").map_or(page.len() - table_start, |end| end + 1);
        format!("{}{}{}", &page[..table_start], table(*section), &page[table_end..])
    })
}

#[test]
fn the_field_tables_of_the_page_are_those_of_the_code() {
    compare("records.md", with_tables);
}

fn schema_of(kind: FieldKind) -> Value {
    match kind {
        FieldKind::Text => json!({"type": "string"}),
        FieldKind::Name(names) => json!({"enum": names}),
        FieldKind::Time => json!({"type": "string", "format": "date-time"}),
        FieldKind::Integer => json!({"type": "integer", "minimum": 0}),
        FieldKind::Float => json!({"type": "number"}),
        FieldKind::Flag => json!({"const": true}),
        FieldKind::List(item) => json!({"type": "array", "items": schema_of(*item)}),
        FieldKind::TextMap => json!({"type": "object", "additionalProperties": {"type": "string"}}),
        FieldKind::Object(fields) => {
            let properties: Map<String, Value> =
                fields.iter().map(|(name, kind)| ((*name).to_owned(), schema_of(*kind))).collect();
            json!({"type": "object", "properties": properties, "additionalProperties": false})
        }
        FieldKind::Json => json!({"type": "object"}),
    }
}

/// The properties of the records at the start and at the end of a run: see `RunRecord`.
fn run_schema() -> Value {
    let count = json!({"type": "integer", "minimum": 0});
    let counts = json!({"type": "object", "additionalProperties": count});
    let text = json!({"type": "string"});
    let cut = json!({"rule": text, "at": text, "skipped": count, "example": text});
    json!({
        "v": {"const": 1}, "type": {"const": "run"},
        "version": text, "started": {"type": "string", "format": "date-time"}, "settings": {"type": "object"},
        "reason": text, "outcomes": counts, "queued": count, "bytes_wire": count, "seconds": {"type": "number"},
        "changes": counts,
        "traps": {"type": "array", "items": {"type": "object", "properties": cut, "additionalProperties": false}},
    })
}

#[test]
fn the_json_schema_is_that_of_the_code() {
    let described = |(name, kind, doc): (&str, FieldKind, &str)| {
        let mut schema = schema_of(kind);
        schema["description"] = doc.trim().into();
        (name.to_owned(), schema)
    };
    let fields = CrawlRecord::FIELDS.iter().map(|field| (field.name, field.kind, field.doc));
    let properties: Map<String, Value> = fields.map(described).collect();
    let of_part: Map<String, Value> = PartRecord::FIELDS.iter().copied().map(described).collect();
    let required = |names: &[&str]| json!(names);
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A record of argiope",
        "description": "One line of --jsonl and of argiope export --format jsonl: see docs/records.md",
        "oneOf": [{"$ref": "#/$defs/url"}, {"$ref": "#/$defs/sub"}, {"$ref": "#/$defs/run"}],
        "$defs": {
            "url": {
                "type": "object", "required": required(&["v", "type", "url"]), "properties": properties,
                "additionalProperties": false,
            },
            "sub": {
                "type": "object", "required": required(&["v", "type", "url", "kind"]), "properties": of_part,
                "additionalProperties": false,
            },
            "run": {
                "type": "object", "required": required(&["v", "type"]), "properties": run_schema(),
                "additionalProperties": false,
            },
        },
    });
    compare("records.schema.json", |_| format!("{}\n", serde_json::to_string_pretty(&schema).expect("plain data")));
}
