//! JSON values as Python objects, and Python objects as JSON values.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde_json::{Map, Number, Value};

/// Values are nested at most this deep: what the crawl can store.
const MAX_DEPTH: usize = 120;

/// A JSON value as a Python object.
pub fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(flag) => PyBool::new(py, *flag).to_owned().into_any(),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => number.into_pyobject(py)?.into_any(),
            (None, Some(number)) => number.into_pyobject(py)?.into_any(),
            (None, None) => PyFloat::new(py, number.as_f64().unwrap_or(f64::NAN)).into_any(),
        },
        Value::String(text) => PyString::new(py, text).into_any(),
        Value::Array(values) => {
            let list = PyList::empty(py);
            values.iter().try_for_each(|value| list.append(to_python(py, value)?))?;
            list.into_any()
        }
        Value::Object(map) => map_to_python(py, map)?.into_any(),
    })
}

/// A JSON object as a dict.
pub fn map_to_python<'py>(py: Python<'py>, map: &Map<String, Value>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    map.iter().try_for_each(|(key, value)| dict.set_item(key, to_python(py, value)?))?;
    Ok(dict)
}

/// A Python object as a JSON value. Integers outside 64 bits are refused, because JSON would not return them unchanged.
pub fn from_python(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    read(object, 0)
}

fn read(object: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    if depth > MAX_DEPTH {
        return Err(PyValueError::new_err(format!("the value is nested more than {MAX_DEPTH} levels deep")));
    }
    if object.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(flag) = object.cast::<PyBool>() {
        return Ok(Value::Bool(flag.is_true()));
    }
    if let Ok(number) = object.cast::<PyInt>() {
        let signed = number.extract::<i64>().map(Value::from);
        return signed.or_else(|_| number.extract::<u64>().map(Value::from)).map_err(|_| {
            PyValueError::new_err(format!("the integer {number} does not fit into 64 bits; pass it as text"))
        });
    }
    if let Ok(number) = object.cast::<PyFloat>() {
        let number = number.value();
        let finite = Number::from_f64(number).map(Value::Number);
        return finite.ok_or_else(|| PyValueError::new_err(format!("{number} is not a JSON value")));
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Value::String(text.to_cow()?.into_owned()));
    }
    if let Ok(dict) = object.cast::<PyDict>() {
        let entry = |(key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
            let key = key.cast::<PyString>().map_err(|_| {
                PyTypeError::new_err(format!("the key {key} of a dict is not text: only text can be a key in JSON"))
            })?;
            Ok((key.to_cow()?.into_owned(), read(&value, depth + 1)?))
        };
        return dict.iter().map(entry).collect::<PyResult<Map<_, _>>>().map(Value::Object);
    }
    if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        let items = object.try_iter()?.map(|item| read(&item?, depth + 1));
        return items.collect::<PyResult<Vec<_>>>().map(Value::Array);
    }
    let name = object.get_type().name()?;
    Err(PyTypeError::new_err(format!("a value of type {name} cannot be stored with a request; pass JSON values")))
}
