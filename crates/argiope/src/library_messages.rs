//! The words of the library for settings, for remedies, and for what a program can do about a failure.

use argiope_core::crawl::rules::Config;
use argiope_core::crawl::settings::Settings as _;
use argiope_core::{Advice, Remedy};
use argiope_runtime::Error;

/// The error in the words of the library.
pub(crate) fn in_library_words(error: Error) -> Error {
    error.reworded(setting_name, remedy_words)
}

/// A remedy in the words of the library.
fn remedy_words(remedy: Remedy) -> &'static str {
    match remedy {
        Remedy::RestoreOrStartOver => "restore it from a copy, or start over with `fresh`",
        Remedy::OtherDirectory => "use another `directory`",
        Remedy::WaitOrOtherDirectory => "wait for it, or use another `directory`",
        Remedy::MoveOrOtherDirectory => "move it, or use another `directory`",
        Remedy::OtherDirectoryOrStartOver => "use another `directory`, or `fresh` to start over",
        Remedy::NewerVersion => "use a newer version of the library",
        other => other.as_str(),
    }
}

/// The name of a setting in the library.
pub(crate) fn setting_name(key: &'static str) -> &'static str {
    let setting = Config::TABLE.iter().find(|setting| setting.key == key);
    if key == "out" { "directory" } else { setting.map_or(key, |setting| setting.name) }
}

/// What a program can do about a failed page.
pub(crate) fn advice_words(advice: Advice) -> &'static str {
    match advice {
        Advice::TrustAuthority => "`ca_cert` trusts its authority, `insecure` skips the verification",
        Advice::SkipVerification => "`ca_cert` does not help, `insecure` skips the verification",
        Advice::AllowPrivate => "`allow_private` allows it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_the_names_of_methods() {
        assert_eq!(
            (setting_name("max-pages"), setting_name("out"), setting_name("rate")),
            ("max_pages", "directory", "rate")
        );
    }

    #[test]
    fn remedies_have_the_names_of_settings_and_no_flags() {
        assert_eq!(remedy_words(Remedy::OtherDirectory), "use another `directory`");
        for remedy in Remedy::ALL {
            assert!(!remedy_words(remedy).contains("--") && !remedy.as_str().contains("--"), "{remedy:?}");
        }
    }
}
