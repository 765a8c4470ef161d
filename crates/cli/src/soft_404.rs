//! [`says_not_found`]: error pages that are sent with status 200 (soft 404s).

/// An error page has at most this many words. Longer pages are about errors.
const MAX_WORDS: u64 = 250;
/// A title or heading that says so is at most this long, in characters.
const MAX_TITLE: usize = 90;

/// What titles and headings of error pages say, in lower case.
const PHRASES: &[&str] = &[
    "not found",
    "could not be found",
    "couldn't be found",
    "cannot be found",
    "can't be found",
    "can't find",
    "couldn't find",
    "does not exist",
    "doesn't exist",
    "no longer exists",
    "no longer available",
    "error 404",
    "404 error",
    "http 404",
    "nicht gefunden",
    "existiert nicht",
    "nicht vorhanden",
    "introuvable",
    "n'existe pas",
    "no encontrad",
    "no existe",
    "non trovat",
    "non esiste",
    "niet gevonden",
    "bestaat niet",
    "não encontrad",
    "não existe",
    "nie znaleziono",
    "hittades inte",
    "ikke fundet",
    "finnes ikke",
    "ei löydy",
    "nenalezen",
    "bulunamadı",
    "не найден",
    "не знайдено",
    "δεν βρέθηκε",
    "見つかりません",
    "找不到",
    "未找到",
    "不存在",
    "찾을 수 없",
    "غير موجود",
    "לא נמצא",
];

/// Whether a page with status 200 says in its title or main heading that there is no such page.
pub fn says_not_found(title: Option<&str>, heading: Option<&str>, words: Option<u64>) -> bool {
    words.is_some_and(|words| words <= MAX_WORDS) && [title, heading].into_iter().flatten().any(is_error_title)
}

fn is_error_title(title: &str) -> bool {
    // Only the number: `404`, `404 | Site`, `Site - 404`. A number within words has another meaning: `Room 404`.
    let is_number = |part: &str| part.trim() == "404";
    if title.split(['|', '-', '–', '—', ':', '·', '!', '.', '(', ')']).any(is_number) {
        return true;
    }
    let text = title.to_lowercase().replace('’', "'");
    text.chars().count() <= MAX_TITLE && PHRASES.iter().any(|phrase| text.contains(phrase))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_pages_are_recognised_by_title_or_heading() {
        for title in [
            "404",
            "404 | Example",
            "Example – 404",
            "Error 404",
            "Page Not Found - Example",
            "Sorry, we can’t find that page",
            "Seite nicht gefunden",
            "Page introuvable (erreur 404)",
            "Страница не найдена",
            "ページが見つかりません",
        ] {
            assert!(says_not_found(Some(title), None, Some(20)), "{title}");
            assert!(says_not_found(None, Some(title), Some(20)), "{title}");
            assert!(!says_not_found(Some(title), None, Some(2_000)), "{title}");
            assert!(!says_not_found(Some(title), None, None), "{title}");
        }
        for title in ["Room 404", "Peugeot 404 Cabriolet", "Lost and found", "Foundation", "4040", ""] {
            assert!(!says_not_found(Some(title), Some(title), Some(20)), "{title}");
        }
    }
}
