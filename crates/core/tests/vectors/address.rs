//! Spellings of private and public addresses.

use std::net::IpAddr;

use argiope_core::Url;
use argiope_core::http::address;

use crate::tally::{Deviations, Tally};
use crate::{cases, read, text};

/// Names that must be resolved first: the check applies to their addresses.
const RESOLVED: &[(&str, &str)] =
    &[("metadata.tencentyun.com", "169.254.0.23"), ("kubernetes.default.svc", "10.96.0.1"), ("example.com", "8.8.8.8")];

const DEVIATIONS: Deviations = &[];

#[test]
#[ignore = "needs vectors/ssrf_targets.json"]
fn ssrf_targets() {
    ssrf();
}

pub fn ssrf() -> Tally {
    let vectors = read("ssrf_targets.json");
    let mut tally = Tally::new("ssrf_targets.json", DEVIATIONS);
    for case in cases(&vectors, "cases") {
        let target = text(case, "target");
        let url = Url::parse(target).ok();
        let mut blocked = url.as_ref().is_none_or(is_refused);
        if let (Some(host), Some(url)) = (case["canonical_host"].as_str(), &url) {
            blocked &= url.host() == host;
        }
        tally.case(target, Some(blocked), case["blocked"].as_bool());
    }
    tally.finish(112)
}

fn is_refused(url: &Url) -> bool {
    let host = url.host();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let resolved = RESOLVED.iter().find(|(name, _)| *name == host).map_or(bare, |(_, address)| address);
    match resolved.parse::<IpAddr>() {
        Ok(ip) => address::refusal(ip).is_some() || address::is_blocked_port(url.port()),
        Err(_) => address::name_refusal(host).is_some(),
    }
}
