//! Errors in a robots.txt that crawlers ignore silently.

/// Directives that crawlers support.
const KNOWN_DIRECTIVES: &[&str] =
    &["user-agent", "allow", "disallow", "sitemap", "crawl-delay", "host", "clean-param", "request-rate", "visit-time"];
/// Maximum number of errors reported per file.
const MAX_FAULTS: usize = 20;

/// The errors of a robots.txt, each with its line number.
pub fn faults(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut has_user_agent = false;
    if text.trim_start().starts_with('<') {
        return vec!["line 1: this is a web page, not a robots.txt".to_owned()];
    }
    for (number, line) in (1..).zip(text.lines()) {
        if faults.len() >= MAX_FAULTS {
            break;
        }
        let line = line.split('#').next().unwrap_or_default().trim();
        let line = line.trim_start_matches('\u{feff}');
        if line.is_empty() {
            continue;
        }
        let Some((name, value)) = line.split_once(':') else {
            faults.push(format!("line {number}: no colon: {line}"));
            continue;
        };
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        match name.as_str() {
            "user-agent" => has_user_agent = true,
            "allow" | "disallow" => {
                if !has_user_agent {
                    faults.push(format!("line {number}: {name} before any User-agent"));
                }
                if !value.is_empty() && !value.starts_with(['/', '*', '$']) {
                    faults.push(format!("line {number}: a path begins with a slash: {value}"));
                }
            }
            "sitemap" if !value.starts_with("http://") && !value.starts_with("https://") => {
                faults.push(format!("line {number}: a sitemap needs a full URL: {value}"));
            }
            "crawl-delay" if value.parse::<f64>().is_err() => {
                faults.push(format!("line {number}: not a number of seconds: {value}"));
            }
            name if !KNOWN_DIRECTIVES.contains(&name) => {
                faults.push(format!("line {number}: unknown directive: {name}"))
            }
            _ => {}
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::faults;

    #[test]
    fn each_fault_has_its_line_number() {
        let good = "# hello\n\u{feff}\nUser-agent: *\nDisallow: /private # no\nAllow: *.html$\nDisallow:\nSitemap: https://h/s.xml\n";
        assert!(faults(good).is_empty(), "{:?}", faults(good));
        assert!(faults("").is_empty());
        let bad = "Disallow: /x\nUser-agent *\nUser-agent: a\nDissalow: /y\nAllow: private\nSitemap: /s.xml\nCrawl-delay: slow";
        let found = faults(bad);
        for (fault, line) in found.iter().zip([1, 2, 4, 5, 6, 7]) {
            assert!(fault.starts_with(&format!("line {line}:")), "{fault}");
        }
        assert_eq!(found.len(), 6);
        assert_eq!(faults("<!doctype html>").len(), 1);
    }
}
