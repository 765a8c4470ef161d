//! What an owner of a bucket tells the next one about a host: [`WireNote`].
//!
//! Only durations are sent, never times, because the clocks of processes and nodes differ. The store adds the clock of
//! its node to the wait, and returns what is left of it. What is left counts from the reply, so a delayed message makes
//! a wait longer, never shorter.

use argiope_core::Time;
use argiope_core::base::time::WallClock;
use argiope_core::crawl::schedule::carryover::{LaneNote, unix_millis};

/// A note about a host on its way to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireNote {
    pub host: Box<str>,
    /// How long the host must not be asked.
    pub wait_ms: u64,
    /// The rest of the note: a [`LaneNote`] as JSON whose times are counted from now.
    pub text: Vec<u8>,
}

/// A note about a host as a take returns it, or what is known about a host without one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostNews {
    /// How long the host must not be asked.
    pub wait_ms: u64,
    /// How long ago an earlier owner may have sent a request; `None` if there was no earlier owner.
    pub asked_ms: Option<u64>,
    /// The age of `text`.
    pub age_ms: u64,
    /// The note; empty if there is none.
    pub text: Vec<u8>,
}

/// Converts the note of this process to the form that is sent. `at` is the current time of the crawl.
pub fn to_wire(host: &str, note: &LaneNote, wall: WallClock, at: Time) -> WireNote {
    let now = unix_millis(wall, at);
    let left = |until: i64| until.saturating_sub(now).max(0);
    let mut relative = LaneNote { rest: None, asked: None, ..note.clone() };
    for robots in &mut relative.robots {
        robots.until = left(robots.until);
    }
    let wait_ms = note.rest.map_or(0, |rest| left(rest).unsigned_abs());
    WireNote { host: host.into(), wait_ms, text: serde_json::to_vec(&relative).unwrap_or_default() }
}

/// Converts what the store knows about a host to a note of this process. `at` is the time at which the reply arrived.
pub fn from_wire(news: &HostNews, wall: WallClock, at: Time) -> LaneNote {
    let now = unix_millis(wall, at);
    let signed = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
    let mut note: LaneNote = serde_json::from_slice(&news.text).unwrap_or_default();
    for robots in &mut note.robots {
        robots.until = now.saturating_add(robots.until).saturating_sub(signed(news.age_ms));
    }
    note.rest = (news.wait_ms > 0).then(|| now.saturating_add(signed(news.wait_ms)));
    note.asked = news.asked_ms.map(|ago| now.saturating_sub(signed(ago)));
    note
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use argiope_core::crawl::schedule::carryover::RobotsNote;

    use super::*;

    #[test]
    fn a_note_is_the_same_by_the_clock_of_any_process() {
        let at = Time::ZERO + Duration::from_secs(5);
        // The second process has a clock that is ten minutes behind, and has run for an hour.
        let (first, second) = (WallClock { start: 1_800_000_000_000_000 }, WallClock { start: 1_799_999_400_000_000 });
        let later = Time::ZERO + Duration::from_secs(3_600);
        let robots = |until| RobotsNote { https: true, port: 443, text: "User-agent: *".into(), until };
        let begin = unix_millis(first, at);
        let note = LaneNote {
            robots: vec![robots(begin + 60_000)],
            rest: Some(begin + 9_000),
            delay_ms: 1_200,
            ..LaneNote::default()
        };
        let sent = to_wire("h.example", &note, first, at);
        assert_eq!(sent.wait_ms, 9_000);
        let news = HostNews { wait_ms: 4_000, asked_ms: Some(700), age_ms: 5_000, text: sent.text };
        let read = from_wire(&news, second, later);
        let now = unix_millis(second, later);
        let expected =
            LaneNote { robots: vec![robots(now + 55_000)], rest: Some(now + 4_000), asked: Some(now - 700), ..note };
        assert_eq!(read, expected);
        // A host without a note, in a bucket that had no owner.
        assert_eq!(from_wire(&HostNews::default(), second, later), LaneNote::default());
    }
}
