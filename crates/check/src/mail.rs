//! The syntax of `mailto:` links. Whether a mailbox exists is not checked.

use percent_encoding::percent_decode_str;

/// What is wrong with the part of a link after `mailto:`.
pub(crate) fn fault(written: &str) -> Option<String> {
    let (addresses, fields) = written.split_once('?').unwrap_or((written, ""));
    let has_recipient = fields.split('&').any(|field| {
        let name = field.split('=').next().unwrap_or("");
        ["to", "cc", "bcc", "subject", "body"].iter().any(|known| name.eq_ignore_ascii_case(known))
    });
    if addresses.trim().is_empty() {
        return (!has_recipient).then(|| "no mail address".to_owned());
    }
    let decoded = percent_decode_str(addresses).decode_utf8_lossy();
    decoded.split(',').map(str::trim).find(|address| !is_address(address)).map(|address| {
        let shown: String = address.chars().take(60).collect();
        format!("{shown:?} is not a mail address")
    })
}

/// The syntax of `input type=email` in HTML, extended by quoted and non-ASCII local parts.
fn is_address(address: &str) -> bool {
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let is_quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    let is_local = |c: char| c.is_alphanumeric() || ".!#$%&'*+/=?^_`{|}~-".contains(c);
    let is_label = |label: &str| {
        !label.is_empty()
            && label.chars().count() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_alphanumeric() || c == '-')
    };
    let is_literal = domain.starts_with('[') && domain.ends_with(']');
    (is_quoted || (!local.is_empty() && local.chars().all(is_local))) && (is_literal || domain.split('.').all(is_label))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_addresses() {
        for good in [
            "a@b.example",
            "a.b+c@b.example?subject=Hi",
            "a@b.example,c@d.example",
            "a%40b.example",
            "?to=a@b",
            "?subject=x",
            "jürgen@müller.example",
            "\"a b\"@c.example",
            "root@localhost",
        ] {
            assert_eq!(fault(good), None, "{good}");
        }
        for bad in ["", "a", "a@", "@b", "a b@c.example", "a@b..example", "a@-b.example", "a@b,c", "//a.example"] {
            assert!(fault(bad).is_some(), "{bad}");
        }
    }
}
