//! Valid values of `hreflang`.

/// The language codes of ISO 639-1.
const LANGUAGES: &str = "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy \
     da de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii \
     ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr \
     ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl \
     sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh \
     zu";
/// Codes that are often used as regions by mistake.
const NOT_REGIONS: &[&str] = &["uk", "eu", "en", "la"];

/// Whether this is a language code, optionally with a script and a region, or `x-default`.
pub fn is_hreflang_code(code: &str) -> bool {
    let code = code.to_ascii_lowercase();
    if code == "x-default" {
        return true;
    }
    let mut parts = code.split('-');
    let language = parts.next().unwrap_or_default();
    let is_alphabetic = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphabetic());
    let is_language = match language.len() {
        2 => LANGUAGES.split_ascii_whitespace().any(|known| known == language),
        // ISO 639-2 and 639-3 have too many codes for a list.
        3 => is_alphabetic(language),
        _ => false,
    };
    let subtags: Vec<&str> = parts.collect();
    let is_script = |text: &&str| text.len() == 4 && is_alphabetic(text);
    let is_region = |text: &&str| match text.len() {
        // `la` is Laos in `lo-la`; with other languages it is a mistake for Latin America.
        2 => is_alphabetic(text) && (!NOT_REGIONS.contains(text) || (*text == "la" && language == "lo")),
        // A region of UN M.49, such as 419 for Latin America.
        3 => text.bytes().all(|byte| byte.is_ascii_digit()),
        _ => false,
    };
    let has_valid_subtags = match subtags.as_slice() {
        [] => true,
        [one] => is_script(one) || is_region(one),
        [script, region] => is_script(script) && is_region(region),
        _ => false,
    };
    is_language && has_valid_subtags
}

#[cfg(test)]
mod tests {
    use super::is_hreflang_code;

    #[test]
    fn codes_of_the_standards_are_valid_and_common_mistakes_are_not() {
        for code in ["en", "EN-gb", "de-AT", "zh-Hant", "zh-Hant-TW", "es-419", "x-default", "yue", "uk-UA"] {
            assert!(is_hreflang_code(code), "{code}");
        }
        for code in ["", "en-UK", "jp", "english", "en_GB", "en-gb-x", "es-LA", "de-", "x-other"] {
            assert!(!is_hreflang_code(code), "{code}");
        }
    }
}
