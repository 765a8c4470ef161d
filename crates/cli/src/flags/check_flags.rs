//! The settings that only `argiope check` has.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use argiope_check::output::{self, TextOptions};
use argiope_check::{CheckLimits, CheckReport};
use argiope_core::base::escape::json_line;
use argiope_core::crawl::rules::Span;
use argiope_core::crawl::settings::{CHECK, SettingForm, local, parse_text};

use crate::formats::{self, Audience, Format};

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
            format: CheckFormat = CheckFormat::TEXT => local("FORMAT").common(CHECK);
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

/// How findings are written.
pub type CheckWriter = fn(&CheckReport, TextOptions) -> Vec<u8>;

/// The formats of `argiope check`.
pub const CHECK_FORMATS: &[Format<CheckWriter>] = &[
    Format {
        audience: Audience::Terminal,
        ..of_program("text", |report, options| {
            format!("{}{}\n", output::text(report, options), output::summary_line(&report.summary)).into_bytes()
        })
    },
    of_program("json", |report, _| json_line(&output::json_document(report))),
    of_program("jsonl", |report, _| output::json_lines(report).flat_map(|line| json_line(&line)).collect()),
    of_program("junit", |report, _| output::junit(report).into_bytes()),
    of_program("github", |report, _| output::annotations(report).into_bytes()),
    of_program("sarif", |report, _| json_line(&output::sarif(report))),
    Format { audience: Audience::Reader, ..of_program("markdown", |report, _| output::markdown(report).into_bytes()) },
];

const fn of_program(name: &'static str, write: CheckWriter) -> Format<CheckWriter> {
    Format { name, help: "", audience: Audience::Program, flags: &[], write }
}

/// One of [`CHECK_FORMATS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckFormat(pub &'static Format<CheckWriter>);

impl CheckFormat {
    const WORDS: &'static [&'static str] = &formats::names::<_, { CHECK_FORMATS.len() }>(CHECK_FORMATS);
    const TEXT: Self = Self(&CHECK_FORMATS[0]);
}

impl fmt::Display for CheckFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

impl FromStr for CheckFormat {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Format::named(CHECK_FORMATS, name).map(Self).ok_or("no such format")
    }
}

argiope_core::as_text!(CheckFormat);

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
