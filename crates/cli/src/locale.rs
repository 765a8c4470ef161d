//! [`localized`]: text for people in the characters that the locale can show.
//!
//! A locale that is not UTF-8, such as `LC_ALL=C`, gets ASCII. Files and formats for programs are UTF-8 in any locale.

use std::borrow::Cow;

/// The text as it is if the locale is UTF-8 or not set. Otherwise in ASCII: signs of Argiope's own texts are replaced
/// by similar ones, and all other characters by the escapes of JSON, so that JSON in the text stays JSON.
pub fn localized(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || is_utf8(|name| std::env::var(name).ok()) {
        Cow::Borrowed(text)
    } else {
        to_ascii(text).into()
    }
}

/// Whether the locale is UTF-8. The first variable that is set decides, as in C programs. Without any, it counts as
/// UTF-8, because containers and services often have none.
fn is_utf8(variable: impl Fn(&str) -> Option<String>) -> bool {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let locale = names.iter().find_map(|name| variable(name).filter(|locale| !locale.is_empty()));
    locale.is_none_or(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

fn to_ascii(text: &str) -> String {
    let mut ascii = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            _ if char.is_ascii() => ascii.push(char),
            '…' => ascii.push_str("..."),
            '→' => ascii.push_str("->"),
            '×' => ascii.push('x'),
            '·' => ascii.push('-'),
            'µ' => ascii.push('u'),
            _ => {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    ascii.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    ascii
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_that_is_set_names_the_locale() {
        let is_utf8_with = |set: &[(&str, &str)]| {
            is_utf8(|name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
        };
        assert!(is_utf8_with(&[]));
        assert!(is_utf8_with(&[("LC_ALL", ""), ("LANG", "de_DE.UTF-8")]));
        assert!(is_utf8_with(&[("LC_ALL", "C.utf8"), ("LANG", "C")]));
        assert!(!is_utf8_with(&[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")]));
        assert!(!is_utf8_with(&[("LC_CTYPE", "POSIX")]));
        assert!(!is_utf8_with(&[("LANG", "de_DE.ISO-8859-1")]));
    }

    #[test]
    fn text_in_ascii_has_similar_signs_and_escapes() {
        assert_eq!(to_ascii("1 × 301 a → b … 3 µs · ok"), "1 x 301 a -> b ... 3 us - ok");
        assert_eq!(to_ascii("\"title\": \"Größe 🕷\""), r#""title": "Gr\u00f6\u00dfe \ud83d\udd77""#);
    }
}
