//! The kinds of findings of an audit: stable id, severity, what is wrong and how to fix it.

use std::fmt;

/// How much a finding matters. The order is that of the variants, so a worse severity is smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Visitors or search engines see the problem.
    Error,
    /// Likely to cause problems.
    Warning,
    /// Worth checking.
    Notice,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Notice => "notice",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One kind of finding.
#[derive(Debug)]
pub struct FindingKind {
    /// Does not change between versions, because scripts and baselines contain it.
    pub id: &'static str,
    pub severity: Severity,
    pub title: &'static str,
    /// The consequence for visitors or search engines.
    pub why: &'static str,
    /// How to fix it.
    pub fix: &'static str,
}

/// Defines [`FindingId`] and [`CATALOGUE`] from one list.
macro_rules! catalogue {
    ($($index:ident $id:literal $severity:ident $title:literal $why:literal $fix:literal;)*) => {
        /// A kind of finding. Its number is the index in [`CATALOGUE`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum FindingId { $($index,)* }

        /// All kinds of findings, most severe first.
        pub const CATALOGUE: &[FindingKind] = &[$(FindingKind {
            id: $id, severity: Severity::$severity, title: $title, why: $why, fix: $fix,
        },)*];
    };
}

catalogue! {
    BrokenLink "broken-link" Error "Broken links" "Pages link to a URL that answers with an error or not at all." "Correct the link, or restore or redirect the page.";
    BrokenResource "broken-resource" Error "Broken resources" "An image, style, script or other file that pages need cannot be loaded." "Restore the file or correct the reference.";
    ExternalBroken "external-broken" Error "Broken links to other sites" "Visitors who follow the link reach an error page or nothing." "Correct or remove the link.";
    RedirectLoop "redirect-loop" Error "Redirect loops" "The redirect never leads to a page." "Let the redirect end at a page that answers 200.";
    RedirectBroken "redirect-broken" Error "Redirects to broken pages" "The redirect leads to a URL that answers with an error." "Redirect to a page that exists.";
    MixedContent "mixed-content" Error "Mixed content" "A page served over https loads files over http: browsers block or warn." "Reference the files over https.";
    CanonicalBroken "canonical-broken" Error "Canonical points to a page that is not 200" "Search engines are told to index a URL that has no page." "Point the canonical to a page that answers 200.";
    SitemapError "sitemap-error" Error "Sitemap lists URLs that are not 200" "Search engines waste requests and trust the sitemap less." "List only pages that answer 200 directly.";
    SitemapFault "sitemap-fault" Error "Sitemaps that cannot be read" "Search engines miss the pages that only the sitemap lists." "Correct the file, or the URL in robots.txt or in the sitemap index.";
    RobotsFault "robots-fault" Error "Faults in robots.txt" "Crawlers may ignore the faulty lines, or stay away from the whole site." "Correct the line that is named.";
    SoftError "soft-404" Warning "Error pages with status 200" "Search engines index the error page, and checks of links do not notice that the page is missing." "Answer with status 404 or 410 for a page that does not exist.";
    FragmentMissing "fragment-missing" Warning "Links to missing parts of pages" "The link leads to the top of the page, not to the part that it names." "Correct the fragment, or give the part this id.";
    TitleMissing "title-missing" Warning "Pages without a title" "Search results and browser tabs show the URL instead." "Give every page a title of its own.";
    TitleDuplicate "title-duplicate" Warning "Titles used by several pages" "Visitors cannot tell the pages apart in search results." "Write a title that says what is special about each page.";
    DescriptionMissing "description-missing" Warning "Pages without a description" "Search engines choose a text of their own." "Add a meta description.";
    DescriptionDuplicate "description-duplicate" Warning "Descriptions used by several pages" "The pages look the same in search results." "Describe each page on its own.";
    HeadingMissing "h1-missing" Warning "Pages without a main heading" "Readers and screen readers miss what the page is about." "Add one h1.";
    RedirectChain "redirect-chain" Warning "Redirect chains" "Every hop costs visitors a round trip, and crawlers give up after a few." "Redirect straight to the last URL.";
    RedirectToHttp "redirect-to-http" Warning "Redirects from https to http" "Visitors lose the protection of https on the way." "Redirect to the https URL.";
    CanonicalChain "canonical-chain" Warning "Canonical chains" "The canonical page names another one as canonical: search engines may ignore both." "Point every canonical to the last page.";
    CanonicalConflict "canonical-conflict" Warning "Canonical and noindex contradict each other" "One says index another page, the other says index none." "Keep the canonical or the noindex, not both.";
    SitemapNoindex "sitemap-noindex" Warning "Sitemap lists pages with noindex" "The sitemap asks for indexing, the page forbids it." "Remove the page from the sitemap, or the noindex.";
    SitemapCanonical "sitemap-canonical" Warning "Sitemap lists pages whose canonical is another page" "The sitemap and the page name different URLs." "List the canonical URL.";
    HreflangNoReturn "hreflang-no-return" Warning "hreflang without a return link" "Search engines ignore a translation that does not point back." "Add the same hreflang set to the translated page.";
    HreflangCode "hreflang-code" Warning "Wrong hreflang codes" "Search engines ignore the entry." "Use ISO 639-1 languages and ISO 3166-1 regions, such as en-GB or x-default.";
    Orphan "orphan" Warning "Orphans: in the sitemap, linked from no page that robots.txt allows" "Search engines do not reach the page by links, and visitors hardly by browsing." "Link to the page, or remove it from the sitemap.";
    InsecureLink "insecure-link" Warning "Links from https to http on the same site" "Visitors take a detour by a redirect, or lose https." "Link to the https URL.";
    ImageLarge "image-large" Warning "Large images" "The page takes long to load on slow connections." "Compress the image or serve a smaller one.";
    DuplicateBody "duplicate-body" Warning "Pages with the same content" "Search engines pick one and ignore the others." "Redirect to one URL, or name it as canonical.";
    NearDuplicate "near-duplicate" Warning "Pages with nearly the same text" "Search engines may treat them as one." "Merge them, or make each worth its own URL.";
    NeedsScripts "needs-scripts" Warning "Pages that look empty without scripts" "Programs that run no scripts, such as many crawlers and previews, see no text and find no links." "Send the text and the links of the page in its HTML.";
    TitleByScript "title-by-script" Warning "Titles that scripts change" "Programs that run no scripts show another title, or none." "Send the title of the page in its HTML.";
    CanonicalByScript "canonical-by-script" Warning "Canonicals that scripts change" "Search engines see two different canonicals, or none where scripts are not run." "Send the canonical in the HTML, and leave it as it is.";
    NoindexByScript "noindex-by-script" Warning "noindex that scripts add or remove" "Search engines may not run the scripts of a page with noindex, or index the page before they do." "Send the directive in the HTML, or in the header X-Robots-Tag.";
    PageSlow "slow-page" Warning "Slow pages" "Visitors leave before the page is there." "Find out what the server does for so long; cache it.";
    TitleLong "title-long" Notice "Titles longer than 70 characters" "Search results cut them." "Say the important part first, or shorten the title.";
    TitleShort "title-short" Notice "Titles shorter than 10 characters" "They say little in search results." "Say what the page is about.";
    DescriptionLong "description-long" Notice "Descriptions longer than 160 characters" "Search results cut them." "Shorten the description.";
    DescriptionShort "description-short" Notice "Descriptions shorter than 50 characters" "They say little in search results." "Write one or two sentences.";
    HeadingMultiple "h1-multiple" Notice "Pages with several main headings" "The outline of the page is unclear." "Keep one h1 and use h2 for sections.";
    ImageAlt "image-alt" Notice "Pages with images without alt" "Screen readers cannot say what the image shows." "Add an alt text, or an empty one where the image is decoration.";
    DeepPage "deep-page" Notice "Pages far from the root" "Visitors and crawlers need more than five clicks." "Link to the page from higher up.";
    LinksByScript "links-by-script" Notice "Pages with links that only scripts add" "Programs that run no scripts do not find the linked pages." "Send the links in the HTML, as a elements with href.";
    TextByScript "text-by-script" Notice "Pages with text that only scripts add" "Programs that run no scripts, such as many crawlers and previews, do not see it." "Send the text in the HTML.";
    SitemapMissing "sitemap-missing" Notice "Pages missing from the sitemap" "Search engines find them later." "Add them to the sitemap.";
}

impl FindingId {
    /// The description of this kind of finding.
    pub fn kind(self) -> &'static FindingKind {
        CATALOGUE.get(self as usize).unwrap_or(&CATALOGUE[0])
    }
}

/// The kind with this id.
pub fn find(id: &str) -> Option<&'static FindingKind> {
    CATALOGUE.iter().find(|kind| kind.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_the_catalogue_is_ordered_by_severity() {
        let mut ids: Vec<&str> = CATALOGUE.iter().map(|kind| kind.id).collect();
        assert!(CATALOGUE.is_sorted_by_key(|kind| kind.severity));
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), CATALOGUE.len());
        assert_eq!(FindingId::SitemapMissing.kind().id, "sitemap-missing");
    }
}
