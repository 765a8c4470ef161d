//! Formulas: MathML as TeX, where the page has it.

use super::{Writer, without_invisible};
use crate::document::{Element, names};

/// The maximum number of elements of a formula that are searched for its TeX.
const MAX_FORMULA_ELEMENTS: usize = 2_000;

impl<'a> Writer<'a> {
    /// Renders a formula as its TeX source between dollar signs. Without one, its text is written.
    pub(super) fn formula(&mut self, math: Element<'a>) {
        let budget = self.budget;
        let source = math.descendants().take_while(|_| budget.visit()).take(MAX_FORMULA_ELEMENTS).find(|inner| {
            inner.name() == "annotation" && inner.raw_attribute("encoding").is_some_and(|kind| kind.contains("tex"))
        });
        let tex = match source {
            Some(annotation) => annotation.text_within(usize::MAX, budget),
            None => math.attribute("alttext").unwrap_or_default().into_owned(),
        };
        let tex = without_invisible(&tex).split_whitespace().collect::<Vec<_>>().join(" ");
        let is_source = self.is_markdown && !self.in_code;
        if tex.is_empty() || (is_source && has_markdown(&tex)) || !self.may_add(tex.len()) {
            return self.children(math);
        }
        let is_block = math.raw_attribute("display").is_some_and(|display| display == "block");
        let mark = if is_block { "$$" } else { "$" };
        if is_source {
            self.line.push_str(mark);
            // TeX stays as it is, but for what would begin an HTML tag.
            self.line.push_str(&tex.replace('<', "< ").replace("<  ", "< "));
            self.line.push_str(mark);
        } else {
            self.line.push_str(&tex);
        }
    }
}

/// Whether a Markdown reader that does not know formulas would find a link, a picture or code in TeX, or the end of the
/// formula.
fn has_markdown(tex: &str) -> bool {
    let without_escapes = tex.replace("\\$", "");
    without_escapes.contains(['$', '`']) || ["](", "][", "!["].iter().any(|mark| tex.contains(mark))
}

/// Whether an element shows a formula that its MathML says already.
pub(super) fn is_shown_formula(element: Element<'_>) -> bool {
    element.name_id() == names::SPAN
        && element.raw_attribute("aria-hidden").is_some()
        && element.raw_attribute("class").is_some_and(|class| class.contains("katex-html"))
}
