//! Parses JSON within the budget of a page. The values of a text may take hundreds of times its bytes.

use std::fmt;

use argiope_core::page::page_budget::{PageBudget, VISIT};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The memory of an object with few entries: that of one node of a B-tree.
const OBJECT_BYTES: usize = 640;
/// The memory of an entry of an object, and of an item of an array whose buffer has grown.
const ENTRY_BYTES: usize = 2 * size_of::<Value>();
/// The steps of parsing a byte.
const PARSE_STEPS: usize = 4;

/// Parses a JSON text. `None` if it is not JSON, or if the budget is used up. The memory of the value stays charged.
pub(super) fn parse_json(text: &str, budget: &PageBudget) -> Option<Value> {
    budget.spend(text.len() * PARSE_STEPS).then_some(())?;
    let before = budget.memory();
    let mut parser = serde_json::Deserializer::from_str(text);
    let parsed = ChargedValue(budget).deserialize(&mut parser).and_then(|value| parser.end().map(|()| value));
    if parsed.is_err() {
        budget.release((budget.memory() - before) as usize);
    }
    parsed.ok()
}

/// The memory of a value. `None` if the budget is used up.
pub(crate) fn memory_of(value: &Value, budget: &PageBudget) -> Option<usize> {
    budget.visit().then_some(())?;
    let inner = match value {
        Value::String(text) => text.len(),
        Value::Array(values) => sum(values.iter().map(|value| memory_of(value, budget)))?,
        Value::Object(object) => {
            sum(object.iter().map(|(key, value)| Some(key.len() + memory_of(value, budget)?)))? + OBJECT_BYTES
        }
        _ => 0,
    };
    Some(inner + size_of::<Value>())
}

fn sum(mut parts: impl Iterator<Item = Option<usize>>) -> Option<usize> {
    parts.try_fold(0, |sum, part| Some(sum + part?))
}

/// Builds a value, and charges each part before it is allocated.
#[derive(Clone, Copy)]
struct ChargedValue<'b>(&'b PageBudget);

impl ChargedValue<'_> {
    fn charge<E: Error>(self, bytes: usize) -> Result<(), E> {
        if self.0.spend(VISIT) && self.0.hold(bytes) { Ok(()) } else { Err(E::custom("the budget is used up")) }
    }
}

impl<'de> DeserializeSeed<'de> for ChargedValue<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ChargedValue<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Value, E> {
        Ok(truth.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        self.charge(text.len())?;
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = items.next_element_seed(self)? {
            self.charge(ENTRY_BYTES)?;
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        self.charge(OBJECT_BYTES)?;
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            self.charge(ENTRY_BYTES + key.len())?;
            let value = entries.next_value_seed(self)?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charged_values_are_those_of_the_parser() {
        let text = r#" {"a":[1,-2,2.5,1e400,true,null,"x\u00e9"],"b":{"c":"d","c":"e"}} "#.replace("1e400,", "");
        let budget = PageBudget::unlimited();
        assert_eq!(parse_json(&text, &budget), serde_json::from_str(&text).ok());
        assert!(budget.memory() > 2 * OBJECT_BYTES as u64);
        let before = budget.memory();
        for wrong in ["{} x", "[1,", "", "{\"a\":{}"] {
            assert_eq!(parse_json(wrong, &budget), None, "{wrong}");
        }
        assert_eq!(budget.memory(), before, "what was not kept is released");
    }

    #[test]
    fn memory_is_charged_before_it_is_allocated() {
        let text = format!("[{}{{}}]", "{\"a\":0},".repeat(10_000));
        let budget = PageBudget::new(u64::MAX, 100_000);
        assert_eq!(parse_json(&text, &budget), None);
        assert!(budget.is_used_up() && budget.peak_memory() <= 100_000);
        assert!(memory_of(&serde_json::from_str(&text).unwrap(), &PageBudget::unlimited()) > Some(6_400_000));
    }
}
