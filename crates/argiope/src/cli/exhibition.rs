//! `argiope exhibition`: the four engines side by side on slow servers.

use argiope_core::rules::Span;
use clap::Args;

#[derive(Args, Debug, PartialEq)]
#[command(after_help = "Example:\n  argiope exhibition --servers 1000 --latency 2s")]
pub struct ExhibitionArgs {
    /// How many slow servers
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub servers: usize,
    /// How long each of them takes to answer
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub latency: Span,
}
