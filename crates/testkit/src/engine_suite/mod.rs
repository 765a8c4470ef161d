//! The test suite of engines, which every engine must pass.
//!
//! `engine_suite!` generates all tests for one engine. Each is a public function of a module here. The first tests
//! are those of the crawler in "A Web Crawler With asyncio Coroutines".

pub mod basics;
pub mod http2;
pub mod identity;
pub mod politeness;
pub mod responses;
pub mod tls;

use argiope_practice::{PracticeWeb, RunningWeb, Site};

/// Serves these sites.
pub(crate) fn serve(sites: impl IntoIterator<Item = Site>) -> RunningWeb {
    sites.into_iter().fold(PracticeWeb::new(), PracticeWeb::site).start().expect("the practice web starts")
}

/// A site on its own loopback address.
pub(crate) fn site(address: &str) -> Site {
    Site::http(&format!("{address}:0")).expect("a loopback address")
}

/// Generates the whole suite for one engine, as a module of tests.
#[macro_export]
macro_rules! engine_suite {
    ($name:ident, $engine:ident) => {
        mod $name {
            $crate::engine_cases!($engine;
                basics: links_and_cycles, a_prohibited_host, strict_hosts, lenient_hosts, exclude_and_include,
                    several_roots, a_deep_root, depth, prefix_and_page_scope, redirect_chains, redirect_cycles,
                    redirects_join, the_limit_of_redirects, an_off_scope_redirect, a_bad_redirect, non_html,
                    non_http_links, exact_max_pages, ends_at_once, ten_thousand_links, wide_hosts_use_all_slots, many_slow_responses,
                    a_graph_is_crawled_completely, max_bytes, max_time;
                responses: a_server_that_keeps_the_connection, a_body_that_ends_by_closing, chunked_and_gzip,
                    charset_and_title, truncation, a_reset_within_the_body, a_slow_drip,
                    a_page_that_takes_long_to_read, a_stalled_head, a_huge_head, a_huge_body,
                    interim_responses, a_stale_connection, keep_alive_is_used, connection_refused, an_empty_reply, bytes_that_are_not_http;
                politeness: retries_that_succeed, retries_that_give_up, concurrency_is_reached_and_not_exceeded,
                    per_host_is_respected, per_ip_limits_hosts_together, a_full_idle_pool_does_not_prevent_reuse, the_delay_is_respected,
                    crawl_delay_is_respected, retry_after_is_respected, robots_are_obeyed, robots_of_every_origin, an_unreachable_robots_txt_forbids_all_pages, a_missing_robots_txt_allows_all_pages, private_addresses_are_refused,
                    headers_go_to_root_origins_only;
                identity: cookies_are_kept_and_sent, a_redirect_with_a_new_cookie_is_followed, logins_are_for_their_origin, an_http_proxy,
                    a_socks_proxy, proxies_that_fail, a_proxy_does_not_open_private_addresses, crawls_share_nothing;
                tls: a_good_certificate, a_self_signed_certificate, an_expired_certificate, a_wrong_name, insecure_on_demand,
                    tls_keep_alive, tls_until_close, both_families;
                http2: http2_is_negotiated, http2_in_clear_text, http1_on_request, http2_that_is_required,
                    a_stream_is_a_slot, bodies_over_http2, http2_through_a_proxy, delays_between_streams,
                    a_crawl_delay_between_streams, per_ip_counts_streams;
            );
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! engine_cases {
    ($engine:ident; $($group:ident: $($case:ident),+;)+) => {
        $($(
            #[test]
            fn $case() {
                $crate::engine_suite::$group::$case($crate::EngineName::$engine);
            }
        )+)+
    };
}
