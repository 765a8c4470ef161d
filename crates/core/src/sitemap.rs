//! (to come)
use crate::url::Url;
#[derive(Debug)]
pub struct Entry {
    pub url: Url,
}
#[derive(Debug)]
pub struct Sitemap {
    pub entries: Vec<Entry>,
    pub children: Vec<Url>,
}
