//! The fields of an HTML form, and their encoding as `multipart/form-data`.

use argiope_content::Element;

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
        Self { name: name.to_owned(), value: value.to_owned(), is_file: false }
    }
}

/// The fields that a browser would send if its user changed nothing. Buttons are not included.
pub(crate) fn values(form: &Element<'_>) -> Vec<FormField> {
    let mut values = Vec::new();
    for field in form.descendants() {
        let Some(name) = field.attribute("name").filter(|name| !name.is_empty()) else { continue };
        let has = |attribute: &str| field.attribute(attribute).is_some();
        if has("disabled") {
            continue;
        }
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
            "textarea" => text_of_area(&field),
            "select" => {
                let options: Vec<_> = field.descendants().filter(|option| option.name() == "option").collect();
                let mut selected = options.iter().filter(|option| option.attribute("selected").is_some());
                let first = options.first();
                // Without `multiple`, one option is sent: the last one with `selected`, or else the first one.
                let chosen: Vec<_> = if has("multiple") {
                    selected.collect()
                } else {
                    selected.next_back().or(first).into_iter().collect()
                };
                for option in chosen {
                    let value = option.attribute("value").map_or_else(|| option.text(), |value| value.into_owned());
                    values.push(FormField::text(&name, &value));
                }
                continue;
            }
            _ => continue,
        };
        values.push(FormField { name: name.into_owned(), value, is_file });
    }
    values
}

/// The value of a `textarea`: white space is kept, a line break at its start is not part of it, and line breaks are sent
/// as CR LF.
fn text_of_area(area: &Element<'_>) -> String {
    let text = area.text_content().replace("\r\n", "\n").replace('\r', "\n");
    text.strip_prefix('\n').unwrap_or(&text).replace('\n', "\r\n")
}

/// Encodes fields as `multipart/form-data`. Returns the boundary and the body. The body is a part of the identity of a
/// request, so the boundary is not random: the same fields always give the same bytes.
pub(crate) fn multipart(fields: &[FormField]) -> (String, String) {
    let is_free = |boundary: &str| fields.iter().all(|FormField { value, .. }| !value.contains(boundary));
    let boundary = (0_u32..).map(|number| format!("----argiope-form-{number}")).find(|boundary| is_free(boundary));
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
