//! Finds a browser, and starts it without a network, with limits, and with the debugging protocol on a pipe.
//!
//! A launcher sets descriptors, limits and namespaces: the shell, `setpriv`, `prlimit` and `unshare`, as far as they
//! exist. So no code runs between fork and exec of this process.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use argiope_core::crawl::rules::RenderRules;

/// The names of browsers, preferred first.
const NAMES: [&str; 4] = ["chromium-headless-shell", "chrome-headless-shell", "chromium", "google-chrome"];
/// The variable that names a browser which is not on the path.
const VARIABLE: &str = "ARGIOPE_BROWSER";

/// Why no browser can be started. The words name no setting; the caller adds which setting helps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BrowserError {
    /// There is none.
    Missing(String),
    /// The process is root, and the browser cannot have its sandbox.
    NoSandbox,
}

impl std::fmt::Display for BrowserError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing(what) => write!(
                f,
                "rendering needs a browser, and {what}; install chromium-headless-shell (Debian: apt install \
                 chromium-headless-shell)"
            ),
            Self::NoSandbox => f.write_str(
                "the browser cannot have its sandbox: this process is root, and the system allows no user namespaces; \
                 run as another user",
            ),
        }
    }
}

impl std::error::Error for BrowserError {}

/// A browser that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrowserProgram {
    path: PathBuf,
    /// The commands in front of the browser.
    launchers: Vec<OsString>,
    /// Whether the browser runs without a sandbox of its own.
    has_no_sandbox: bool,
}

impl BrowserProgram {
    /// Finds the browser of these rules, and how it can be started.
    ///
    /// # Errors
    ///
    /// No browser was found, or it cannot have a sandbox.
    pub fn find(rules: &RenderRules) -> Result<Self, BrowserError> {
        let path = match &rules.browser {
            Some(named) => find_program(named)
                .ok_or_else(|| BrowserError::Missing(format!("{} is not a program", named.display())))?,
            None => NAMES
                .iter()
                .find_map(|name| find_program(Path::new(name)))
                .or_else(|| std::env::var_os(VARIABLE).and_then(|named| find_program(Path::new(&named))))
                .ok_or_else(|| BrowserError::Missing("none is installed".to_owned()))?,
        };
        let is_root = rustix::process::geteuid().is_root();
        let namespaces = user_namespaces(is_root);
        if is_root && namespaces.is_none() && !rules.has_no_sandbox {
            return Err(BrowserError::NoSandbox);
        }
        let mut launchers: Vec<OsString> = Vec::new();
        let mut add = |words: &[&str]| launchers.extend(words.iter().map(|word| OsString::from(*word)));
        // The browser ends with the thread that started it.
        if works(&["setpriv", "--pdeathsig", "KILL", "true"]) {
            add(&["setpriv", "--pdeathsig", "KILL"]);
        }
        let limit = format!("--data={}", rules.memory);
        if works(&["prlimit", &limit, "true"]) {
            add(&["prlimit", &limit]);
        }
        if let Some(words) = &namespaces {
            add(words);
        } else if works(&["unshare", "--net", "true"]) {
            add(&["unshare", "--net"]);
        }
        Ok(Self { path, launchers, has_no_sandbox: rules.has_no_sandbox })
    }

    /// The path of the browser.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What this system does not allow of what the browser should be started with, as a message.
    pub(crate) fn missing(&self) -> Option<String> {
        let has = |word: &str| self.launchers.iter().any(|launcher| launcher == word);
        let barriers = [("--net", "a network namespace (unshare)"), ("prlimit", "a limit on its memory (prlimit)")];
        let missing: Vec<&str> = barriers.iter().filter(|(word, _)| !has(word)).map(|(_, what)| *what).collect();
        (!missing.is_empty()).then(|| {
            format!(
                "the browser runs without {}: this system does not allow it or lacks the program",
                missing.join(" and ")
            )
        })
    }

    /// Starts the browser, in a process group of its own. `profile` is a folder for its files.
    pub(crate) fn start(&self, profile: &Path, user_agent: &str) -> io::Result<Child> {
        let mut command = Command::new("sh");
        // The browser reads commands from descriptor 3, and writes to descriptor 4.
        command.args(["-c", r#"exec "$0" "$@" 3<&0 4>&1 0</dev/null 1>/dev/null"#]);
        command.args(&self.launchers).arg(&self.path);
        command.args(flags(profile, user_agent));
        if self.has_no_sandbox {
            command.arg("--no-sandbox");
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        command.env_clear().env("PATH", path).env("HOME", profile).env("TMPDIR", profile);
        command.env("TZ", "UTC").env("LANG", "en_US.UTF-8");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.process_group(0).spawn()
    }
}

/// The flags of the browser: no network, no background work, frames on demand.
fn flags(profile: &Path, user_agent: &str) -> Vec<OsString> {
    let mut flags: Vec<OsString> = [
        "--headless",
        "--remote-debugging-pipe",
        "--enable-begin-frame-control",
        "--run-all-compositor-stages-before-draw",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--mute-audio",
        "--no-first-run",
        "--no-default-browser-check",
        "--no-pings",
        "--disable-breakpad",
        "--disable-crash-reporter",
        "--disable-background-networking",
        "--disable-client-side-phishing-detection",
        "--disable-component-update",
        "--disable-component-extensions-with-background-pages",
        "--disable-default-apps",
        "--disable-domain-reliability",
        "--disable-extensions",
        "--disable-sync",
        "--disable-notifications",
        "--disable-background-timer-throttling",
        "--disable-backgrounding-occluded-windows",
        "--disable-renderer-backgrounding",
        "--disable-hang-monitor",
        "--disable-prompt-on-repost",
        "--disable-popup-blocking",
        "--block-new-web-contents",
        "--disable-site-isolation-trials",
        "--disable-features=IsolateOrigins,site-per-process,Translate,MediaRouter,OptimizationHints,Prerender2,\
         AutofillServerCommunication,SpareRendererForSitePerProcess",
        "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
        // Nothing listens there, and the name server finds nothing.
        "--proxy-server=http://127.0.0.1:9",
        "--proxy-bypass-list=<-loopback>",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--lang=en-US",
        "--force-device-scale-factor=1",
        "--window-size=1280,800",
    ]
    .map(OsString::from)
    .to_vec();
    flags.push(format!("--user-agent={user_agent}").into());
    let mut folder = OsString::from("--user-data-dir=");
    folder.push(profile);
    flags.push(folder);
    flags
}

/// The command that runs another one in namespaces for users, processes and the network. `None` if the system does not
/// allow it. Root becomes an ordinary user there, so that the browser can have its sandbox.
fn user_namespaces(is_root: bool) -> Option<Vec<&'static str>> {
    let user: &[&str] = if is_root { &["--map-user=65534", "--map-group=65534"] } else { &["--map-current-user"] };
    let with_processes = ["unshare", "--user", "--net", "--pid", "--fork", "--kill-child=KILL"];
    let without = ["unshare", "--user", "--net"];
    [&with_processes[..], &without].into_iter().find_map(|words| {
        let words: Vec<&'static str> = words.iter().copied().chain(user.iter().copied()).collect();
        let probe: Vec<&str> = words.iter().copied().chain(["true"]).collect();
        works(&probe).then_some(words)
    })
}

/// Whether this command exists and succeeds.
fn works(words: &[&str]) -> bool {
    let Some((program, arguments)) = words.split_first() else { return false };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The path of a program: as given if it has a folder, else on the path.
fn find_program(name: &Path) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    if name.components().count() > 1 {
        return Some(name.to_owned()).filter(is_program);
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(is_program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_browser_and_missing_barriers_are_named() {
        let rules = RenderRules {
            is_auto: false,
            browser: Some("/nonexistent/browser".into()),
            has_no_sandbox: false,
            memory: 1 << 30,
            tabs: None,
            limits: argiope_core::render::RenderLimits::default(),
        };
        let bare = BrowserProgram { path: "/b".into(), launchers: Vec::new(), has_no_sandbox: true };
        assert!(bare.missing().is_some_and(|text| text.contains("unshare") && text.contains("prlimit")));
        let launchers = ["prlimit", "--data=1", "unshare", "--net"].map(OsString::from).to_vec();
        assert_eq!(BrowserProgram { launchers, ..bare }.missing(), None);
        let error = BrowserProgram::find(&rules).expect_err("it does not exist").to_string();
        assert!(error.contains("/nonexistent/browser is not a program"), "{error}");
        assert!(!error.contains("--"), "the caller knows the name of the setting: {error}");
    }
}
