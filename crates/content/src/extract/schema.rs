//! The types of what rules extract: as columns of a table, and as a JSON Schema.

use serde_json::{Map, Value, json};

use super::coerce::Coercion;
use super::values::accepts_any_text;
use super::{Extraction, Field, Source};

/// The type of an extracted value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValueType {
    /// A text.
    Text,
    /// A number.
    Number,
    /// A date, or a date with a time.
    Date,
    /// Whatever the structured data of the page has.
    Any,
}

/// A column of a table of extracted data.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DataColumn {
    /// The name of the field; `items.field` for a field of items.
    pub name: String,
    /// The type of its values.
    pub value: ValueType,
    /// Whether a value is a list.
    pub many: bool,
}

impl Extraction {
    /// The fields in the order of the rules, with those of items: the columns of a table.
    pub fn columns(&self) -> Vec<DataColumn> {
        let column = |name: String, field: &Field| DataColumn { name, value: field.value_type(), many: field.many };
        let mut columns = Vec::new();
        for field in &self.fields {
            match &field.source {
                Source::Items(_, inner) => {
                    columns.extend(inner.iter().map(|inner| column(format!("{}.{}", field.name, inner.name), inner)));
                }
                _ => columns.push(column(field.name.clone(), field)),
            }
        }
        columns
    }

    /// The JSON Schema of the data that the rules extract from a page. No field is required, because a page may not have
    /// it.
    pub fn json_schema(&self) -> Value {
        let mut schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "data",
            "description": "The field data of the records of a crawl with these rules",
        });
        if let (Value::Object(schema), Value::Object(object)) = (&mut schema, object_of(&self.fields)) {
            schema.extend(object);
        }
        schema
    }
}

impl Field {
    fn value_type(&self) -> ValueType {
        match (&self.coercion, &self.source) {
            (Coercion::Number(_), _) => ValueType::Number,
            (Coercion::Date(_), _) => ValueType::Date,
            (Coercion::Text, Source::JsonLd(_) | Source::Microdata(_)) if accepts_any_text(self) => ValueType::Any,
            (Coercion::Text, _) => ValueType::Text,
        }
    }

    fn json_schema(&self) -> Value {
        if let Source::Items(_, fields) = &self.source {
            return json!({ "type": "array", "items": object_of(fields) });
        }
        let value = match self.value_type() {
            ValueType::Text => json!({ "type": "string" }),
            ValueType::Number => json!({ "type": "number" }),
            ValueType::Date => json!({ "type": "string", "anyOf": [{ "format": "date" }, { "format": "date-time" }] }),
            ValueType::Any => json!({}),
        };
        if self.many { json!({ "type": "array", "items": value }) } else { value }
    }
}

fn object_of(fields: &[Field]) -> Value {
    let properties: Map<String, Value> = fields.iter().map(|field| (field.name.clone(), field.json_schema())).collect();
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}
