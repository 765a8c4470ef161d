//! [`UrlList`]: a list of URLs in one string.

/// A list of URLs, up to a limit of bytes. They are stored in one string, which needs less memory than many strings.
#[derive(Clone, Debug)]
pub struct UrlList {
    max_bytes: usize,
    text: String,
    /// The end of each URL in `text`.
    ends: Vec<u32>,
}

impl UrlList {
    pub fn with_limit(max_bytes: usize) -> Self {
        Self { max_bytes: max_bytes.min(u32::MAX as usize), text: String::new(), ends: Vec::new() }
    }

    /// Adds a URL and returns its number; `None` if the limit is reached.
    pub fn push(&mut self, url: &str) -> Option<u32> {
        let end = self.text.len() + url.len();
        if end > self.max_bytes {
            return None;
        }
        let number = u32::try_from(self.ends.len()).ok()?;
        self.ends.push(u32::try_from(end).ok()?);
        self.text.push_str(url);
        Some(number)
    }

    /// Removes the URL that was added last.
    pub fn pop(&mut self) {
        self.ends.pop();
        self.text.truncate(self.ends.last().map_or(0, |end| *end as usize));
    }

    /// The URL with this number.
    pub fn get(&self, number: u32) -> Option<&str> {
        let number = number as usize;
        let start = number.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        self.text.get(start as usize..*self.ends.get(number)? as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_returned_by_its_number_and_the_limit_is_kept() {
        let mut urls = UrlList::with_limit(10);
        assert_eq!((urls.push("http"), urls.push(""), urls.push("ab")), (Some(0), Some(1), Some(2)));
        assert_eq!(urls.push("12345"), None);
        urls.pop();
        assert_eq!(urls.push("xyz"), Some(2));
        assert_eq!([0, 1, 2, 3].map(|number| urls.get(number)), [Some("http"), Some(""), Some("xyz"), None]);
    }
}
