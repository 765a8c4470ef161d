//! Escapes text for Markdown.

/// The longest name of a character reference.
const MAX_REFERENCE: usize = 32;

/// Escapes text so that it has no Markdown markup.
pub(in crate::main_text) fn escape_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    push_escaped(&mut out, text);
    out
}

/// Escapes a paragraph, so that it is one without markup.
pub(crate) fn escape_paragraph(text: &str) -> String {
    let escaped = escape_line(text);
    match block_mark(&escaped).and_then(|at| escaped.split_at_checked(at)) {
        Some((before, after)) => format!("{before}\\{after}"),
        None => escaped,
    }
}

/// Escapes what would end a URL in Markdown, or change it.
pub(super) fn escape_url(url: &str) -> String {
    let mut out = String::with_capacity(url.len());
    let mut rest = url;
    while let Some(character) = rest.chars().next() {
        match character {
            '(' | ')' | '\\' => out.push('\\'),
            '&' if is_reference(rest) => out.push('\\'),
            _ => {}
        }
        if character == ' ' {
            out.push_str("%20")
        } else {
            out.push(character)
        }
        rest = rest.get(character.len_utf8()..).unwrap_or("");
    }
    out
}

/// Whether a text begins like a character reference: `&amp;`.
fn is_reference(text: &str) -> bool {
    let name = text.get(1..).unwrap_or("");
    let name = name.strip_prefix('#').unwrap_or(name);
    let length = name.bytes().take(MAX_REFERENCE).take_while(u8::is_ascii_alphanumeric).count();
    length > 0 && name.as_bytes().get(length) == Some(&b';')
}

/// Appends text with its Markdown markup escaped.
pub(super) fn push_escaped(out: &mut String, text: &str) {
    let mut previous = out.chars().next_back().unwrap_or(' ');
    let mut rest = text.chars().peekable();
    let mut at = 0;
    while let Some(character) = rest.next() {
        let start = at;
        at += character.len_utf8();
        let is_markup = match character {
            '&' => is_reference(text.get(start..).unwrap_or("")),
            '\\' | '*' | '`' | '[' | ']' => true,
            '<' => rest.peek().is_some_and(|next| next.is_ascii_alphabetic() || matches!(next, '/' | '!' | '?')),
            // Within a word, an underscore is not markup.
            '_' => !(previous.is_alphanumeric() && rest.peek().is_some_and(|next| next.is_alphanumeric())),
            _ => false,
        };
        if is_markup {
            out.push('\\');
        }
        out.push(character);
        previous = character;
    }
}

/// Where to put a backslash if Markdown would parse a line of text as a heading, a list, a rule, a quote or a listing.
pub(super) fn block_mark(line: &str) -> Option<usize> {
    let is_end = |rest: &str| rest.is_empty() || rest.starts_with(' ');
    let after = |mark: &str| line.strip_prefix(mark).is_some_and(is_end);
    // A line of these characters makes the text above it a heading.
    let is_underline =
        !line.is_empty() && (line.bytes().all(|byte| byte == b'=') || line.bytes().all(|byte| byte == b'-'));
    let begins = |mark: &str| line.starts_with(mark);
    if begins(">") || after("-") || after("+") || begins("---") || begins("===") || begins("~~~") || is_underline {
        return Some(0);
    }
    // An ordered list has up to nine digits. A backslash before a digit would be text, so it goes before the next mark.
    let digits = line.len() - line.trim_start_matches(|next: char| next.is_ascii_digit()).len();
    if (1..=9).contains(&digits) {
        let rest = line.get(digits..).unwrap_or("");
        return rest.strip_prefix(['.', ')']).is_some_and(is_end).then_some(digits);
    }
    let hashes = line.len() - line.trim_start_matches('#').len();
    let is_heading = (1..=6).contains(&hashes) && line.get(hashes..).is_some_and(is_end);
    is_heading.then_some(0)
}

/// The length of the longest run of backticks.
pub(super) fn longest_backtick_run(text: &str) -> usize {
    text.split(|character| character != '`').map(str::len).max().unwrap_or(0)
}
