//! `Element`: an element of a page.

use argiope::{Element, Page};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::bad_selector;

/// An element of a page.
#[pyclass(frozen, name = "Element", module = "argiope")]
pub struct PyElement {
    page: Page,
    index: u32,
}

impl PyElement {
    pub fn new(page: &Page, index: u32) -> Self {
        Self { page: page.clone(), index }
    }

    fn element(&self) -> Element<'_> {
        self.page.document().element(self.index)
    }
}

#[pymethods]
impl PyElement {
    /// The name in lower case, such as "a".
    #[getter]
    fn name(&self) -> &str {
        self.element().name()
    }

    /// The text, with white space collapsed.
    #[getter]
    fn text(&self) -> String {
        self.element().text()
    }

    /// The element as HTML.
    #[getter]
    fn html(&self) -> String {
        self.element().html()
    }

    /// The attributes.
    #[getter]
    fn attributes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        self.element().attributes().try_for_each(|(name, value)| dict.set_item(name, &*value))?;
        Ok(dict)
    }

    /// The value of an attribute, or None.
    fn get(&self, name: &str) -> Option<String> {
        self.element().attribute(name).map(|value| value.into_owned())
    }

    /// The value of an attribute as an absolute URL, or None.
    #[pyo3(signature = (name = "href"))]
    fn url(&self, name: &str) -> Option<String> {
        self.element().url(name)
    }

    /// The parent element, or None.
    #[getter]
    fn parent(&self) -> Option<Self> {
        self.element().parent().map(|parent| Self::new(&self.page, parent.index()))
    }

    /// The child elements.
    #[getter]
    fn children(&self) -> Vec<Self> {
        self.element().children().map(|child| Self::new(&self.page, child.index())).collect()
    }

    /// All elements below this one that a CSS selector matches.
    fn select(&self, css: &str) -> PyResult<Vec<Self>> {
        let found = self.element().select(css).map_err(bad_selector)?;
        Ok(found.iter().map(|element| Self::new(&self.page, element.index())).collect())
    }

    /// The first element below this one that a CSS selector matches, or None.
    fn select_first(&self, css: &str) -> PyResult<Option<Self>> {
        let found = self.element().select_first(css).map_err(bad_selector)?;
        Ok(found.map(|element| Self::new(&self.page, element.index())))
    }

    /// The text of the first element below this one that a CSS selector matches, or None.
    fn select_text(&self, css: &str) -> PyResult<Option<String>> {
        self.element().select_text(css).map_err(bad_selector)
    }

    /// The value of an attribute; KeyError if the element does not have it.
    fn __getitem__(&self, name: String) -> PyResult<String> {
        self.get(&name).ok_or_else(|| pyo3::exceptions::PyKeyError::new_err(name))
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.element() == other.element()
    }

    fn __hash__(&self) -> u64 {
        u64::from(self.index)
    }

    fn __repr__(&self) -> String {
        format!("<Element {} {:?}>", self.name(), self.text().chars().take(40).collect::<String>())
    }
}
