//! Queries of a page and of an element by selectors.

use super::{SelectError, Selector};
use crate::document::{Document, Element};

impl Document {
    /// The first element that `selector` matches.
    pub fn first(&self, selector: &Selector) -> Option<Element<'_>> {
        selector.matches_of(self, &self.budget()).next()
    }

    /// All elements that `selector` matches, in the order of the page.
    pub fn all(&self, selector: &Selector) -> Vec<Element<'_>> {
        selector.matches_of(self, &self.budget()).collect()
    }

    /// All elements that the selector in `css` matches.
    ///
    /// # Errors
    ///
    /// `css` is not a selector.
    pub fn select(&self, css: &str) -> Result<Vec<Element<'_>>, SelectError> {
        Ok(self.all(&Selector::parse(css)?))
    }
}

impl<'a> Element<'a> {
    /// The first descendant that `selector` matches.
    pub fn first(&self, selector: &Selector) -> Option<Element<'a>> {
        selector.matches_within(*self, &self.document.budget()).next()
    }

    /// All descendants that `selector` matches.
    pub fn all(&self, selector: &Selector) -> Vec<Element<'a>> {
        selector.matches_within(*self, &self.document.budget()).collect()
    }

    /// All descendants that the selector in `css` matches.
    ///
    /// # Errors
    ///
    /// `css` is not a selector.
    pub fn select(&self, css: &str) -> Result<Vec<Element<'a>>, SelectError> {
        Ok(self.all(&Selector::parse(css)?))
    }

    /// The first descendant that the selector in `css` matches.
    ///
    /// # Errors
    ///
    /// `css` is not a selector.
    pub fn select_first(&self, css: &str) -> Result<Option<Element<'a>>, SelectError> {
        Ok(self.first(&Selector::parse(css)?))
    }

    /// The text of the first descendant that the selector in `css` matches.
    ///
    /// # Errors
    ///
    /// `css` is not a selector.
    pub fn select_text(&self, css: &str) -> Result<Option<String>, SelectError> {
        Ok(self.select_first(css)?.map(|element| element.text()))
    }
}
