//! Error pages that are sent with status 200 (soft 404s): [`says_not_found`] reads what a page says, [`ErrorAnswers`]
//! compares it with the answer of its host for a page that does not exist.

use std::collections::{HashMap, HashSet};

use argiope_core::UrlRef;
use argiope_core::base::digest::BodyDigest;
use argiope_core::page::likeness::MinHash;

use crate::records::StoredRecord;

/// An error page has at most this many words. Longer pages are about errors.
const MAX_WORDS: u64 = 250;
/// A title or heading that says so is at most this long, in characters.
const MAX_TITLE: usize = 90;
/// Two texts are nearly the same if at least this many digits of their fingerprints are equal.
const MIN_EQUAL_DIGITS: u32 = 15;
/// The same for pages with the same title and heading. A sentence that repeats the path can change two digits or three.
const MIN_EQUAL_DIGITS_OF_NAMESAKES: u32 = 13;
/// An error page repeats the requested path at most this often.
const MAX_ECHOES: u64 = 8;

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

/// Words beside which the number 404 is that of an error, in lower case.
const ERROR_WORDS: &[&str] = &[
    "error",
    "erreur",
    "fehler",
    "errore",
    "erro",
    "fout",
    "fel",
    "feil",
    "fejl",
    "virhe",
    "błąd",
    "chyba",
    "hata",
    "ошибка",
    "помилка",
    "σφάλμα",
    "エラー",
    "错误",
    "錯誤",
    "오류",
    "خطأ",
    "שגיאה",
];

/// Whether a title or a main heading says that there is no such page.
pub fn says_not_found(title: Option<&str>, heading: Option<&str>, words: Option<u64>) -> bool {
    words.is_some_and(|words| words <= MAX_WORDS) && [title, heading].into_iter().flatten().any(is_error_title)
}

/// What is known about how hosts answer for pages that do not exist, by origin.
#[derive(Debug, Default)]
pub struct ErrorAnswers {
    /// Answers with status 200.
    answers: HashMap<String, ErrorAnswer>,
    /// Origins that answer with status 404 or 410, as they should.
    honest: HashSet<String>,
    /// The bodies of roots.
    first_pages: HashSet<BodyDigest>,
}

#[derive(Debug)]
struct ErrorAnswer {
    url: String,
    digest: Option<BodyDigest>,
    minhash: Option<MinHash>,
    shape: Option<Shape>,
}

/// What is equal if two pages differ only by how often they repeat their own path.
#[derive(Debug, PartialEq, Eq)]
struct Shape {
    title: Option<String>,
    h1: Option<String>,
    words: u64,
    bytes: u64,
    path: u64,
}

impl ErrorAnswers {
    /// Whether this is the record of a request for a page that does not exist, and the answer has status 200.
    pub fn is_error_answer(record: &StoredRecord) -> bool {
        record.r#type == "aux" && record.r#for.as_deref() == Some("probe") && record.status == Some(200)
    }

    /// Adds a record: the answer of a host, or a root.
    pub fn add(&mut self, record: &StoredRecord) {
        if record.is_page() && record.depth() == 0 {
            self.first_pages.extend(record.digest);
        }
        let is_probe = record.r#type == "aux" && record.r#for.as_deref() == Some("probe");
        let Some(origin) = origin_of(&record.url).filter(|_| is_probe) else { return };
        match record.status {
            Some(404 | 410) => _ = self.honest.insert(origin.to_owned()),
            Some(200) => self.add_answer(origin, record),
            _ => {}
        }
    }

    fn add_answer(&mut self, origin: &str, record: &StoredRecord) {
        let (digest, minhash, shape) = (record.digest, record.minhash, Shape::of(record));
        let answer = ErrorAnswer { url: record.url.to_string(), digest, minhash, shape };
        self.answers.insert(origin.to_owned(), answer);
    }

    /// Whether a page with status 200 says in its title or main heading that there is no such page. What a page says does
    /// not count if its host is known to answer with status 404 for such pages.
    pub fn says_not_found(&self, record: &StoredRecord) -> bool {
        says_not_found(record.title.as_deref(), record.h1.as_deref(), record.words)
            && !origin_of(&record.url).is_some_and(|origin| self.honest.contains(origin))
    }

    /// The URL that does not exist and whose answer this page resembles. Roots are never compared, and nothing is compared
    /// with an answer that is a root: some sites and applications answer every path with their first page. Pages that need
    /// scripts are not compared either: their text is not known.
    pub fn resembled(&self, record: &StoredRecord) -> Option<&str> {
        if record.status != Some(200) || record.depth() == 0 || record.needs_scripts {
            return None;
        }
        let answer = self.answers.get(origin_of(&record.url)?)?;
        let is_first_page = answer.digest.is_some_and(|digest| self.first_pages.contains(&digest));
        (!is_first_page && answer.resembles(record)).then_some(&answer.url)
    }
}

impl ErrorAnswer {
    fn resembles(&self, record: &StoredRecord) -> bool {
        if self.digest.is_some() && self.digest == record.digest {
            return true;
        }
        let (mut has_same_name, mut fits) = (false, false);
        if let (Some(answer), Some(page)) = (&self.shape, Shape::of(record)) {
            has_same_name = answer.has_name_of(&page);
            fits = answer.fits(&page);
        }
        let least = if has_same_name { MIN_EQUAL_DIGITS_OF_NAMESAKES } else { MIN_EQUAL_DIGITS };
        fits || self.minhash.zip(record.minhash).is_some_and(|(answer, page)| answer.equal_digits(page) >= least)
    }
}

impl Shape {
    /// `None` if a page has neither title nor heading.
    fn of(record: &StoredRecord) -> Option<Self> {
        let words = record.words?;
        let (title, h1) = (record.title.as_deref().map(str::to_owned), record.h1.as_deref().map(str::to_owned));
        let path = UrlRef::from_normal(&record.url)?.target().len() as u64;
        (title.is_some() || h1.is_some()).then_some(Self { title, h1, words, bytes: record.bytes_body?, path })
    }

    fn has_name_of(&self, other: &Self) -> bool {
        (&self.title, &self.h1) == (&other.title, &other.h1)
    }

    /// Whether the pages are the same, except that each may repeat its own path.
    fn fits(&self, other: &Self) -> bool {
        let is_same_text = self.has_name_of(other) && self.words == other.words;
        let echoed = self.bytes.abs_diff(other.bytes);
        let paths = self.path.abs_diff(other.path);
        let is_longer = (self.bytes >= other.bytes) == (self.path >= other.path);
        let is_echo =
            echoed == 0 || is_longer && paths > 0 && echoed.is_multiple_of(paths) && echoed / paths <= MAX_ECHOES;
        is_same_text && is_echo
    }
}

/// The part of a URL before its path.
fn origin_of(url: &str) -> Option<&str> {
    let target = UrlRef::from_normal(url)?.target();
    url.len().checked_sub(target.len()).and_then(|end| url.get(..end))
}

fn is_error_title(title: &str) -> bool {
    let text = title.to_lowercase().replace('’', "'");
    text.chars().count() <= MAX_TITLE && (has_error_number(&text) || PHRASES.iter().any(|phrase| text.contains(phrase)))
}

/// Whether the text is the number 404, or has it beside a word for errors. Elsewhere the number has other meanings:
/// `Room 404`, `Photos - 404`.
fn has_error_number(text: &str) -> bool {
    let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let is_error_pair = |pair: &[&str]| match pair {
        ["404", word] | [word, "404"] => ERROR_WORDS.contains(word),
        _ => false,
    };
    matches!(words[..], ["404"] | ["http", "404"]) || words.windows(2).any(is_error_pair)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_pages_are_recognised_by_title_or_heading() {
        for title in [
            "404",
            "404!",
            "HTTP 404",
            "404 | Error | Example",
            "Example – Fehler: 404",
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
        for title in [
            "Room 404",
            "Peugeot 404 Cabriolet",
            "Ferrari 250 - 404 - photos",
            "HTTP: 404 explained",
            "Lost and found",
            "Foundation",
            "4040",
            "",
        ] {
            assert!(!says_not_found(Some(title), Some(title), Some(20)), "{title}");
        }
    }

    fn record(line: serde_json::Value) -> StoredRecord {
        crate::records::read(line.to_string().as_bytes()).expect("a record")
    }

    #[test]
    fn pages_are_compared_with_the_answer_of_their_host() {
        let page = |url: &str, more: serde_json::Value| {
            let mut line = serde_json::json!({
                "v": 1, "type": "page", "url": url, "outcome": "ok", "status": 200, "depth": 1, "words": 20,
                "title": "Shop", "bytes_body": 500 + url.len(),
            });
            line.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            record(line)
        };
        let mut answers = ErrorAnswers::default();
        let probe = serde_json::json!({ "type": "aux", "for": "probe" });
        answers.add(&page("http://h.example/argiope-1", probe.clone()));
        let none = serde_json::json!({});
        let like = |record: StoredRecord| answers.resembled(&record).is_some();
        assert!(like(page("http://h.example/a-longer-path", none.clone())), "each page repeats its own path once");
        assert!(!like(page("http://other.example/a-longer-path", none.clone())), "another host");
        assert!(!like(page("http://h.example/a", serde_json::json!({ "title": "Shoes" }))));
        assert!(!like(page("http://h.example/a", serde_json::json!({ "bytes_body": 511 }))));
        assert!(!like(page("http://h.example/a", serde_json::json!({ "depth": 0 }))), "a root");
        assert!(!like(page("http://h.example/a", serde_json::json!({ "needs_scripts": true }))));
        assert!(!like(page("http://h.example/a", serde_json::json!({ "status": 203 }))));
        let minhash = |digits: &str| serde_json::json!({ "minhash": digits, "words": 900 });
        let mut probe = probe;
        probe["minhash"] = "1111222233334444".into();
        answers.add(&page("http://h.example/argiope-1", probe));
        let like = |record: StoredRecord| answers.resembled(&record).is_some();
        assert!(like(page("http://h.example/a", minhash("1111222233334445"))));
        assert!(like(page("http://h.example/a", minhash("1111222233334455"))), "the same title");
        assert!(!like(page("http://h.example/a", minhash("1111222233335555"))));
        let other_title = serde_json::json!({ "minhash": "1111222233334455", "title": "Shoes" });
        assert!(!like(page("http://h.example/a", other_title)));
    }

    #[test]
    fn a_host_that_answers_as_it_should_and_one_that_sends_its_first_page_have_no_error_pages() {
        let digest = |number: u64| format!("xxh3:{number:032x}");
        let page = |url: &str, depth: u64, number: u64, title: &str| {
            record(serde_json::json!({
                "v": 1, "type": "page", "url": url, "outcome": "ok", "status": 200, "depth": depth, "words": 120,
                "title": title, "digest": digest(number),
            }))
        };
        let probe = |url: &str, status: u16, number: u64| {
            let (kind, outcome) = ("aux", if status == 200 { "ok" } else { "http_error" });
            record(serde_json::json!({
                "v": 1, "type": kind, "for": "probe", "url": url, "outcome": outcome, "status": status,
                "digest": digest(number),
            }))
        };
        let title = "Error 404 explained";
        let mut answers = ErrorAnswers::default();
        assert!(answers.says_not_found(&page("http://a.example/x", 1, 5, title)), "the host was not asked");
        answers.add(&probe("http://a.example/argiope-1", 404, 9));
        assert!(!answers.says_not_found(&page("http://a.example/x", 1, 5, title)));
        assert!(answers.says_not_found(&page("http://b.example/x", 1, 5, title)));
        answers.add(&probe("http://b.example/argiope-1", 200, 1));
        assert!(answers.resembled(&page("http://b.example/x", 1, 1, "Shop")).is_some());
        answers.add(&page("http://b.example/", 0, 1, "Shop"));
        assert!(answers.resembled(&page("http://b.example/x", 1, 1, "Shop")).is_none(), "an application");
    }
}
