//! [`WidthControl`]: how many requests may be in flight to one host with `--pace steady`.
//!
//! The controller tests whether our own concurrency slows the host down. That some pages are slower than others does
//! not matter. The test is an experiment: the controller holds one width for a phase, changes it, and compares the
//! latencies of both phases within pages of the same kind ([`page_kind`]). If the latency does not depend on the width,
//! the throughput grows with the width. If the host queues our requests, the latency grows by the same factor as the
//! width, and the larger width is wasted.
//!
//! | phase | width | ends with |
//! |---|---|---|
//! | `Ramp` | starts at two, grows by one with each response | the limit, a refusal or an error |
//! | `FirstHold` | constant | `Narrower` (half) as soon as latencies are much higher than at the initial width; otherwise `Hold` |
//! | `Hold` | constant | `Check` if latencies rise, otherwise an experiment: `Wider` below the limit, or `Narrower` |
//! | `Wider` | one more than before | kept, unless at least three quarters of the growth was wasted |
//! | `Narrower` | two thirds of before | undone, unless at least three quarters of the difference was wasted |
//! | `Check` | constant, right after latencies rose | `Backoff` if they are still high |
//! | `Backoff` | half of before | undone only if the narrower width clearly does not help |
//!
//! Experiments without a result become rarer, so that a host that never queues loses only about two percent of its
//! throughput.
//!
//! Responses that do not depend on the host's load are not samples: robots.txt, redirects, errors, 304, and requests
//! that were started while the lane did not use its whole width.
//!
//! A refusal (429 or 503) shows a limit of the host. The width stays below the number of requests that was refused, and
//! [`RateCap`](super::rate::RateCap) keeps the rate below the rate that was refused. Both limits are tried again later,
//! each time after a longer pause.

use std::time::Duration;

use crate::base::time::Time;
use crate::crawl::wait::WidthReason;

/// Latencies are compared as logarithms of the latency plus this many seconds, which hides the jitter of fast hosts.
const JITTER_SECONDS: f32 = 0.004;
/// Number of page kinds that are tracked. The least recently used kind is evicted.
const MAX_KINDS: usize = 8;
/// A wider window is closed again if at least this share of its growth is wasted.
const MAX_WASTED_SHARE: f32 = 0.75;
/// While the host is slower than before, a narrower window is kept if at least this share of the growth was wasted.
const MAX_WASTED_SHARE_WHEN_SLOW: f32 = 0.15;
/// In the first hold, an experiment starts early if at least this share of the growth seems to be wasted.
const MAX_WASTED_SHARE_WHEN_UNKNOWN: f32 = 0.5;
/// Latencies that rose by this factor start a check (plus one standard deviation of the latencies).
const SLOW_FACTOR: f32 = 1.6;
/// Latencies within this factor of their floor allow a wider window (plus half a standard deviation).
const CALM_FACTOR: f32 = 1.3;
/// Floors and long-term means follow a change within about this time, in seconds.
const AGING_SECONDS: f32 = 150.0;
/// Samples until the first experiment at the limit. An experiment costs a part of the capacity, which would not be
/// worth it in a crawl of some 60 pages.
const FIRST_HOLD: u16 = 54;
/// Maximum number of samples between two experiments at the limit.
const MAX_HOLD: u16 = 600;
/// Samples until the next experiment after the width was reduced.
const SHORT_HOLD: u16 = 24;
/// How long a width that was refused is avoided at first.
const FIRST_CAP_HOLD: Duration = Duration::from_secs(10);
/// How long a width that was refused is avoided at most.
const MAX_CAP_HOLD: Duration = Duration::from_secs(480);
/// The number of windowfuls of samples before the next experiment with a wider window, after a wasted one. A windowful
/// is as many samples as the width.
const WINDOWFULS_AFTER_WASTE: u16 = 8;
/// The maximum number of windowfuls before the next experiment.
const MAX_WINDOWFULS: u16 = 64;

/// A phase with an experiment has at least this many samples, or the width if that is more.
const MIN_SAMPLES: u16 = 6;
/// The width of a new lane.
const INITIAL_WIDTH: u16 = 2;
/// In the first hold, the latencies are compared with those of the ramp after each so many samples.
const FIRST_LOOK: u16 = 12;
/// A windowful has at least this many samples.
const MIN_WINDOWFUL: u16 = 4;
/// An experiment with a narrower window has at least this many samples, or twice the width if that is more.
const MIN_NARROWER_SAMPLES: u16 = 8;
/// An experiment with a wider window without a clear result ends after this many times its samples.
const MAX_EXTENSION: u16 = 4;
/// The long-term mean of a kind is a plain mean up to this many samples. Later samples weigh at most as much.
const MEAN_SAMPLES: u16 = 16;
/// Number of samples over which the level is averaged.
const LEVEL_SAMPLES: f32 = 8.0;
/// Number of samples over which the variance is averaged.
const MAX_VARIANCE_SAMPLES: u8 = 64;
/// The variance before two samples of one kind and phase are known.
const INITIAL_VARIANCE: f32 = 0.05;
/// The variance is assumed to be at least this, which is a standard deviation of two percent of the latency.
const MIN_VARIANCE: f32 = 0.0004;

/// One response whose latency is a measure of the host's load.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// From the request to the first byte of the response.
    pub latency: Duration,
    /// The kind of page: see [`page_kind`].
    pub kind: u16,
    /// Requests in flight to the host when this one started, itself included.
    pub in_flight: u16,
    /// When its slot was taken.
    pub started: Time,
}

/// The width of one lane, and the experiment that is running.
#[derive(Debug)]
pub struct WidthControl {
    /// How many requests may be in flight.
    width: u16,
    /// `--per-host`.
    ceiling: u16,
    phase: Phase,
    reason: WidthReason,
    /// When the phase began. Only requests that started later are its samples.
    phase_start: Time,
    /// Samples of this phase.
    samples: u16,
    /// The width of the phase before, with which this one is compared.
    previous_width: u16,
    /// Samples before the next experiment with a narrower window.
    hold: u16,
    /// Windowfuls of samples before the next experiment with a wider window.
    windowfuls: u16,
    kinds: Vec<Kind>,
    /// Variance of the logarithms within one kind and phase.
    variance: f32,
    /// The number of samples in `variance`, up to [`MAX_VARIANCE_SAMPLES`].
    variance_samples: u8,
    /// Mean of the recent latencies relative to the long-term means of their kinds.
    level: f32,
    /// The lowest recent level.
    floor: f32,
    /// When `level` and `floor` were last updated.
    level_updated: Time,
    /// The highest width that was not refused.
    cap: u16,
    /// When a wider width is tried again.
    cap_until: Time,
    /// How long a refused width is avoided.
    cap_hold: Duration,
    /// When `cap` was last raised; zero if it was not raised, or if a refusal showed that this was too soon.
    cap_raised_at: Time,
}

/// The phases of the table at the top of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Ramp,
    FirstHold,
    Hold,
    Wider,
    Narrower,
    Check,
    Backoff,
}

/// Latencies of one kind of pages, as logarithms.
#[derive(Debug)]
struct Kind {
    /// The hash that [`page_kind`] returns.
    id: u16,
    samples: u16,
    /// Long-term mean.
    mean: f32,
    /// When the last sample was added.
    updated: Time,
    /// The latencies in the current phase.
    now: PhaseMean,
    /// The latencies in the phase before.
    before: PhaseMean,
}

/// Mean of the logarithms of the latencies of one kind in one phase.
#[derive(Clone, Copy, Debug, Default)]
struct PhaseMean {
    samples: u16,
    mean: f32,
}

/// How much the latencies of two phases differ.
struct Difference {
    /// Mean difference of the logarithms, positive if the wider phase is slower.
    slower: f32,
    /// Its standard error.
    error: f32,
    /// Logarithm of the ratio of the widths: the difference if all of the growth was wasted.
    full: f32,
}

impl Difference {
    /// Whether the larger width hardly increases the throughput: by a margin of two standard errors, or by any margin
    /// if the error is small.
    fn is_wasted(&self) -> bool {
        let wasted = MAX_WASTED_SHARE * self.full;
        self.slower - 2.0 * self.error > wasted || (self.slower > wasted && self.error < 0.1 * self.full)
    }

    /// Whether the larger width clearly increases the throughput.
    fn is_gain(&self) -> bool {
        self.slower + self.error < MAX_WASTED_SHARE * self.full
    }

    /// Whether there are signs that the larger width does not increase the throughput.
    fn is_suspicious(&self) -> bool {
        self.slower > MAX_WASTED_SHARE_WHEN_UNKNOWN * self.full && self.slower > 1.5 * self.error
    }

    /// Whether the smaller width may be worth keeping while the host is slow.
    fn may_help(&self) -> bool {
        self.slower + self.error > MAX_WASTED_SHARE_WHEN_SLOW * self.full
    }
}

impl WidthControl {
    pub fn new(ceiling: u16) -> Self {
        Self {
            width: ceiling.min(INITIAL_WIDTH),
            ceiling,
            phase: Phase::Ramp,
            reason: WidthReason::Opening,
            phase_start: Time::ZERO,
            samples: 0,
            previous_width: 0,
            hold: FIRST_HOLD,
            windowfuls: 1,
            kinds: Vec::new(),
            variance: INITIAL_VARIANCE,
            variance_samples: 0,
            level: 0.0,
            floor: 0.0,
            level_updated: Time::ZERO,
            cap: ceiling,
            cap_until: Time::ZERO,
            cap_hold: FIRST_CAP_HOLD,
            cap_raised_at: Time::ZERO,
        }
    }

    /// How many requests may be in flight.
    pub fn width(&self) -> u16 {
        self.width
    }

    pub fn reason(&self) -> WidthReason {
        self.reason
    }

    /// Adds the response to a page.
    pub fn answered(&mut self, sample: Sample, now: Time) {
        let limit = self.update_limit(now);
        self.width = self.width.min(limit);
        let log_latency = (sample.latency.as_secs_f32() + JITTER_SECONDS).ln();
        let kind = self.index_of_kind(sample.kind);
        self.observe_level(kind, log_latency, now);
        if self.phase == Phase::Ramp {
            self.ramp(sample.in_flight, kind, log_latency, limit, now);
            return;
        }
        if sample.started < self.phase_start || sample.in_flight < self.width {
            return;
        }
        self.observe(kind, log_latency);
        self.samples = self.samples.saturating_add(1);
        self.decide(limit, now);
    }

    /// Widens the window by one. The samples of the initial width become the baseline of the first phase.
    fn ramp(&mut self, in_flight: u16, kind: usize, log_latency: f32, limit: u16, now: Time) {
        if in_flight <= INITIAL_WIDTH {
            self.observe(kind, log_latency);
        }
        if self.width < limit {
            self.width += 1;
        }
        if self.width >= limit {
            self.reason = if limit < self.ceiling { WidthReason::Refused } else { WidthReason::Limit };
            self.begin(Phase::FirstHold, self.width, now);
            self.previous_width = INITIAL_WIDTH;
        }
    }

    /// Records that the host refused (429 or 503) a request that started with `in_flight - 1` others in flight.
    pub fn refused(&mut self, in_flight: u16, now: Time) {
        if in_flight >= self.cap && self.cap_raised_at > Time::ZERO && now - self.cap_raised_at < self.cap_hold {
            // The limit was tried again too soon.
            self.cap_hold = (self.cap_hold * 2).min(MAX_CAP_HOLD);
            self.cap_raised_at = Time::ZERO;
        }
        self.cap = self.cap.min(in_flight.saturating_sub(1)).max(1);
        self.cap_until = now + self.cap_hold;
        self.reason = WidthReason::Refused;
        self.begin(Phase::Hold, self.width.min(self.cap), now);
    }

    /// Records a reset or timeout: halves the width, which grows again with the next responses.
    pub fn failed(&mut self, now: Time) {
        self.reason = WidthReason::Errors;
        self.windowfuls = 1;
        self.begin(Phase::Hold, (self.width / 2).max(1), now);
    }

    /// Raises the cap if its time is over. Returns the widest window that is allowed now.
    fn update_limit(&mut self, now: Time) -> u16 {
        if self.cap < self.ceiling && now >= self.cap_until {
            self.cap += 1;
            self.cap_until = now + self.cap_hold;
            self.cap_raised_at = now;
        }
        self.ceiling.min(self.cap)
    }

    /// The index of a kind of pages in `kinds`. A new kind replaces the least recently used one if there are too many.
    fn index_of_kind(&mut self, id: u16) -> usize {
        if let Some(index) = self.kinds.iter().position(|kind| kind.id == id) {
            return index;
        }
        let new_kind = Kind {
            id,
            samples: 0,
            mean: 0.0,
            updated: Time::ZERO,
            now: PhaseMean::default(),
            before: PhaseMean::default(),
        };
        if self.kinds.len() < MAX_KINDS {
            self.kinds.push(new_kind);
            return self.kinds.len() - 1;
        }
        let oldest = (0..self.kinds.len()).min_by_key(|index| self.kinds[*index].updated).unwrap_or(0);
        self.kinds[oldest] = new_kind;
        oldest
    }

    /// Tracks the latencies relative to the long-term means of their kinds.
    fn observe_level(&mut self, index: usize, log_latency: f32, now: Time) {
        let Some(kind) = self.kinds.get_mut(index) else { return };
        let since_last_sample = (now - kind.updated).as_secs_f32();
        kind.updated = now;
        kind.samples = kind.samples.saturating_add(1);
        if kind.samples == 1 {
            kind.mean = log_latency;
            return;
        }
        let residual = log_latency - kind.mean;
        let weight = if kind.samples < MEAN_SAMPLES {
            1.0 / f32::from(kind.samples)
        } else {
            (since_last_sample / AGING_SECONDS).min(1.0 / f32::from(MEAN_SAMPLES))
        };
        kind.mean += residual * weight;
        self.level += (residual - self.level) / LEVEL_SAMPLES;
        let passed = (now - self.level_updated).as_secs_f32();
        self.level_updated = now;
        self.floor = self.level.min(self.floor + (self.level - self.floor) * (passed / AGING_SECONDS).min(1.0));
    }

    /// Adds a sample to the current phase.
    fn observe(&mut self, index: usize, log_latency: f32) {
        let Some(kind) = self.kinds.get_mut(index) else { return };
        let phase_mean = &mut kind.now;
        phase_mean.samples = phase_mean.samples.saturating_add(1);
        let deviation = log_latency - phase_mean.mean;
        phase_mean.mean += deviation / f32::from(phase_mean.samples);
        if phase_mean.samples > 1 {
            self.variance_samples = self.variance_samples.saturating_add(1).min(MAX_VARIANCE_SAMPLES);
            let squared = deviation * (log_latency - phase_mean.mean);
            self.variance += (squared - self.variance) / f32::from(self.variance_samples);
        }
    }

    /// Ends the current phase if it has enough samples: see the table at the top of this file.
    fn decide(&mut self, limit: u16, now: Time) {
        let enough = self.width.max(MIN_SAMPLES);
        let enough_narrower = self.width.saturating_mul(2).max(MIN_NARROWER_SAMPLES);
        let until_wider = self.width.max(MIN_WINDOWFUL).saturating_mul(self.windowfuls);
        let deviation = self.variance.max(0.0).sqrt();
        let rise = self.level - self.floor;
        let is_slow = rise > SLOW_FACTOR.ln() + deviation;
        let is_calm = rise < CALM_FACTOR.ln() + deviation / 2.0;
        match self.phase {
            Phase::Ramp => {}
            Phase::FirstHold if self.samples >= FIRST_HOLD => self.phase = Phase::Hold,
            Phase::FirstHold if self.samples.is_multiple_of(FIRST_LOOK) && self.difference().is_suspicious() => {
                self.begin(Phase::Narrower, self.width.div_ceil(2), now);
            }
            Phase::FirstHold => {}
            Phase::Hold if is_slow && self.width > 1 => {
                for kind in &mut self.kinds {
                    kind.now = PhaseMean::default();
                }
                (self.phase, self.samples, self.phase_start) = (Phase::Check, 0, now);
            }
            Phase::Hold if self.width < limit && is_calm && self.samples >= until_wider => {
                self.begin(Phase::Wider, self.width + 1, now);
            }
            Phase::Hold if self.width > 1 && self.samples >= self.hold => {
                let narrower = (2 * self.width + 1) / 3;
                self.begin(Phase::Narrower, narrower.min(self.width - 1), now);
            }
            Phase::Hold => {}
            Phase::Check if self.samples < enough => {}
            Phase::Check if is_slow => self.begin(Phase::Backoff, (self.width / 2).max(1), now),
            Phase::Check => self.phase = Phase::Hold,
            Phase::Wider if self.samples >= enough => self.judge_wider(limit, enough, now),
            Phase::Narrower if self.samples.is_multiple_of(enough_narrower) => {
                self.judge_narrower(enough_narrower, now)
            }
            Phase::Backoff if self.samples >= enough_narrower => self.judge_backoff(now),
            Phase::Wider | Phase::Narrower | Phase::Backoff => {}
        }
    }

    /// Decides whether to keep the wider window.
    fn judge_wider(&mut self, limit: u16, enough: u16, now: Time) {
        let difference = self.difference();
        if difference.is_wasted() {
            self.windowfuls =
                if self.windowfuls > 1 { (self.windowfuls * 2).min(MAX_WINDOWFULS) } else { WINDOWFULS_AFTER_WASTE };
            self.reason = WidthReason::NoGain;
            self.begin(Phase::Hold, self.previous_width, now);
        } else if difference.is_gain() || self.samples >= enough.saturating_mul(MAX_EXTENSION) {
            if difference.is_gain() {
                self.windowfuls = (self.windowfuls / 2).max(1);
            }
            self.hold = FIRST_HOLD;
            self.phase = Phase::Hold;
            if self.width >= self.ceiling {
                self.reason = WidthReason::Limit;
            } else if self.width >= limit {
                self.reason = WidthReason::Refused;
            }
        }
    }

    /// Decides whether to keep the narrower window.
    fn judge_narrower(&mut self, enough: u16, now: Time) {
        let difference = self.difference();
        if difference.is_wasted() {
            (self.hold, self.windowfuls) = (SHORT_HOLD, WINDOWFULS_AFTER_WASTE);
            self.reason = WidthReason::NoGain;
            self.begin(Phase::Hold, self.width, now);
        } else if difference.is_gain() || self.samples >= enough.saturating_mul(MAX_EXTENSION) {
            self.hold = self.hold.saturating_mul(2).min(MAX_HOLD);
            self.begin(Phase::Hold, self.previous_width, now);
        }
    }

    /// Decides whether to keep the narrower window of a host that became slower.
    fn judge_backoff(&mut self, now: Time) {
        if self.difference().may_help() {
            (self.hold, self.windowfuls) = (SHORT_HOLD, WINDOWFULS_AFTER_WASTE);
            self.reason = WidthReason::Slower;
            self.begin(Phase::Hold, self.width, now);
        } else {
            // The host is slower for other reasons: this is its normal level now.
            self.floor = self.level;
            self.begin(Phase::Hold, self.previous_width, now);
        }
    }

    /// Starts a phase. The samples of the current phase become the baseline of the new one.
    fn begin(&mut self, phase: Phase, width: u16, now: Time) {
        for kind in &mut self.kinds {
            kind.before = std::mem::take(&mut kind.now);
        }
        self.previous_width = self.width;
        (self.phase, self.width, self.phase_start, self.samples) = (phase, width, now, 0);
    }

    /// Compares this phase with the one before, within each kind of pages.
    fn difference(&self) -> Difference {
        let (mut weights, mut sum) = (0.0, 0.0);
        for kind in &self.kinds {
            let (now, before) = (f32::from(kind.now.samples), f32::from(kind.before.samples));
            if now > 0.0 && before > 0.0 {
                let weight = now * before / (now + before);
                weights += weight;
                sum += weight * (kind.now.mean - kind.before.mean);
            }
        }
        let full = (f32::from(self.width.max(1)) / f32::from(self.previous_width.max(1))).ln();
        if weights == 0.0 {
            return Difference { slower: 0.0, error: f32::INFINITY, full: full.abs() };
        }
        let error = (self.variance.max(MIN_VARIANCE) / weights).sqrt();
        Difference { slower: sum / weights * full.signum(), error, full: full.abs() }
    }
}

/// The kind of a page: a hash of its first two folders without digits, of the first five letters of its extension, and
/// of whether it has a query.
/// Pages of one kind are probably served by the same code, so their latencies can be compared.
pub fn page_kind(target: &str) -> u16 {
    let (path, query) = target.split_once('?').map_or((target, false), |(path, _)| (path, true));
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let segments = folder.split('/').filter(|segment| !segment.is_empty()).take(2);
    let letters = segments.flat_map(|segment| segment.bytes().filter(|byte| !byte.is_ascii_digit()).chain([b'/']));
    let end = extension.bytes().take(5).chain([u8::from(query)]);
    // FNV-1a, folded to 16 bits.
    let hash =
        letters.chain(end).fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (hash ^ (hash >> 16)) as u16
}
