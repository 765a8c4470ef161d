//! The settings that only `argiope check` has.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use argiope_check::CheckLimits;
use argiope_core::crawl::rules::Span;
use argiope_core::crawl::settings::{CHECK, SettingForm, local, parse_text};

argiope_core::settings! {
    /// What is checked, and how the findings are written.
    pub struct CheckSettings {
        "" in CHECK => {
            /// Check URLs outside of the site or folder, once each
            external: YesNo = YesNo(true) => local("yes|no").common(CHECK);
            /// Check fragments: that the target page has the element that #fragment names
            fragments: YesNo = YesNo(true) => local("yes|no").common(CHECK);
            /// Check images, styles, scripts and media
            assets: YesNo = YesNo(true) => local("yes|no").common(CHECK);
            /// Status codes that count as good, such as 200-299,403
            ///
            /// Numbers and ranges, separated by commas.
            accept: String = "200..=299".to_owned() => local("CODES").common(CHECK);
            /// Ignore links that match this regular expression (repeatable); .argiopeignore may have more, one per line
            ignore: Vec<String> = Vec::new() => local("RE").common(CHECK);
            /// Count a timeout after all attempts as unknown, not as broken
            timeouts_unknown: bool = false => local("").common(CHECK);
            /// Reuse good external results for this time; failed URLs are requested again
            cache: Option<Span> = None => local("TIME").common(CHECK);
            /// The file of --cache
            cache_file: PathBuf = PathBuf::from(".argiopecache") => local("FILE").common(CHECK);
            /// How to write the findings
            format: CheckFormat = CheckFormat::Text => local("FORMAT").common(CHECK);
            /// With --format text: list every target and every place, not only a screen or two
            all: bool = false => local("").common(CHECK);
            /// Write to this file instead of standard output
            output: Option<PathBuf> = None => local("FILE").short('o').common(CHECK);
            /// For folders: the folder to which links that begin with / are relative
            root_dir: Option<PathBuf> = None => local("DIR").common(CHECK)
                .default_is("the folder itself; for files the current folder");
            /// For folders: the URL under which the folder will be published; links to it are looked up in the folder
            base_url: Option<String> = None => local("URL").common(CHECK);
            /// Request at most N URLs of other hosts
            max_external: usize = CheckLimits::default().external_urls => local("N");
            /// Request at most N URLs of one other host
            max_external_per_host: usize = CheckLimits::default().host_urls => local("N");
        }
    }
}

argiope_core::words! {
    /// How findings are written.
    CheckFormat {
        Text = "text",
        Json = "json",
        Jsonl = "jsonl",
        Junit = "junit",
        Github = "github",
        Sarif = "sarif",
        Markdown = "markdown",
    }
}

/// A switch that is on by default. A file may also have `true` or `false`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct YesNo(pub bool);

impl fmt::Display for YesNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0 { "yes" } else { "no" })
    }
}

impl FromStr for YesNo {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "yes" | "true" => Ok(Self(true)),
            "no" | "false" => Ok(Self(false)),
            _ => Err("write yes or no"),
        }
    }
}

argiope_core::as_text!(YesNo);

argiope_core::setting_values! {
    YesNo: SettingForm::Text, parse_text;
    CheckFormat: SettingForm::Words(CheckFormat::WORDS), parse_text;
}
