//! [`SettingValue`]: what a type needs to be the type of a setting.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::base::value::{
    AssetsScope, Credentials, DigestAlgorithm, EngineName, Follow, HeaderLine, HttpVersion, Interact, Login, Only,
    Pace, Rate, RenderMode, Resolve, RobotsPolicy, ScopeKind, SinceDate, Size, Soft404, Span, TrapPolicy,
    WarcCompression, With,
};

/// The form of a value, in files and on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingForm {
    /// `true` or `false`; on the command line, the flag alone.
    Switch,
    /// A whole number up to this one.
    Number(u64),
    /// One of these words.
    Words(&'static [&'static str]),
    /// A text in the form of its type.
    Text,
    /// A text in the form of its type, or a number.
    TextOrNumber,
    /// A name of a file or folder, which need not be UTF-8.
    Path,
    /// A table of a file. There is no flag for it.
    Table,
}

/// A type of settings.
pub trait SettingValue: Sized {
    const FORM: SettingForm;
    const IS_LIST: bool = false;

    /// The value of these texts, of which there is one unless it is a list. The error is the problem, for the user.
    fn from_texts(texts: &[OsString]) -> Result<Self, String>;

    /// The value as texts: none if there is no value.
    fn texts(&self) -> Vec<String>;

    /// Whether there is no value, so that none is written.
    fn is_absent(&self) -> bool {
        false
    }

    /// The path if it is not UTF-8, made readable.
    fn bad_path(&self) -> Option<String> {
        None
    }
}

impl<T: SettingValue> SettingValue for Option<T> {
    const FORM: SettingForm = T::FORM;

    fn from_texts(texts: &[OsString]) -> Result<Self, String> {
        if texts.is_empty() { Ok(None) } else { T::from_texts(texts).map(Some) }
    }

    fn texts(&self) -> Vec<String> {
        self.as_ref().map(T::texts).unwrap_or_default()
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }

    fn bad_path(&self) -> Option<String> {
        self.as_ref().and_then(T::bad_path)
    }
}

impl<T: SettingValue> SettingValue for Vec<T> {
    const FORM: SettingForm = T::FORM;
    const IS_LIST: bool = true;

    fn from_texts(texts: &[OsString]) -> Result<Self, String> {
        texts.iter().map(|text| T::from_texts(std::slice::from_ref(text))).collect()
    }

    fn texts(&self) -> Vec<String> {
        self.iter().flat_map(T::texts).collect()
    }
}

impl SettingValue for PathBuf {
    const FORM: SettingForm = SettingForm::Path;

    fn from_texts(texts: &[OsString]) -> Result<Self, String> {
        Ok(texts.last().map(Self::from).unwrap_or_default())
    }

    fn texts(&self) -> Vec<String> {
        vec![self.display().to_string()]
    }

    fn bad_path(&self) -> Option<String> {
        self.to_str().is_none().then(|| self.display().to_string())
    }
}

impl SettingValue for Span {
    const FORM: SettingForm = SettingForm::TextOrNumber;

    fn from_texts(texts: &[OsString]) -> Result<Self, String> {
        parse_text(single_text(texts)?)
    }

    /// Seconds up to 99 s: the limit is called 60s, not 1m.
    fn texts(&self) -> Vec<String> {
        let (seconds, is_short) = (self.0.as_secs(), self.0.subsec_nanos() == 0 && self.0.as_secs() < 100);
        vec![if is_short { format!("{seconds}s") } else { self.to_string() }]
    }
}

impl SettingValue for Login {
    const FORM: SettingForm = SettingForm::Table;

    fn from_texts(_: &[OsString]) -> Result<Self, String> {
        Err("write it in a configuration file".to_owned())
    }

    fn texts(&self) -> Vec<String> {
        vec![self.origin.clone()]
    }
}

/// The one text of a value that is not a list.
pub fn single_text(texts: &[OsString]) -> Result<&str, String> {
    texts.last().map_or(Ok(""), |text| text.to_str().ok_or_else(|| "it is not UTF-8".to_owned()))
}

/// Makes types with `FromStr` and `Display` types of settings.
#[macro_export]
macro_rules! setting_values {
    ($($type:ty: $form:expr, $parse:expr;)*) => {$(
        impl $crate::crawl::settings::SettingValue for $type {
            const FORM: $crate::crawl::settings::SettingForm = $form;

            fn from_texts(texts: &[std::ffi::OsString]) -> Result<Self, String> {
                $parse($crate::crawl::settings::single_text(texts)?)
            }

            fn texts(&self) -> Vec<String> {
                vec![self.to_string()]
            }
        }
    )*};
}

/// Parses a text in the form of its type.
pub fn parse_text<T: std::str::FromStr<Err: ToString>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|bad: T::Err| bad.to_string())
}

fn parse_switch(text: &str) -> Result<bool, String> {
    match text {
        "true" | "" => Ok(true),
        "false" => Ok(false),
        _ => Err("write true or false".to_owned()),
    }
}

fn parse_number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| match text.parse::<i128>() {
        Ok(_) => "this number is out of range; write a whole number, such as 10".to_owned(),
        Err(_) => "write a whole number, such as 10".to_owned(),
    })
}

/// Parses an address and a port. `localhost` is 127.0.0.1.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let numeric = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let address = numeric.as_deref().unwrap_or(text);
    address.parse().map_err(|_| "write ADDR:PORT, such as 192.0.2.53:53 or [2001:db8::53]:53".to_owned())
}

setting_values! {
    bool: SettingForm::Switch, parse_switch;
    u8: SettingForm::Number(u8::MAX as u64), parse_number;
    u32: SettingForm::Number(u32::MAX as u64), parse_number;
    u64: SettingForm::Number(u64::MAX), parse_number;
    usize: SettingForm::Number(usize::MAX as u64), parse_number;
    String: SettingForm::Text, parse_text;
    Size: SettingForm::TextOrNumber, parse_text;
    Rate: SettingForm::TextOrNumber, parse_text;
    SocketAddr: SettingForm::Text, parse_address;
    SinceDate: SettingForm::Text, parse_text;
    HeaderLine: SettingForm::Text, parse_text;
    Credentials: SettingForm::Text, parse_text;
    Resolve: SettingForm::Text, parse_text;
    AssetsScope: SettingForm::Words(AssetsScope::WORDS), parse_text;
    DigestAlgorithm: SettingForm::Words(DigestAlgorithm::WORDS), parse_text;
    EngineName: SettingForm::Words(EngineName::WORDS), parse_text;
    Follow: SettingForm::Words(Follow::WORDS), parse_text;
    HttpVersion: SettingForm::Words(HttpVersion::WORDS), parse_text;
    Interact: SettingForm::Words(Interact::WORDS), parse_text;
    Only: SettingForm::Words(Only::WORDS), parse_text;
    RenderMode: SettingForm::Words(RenderMode::WORDS), parse_text;
    Pace: SettingForm::Words(Pace::WORDS), parse_text;
    RobotsPolicy: SettingForm::Words(RobotsPolicy::WORDS), parse_text;
    ScopeKind: SettingForm::Words(ScopeKind::WORDS), parse_text;
    Soft404: SettingForm::Words(Soft404::WORDS), parse_text;
    TrapPolicy: SettingForm::Words(TrapPolicy::WORDS), parse_text;
    WarcCompression: SettingForm::Words(WarcCompression::WORDS), parse_text;
    With: SettingForm::Words(With::WORDS), parse_text;
}
