//! The syntax of `mailto:` links. Whether a mailbox exists is not checked.

use percent_encoding::percent_decode_str;

/// Maximum characters of an address in a message.
const MAX_SHOWN: usize = 60;
/// Maximum length of a label of a domain name.
const MAX_LABEL: usize = 63;

/// A message if the part of a link after `mailto:` is not valid.
pub(crate) fn fault(written: &str) -> Option<String> {
    // A link without an address is valid if it fills in a field of the new message.
    let (addresses, fields) = written.split_once('?').unwrap_or((written, ""));
    let has_known_field = fields.split('&').any(|field| {
        let name = field.split('=').next().unwrap_or("");
        ["to", "cc", "bcc", "subject", "body"].iter().any(|known| name.eq_ignore_ascii_case(known))
    });
    if addresses.trim().is_empty() {
        return (!has_known_field).then(|| "no mail address".to_owned());
    }
    let decoded = percent_decode_str(addresses).decode_utf8_lossy();
    decoded.split(',').map(str::trim).find(|address| !is_address(address)).map(|address| {
        let shown: String = address.chars().take(MAX_SHOWN).collect();
        format!("{shown:?} is not a mail address")
    })
}

/// The syntax of `input type=email` in HTML, extended by quoted and non-ASCII local parts.
fn is_address(address: &str) -> bool {
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let is_quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    let is_local_char = |c: char| c.is_alphanumeric() || ".!#$%&'*+/=?^_`{|}~-".contains(c);
    let is_label = |label: &str| {
        !label.is_empty()
            && label.chars().count() <= MAX_LABEL
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_alphanumeric() || c == '-')
    };
    let is_address_literal = domain.starts_with('[') && domain.ends_with(']');
    (is_quoted || (!local.is_empty() && local.chars().all(is_local_char)))
        && (is_address_literal || domain.split('.').all(is_label))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_mail_links_have_no_fault_and_others_do() {
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
