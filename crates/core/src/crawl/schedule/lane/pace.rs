//! [`LanePace`]: when the next request to a host may start, and how many may be in flight.
//!
//! It has five parts. Each answers one question:
//!
//! - `StartGate`: when may the next request start? (`--delay`, Crawl-delay, Retry-After, back-off)
//! - [`WidthControl`]: how many requests at once does the host serve without becoming slower? (`--pace steady`)
//! - [`RateCap`]: which rate did the host refuse? (`--pace steady`)
//! - `LocalLimit`: how many responses at once can this machine process?
//! - `Health`: how many consecutive failures were there, and is the host given up?
//!
//! `--pace gentle` has a width of one and a pause after every response. `--pace full` starts with the whole width,
//! which halves on refusals and errors and grows again with every windowful of responses.

use std::time::Duration;

use super::SLOW_SLOT;
use super::measured::{Measured, micros};
use super::rate::RateCap;
use super::width::{Sample, WidthControl};
use crate::base::time::Time;
use crate::crawl::rules::{Pace, Rules};
use crate::crawl::wait::WidthReason;

/// Hosts that respond within this time count as equally fast when lanes are ranked.
const JITTER: Duration = Duration::from_millis(50);
/// The maximum back-off without Retry-After.
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// With the gentle pace, the pause after a response is at least this long.
const GENTLE_PAUSE: Duration = Duration::from_secs(1);
/// With the gentle pace, the pause after a response is at least this many times the response time.
const GENTLE_FACTOR: u32 = 5;
/// Number of responses after which the local limit is adjusted.
const LOCAL_SAMPLES: u16 = 8;
/// Number of consecutive failures without any response after which a host is given up: about four minutes with default
/// settings.
const MAX_FAILURES: u8 = 10;
/// Up to this many consecutive failures, the lane does not back off, because single pages may be the cause.
const MAX_PAGE_FAILURES: u8 = 3;
/// Number of consecutive refusals and failures after which a host is given up: half an hour with default settings,
/// longer with Retry-After.
const MAX_REFUSALS: u8 = 40;
/// The back-off doubles at most this often.
const MAX_DOUBLINGS: u32 = 16;

/// The pace of one lane.
#[derive(Debug)]
pub struct LanePace {
    mode: Pace,
    gate: StartGate,
    window: Window,
    local: LocalLimit,
    health: Health,
    /// The shortest time to the first byte so far.
    fastest: Measured,
    /// Exponential moving average of the times to the first byte, with weight 1/8.
    mean_ttfb: Measured,
    /// Moving average of the times for which requests held their slots. Failed requests are included.
    slot_time: Measured,
    /// Whether the last page held its slot for at most [`SLOW_SLOT`].
    is_quick: bool,
}

/// When a request started, and how many were in flight then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// When its slot was taken.
    pub started: Time,
    /// Requests in flight to the host, this one included.
    pub in_flight: u16,
}

/// The signal that one finished request gives about its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadSignal {
    /// A response.
    Answer {
        /// The time to its first byte.
        first: Duration,
        /// The time to its last byte.
        whole: Duration,
        /// How long request and response waited on this machine.
        local_wait: Duration,
        /// The kind of page ([`page_kind`](super::page_kind)); `None` if the response time is not a measure of the
        /// host's load.
        kind: Option<u16>,
    },
    /// 429 or 503, with Retry-After if it was sent.
    Overload(Option<Duration>),
    /// No response: a reset, a timeout or a refused connection.
    NoResponse,
}

/// When the next request may start.
#[derive(Debug)]
struct StartGate {
    /// Minimum time from one start to the next.
    delay: Duration,
    /// Whether robots.txt has a Crawl-delay. Then requests are sent one at a time.
    has_crawl_delay: bool,
    /// When the last request was sent; until that is reported, when its slot was taken. [`Time::NEVER`] if there was
    /// none.
    last_start: Time,
    /// The slot whose request was handed out but not sent yet. With a delay, no other request starts before it is sent.
    unsent_slot: Option<u16>,
    /// Requests so far, up to 255.
    starts: u8,
    /// The earliest start of the next request because of the gentle pace, an earlier run, or a page with very many
    /// links.
    earliest_start: Time,
    /// The end of the back-off.
    backoff_end: Time,
}

/// The limit on requests in flight that depends on the host.
#[derive(Debug)]
enum Window {
    /// `gentle` and `full`: halves on refusals and errors, grows with every windowful of responses. `credit` counts the
    /// responses since the last change.
    Simple { width: u16, ceiling: u16, credit: u16 },
    /// `steady`.
    Adaptive(Box<AdaptiveWindow>),
}

/// The two limits of `--pace steady`.
#[derive(Debug)]
struct AdaptiveWindow {
    width: WidthControl,
    rate: RateCap,
}

/// The limit on requests in flight that depends on this machine.
///
/// If requests and responses wait here for longer than the host takes, this machine is the bottleneck. More concurrent
/// requests would not increase throughput, and would delay the responses of other hosts.
#[derive(Debug)]
struct LocalLimit {
    /// The current limit.
    width: u16,
    /// The highest limit.
    ceiling: u16,
    /// Responses since the last decision.
    samples: u16,
    /// How long the host took for these responses, in microseconds.
    host: u32,
    /// How long these responses waited on this machine, in microseconds.
    local_wait: u32,
}

/// Counts of consecutive failures.
#[derive(Debug, Default)]
struct Health {
    /// When the last failure was seen. Failures of requests that started before do not count again.
    last_failure: Time,
    /// Consecutive failures and refusals.
    failures: u8,
    /// Consecutive failures without any response.
    unanswered: u8,
}

impl LanePace {
    pub fn new(rules: &Rules) -> Self {
        let ceiling = u16::try_from(rules.per_host.max(1)).unwrap_or(u16::MAX);
        let (ceiling, window) = match rules.pace {
            Pace::Gentle => (1, Window::Simple { width: 1, ceiling: 1, credit: 0 }),
            Pace::Full => (ceiling, Window::Simple { width: ceiling, ceiling, credit: 0 }),
            Pace::Steady => (
                ceiling,
                Window::Adaptive(Box::new(AdaptiveWindow {
                    width: WidthControl::new(ceiling),
                    rate: RateCap::default(),
                })),
            ),
        };
        Self {
            mode: rules.pace,
            gate: StartGate {
                delay: rules.delay,
                has_crawl_delay: false,
                last_start: Time::NEVER,
                unsent_slot: None,
                starts: 0,
                earliest_start: Time::ZERO,
                backoff_end: Time::ZERO,
            },
            window,
            local: LocalLimit { width: ceiling, ceiling, samples: 0, host: 0, local_wait: 0 },
            health: Health::default(),
            fastest: Measured::default(),
            mean_ttfb: Measured::default(),
            slot_time: Measured::default(),
            is_quick: false,
        }
    }

    /// Changes the pace mode of a known host. The width starts over as for a new host; delays, failures and response
    /// times are kept.
    pub fn set_mode(&mut self, rules: &Rules) {
        let new = Self::new(rules);
        if self.mode == new.mode {
            return;
        }
        (self.mode, self.window, self.local) = (new.mode, new.window, new.local);
        self.gate.earliest_start = match (new.mode, self.last_start()) {
            (Pace::Gentle, Some(start)) => start + GENTLE_PAUSE,
            _ => Time::ZERO,
        };
    }

    /// How many requests may be in flight.
    pub fn width(&self) -> usize {
        if self.gate.has_crawl_delay { 1 } else { usize::from(self.window.width().min(self.local.width)) }
    }

    /// Why the lane has this width.
    pub fn width_reason(&self) -> WidthReason {
        match &self.window {
            _ if self.gate.has_crawl_delay => WidthReason::CrawlDelay,
            _ if self.local.width < self.window.width() => WidthReason::Machine,
            Window::Simple { .. } if self.mode == Pace::Gentle => WidthReason::Gentle,
            Window::Simple { width, ceiling, .. } if width < ceiling => WidthReason::Errors,
            Window::Simple { .. } => WidthReason::Limit,
            Window::Adaptive(adaptive) => adaptive.width.reason(),
        }
    }

    /// The limit on requests per second, if the host refused a higher rate.
    pub fn rate_cap(&self) -> Option<f32> {
        match &self.window {
            Window::Adaptive(adaptive) => adaptive.rate.rate(),
            Window::Simple { .. } => None,
        }
    }

    /// Moving average of the recent times to the first byte.
    pub fn mean_ttfb(&self) -> Option<Duration> {
        self.mean_ttfb.get()
    }

    /// Mean of the times for which recent requests held their slots.
    pub fn slot_time(&self) -> Option<Duration> {
        self.slot_time.get()
    }

    /// Whether the last page held its slot for a short time. A robots.txt does not count.
    pub fn is_quick(&self) -> bool {
        self.is_quick
    }

    /// When the last request started, if there was one.
    pub fn last_start(&self) -> Option<Time> {
        Some(self.gate.last_start).filter(|start| !start.is_never())
    }

    /// Minimum time from one start to the next, by `--delay` and Crawl-delay.
    pub fn delay(&self) -> Duration {
        self.gate.delay
    }

    /// The earliest start of the next request; [`Time::NEVER`] while the last request is not sent yet.
    pub fn due(&self) -> Time {
        if self.gate.unsent_slot.is_some() {
            return Time::NEVER;
        }
        let min_spacing = match &self.window {
            Window::Adaptive(adaptive) => adaptive.rate.spacing(),
            Window::Simple { .. } => Duration::ZERO,
        };
        let due = self.last_start().map_or(Time::ZERO, |start| start + self.gate.delay.max(min_spacing));
        due.max(self.gate.earliest_start).max(self.gate.backoff_end)
    }

    /// The end of the back-off after a refusal or a failure.
    pub fn backs_off_until(&self) -> Time {
        self.gate.backoff_end
    }

    /// Backs off at least until this time.
    pub fn back_off_until(&mut self, time: Time) {
        self.gate.backoff_end = self.gate.backoff_end.max(time);
    }

    /// Starts no request before this time.
    pub fn pause_until(&mut self, time: Time) {
        self.gate.earliest_start = self.gate.earliest_start.max(time);
    }

    /// Delays the next request by `span`, but to at most `longest` after now.
    pub fn extend_pause(&mut self, span: Duration, longest: Duration, now: Time) {
        let until = (self.gate.earliest_start.max(now) + span).min(now + longest);
        self.pause_until(until);
    }

    pub fn has_crawl_delay(&self) -> bool {
        self.gate.has_crawl_delay
    }

    /// Requests so far, up to 255. With fewer than two (robots.txt, one page) the amount of work at the host is
    /// unknown.
    pub fn starts(&self) -> u8 {
        self.gate.starts
    }

    /// Whether the host has failed or refused so often that it is given up.
    pub fn is_given_up(&self) -> bool {
        self.health.unanswered >= MAX_FAILURES || self.health.failures >= MAX_REFUSALS
    }

    /// Resets the failure counts.
    pub fn forget_failures(&mut self) {
        (self.health.failures, self.health.unanswered) = (0, 0);
    }

    /// The time between requests at the fastest pace allowed now. Ignores the local limit, which changes quickly and is
    /// unrelated to the work that the host has.
    pub fn spacing(&self) -> Duration {
        let width = if self.gate.has_crawl_delay { 1 } else { u32::from(self.window.width().max(1)) };
        self.gate.delay.max(self.fastest.get().unwrap_or_default().max(JITTER) / width)
    }

    /// The expected time between requests, from the current width, delays and response times.
    pub fn expected_spacing(&self) -> Duration {
        let mean_ttfb = self.mean_ttfb().unwrap_or_default();
        let spacing = match (&self.window, self.mode) {
            (_, Pace::Gentle) => mean_ttfb + mean_ttfb.saturating_mul(GENTLE_FACTOR).max(GENTLE_PAUSE),
            (Window::Adaptive(adaptive), _) => (mean_ttfb / self.width_divisor()).max(adaptive.rate.spacing()),
            (Window::Simple { .. }, _) => mean_ttfb / self.width_divisor(),
        };
        spacing.max(self.gate.delay)
    }

    /// The width as a divisor, at least one.
    fn width_divisor(&self) -> u32 {
        u32::try_from(self.width()).unwrap_or(u32::MAX).max(1)
    }

    /// Applies a Crawl-delay, which counts from the request for robots.txt itself.
    pub fn obey_crawl_delay(&mut self, delay: Duration) {
        if !delay.is_zero() {
            self.gate.has_crawl_delay = true;
            self.gate.delay = self.gate.delay.max(delay);
        }
    }

    /// Records that a request starts now.
    pub fn started(&mut self, now: Time) {
        self.gate.last_start = now;
        self.gate.starts = self.gate.starts.saturating_add(1);
    }

    /// With a delay: no other request starts before the worker has reported that the request of this slot was sent.
    pub fn await_send(&mut self, slot: u16) {
        self.gate.unsent_slot = Some(slot);
    }

    /// Records when the request of this slot was sent; `None` if it ended unsent. `--delay` and Crawl-delay count from
    /// here.
    pub fn sent(&mut self, slot: u16, at: Option<Time>) {
        if self.gate.unsent_slot == Some(slot) {
            self.gate.unsent_slot = None;
        }
        if let Some(at) = at {
            self.gate.last_start = self.last_start().map_or(at, |start| start.max(at));
        }
    }

    /// Records the end of a request.
    pub fn ended(&mut self, signal: LoadSignal, flight: Flight, retry_wait: Duration, now: Time) {
        let slot_time = now - flight.started;
        self.slot_time = moving_average(self.slot_time, slot_time);
        match signal {
            LoadSignal::Answer { kind: None, .. } | LoadSignal::Overload(_) => {}
            LoadSignal::Answer { .. } => self.is_quick = slot_time <= SLOW_SLOT,
            // An early failure does not show that the host is quick.
            LoadSignal::NoResponse => self.is_quick &= slot_time <= SLOW_SLOT,
        }
        if self.mode == Pace::Gentle {
            let pause = match signal {
                LoadSignal::Answer { whole, .. } => whole.saturating_mul(GENTLE_FACTOR).max(GENTLE_PAUSE),
                LoadSignal::Overload(_) | LoadSignal::NoResponse => GENTLE_PAUSE,
            };
            self.pause_until(now + pause);
        }
        match signal {
            LoadSignal::Answer { first, whole, local_wait, kind } => {
                self.forget_failures();
                self.fastest = Measured::of(self.fastest.get().map_or(first, |fastest| fastest.min(first)));
                self.mean_ttfb = moving_average(self.mean_ttfb, first);
                self.window.answered(first, kind, flight, now);
                if self.mode == Pace::Steady {
                    self.local.observe(whole, local_wait, self.window.width());
                }
            }
            LoadSignal::Overload(retry_after) => {
                self.health.unanswered = 0;
                let is_new = self.health.record_failure(flight, now);
                if is_new {
                    self.health.failures = self.health.failures.saturating_add(1);
                }
                let back_off =
                    retry_after.map_or_else(|| self.health.back_off(retry_wait), |wait| wait.max(retry_wait));
                self.back_off_until(now + back_off);
                self.window.refused(flight, is_new, self.gate.backoff_end, now);
            }
            LoadSignal::NoResponse => {
                if self.health.record_failure(flight, now) {
                    self.health.failures = self.health.failures.saturating_add(1);
                    self.health.unanswered = self.health.unanswered.saturating_add(1);
                    self.window.failed(now);
                }
                // The first failures may be due to single pages. Their retries have their own delay.
                if self.health.failures > MAX_PAGE_FAILURES {
                    self.back_off_until(now + self.health.back_off(retry_wait));
                }
            }
        }
    }
}

/// Adds a sample to an exponential moving average, with weight 1/8. The first sample is the average itself.
fn moving_average(mean: Measured, sample: Duration) -> Measured {
    Measured::of(mean.get().map_or(sample, |mean| mean.saturating_mul(7).saturating_add(sample) / 8))
}

impl Window {
    fn width(&self) -> u16 {
        match self {
            Self::Simple { width, .. } => *width,
            Self::Adaptive(adaptive) => adaptive.width.width(),
        }
    }

    /// Records a response.
    fn answered(&mut self, latency: Duration, kind: Option<u16>, flight: Flight, now: Time) {
        match self {
            Self::Simple { width, ceiling, credit } => {
                *credit = credit.saturating_add(1);
                if *credit >= *width && *width < *ceiling {
                    *width += 1;
                    *credit = 0;
                }
            }
            Self::Adaptive(adaptive) => {
                adaptive.rate.accepted(now);
                if let Some(kind) = kind {
                    let Flight { started, in_flight } = flight;
                    adaptive.width.answered(Sample { latency, kind, in_flight, started }, now);
                }
            }
        }
    }

    /// Records a refusal. `is_new` is false if the request was in flight together with one whose refusal was counted.
    fn refused(&mut self, flight: Flight, is_new: bool, backoff_end: Time, now: Time) {
        match self {
            Self::Simple { .. } if is_new => self.failed(now),
            Self::Simple { .. } => {}
            Self::Adaptive(adaptive) => {
                adaptive.width.refused(flight.in_flight, now);
                if is_new {
                    adaptive.rate.refused(now, backoff_end);
                }
            }
        }
    }

    /// Records a failure that was not counted before.
    fn failed(&mut self, now: Time) {
        match self {
            Self::Simple { width, credit, .. } => (*width, *credit) = ((*width / 2).max(1), 0),
            Self::Adaptive(adaptive) => adaptive.width.failed(now),
        }
    }
}

impl LocalLimit {
    /// Records a response: how long the host took, and how long the response waited on this machine. `window` is the
    /// width that the host allows.
    fn observe(&mut self, host: Duration, local_wait: Duration, window: u16) {
        self.samples += 1;
        self.host = self.host.saturating_add(micros(host));
        self.local_wait = self.local_wait.saturating_add(micros(local_wait));
        if self.samples < LOCAL_SAMPLES {
            return;
        }
        if self.local_wait > self.host {
            self.width = self.width.min(window).saturating_sub(1).max(1);
        } else if self.local_wait.saturating_mul(2) < self.host {
            self.width = self.width.saturating_add(1).min(self.ceiling);
        }
        (self.samples, self.host, self.local_wait) = (0, 0, 0);
    }
}

impl Health {
    /// Records that a request failed now. Returns whether the failure is new: requests that were in flight together
    /// count as one failure.
    fn record_failure(&mut self, flight: Flight, now: Time) -> bool {
        let is_new = flight.started >= self.last_failure;
        if is_new {
            self.last_failure = now;
        }
        is_new
    }

    /// The next back-off period. It doubles with every consecutive failure.
    fn back_off(&self, retry_wait: Duration) -> Duration {
        let doublings = u32::from(self.failures.saturating_sub(1)).min(MAX_DOUBLINGS);
        retry_wait.saturating_mul(2u32.saturating_pow(doublings)).min(MAX_BACKOFF.max(retry_wait))
    }
}
