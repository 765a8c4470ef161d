//! The words of the command for what users can do.

use argiope_core::Advice;

/// What the user can do about a failure, with the flags of the command.
pub fn advice_words(advice: Advice) -> &'static str {
    match advice {
        Advice::TrustAuthority => "--ca-cert FILE trusts its authority, -k skips the verification",
        Advice::SkipVerification => "--ca-cert does not help, -k skips the verification",
        Advice::AllowPrivate => "--allow-private allows it",
    }
}
