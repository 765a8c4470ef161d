//! What the help of each command shows of the flags that it shares with `crawl`.

use clap::Arg;

/// How the help of a command presents its flags.
pub struct CommandHelp {
    /// The flags of `-h`, which fits one screen; `--help` shows all.
    common: &'static [&'static str],
    /// Flags that the help omits, because they have no effect here. They are accepted, so that scripts can pass the same
    /// flags to several commands.
    unused: &'static [&'static str],
    /// Flags whose text differs from that of `crawl`.
    texts: &'static [(&'static str, &'static str)],
}

impl CommandHelp {
    /// Adapts a flag to this command.
    pub fn adapt(&self, arg: Arg) -> Arg {
        let name = arg.get_id().as_str().to_owned();
        let arg = match self.texts.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => arg.help(*text).long_help(None),
            None => arg,
        };
        arg.hide_short_help(!self.common.contains(&name.as_str())).hide(self.unused.contains(&name.as_str()))
    }
}

pub const CRAWL: CommandHelp = CommandHelp {
    common: &[
        "roots",
        "input",
        "out",
        "fresh",
        "recrawl",
        "config",
        "scope",
        "include",
        "exclude",
        "depth",
        "max_pages",
        "concurrency",
        "delay",
        "pace",
        "header",
        "robots",
        "jsonl",
        "warc",
        "quiet",
        "verbose",
        "fail_on",
        "help",
    ],
    unused: &[],
    texts: &[],
};

pub const FETCH: CommandHelp = CommandHelp {
    common: &[
        "url",
        "body",
        "timeout",
        "max_size",
        "user_agent",
        "header",
        "user",
        "cookies",
        "proxy",
        "http",
        "resolve",
        "ca_cert",
        "insecure",
        "extract",
        "extract_file",
        "text",
        "markdown",
        "content",
        "help",
    ],
    // Only the URL that the user gives is requested, once. It may be in a private network.
    unused: &["robots", "max_tries", "retry_wait", "max_redirects", "max_links", "no_cookies", "allow_private"],
    texts: &[
        ("max_url", "Refuse a URL that is longer than this [default: 4096]"),
        ("user_agent", "The User-Agent header"),
        ("header", "Send this header (repeatable)"),
        ("user", "Log in with a name and password"),
        ("cookies", "Send the cookies of this file (Netscape format, as curl and browsers export it)"),
        ("cert", "Client certificate (PEM; needs --key)"),
        ("extract", "Extract a field: price=.price, links[]=a@href, name=jsonld:Product.name (repeatable)"),
        ("extract_file", "Extract fields by the rules in a TOML file"),
        ("text", "Add the main text to the record"),
        ("markdown", "Add the main text as Markdown to the record"),
    ],
};

pub const ROBOTS: CommandHelp = CommandHelp {
    common: &[
        "source",
        "agent",
        "urls",
        "timeout",
        "user_agent",
        "header",
        "user",
        "proxy",
        "http",
        "resolve",
        "ca_cert",
        "insecure",
        "help",
    ],
    unused: &["robots", "max_links"],
    texts: &[
        ("max_url", "Refuse the robots.txt if its own URL is longer than this [default: 4096]"),
        ("user_agent", "The User-Agent header of the request; --agent decides which rules apply"),
        ("header", "Send this header to the origin of the robots.txt (repeatable)"),
        ("user", "Log in at the origin of the robots.txt with a name and password"),
        ("cert", "Client certificate for the server of the robots.txt (PEM; needs --key)"),
        ("allow_private", "Follow redirects into private networks (the robots.txt may always be in one)"),
    ],
};

#[cfg(feature = "demo")]
pub const DEMO: CommandHelp = CommandHelp {
    common: &[
        "concurrency",
        "per_host",
        "delay",
        "pace",
        "rate",
        "jsonl",
        "with",
        "serve",
        "engine",
        "quiet",
        "verbose",
        "no_progress",
        "fail_on",
        "help",
    ],
    // There is no crawl directory, which a table and an archive need. `--csv` and `--warc` are refused.
    unused: &["csv", "raw_csv", "warc", "warc_compression"],
    texts: &[("fail_on", "Exit with code 3 if links are broken (`broken`)")],
};

pub const CHECK: CommandHelp = CommandHelp {
    common: &[
        "targets",
        "external",
        "fragments",
        "assets",
        "accept",
        "ignore",
        "timeouts_unknown",
        "cache",
        "cache_file",
        "format",
        "all",
        "output",
        "root_dir",
        "base_url",
        "quiet",
        "directory",
        "help",
    ],
    unused: &[],
    texts: &[],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_help_fits_one_screen_and_long_help_has_every_flag() {
        let mut command = crate::flags::command();
        command.build();
        let mut commands: Vec<clap::Command> = command.get_subcommands().cloned().collect();
        let nested: Vec<clap::Command> = commands.iter().flat_map(clap::Command::get_subcommands).cloned().collect();
        commands.extend(nested);
        for mut sub in commands {
            let name = sub.get_name().to_owned();
            let short = sub.render_help().to_string();
            assert!(short.lines().count() <= 50, "{name} -h has {} lines:\n{short}", short.lines().count());
            let long = sub.render_long_help().to_string();
            for flag in sub.get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(Arg::get_long) {
                assert!(long.contains(&format!("--{flag}")), "{name} --{flag}");
            }
            let hides_some = sub.get_arguments().any(|arg| arg.is_hide_short_help_set() && !arg.is_hide_set());
            assert!(
                !hides_some || short.contains(&format!("argiope {name} --help")),
                "{name} -h names --help:\n{short}"
            );
        }
    }

    #[test]
    fn the_named_flags_exist() {
        let command = crate::flags::command();
        let mut all = vec![("crawl", CRAWL), ("fetch", FETCH), ("robots", ROBOTS), ("check", CHECK)];
        #[cfg(feature = "demo")]
        all.push(("demo", DEMO));
        for (name, CommandHelp { common, unused, texts }) in all {
            let sub = command.find_subcommand(name).unwrap();
            for flag in common.iter().chain(unused).copied().chain(texts.iter().map(|(flag, _)| *flag)) {
                assert!(sub.get_arguments().any(|arg| arg.get_id() == flag) || flag == "help", "{name}: {flag}");
            }
            assert!(!common.iter().any(|flag| unused.contains(flag)), "{name}");
        }
    }

    /// `fetch` and `robots` follow no links, and `robots` looks up the name that `--agent` gives.
    #[test]
    fn the_help_of_fetch_and_robots_has_no_text_that_is_true_only_for_crawl() {
        let mut command = crate::flags::command();
        for name in ["fetch", "robots"] {
            let help = command.find_subcommand_mut(name).unwrap().render_long_help().to_string();
            for wrong in ["Follow links", "links per page", "Ignore links", "name looked up", "of the roots"] {
                assert!(!help.contains(wrong), "{name}: {wrong}\n{help}");
            }
        }
    }
}
