//! `argiope robots FILE|URL --agent NAME URL...`: `allowed` or `disallowed` per URL, with the deciding line.

use clap::Args;

#[derive(Args, Debug, PartialEq, Eq)]
#[command(
    after_help = "Example:\n  argiope robots robots.txt --agent mybot https://example.com/private/ https://example.com/"
)]
pub struct RobotsArgs {
    /// A robots.txt, on disk or on the web
    #[arg(value_name = "FILE|URL")]
    pub source: String,
    /// The product name that the rules are searched for
    #[arg(long, value_name = "NAME", default_value = "argiope")]
    pub agent: String,
    /// URLs to judge
    #[arg(value_name = "URL", required = true)]
    pub urls: Vec<String>,
}
