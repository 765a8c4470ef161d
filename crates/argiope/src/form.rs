//! The fields of an HTML form, and their encoding as `multipart/form-data`.

use argiope_content::{Document, Element};

/// A form field that is sent.
#[derive(Debug)]
pub(crate) struct FormField {
    pub name: String,
    pub value: String,
    /// It is a file input without a file: `multipart/form-data` sends it as an empty file.
    is_file: bool,
}

impl FormField {
    pub fn text(name: &str, value: &str) -> Self {
        Self { name: with_line_breaks(name), value: with_line_breaks(value), is_file: false }
    }
}

/// The fields that a browser would send if its user changed nothing. Buttons are not included.
pub(crate) fn values(document: &Document, form: &Element<'_>) -> Vec<FormField> {
    let mut values = Vec::new();
    let id = form.attribute("id").filter(|id| !id.is_empty());
    for field in document.elements().filter(|field| matches!(field.name(), "input" | "textarea" | "select")) {
        let Some(name) = field.attribute("name").filter(|name| !name.is_empty()) else { continue };
        // A field with the attribute `form` may be anywhere in the page.
        let belongs_to_form = match field.attribute("form") {
            Some(named) => id.as_ref() == Some(&named),
            None => ancestors(&field).any(|element| element == *form),
        };
        if !belongs_to_form || is_disabled(&field) || ancestors(&field).any(|element| element.name() == "datalist") {
            continue;
        }
        let has = |attribute: &str| field.attribute(attribute).is_some();
        let mut is_file = false;
        let value = match field.name() {
            "input" => {
                let kind = field.attribute("type").map(|kind| kind.to_ascii_lowercase()).unwrap_or_default();
                match kind.as_str() {
                    "submit" | "image" | "button" | "reset" => continue,
                    "checkbox" | "radio" if !has("checked") => continue,
                    "checkbox" | "radio" => {
                        field.attribute("value").map_or_else(|| "on".into(), |value| value.into_owned())
                    }
                    "file" => {
                        is_file = true;
                        String::new()
                    }
                    _ => field.attribute("value").unwrap_or_default().into_owned(),
                }
            }
            // A line break at the start is not part of the value.
            "textarea" => {
                let text = field.text_content();
                let rest = text.strip_prefix("\r\n").or_else(|| text.strip_prefix('\n'));
                rest.unwrap_or(&text).to_owned()
            }
            _ => {
                values.extend(chosen_options(&field).iter().map(|value| FormField::text(&name, value)));
                continue;
            }
        };
        values.push(FormField { is_file, ..FormField::text(&name, &value) });
    }
    values
}

fn ancestors<'a>(element: &Element<'a>) -> impl Iterator<Item = Element<'a>> {
    std::iter::successors(element.parent(), Element::parent)
}

/// Whether a field is disabled: itself, or by a `fieldset` around it, unless it is in the first `legend` of the
/// `fieldset`.
fn is_disabled(field: &Element<'_>) -> bool {
    let has_disabled = |element: &Element<'_>| element.attribute("disabled").is_some();
    let is_disabled_by = |fieldset: &Element<'_>| {
        let legend = fieldset.children().find(|child| child.name() == "legend");
        let is_in_legend = legend.is_some_and(|legend| ancestors(field).any(|element| element == legend));
        fieldset.name() == "fieldset" && has_disabled(fieldset) && !is_in_legend
    };
    has_disabled(field) || ancestors(field).any(|element| is_disabled_by(&element))
}

/// The values of the chosen options of a `select`. A drop-down list always has a choice: the last option with
/// `selected`, or else the first one that is not disabled. Disabled options are not sent.
fn chosen_options(list: &Element<'_>) -> Vec<String> {
    let options: Vec<_> = list.descendants().filter(|option| option.name() == "option").collect();
    let is_enabled = |option: &&Element<'_>| {
        let group = option.parent().filter(|parent| parent.name() == "optgroup");
        option.attribute("disabled").is_none() && group.is_none_or(|group| group.attribute("disabled").is_none())
    };
    let mut selected = options.iter().filter(|option| option.attribute("selected").is_some());
    let chosen: Vec<_> = if list.attribute("multiple").is_some() {
        selected.collect()
    } else if let Some(last) = selected.next_back() {
        vec![last]
    } else {
        // A list that shows several rows has no choice at first.
        let rows = list.attribute("size").and_then(|size| size.trim().parse::<u32>().ok()).unwrap_or(1);
        options.iter().find(is_enabled).filter(|_| rows <= 1).into_iter().collect()
    };
    let value =
        |option: &Element<'_>| option.attribute("value").map_or_else(|| option.text(), |value| value.into_owned());
    chosen.into_iter().filter(is_enabled).map(value).collect()
}

/// Converts all line breaks to CR LF, as they are sent.
fn with_line_breaks(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n").replace('\n', "\r\n")
}

/// Encodes fields as `multipart/form-data`. Returns the boundary and the body. The body is a part of the identity of a
/// request, so the boundary is not random: the same fields always give the same bytes.
pub(crate) fn multipart(fields: &[FormField]) -> (String, String) {
    let is_unused = |boundary: &str| fields.iter().all(|FormField { value, .. }| !value.contains(boundary));
    let boundary = (0_u32..).map(|number| format!("----argiope-form-{number}")).find(|boundary| is_unused(boundary));
    let boundary = boundary.unwrap_or_default();
    let mut body = String::new();
    for FormField { name, value, is_file } in fields {
        let name = name.replace('\r', "%0D").replace('\n', "%0A").replace('"', "%22");
        body.push_str(&format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\""));
        if *is_file {
            body.push_str("; filename=\"\"\r\nContent-Type: application/octet-stream");
        }
        body.push_str(&format!("\r\n\r\n{value}\r\n"));
    }
    body.push_str(&format!("--{boundary}--\r\n"));
    (boundary, body)
}
